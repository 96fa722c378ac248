"""The first query of a kind says that it compiles; `eddyline warm` compiles beforehand."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.kernels import compiling
from tests import forks

JOB = """
CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (format='csv', path='s.csv', time='ts');
CREATE QUERY q AS SELECT k FROM s WHERE k > 1;
"""


def eddyline(*arguments: str, folder: Path, cache: Path | None = None) -> tuple[str, str]:
    """What a command prints: to standard output, and to standard error."""
    changed = {} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "eddyline", *arguments]
    done = subprocess.run(command, cwd=folder, env=os.environ | changed, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_the_first_run_on_a_machine_says_once_that_it_compiles(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("k,ts\n1,1971-01-01\n2,1971-01-02\n")
    (tmp_path / "job.sql").write_text(JOB)
    cache = tmp_path / "cache"
    cache.mkdir()
    _, said = eddyline("run", "job.sql", "--once", folder=tmp_path, cache=cache)
    assert said.count(compiling.LINE) == 1
    _, said = eddyline("run", "job.sql", "--once", folder=tmp_path, cache=cache)
    assert said == ""


def test_quiet_and_no_terminal_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for wanted, lines in ((None, 0), (False, 0), (True, 1)):
        listener = compiling.CompileListener()
        listener.is_wanted = wanted
        for _ in range(3):
            listener.on_start(None)
            listener.on_end(None)
        assert listener.count == 3
        assert capsys.readouterr().err.count(compiling.LINE) == lines


@pytest.mark.parametrize("thresholds", [(700, 10, 10), (1_000_000, 5, 5), (0, 10, 10)])
def test_garbage_is_collected_as_before_once_a_kernel_is_compiled(thresholds: tuple[int, int, int]) -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(*thresholds)
        listener = compiling.CompileListener()
        listener.is_wanted = False
        # A kernel that calls another one.
        listener.on_start(None)
        listener.on_start(None)
        listener.on_end(None)
        assert gc.get_threshold()[0] == (0 if thresholds[0] == 0 else max(200_000, thresholds[0]))
        listener.on_end(None)
        assert gc.get_threshold()[:2] == thresholds[:2]
    finally:
        gc.set_threshold(*before)


def test_garbage_is_collected_as_before_once_a_session_is_imported() -> None:
    """Whether Python collects garbage is what it was before; Numba's listener is the one of the process."""
    program = (
        "import gc, sys; {0}; from eddyline import Session; Session(); print(gc.isenabled(), gc.get_threshold()[0])"
    )
    for first, expected in (
        ("gc.set_threshold(650)", "True 650"),
        ("gc.disable(); gc.set_threshold(650)", "False 650"),
    ):
        done = subprocess.run([sys.executable, "-c", program.format(first)], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def test_warm_leaves_nothing_to_compile(tmp_path: Path) -> None:
    """In the cache of this machine, which the tests have filled for the greater part."""
    command = [sys.executable, "-m", "eddyline", "warm"]
    forks.run(command, cwd=tmp_path, capture_output=True, check=True)
    done = forks.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    shown, said = done.stdout, done.stderr
    assert re.fullmatch(r"all kernels of common queries were compiled before \(\d+\.\d s\)\n", shown)
    assert said == ""
    assert list(tmp_path.iterdir()) == []
