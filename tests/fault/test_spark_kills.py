"""Random kills of a job on Spark: any process, at any moment, whatever the JVM is writing then; nothing lost, nothing
doubled.

EDDYLINE_KILLS says how many; a soak has a hundred in one uninterrupted life of a job.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest

from tests.fault.scenarios import _kill, end_session, session_processes
from tests.fault.spark_life import Life
from tests.seeds import cases, first_seed

KILLS = int(os.environ.get("EDDYLINE_KILLS") or cases(12, soak=100))

pytestmark = [
    pytest.mark.fault,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(120 * KILLS + 600),
]


def test_random_kills(tmp_path: Path) -> None:
    life, random = Life(tmp_path / "life"), Random(first_seed(1))
    struck: dict[str, int] = {}
    while sum(struck.values()) < KILLS:
        if life.files == 0 or life.all_is_committed():
            life.write_files(4)
        before = life.committed()
        process = life.start(None)
        try:
            # One in five dies before its first batch is committed.
            if random.random() > 0.2:
                life.wait(process, lambda: life.committed() > before)  # noqa: B023
                life.change_queries()
            else:
                time.sleep(random.random() * 8)
            time.sleep(random.random() * 2)
            assert process.poll() is None, life.said()
            # Workers are replaced; everything else ends the start.
            if random.random() < 0.3 and (workers := session_processes(process.pid, "eddyline.runtime.spark.daemon")):
                _kill(random.choice(workers))
                struck["worker"] = struck.get("worker", 0) + 1
                time.sleep(random.random() * 2)
            which = random.choice(["driver", "JVM", "everything"])
            victims = {"driver": [process.pid], "JVM": session_processes(process.pid, "java"), "everything": []}[which]
            for pid in victims:
                _kill(pid)
            if victims:
                time.sleep(random.random() * 0.5)
            struck[which] = struck.get(which, 0) + 1
        finally:
            end_session(process)
        print(
            f"{sum(struck.values())} kills {struck}, {life.turns} starts, {life.files} files, batch {life.committed()}",
            flush=True,
        )
    life.finish()
    life.check()
    print(f"right after {struck}", flush=True)
