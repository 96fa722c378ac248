"""What a machine must have for some tests, and what a run says of tests that cannot run without it.

Answer   A test calls `sketches()`, `mounting()` or `prometheus()` before anything else. Where the machine lacks it, the test does not
         run, and the last line of the run counts such tests with the reason and the remedy.
State    The variable EDDYLINE_NOT_RUN names a file that gets this line too: `make test` has several runs, and prints
         the file at its end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


def sketches() -> None:
    if find_spec("datasketches") is None:
        version = ".".join(map(str, sys.version_info[:2]))
        pytest.skip(
            f"need the package datasketches, which has no wheel for Python {version} (make setup PYTHON=python3.13)"
        )


def mounting(folder: Path) -> None:
    """The right to lay a mount over a folder. `folder` exists."""
    tried = folder / "may-mount"
    tried.mkdir()
    if (
        not shutil.which("mount")
        or subprocess.run(["mount", "--bind", str(tried), str(tried)], capture_output=True).returncode
    ):
        pytest.skip("need the right to mount a folder (make test as root)")
    subprocess.run(["umount", str(tried)], check=True)


def prometheus() -> None:
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        pytest.skip("need Prometheus and promtool (make prometheus installs them on Debian, as root)")


def said_of(terminalreporter: Any) -> list[str]:
    """One line for all tests that did not run, if there are any, and one for those of the page."""
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", ())
    )
    lines = []
    if reasons:
        parts = "; ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        lines.append(f"{reasons.total()} TESTS DID NOT RUN: {parts}")
    asked = [str(one).rstrip("/") for one in terminalreporter.config.args]
    if any(one.endswith("tests") or "tests/browser" in one for one in asked) and not shutil.which("chromedriver"):
        lines.append("THE BROWSER TESTS DID NOT RUN: there is no Chromium here; make chromium installs it")
    if lines and "EDDYLINE_NOT_RUN" in os.environ:
        with open(os.environ["EDDYLINE_NOT_RUN"], "a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    return lines
