"""`python -m tests.planted [name …]`: plant each fault in a copy of the tree and see whether the tests that it names
fail.

Answer   One line per fault: found, with the first test that failed, or NOT FOUND. The exit status is 1 if one was not
         found. `EDDYLINE_SHARE` and `EDDYLINE_SEED` choose the random cases, as in any run; without them they are those
         of `make test`.
State    A temporary folder with the files that git knows, and the compiled kernels of this tree. The work tree stays as
         it is.
Limits   One fault at a time. A fault in a kernel compiles that kernel, and those that use it, again.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.planted.faults import FAULTS, Fault
from tests.seeds import repeated_by

ROOT = Path(__file__).parents[2]
#: Of pytest: some tests failed.
_FAILED = 1


def copied(folder: Path) -> Path:
    """A copy of the files that git knows, changed ones as they are, and of the compiled kernels."""
    asked = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(asked, capture_output=True, check=True).stdout.decode().split("\0")
    kernels = [str(path.relative_to(ROOT)) for path in (ROOT / "src/eddyline/kernels").rglob("__pycache__/*.nb[ci]")]
    for name in filter(None, [*names, *kernels]):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            # With its time: Numba takes a kernel for changed otherwise.
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run(fault: Fault, folder: Path) -> tuple[bool, str]:
    """Whether the tests of a fault find it, and which of them was the first."""
    path = folder / "src/eddyline" / fault.file
    before, stat = path.read_text(), path.stat()
    path.write_text(before.replace(fault.old, fault.new))
    environment = os.environ | {"PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-x",
        "-m",
        "not long",
        *(f"tests/{one}" for one in fault.tests),
    ]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    finally:
        path.write_text(before)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if done.returncode not in (0, _FAILED):
        return False, f"pytest ended with {done.returncode}: {(done.stdout + done.stderr).strip().splitlines()[-1]}"
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return done.returncode == _FAILED, named[1] if named else ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.planted", description="Plant faults in a copy of the tree: do tests find them?"
    )
    parser.add_argument("names", nargs="*", help="which; without one all of them")
    parser.add_argument("--random", action="store_true", help="only those that random cases find")
    args = parser.parse_args(arguments)
    unknown = set(args.names) - {fault.name for fault in FAULTS}
    if unknown:
        parser.error(f"there is no fault {', '.join(sorted(unknown))}")
    chosen = [
        fault for fault in FAULTS if (not args.names or fault.name in args.names) and (fault.random or not args.random)
    ]
    print(f"{len(chosen)} faults, random cases by {repeated_by()}", flush=True)
    missed = 0
    with tempfile.TemporaryDirectory(prefix="eddyline-planted-") as place:
        folder = copied(Path(place))
        for fault in chosen:
            began = time.monotonic()
            found, said = run(fault, folder)
            missed += not found
            print(
                f"{'found' if found else 'NOT FOUND':<9}  {fault.name}  ({time.monotonic() - began:.0f} s)  {said}",
                flush=True,
            )
    print(f"{len(chosen) - missed} of {len(chosen)} faults are found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
