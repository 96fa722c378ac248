"""Shards are found in memory, batch after batch: whoever serves them, with the shuffle and without."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from eddyline.runtime.spark import conductor
from tests.seeds import first_seed
from tests.spark.asked import engines_below
from tests.spark.material import write_files
from tests.spark.running import run_script
from tests.spark.test_engine_processes import gone, until
from tests.spark.test_job import embedded, same_rows, script

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
BATCHES = 20

#: A session of a user's own, whose Python workers serve one task each.
PROGRAM = """
import os, sys
from pathlib import Path
os.environ["PYTHONPATH"] = os.getcwd()
from tests.spark.running import run_script
from tests.spark.test_job import script
from eddyline.runtime.spark.job.session import open_session

folder = Path(sys.argv[1])
spark = open_session("local[2]", settings={"spark.python.worker.reuse": "false"})
job, _ = run_script(spark, script(folder, 1), folder / "checkpoint")
print(job.progress.came_from.get("memory", 0), sum(job.progress.came_from.values()), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in "abc":
        write_files(tmp_path / name, [f"{i:02d}.parquet" for i in range(BATCHES)], 50)
    return tmp_path


def found(came_from: dict[str, int], shards: int) -> float:
    """The share of steps that found their shard, without the first batch."""
    return came_from.get("memory", 0) / (sum(came_from.values()) - shards)


@pytest.mark.parametrize(
    ("shards", "shuffled"),
    [(2, True), (5, False), *(pytest.param(*more, marks=pytest.mark.long) for more in ((2, False), (5, True)))],
)
def test_a_shard_is_found_in_memory(
    spark, data: Path, monkeypatch: pytest.MonkeyPatch, shards: int, shuffled: bool
) -> None:
    """Also with more shards than slots."""
    if shuffled:
        monkeypatch.setattr(conductor, "_TASK_BYTES", 1)
        monkeypatch.setattr(conductor, "_on_one_machine", lambda context: False)
    job, _ = run_script(spark, script(data, 1), data / "checkpoint", None, shards)
    assert job.progress.batches == BATCHES and sum(job.progress.came_from.values()) == BATCHES * shards
    assert found(job.progress.came_from, shards) >= 0.95
    # What a shard holds is counted, and the worker that asked for it.
    (engine,) = {one.ppid() for one in engines_below(os.getpid())}
    assert min(job.progress.worker_bytes) > max(one.memory_info().rss for one in psutil.Process(engine).children()) / 2


def test_killed_processes_change_no_answer(spark, data: Path) -> None:
    """At any moment of a batch: Spark runs the task again, from what the batch began with."""
    text, lots, struck, over = script(data, 1), random.Random(first_seed()), [0], threading.Event()
    commits = data / "checkpoint" / "commits"

    def strike() -> None:
        """Once in every batch at most: a task may be lost three times."""
        seen = 0
        while not over.wait(0.02):
            done = len(list(commits.glob("[0-9]*")))
            if done > seen and not over.wait(lots.uniform(0, 0.4)):
                seen = done
                for engine in engines_below(os.getpid())[: lots.randint(0, 2)]:
                    engine.kill()
                    struck[0] += 1

    striking = threading.Thread(target=strike)
    striking.start()
    try:
        job, results = run_script(spark, text, data / "checkpoint", None, 3)
    finally:
        over.set()
        striking.join()
    assert struck[0] and job.progress.came_from["state"] > 0
    for name, right in embedded(text).items():
        assert same_rows(results[name], right), name


@pytest.mark.long
def test_workers_of_one_task_and_a_jvm_that_is_killed(data: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(data)]
    errors = data / "errors"
    with (
        open(errors, "w") as said,
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said) as program,
    ):
        assert program.stdout is not None
        figures = program.stdout.readline().split()
        assert figures, errors.read_text()[-2000:]
        memory, steps = map(int, figures)
        engines = engines_below(program.pid)
        (jvm,) = [one for one in psutil.Process(program.pid).children(recursive=True) if one.name() == "java"]
        assert steps == 2 * BATCHES and memory / (steps - 2) >= 0.95
        assert len(engines) == 2
        os.kill(jvm.pid, signal.SIGKILL)
        assert until(lambda: all(gone(one.pid) for one in engines))
        program.kill()
