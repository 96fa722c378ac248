"""The newcomer's whole way: the wheel in a new environment, README, tutorial, shell and dashboard.

Answer   Tests that exist are run by the Python of an environment that has eddyline from the wheel alone: the pages by
         `tests/test_docs.py`, the shell on a pseudo-terminal, the page of a live job in a real browser.
Limits   No kernel is compiled before. `make browser` runs this; `make test` runs the same tests on the source.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.test_dist import ROOT, built, installed

__all__ = ["built"]

pytestmark = pytest.mark.long

WAY = {
    "readme": ["tests/test_docs.py::test_page_runs[README.md]"],
    "tutorial": ["tests/test_docs.py::test_page_runs[docs/tutorial.md]"],
    "shell": ["tests/cli/test_shell_terminal.py"],
    "dashboard": ["tests/browser/test_page.py::test_every_view_fits_three_widths_in_both_colours"],
}


@pytest.fixture(scope="module")
def python(built: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return installed(built, tmp_path_factory.mktemp("newcomer"))


@pytest.mark.parametrize("part", WAY)
def test_the_newcomers_way(python: str, part: str, tmp_path: Path) -> None:
    # Beside the package, as an installed one has them: no kernel of another environment is found.
    left_out = ("PYTHONPATH", "NUMBA_CACHE_DIR", "PYTEST_XDIST_WORKER")
    clean = {name: value for name, value in os.environ.items() if name not in left_out}

    def run(*arguments: str) -> str:
        done = subprocess.run([python, *arguments], cwd=ROOT, env=clean, capture_output=True, text=True, timeout=2_000)
        assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
        return done.stdout

    assert str(Path(python).parents[1]) in run("-c", "import eddyline; print(eddyline.__file__)")
    said = run("-m", "pytest", "-n", "0", "--basetemp", str(tmp_path / "tests"), *WAY[part])
    assert "[100%]" in said
