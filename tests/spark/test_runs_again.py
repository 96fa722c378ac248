"""A micro-batch that runs again, because its first run ended before its commit: what follows builds on the state of one
of the two."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch
from tests.spark.material import write_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = """
SET shards = 2;
SET output_files = '{1}';
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{0}/a', time='ts', files_per_batch=1);
CREATE QUERY pairs AS SELECT x.v AS first, y.v AS second FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y WHERE x.k = y.k AND x.v < y.v;
"""


def follow(spark, folder: Path, batches: int, files: str, first: str = "") -> int:
    """Run until so many batches are committed, and stop; returns the number of the last one."""
    with Session(spark=spark, checkpoint=str(folder / "state"), out=str(folder / "out"), keep_results=False) as session:
        session.execute(first + JOB.format(folder, files))
        session.start()
        for _ in range(4800):
            if committed_batch(str(folder / "state")) + 1 >= batches:
                break
            time.sleep(0.05)
        session.stop()
    return committed_batch(str(folder / "state"))


@pytest.mark.parametrize(
    ("files", "counts"),
    [
        pytest.param("each", False, marks=pytest.mark.long),
        ("auto", False),
        pytest.param("auto", True, marks=pytest.mark.long),
    ],
)
def test_state_is_of_one_run_when_a_batch_runs_again(spark, tmp_path: Path, files: str, counts: bool) -> None:
    state = str(tmp_path / "state")
    write_files(tmp_path / "a", ["0.parquet", "1.parquet"], 20)
    last = follow(spark, tmp_path, 2, files)
    # As a kill leaves it that comes after the shards have written their state, and before Spark notes that the batch is
    # done: before its manifest is written or after.
    for name in (f"{last}", f".{last}.crc"):
        (tmp_path / "state" / "commits" / name).unlink()
    head = tmp_path / "state" / "eddyline" / "heads" / f"{last:012d}.json"
    before = head.read_bytes()
    if not counts:
        head.unlink()
    # Then the batch runs again, and the next one builds on this second run; or its results are delivered again.
    write_files(tmp_path / "a", ["2.parquet"], 20, first=40)
    assert follow(spark, tmp_path, last + 2, files) > last
    assert not head.exists() or (head.read_bytes() == before) == counts
    write_files(tmp_path / "a", ["3.parquet"], 20, first=60)
    with Session(spark=spark, checkpoint=state, out=str(tmp_path / "out"), keep_results=False) as session:
        session.execute(JOB.format(tmp_path, files))
        session.run(once=True, final=False)
    with Session() as session:
        session.execute(JOB.format(tmp_path, files))
        session.run(once=True, final=False)
        wanted = session.queries["pairs"].table().to_pylist()
    found = [
        row
        for file in sorted((tmp_path / "out" / "pairs").glob("*.parquet"))
        for row in parquet.read_table(file).to_pylist()
    ]
    assert wanted and sorted(map(str, found)) == sorted(map(str, wanted))


@pytest.mark.parametrize(("files", "most"), [("auto", 1), pytest.param("each", 3, marks=pytest.mark.long)])
def test_results_of_several_batches_are_one_file(spark, tmp_path: Path, files: str, most: int) -> None:
    write_files(tmp_path / "a", ["0.parquet", "1.parquet", "2.parquet"], 100)
    assert follow(spark, tmp_path, 3, files, "SET output_seconds = 1000;") >= 2
    assert len(list((tmp_path / "out" / "pairs").glob("*.parquet"))) == most
