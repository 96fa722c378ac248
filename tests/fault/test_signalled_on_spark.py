"""A signal in each state of a Spark job's driver: the process ends, and the starts that follow complete the results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests.fault.scenarios import end_session
from tests.fault.signalled import ROOT

#: Seconds from the start of a process to its end. A start of Spark and a batch take some ten seconds.
PATIENCE = 600.0
COMMAND = ("run", "job.sql", "--checkpoint", "state", "--quiet")
ON_SPARK = ("--engine", "spark", "--master", "local[2]")
#: One function of each state that a driver is in. The first ones come before the job takes signals over: they end the
#: process.
STATES = [
    "session.open_session",
    "runner.SparkRunner._built",
    "settle.settled",
    "driver.SparkDriver._started",
    "roster.ShardedRoster.begin",
    "refreshing.ShardedRefreshing.refresh",
    "idle.IdleWatch.note_silent",
    "driver.SparkDriver._rest",
    "reporter.Reporter.beat",
    "conducting.Batches.parcels",
    "delivery.BatchDelivery._begin",
    "delivery.BatchDelivery._write",
    "roster.ShardedRoster.after_batch",
    "replanning.Replanning.after_batch",
    "runner.SparkRunner._on_batch",
]
JOB = """
SET shards = 2;
CREATE STREAM a (k BIGINT, s STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'a', time = 'ts', files_per_batch = 1);
CREATE STREAM b (k BIGINT, s STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'b', time = 'ts', files_per_batch = 1,
  idle = '1 hour');
CREATE TABLE names (k BIGINT, name STRING) WITH (format = 'parquet', path = 'names.parquet', refresh = '1 second');
CREATE QUERY pairs AS SELECT a.k, a.s, b.s AS t FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k;
CREATE QUERY named AS SELECT a.k, n.name FROM a, names n WHERE a.k = n.k;
CREATE QUERY counts AS SELECT k, COUNT(*) AS n FROM b [RANGE 30 SECONDS] GROUP BY k EMIT EVERY 10 SECONDS;
"""


def write(folder: Path, number: int) -> None:
    """A file of each stream with the rows of ten seconds."""
    draw = Random(number)
    for name in "ab":
        (folder / name).mkdir(parents=True, exist_ok=True)
        stamps = sorted(draw.randrange(10_000_000 * number, 10_000_000 * (number + 1)) for _ in range(60))
        rows = {
            "k": [draw.randrange(9) for _ in stamps],
            "s": [f"t{n % 5}" for n in stamps],
            "ts": pa.array(stamps, pa.timestamp("us")),
        }
        parquet.write_table(pa.table(rows), folder / "new")
        os.rename(folder / "new", folder / name / f"{number}.parquet")


def command(folder: Path, *arguments: str, at: str = "nothing", number: int = 0) -> tuple[int, str]:
    """The exit code of a command that gets a signal at a function, and what it said."""
    with open(folder / "said", "w+b") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.signalled", at, str(int(number)), *COMMAND, *arguments],
            cwd=folder, stdout=said, stderr=said, start_new_session=True,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )  # fmt: skip
        try:
            code = process.wait(PATIENCE)
        finally:
            end_session(process)
        said.seek(0)
        return code, said.read().decode(errors="replace")


def results(folder: Path) -> dict[str, list[str]]:
    return {
        path.name: sorted(map(str, parquet.read_table(path).to_pylist()))
        for path in sorted(folder.iterdir())
        if path.is_dir()
    }


@pytest.mark.fault
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    "states",
    [STATES[10:11], STATES],
    ids=["one state", "each state"],
)
@pytest.mark.timeout(3600)
def test_a_signal_in_each_state_of_the_driver(states: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(JOB)
    parquet.write_table(pa.table({"k": [1, 2, 3], "name": ["one", "two", "three"]}), tmp_path / "names.parquet")
    for place, at in enumerate(states):
        write(tmp_path, place)
        number = (signal.SIGTERM, signal.SIGINT)[place % 2]
        code, said = command(tmp_path, *ON_SPARK, "--out", "out", at=at, number=number)
        assert "struck" in said, f"{at} is not called: {code}, {said}"
        assert code in (0, -number) and "Traceback" not in said, (at, code, said)
    code, said = command(tmp_path, *ON_SPARK, "--out", "out", "--once")
    assert code == 0, said
    (tmp_path / "state").rename(tmp_path / "state of Spark")
    code, said = command(tmp_path, "--out", "right", "--once")
    assert code == 0, said
    assert results(tmp_path / "out") == results(tmp_path / "right")
