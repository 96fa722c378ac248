"""All figures of this folder, or some of them: `python -m bench.papers.run qualified-plans [flip four_situations
…]`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

NAMES = ("flip", "four_situations", "model_reality", "random_settings")


def main() -> None:
    wanted = sys.argv[1:] or list(NAMES)
    for name in wanted:
        if name not in NAMES:
            sys.exit(f"which one? {', '.join(NAMES)}")
        sys.argv = [name]
        runpy.run_path(str(Path(__file__).with_name(f"{name}.py")), run_name="__main__")


if __name__ == "__main__":
    main()
