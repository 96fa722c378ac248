"""SIGINT and SIGTERM at every stage of a command: it ends soon, without a traceback, and the same command then
continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests import forks
from tests.pace import slowness

#: Sends the process a signal when it first loads a module, opens a file or lists a folder of this name.
STRIKE = """
import os, sys

moment, number = os.environ["STRIKE_AT"], int(os.environ["STRIKE_WITH"])
struck = []

def hook(event, details):
    if struck or event not in ("import", "open", "os.listdir", "os.scandir") or not details:
        return
    name = str(details[0])
    if name == moment or (event != "import" and name.endswith("/" + moment)):
        struck.append(True)
        print("struck", file=sys.stderr, flush=True)
        os.kill(os.getpid(), number)

sys.addaudithook(hook)
"""

LOADING = [
    "argparse",
    "eddyline.errors",
    "eddyline.cli.jobs",
    "numpy",
    "pyarrow",
    "eddyline.session",
    "job.sql",
    "eddyline.language.grammar.grammar",
]
RUNNING = {
    "numba": (signal.SIGTERM,),
    "eddyline.runtime.engine.pipeline": (signal.SIGINT,),
    "data": (signal.SIGTERM, signal.SIGINT),
}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for number in (1, 2):
        rows = {"k": [number * 10, number * 10 + 1], "ts": pa.array([number * 2, number * 2 + 1], pa.timestamp("us"))}
        parquet.write_table(pa.table(rows), tmp_path / "data" / f"{number}.parquet")
    (tmp_path / "job.sql").write_text(
        f"CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', path = '{tmp_path}/data'); CREATE QUERY q AS SELECT k FROM a;"
    )
    (tmp_path / "sitecustomize.py").write_text(STRIKE)
    return tmp_path


@pytest.fixture(autouse=True)
def no_signal_is_ignored() -> None:
    """A shell starts commands in the background with SIGINT ignored, and processes inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


#: Seconds for one run: where kernels have not been compiled yet, the first run does it.
_PATIENCE = 240


def command(job: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "eddyline", "run", str(job / "job.sql")),
        *("--out", str(job / "out"), "--checkpoint", str(job / "state"), "--quiet", *more),
    ]


def begun(line: list[str]) -> subprocess.Popen[str]:
    """A process behind Python's own start, which takes 26 ms of processor time, however crowded the machine is; more on
    a slower one."""
    process, start = subprocess.Popen(line, stderr=subprocess.PIPE, text=True), 0.1 * slowness()
    while sum(psutil.Process(process.pid).cpu_times()[:2]) < start:
        time.sleep(0.005)
    return process


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        _, errors = process.communicate(timeout=_PATIENCE)
    finally:
        process.kill()
    assert "Traceback" not in errors and "Error" not in errors, errors
    return process.returncode, errors


def struck(job: Path, moment: str, number: signal.Signals, *more: str) -> int:
    environment = dict(os.environ, STRIKE_AT=moment, STRIKE_WITH=str(int(number)))
    environment["PYTHONPATH"] = f"{job}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    # A module is loaded once: only a file or a folder is opened by a process that begins with modules.
    start = forks.Command if (job / moment).exists() else subprocess.Popen
    code, errors = ended(start(command(job, *more), env=environment, stderr=subprocess.PIPE, text=True))
    assert "struck" in errors, "the moment did not come"
    return code


def results(job: Path) -> list[int]:
    assert forks.run(command(job, "--once"), timeout=_PATIENCE).returncode == 0
    return parquet.read_table(job / "out" / "q").column("k").to_pylist()


@pytest.mark.parametrize("moment", LOADING)
def test_a_signal_while_modules_are_loaded_ends_the_process_by_that_signal(job: Path, moment: str) -> None:
    number = signal.SIGINT if LOADING.index(moment) % 2 == 0 else signal.SIGTERM
    assert struck(job, moment, number) == -number


def test_nothing_is_loaded_before_signals_are_set_up() -> None:
    """Each module takes a millisecond or more in which a SIGINT would end in a traceback."""
    source = (
        "import sys; before = {*sys.modules}; import eddyline.cli.__main__; print(*sorted({*sys.modules} - before))"
    )
    found = subprocess.run(
        [sys.executable, "-S", "-c", source],
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=True,
        env=_paths(),
    )
    assert found.stdout.split() == ["__future__", "eddyline", "eddyline.cli", "eddyline.cli.__main__"]


def _paths() -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))


@pytest.mark.slow
@pytest.mark.parametrize("moment", RUNNING)
def test_a_signal_while_the_engine_is_made_or_runs_ends_the_run_in_order(job: Path, moment: str) -> None:
    for number in RUNNING[moment]:
        # Following, so that only the signal ends it.
        assert struck(job, moment, number) in (0, -number)
    assert results(job) == [10, 11, 20, 21]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "delays"), [(signal.SIGINT, (0.05, 0.6)), (signal.SIGTERM, (0.3, 0.9))], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_at_any_moment_loses_nothing(job: Path, number: signal.Signals, delays: tuple[float, ...]) -> None:
    for delay in delays:
        process = begun(command(job))
        time.sleep(delay)
        process.send_signal(number)
        code, _ = ended(process)
        assert code in (0, -number)
    assert results(job) == [10, 11, 20, 21]


@pytest.mark.spark
@pytest.mark.long
def test_a_signal_while_spark_starts_loses_nothing(job: Path) -> None:
    for delay, number in ((1.0, signal.SIGINT), (5.0, signal.SIGTERM), (8.0, signal.SIGTERM)):
        process = begun(command(job, "--engine", "spark", "--master", "local[1]"))
        time.sleep(delay)
        process.send_signal(number)
        code, _ = ended(process)
        assert code in (0, -number)
    assert (
        subprocess.run(
            command(job, "--engine", "spark", "--master", "local[1]", "--once"), timeout=_PATIENCE
        ).returncode
        == 0
    )
    assert parquet.read_table(job / "out" / "q").column("k").to_pylist() == [10, 11, 20, 21]


#: The results of the first epoch are written for ever.
STUCK = """
import sys, time

def hook(frame, event, _):
    if event == "call" and frame.f_code.co_qualname == "Delivery.write":
        sys.setprofile(None)
        print("struck", file=sys.stderr, flush=True)
        time.sleep(3600)

sys.setprofile(hook)
"""


@pytest.mark.slow
def test_a_second_signal_does_not_wait_for_results_that_no_run_would_repeat(job: Path) -> None:
    (job / "sitecustomize.py").write_text(STUCK)
    environment = dict(os.environ, PYTHONPATH=f"{job}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    # Without a checkpoint.
    line = [sys.executable, "-m", "eddyline", "run", str(job / "job.sql"), "--out", str(job / "stuck"), "--quiet"]
    process = forks.Command(line, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None and process.stderr.readline() == "struck\n"
    for _ in range(2):
        # Both at once are one signal.
        process.send_signal(signal.SIGTERM)
    time.sleep(3.0)
    assert process.poll() is None
    # On a crowded machine the process may have taken the first ones only now.
    while process.poll() is None:
        process.send_signal(signal.SIGTERM)
        time.sleep(3.0)
    assert ended(process)[0] == -signal.SIGTERM
    (job / "sitecustomize.py").unlink()
    assert results(job) == [10, 11, 20, 21]
