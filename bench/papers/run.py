"""Runs a paper's figures by the name of its folder: `python -m bench.papers.run shared-window-scheduling [arguments]`.

Limits   Folder names have dashes and are no modules: `figures.py` is run by its path, with its folder first on the
         search path.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def main() -> None:
    here = Path(__file__).parent
    known = sorted(path.parent.name for path in here.glob("*/figures.py"))
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        sys.exit(f"which one? {', '.join(known)}")
    folder = here / sys.argv[1]
    sys.path.insert(0, str(folder))
    sys.argv = [str(folder / "figures.py"), *sys.argv[2:]]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
