"""A job on several cores from start to start: their number changes, processes are killed, the program is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from eddyline import Session
from eddyline.errors import EddylineWarning, StateProblem, UserError
from eddyline.runtime.sharded.workers.own import OwnProcesses
from tests.cores.jobs import JOB, engines, kill, results, right, write


def test_the_number_of_cores_may_change_at_every_start(tmp_path: Path) -> None:
    wanted = right(tmp_path, [1, 3, 4, 6])
    for number in range(6):
        (tmp_path / "a" / f"{number:03}.parquet").unlink()
    first, killed = 0, 0
    for cores, last in ((1, 1), (3, 3), (2, 4), (1, 6)):
        for number in range(first, last):
            write(tmp_path, number)
        first = last
        with Session(cores=cores, checkpoint=str(tmp_path / "ck"), out=str(tmp_path / "out")) as session:
            # One file per batch, so that a run has several.
            session.execute("SET shards = 4; SET batch_seconds = 0;" + JOB.format(tmp_path))

            def strike(report: object, session: Session = session) -> None:
                nonlocal killed
                killed += min(kill(session), 1)

            session.observe(strike)
            session.run()
            assert not session.is_one_process
    assert killed >= 4
    assert results(tmp_path / "out") == wanted


PROGRAM = """
import sys, threading
from eddyline import Session

# Neither a guard of __main__ nor a program without threads.
threading.Thread(target=threading.Event().wait, daemon=True).start()
session = Session(cores=2, checkpoint=sys.argv[1] + "/ck", out=sys.argv[1] + "/out")
session.execute(open(sys.argv[1] + "/job.sql").read())
if sys.argv[2] == "run":
    session.run()
    session.stop()
else:
    session.start()
    print("begun", flush=True)
    threading.Event().wait()
"""


def program(folder: Path, what: str) -> subprocess.Popen[str]:
    (folder / "job.sql").write_text(JOB.format(folder))
    (folder / "program.py").write_text(PROGRAM)
    return subprocess.Popen([sys.executable, folder / "program.py", folder, what], stdout=subprocess.PIPE, text=True)


def test_a_program_that_is_killed_takes_its_processes_along(tmp_path: Path) -> None:
    wanted = right(tmp_path, [2])
    with program(tmp_path, "follow") as running:
        _killed(running, tmp_path)
    # And what it left goes on.
    with program(tmp_path, "run") as again:
        assert again.wait(120) == 0
    assert results(tmp_path / "out") == wanted


def _killed(running: subprocess.Popen[str], folder: Path) -> None:
    assert running.stdout is not None and running.stdout.readline() == "begun\n"
    patience = time.monotonic() + 60
    while not (folder / "ck" / "commits").exists() and time.monotonic() < patience:
        time.sleep(0.05)
    below = psutil.Process(running.pid).children(recursive=True)
    assert len(below) >= 2
    running.send_signal(signal.SIGKILL)
    running.wait()
    _, alive = psutil.wait_procs(below, 2)
    # Whoever inherits them may never ask what became of them.
    assert all(process.status() == psutil.STATUS_ZOMBIE for process in alive)


def test_without_a_checkpoint_a_batch_runs_again_whose_process_died(tmp_path: Path) -> None:
    wanted, before = right(tmp_path, [2]), engines()
    with Session(cores=2, out=str(tmp_path / "out")) as session:
        session.execute("SET batch_seconds = 0;" + JOB.format(tmp_path))
        struck: list[int] = []
        session.observe(lambda report: struck.append(kill(session, 2)))
        session.run(final=False)
    assert sum(struck) >= 2
    assert results(tmp_path / "out") == wanted
    assert engines() <= before


class Deadly:
    """A function that ends its process, as a crash in C does."""

    def __call__(self, values: object) -> object:
        os.kill(os.getpid(), signal.SIGKILL)
        return values


def dies(values: object) -> object:
    return Deadly()(values)


def test_the_third_death_at_a_batch_ends_the_job(tmp_path: Path) -> None:
    write(tmp_path, 0)
    before = engines()
    with pytest.raises(StateProblem), Session(cores=2) as session:
        session.function("dies", dies, ["BIGINT"], "BIGINT")
        session.execute(JOB.format(tmp_path))
        session.query("last", "SELECT dies(v) AS v FROM a")
        with pytest.raises(StateProblem, match=r"has ended \d processes") as problem:
            session.run(final=False)
        assert "shard" in problem.value.detail and "000.parquet" in problem.value.detail
        # Every later call says so.
        with pytest.raises(StateProblem, match=r"has ended \d processes"):
            session.stop()
        assert engines() <= before


def test_a_checkpoint_of_one_process_goes_on_in_one(tmp_path: Path) -> None:
    wanted = right(tmp_path, [1])
    for _ in range(2):
        with pytest.warns(EddylineWarning, match="begun without cores") if _ else _nothing():
            session = Session(cores=2 if _ else None, checkpoint=str(tmp_path / "ck"), out=str(tmp_path / "out"))
        with session:
            session.execute(JOB.format(tmp_path))
            session.run()
            assert session.is_one_process
    assert results(tmp_path / "out") == wanted


def _nothing() -> Session:
    return Session()


def test_cores_are_set_before_the_first_stream(tmp_path: Path) -> None:
    with Session() as session:
        session.execute("SET cores = 2")
        assert not session.is_one_process
        session.execute("SET cores = 'auto'; SET cores = 1")
        assert session.is_one_process
        session.execute(JOB.format(tmp_path))
        with pytest.raises(UserError, match="SET cores comes too late"):
            session.execute("SET cores = 2")
        with pytest.raises(UserError, match="SET cores comes too late"):
            session.set("cores", 2)
        assert session.job.settings.cores == 1


def test_a_session_that_is_given_up_starts_no_process_again(tmp_path: Path) -> None:
    write(tmp_path, 0)
    before = engines()
    with pytest.raises(ZeroDivisionError), Session(cores=2, checkpoint=str(tmp_path / "ck")) as session:
        session.execute(JOB.format(tmp_path))
        session.start()
        raise ZeroDivisionError
    psutil.wait_procs(engines() - before, 5)
    time.sleep(0.5)
    assert engines() <= before
    with pytest.raises(StateProblem, match="the session has ended"):
        processes = OwnProcesses()
        processes.close()
        processes.start(0)
