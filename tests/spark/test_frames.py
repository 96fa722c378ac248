"""Streams that are DataFrames of the user's own making."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.connectors.results.sinks import MemorySink
from eddyline.errors import BindingProblem
from eddyline.language import bind_script
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch
from eddyline.runtime.spark.ingest.frames import frame_schema, packed_frame
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.runtime.spark.job.layouts import make_layout
from tests.spark.material import SCHEMA, write_files

pytestmark = pytest.mark.spark

DECLARED = "(k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts', lateness='10 seconds')"


def test_a_frame_beside_files(spark, tmp_path: Path) -> None:
    write_files(tmp_path / "frames", [f"{i}.parquet" for i in range(4)], 250)
    write_files(tmp_path / "b", ["0.parquet", "1.parquet"], 500)
    frame = (
        spark.readStream.schema("k long, v long, ts timestamp")
        .option("maxFilesPerTrigger", 3)
        .parquet(str(tmp_path / "frames"))
    )
    assert frame_schema("a", frame) == SCHEMA
    job = bind_script(
        f"CREATE STREAM a {DECLARED}; CREATE STREAM b {DECLARED.replace('time=', f'''format='parquet', path='{tmp_path}/b', time=''')};"
        "CREATE QUERY same AS SELECT a.v AS av, b.v AS bv FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.v = b.v;"
    )
    layout = make_layout(
        spark, str(tmp_path / "checkpoint"), job.streams, job.queries, settings=replace(job.settings, shards=2)
    )
    running, sink = SparkDriver(spark, layout, frames={"a": frame}), MemorySink()
    running.add_queries(job.catalog, {"same": [sink]})
    progress = running.run()
    found = sink.table()
    assert sorted(found.column("av").to_pylist()) == list(range(1000))
    assert pc.all(pc.equal(found.column("av"), found.column("bv"))).as_py()
    assert progress.rows_in == {"a": 1000, "b": 1000}
    assert progress.closed


def test_a_frame_that_does_not_stream_is_refused(spark) -> None:
    with pytest.raises(BindingProblem, match="not streaming"):
        packed_frame(spark.range(3), "a", None)


def test_a_column_without_a_type_of_ours_is_refused(spark) -> None:
    with pytest.raises(BindingProblem, match="column xs"):
        frame_schema("a", spark.createDataFrame([], "k long, xs map<string, int>"))


def test_integers_of_a_frame_are_times_in_its_unit_and_results_stay_until_they_are_taken(spark, tmp_path: Path) -> None:
    noon = 1_704_110_400
    (tmp_path / "rows").mkdir()
    parquet.write_table(pa.table({"k": [1, 2, 3], "ts": [noon, noon + 1, noon + 2]}), tmp_path / "rows" / "0.parquet")
    session = Session(spark=spark, checkpoint=str(tmp_path / "checkpoint"))
    frame = spark.readStream.schema("k long, ts long").parquet(str(tmp_path / "rows"))
    session.stream("s", frame, time="ts", time_unit="s")
    query = session.query("q", "SELECT k, ts FROM s")
    session.run()
    assert query.table().column("ts").to_pylist() == [datetime(2024, 1, 1, 12, 0, second) for second in range(3)]
    assert [row["k"] for row in query] == [1, 2, 3] and len(query) == 3
    assert query.take().num_rows == 3 and len(query) == query.table().num_rows == 0 and query
    assert repr(query).startswith("<Query q: ")


@pytest.mark.long
def test_rows_of_a_frame_and_of_files_that_are_far_ahead(
    spark, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch that runs again takes out the rows that were too far ahead when it was planned, whatever the clock says
    now."""
    state = str(tmp_path / "checkpoint")
    ahead = DECLARED.replace("time=", "most_ahead='1 hour', time=")
    files = "format='parquet', path='{}', time="
    job = bind_script(
        f"CREATE STREAM a {ahead}; CREATE STREAM b {ahead.replace('time=', files.format(tmp_path / 'b'))};"
        f"CREATE STREAM c {DECLARED.replace('time=', files.format(tmp_path / 'c'))};"
        "CREATE QUERY qa AS SELECT v FROM a; CREATE QUERY qb AS SELECT v FROM b; CREATE QUERY qc AS SELECT v FROM c;"
    )

    def write(name: str, times: list[datetime]) -> None:
        for folder in ("frames", "b", "c"):
            (tmp_path / folder).mkdir(exist_ok=True)
            rows = pa.table({"k": range(len(times)), "v": range(len(times)), "ts": pa.array(times, pa.timestamp("us"))})
            parquet.write_table(rows, tmp_path / folder / name)

    def follow(batches: int) -> int:
        """Run until so many batches are committed; returns the number of the last one."""
        frame = spark.readStream.schema("k long, v long, ts timestamp").parquet(str(tmp_path / "frames"))
        layout = make_layout(
            spark, state, job.streams, job.queries, settings=replace(job.settings, shards=2, output_files="each")
        )
        driver = SparkDriver(spark, layout, out=str(tmp_path / "out"), frames={"a": frame})
        driver.add_queries(job.catalog)
        driver.start()
        limit = time.monotonic() + 240
        while committed_batch(state) + 1 < batches and time.monotonic() < limit:
            time.sleep(0.05)
        driver.stop()
        return committed_batch(state)

    def found() -> tuple[list[str], ...]:
        letters = [parquet.read_table(tmp_path / "out" / "_dead_letter" / name) for name in ("a", "b")]
        return tuple(sorted(map(str, table.select(["v", "_reason"]).to_pylist())) for table in letters)

    clock = lambda: datetime.now(UTC).replace(tzinfo=None)
    began = clock()
    write("0.parquet", [began - timedelta(hours=1)])
    before = follow(1)
    # The third row is too far ahead when the batch first reads it, however slow the machine is, and no longer when the
    # batch runs again.
    now, soon = clock(), max(timedelta(seconds=30), 3 * (clock() - began))
    write("1.parquet", [now, datetime.max, now + timedelta(hours=1) + soon, now + timedelta(minutes=30)])
    last = follow(before + 2)
    dead = found()
    assert [len(reasons) for reasons in dead] == [2, 2] and all(
        "ahead: event time lies after" in r for rs in dead for r in rs
    )
    assert [r.getMessage().split(" has")[0] for r in caplog.records if "most_ahead" in r.getMessage()] == ["stream c"]
    # As a kill leaves it before Spark notes that the batch is done.
    for name in (f"{last}", f".{last}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    # And before the batch counts: its rows are read again.
    (tmp_path / "checkpoint" / "eddyline" / "heads" / f"{last:012d}.json").unlink()
    time.sleep(max(0.0, (now + soon - clock()).total_seconds() + 5))
    assert follow(last + 1) == last
    assert found() == dead
