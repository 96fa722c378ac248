"""Streams that are DataFrames of the user's own making."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest

from eddyline.connectors.sinks import MemorySink
from eddyline.errors import BindingProblem
from eddyline.language import bind_script
from eddyline.runtime.spark.ingest.frames import frame_schema, packed_frame
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.runtime.spark.job.figures import make_layout
from tests.spark.material import SCHEMA, write_files

pytestmark = pytest.mark.spark

DECLARED = "(k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts', lateness='10 seconds')"


def test_a_frame_beside_files(spark, tmp_path: Path) -> None:
    write_files(tmp_path / "frames", [f"{i}.parquet" for i in range(4)], 250)
    write_files(tmp_path / "b", ["0.parquet", "1.parquet"], 500)
    frame = spark.readStream.schema("k long, v long, ts timestamp").option("maxFilesPerTrigger", 3).parquet(str(tmp_path / "frames"))
    assert frame_schema("a", frame) == SCHEMA
    job = bind_script(
        f"CREATE STREAM a {DECLARED}; CREATE STREAM b {DECLARED.replace('time=', f'''format='parquet', path='{tmp_path}/b', time=''')};"
        "CREATE QUERY same AS SELECT a.v AS av, b.v AS bv FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.v = b.v;"
    )
    layout = make_layout(spark, str(tmp_path / "checkpoint"), job.streams, job.queries, settings=replace(job.settings, shards=2))
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
