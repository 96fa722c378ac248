"""`python -m tests.wheels`: every package of requirements.lock has a wheel for every Python that the README names, or
is left out there.

Answer   Asks pip for each Python, without installing anything; packages whose marker leaves them out for a Python are
         not asked for. Ends with 1 and names the packages that would be compiled.
Limits   Linux on x86-64. `SOURCES` are packages of pure Python that exist as source archives only: pip makes wheels of
         them without a compiler.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {"pyspark"}
_PLATFORMS = ("manylinux2014_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in (17, 24, 26, 27, 28)))


def pythons() -> list[str]:
    """The versions that the README names."""
    found = re.search(r"Python 3\.(\d+) to 3\.(\d+)", (ROOT / "README.md").read_text())
    assert found is not None
    return [f"3.{minor}" for minor in range(int(found[1]), int(found[2]) + 1)]


def packages(python: str) -> list[Requirement]:
    """What set-up installs there, as wheels."""
    lines = (line.strip() for line in (ROOT / "requirements.lock").read_text().splitlines())
    asked = [Requirement(line) for line in lines if line and not line.startswith("#")]
    there = {"python_version": python, "python_full_version": f"{python}.0"}
    return [one for one in asked if one.name not in SOURCES and (one.marker is None or one.marker.evaluate(there))]


def missing(python: str) -> list[str]:
    """Names of packages without a wheel. All are asked for at once; one by one only where that fails."""
    asked = [f"{one.name}{one.specifier}" for one in packages(python)]
    return [] if _are_there(python, asked) else [one for one in asked if not _are_there(python, [one])]


def _are_there(python: str, asked: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
        options = [
            "--quiet",
            "--dry-run",
            "--no-deps",
            "--only-binary=:all:",
            "--python-version",
            python,
            "--target",
            folder,
            *platforms,
        ]
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options, *asked]
        return subprocess.run(command, capture_output=True).returncode == 0


def main() -> int:
    wrong = 0
    for python in pythons():
        found = missing(python)
        wrong += len(found)
        said = f"no wheel of {', '.join(found)}" if found else f"wheels of all {len(packages(python))} packages"
        print(f"wheels: Python {python}: {said}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
