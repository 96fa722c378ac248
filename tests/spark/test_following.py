"""Jobs that follow their sources: files that come later, streams that fall silent, stop and start."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from eddyline.connectors.results.sinks import MemorySink
from eddyline.language import bind_script
from eddyline.runtime.sharded.ingest.control import next_control, read_control
from eddyline.runtime.sharded.ingest.idle import IdleWatch
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.runtime.spark.job.layouts import make_layout
from eddyline.testing.clocks import MovedClock
from tests.spark.material import stream, write_files


def wait(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "nothing happens"
        time.sleep(0.05)


def following(spark, tmp_path: Path, idle: str = "") -> tuple[SparkDriver, MemorySink]:
    declared = "(k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts', format='parquet', path='{}'{})"
    job = bind_script(
        f"CREATE STREAM a {declared.format(tmp_path / 'a', '')}; CREATE STREAM b {declared.format(tmp_path / 'b', idle)};"
        "CREATE QUERY same AS SELECT a.v AS av, b.v AS bv FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.v = b.v;"
        "CREATE QUERY all_a AS SELECT v FROM a; CREATE QUERY all_b AS SELECT v FROM b;"
    )
    layout = make_layout(
        spark, str(tmp_path / "checkpoint"), job.streams, job.queries, settings=replace(job.settings, shards=2)
    )
    running, sink = SparkDriver(spark, layout, out=str(tmp_path / "out")), MemorySink()
    running.add_queries(job.catalog, {"same": [sink]})
    return running, sink


@pytest.mark.spark
def test_files_that_come_later_and_a_stop_between(spark, tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["0.parquet"], 100)
    write_files(tmp_path / "b", ["0.parquet"], 100)
    running, first = following(spark, tmp_path)
    running.start()
    wait(lambda: running.progress.results.get("same", 0) >= 99)
    write_files(tmp_path / "a", ["1.parquet"], 100, first=100)
    wait(lambda: running.progress.rows_in.get("a") == 200)
    running.stop()
    # Rows at the frontier wait, and those of a that b has not caught up with.
    assert first.table().column("av").to_pylist() == list(range(99))
    write_files(tmp_path / "b", ["1.parquet"], 100, first=100)
    again, second = following(spark, tmp_path)
    again.start()
    wait(lambda: again.progress.results.get("same", 0) >= 100)
    again.stop()
    assert second.table().column("av").to_pylist() == list(range(99, 199))


@pytest.mark.spark
def test_a_silent_stream_is_left_out_until_it_speaks(spark, tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["0.parquet"], 100)
    (tmp_path / "b").mkdir()
    running, _ = following(spark, tmp_path, idle=", idle='1 second'")
    running.start()
    wait(lambda: running.progress.results.get("all_a", 0) >= 99)
    running.stop()
    assert running.progress.rows_in == {"a": 100}


@pytest.mark.long
@pytest.mark.spark
def test_rows_of_a_stream_that_was_silent_are_late_where_others_went_on(spark, tmp_path: Path) -> None:
    """Both before and after a restart; a stream falls silent again, and again is left out."""
    write_files(tmp_path / "a", ["0.parquet"], 100)
    (tmp_path / "b").mkdir()
    seen = [row for number in range(2) for row in _woken(spark, tmp_path, number)]
    assert seen == [*range(99, 150), *range(199, 250)]
    late = parquet.read_table(tmp_path / "out" / "_dead_letter" / "b")
    assert sorted(map(int, late.column("v").to_pylist())) == [*range(50, 99), *range(150, 199)]


def _woken(spark, tmp_path: Path, number: int) -> list[int]:
    """One run: a stands at its last row and b is left out, until b and then a go on. Returned are the pairs."""
    running, sink = following(spark, tmp_path, idle=", idle='1 second'")
    running.start()
    wait(lambda: running.progress.frontiers.get("a+b") == (100 * number + 99) * 1000)
    # The first half lies below that. The second half has partners once a goes on; b's own query takes both.
    write_files(tmp_path / "b", [f"{number}.parquet"], 100, first=100 * number + 50)
    wait(lambda: running.progress.rows_in.get("b") == 100)
    write_files(tmp_path / "a", [f"{number + 1}.parquet"], 100, first=100 * number + 100)
    wait(lambda: running.progress.results.get("same", 0) >= 51)
    running.stop()
    assert running.progress.results["all_b"] >= 99
    return sink.table().column("av").to_pylist()


def test_silence_is_told_once_and_ends_with_a_row(tmp_path: Path) -> None:
    quiet = replace(stream("b", 1), idle=2_000_000)
    clock = MovedClock()
    watch = IdleWatch([stream("a", 0), quiet], str(tmp_path), clock)
    records = tmp_path / "eddyline" / "control"
    clock.advance(1)
    watch.note_silent()
    assert not records.exists()
    for _ in range(2):
        clock.advance(2)
        watch.note_silent()
    assert [json.loads(read_control(str(tmp_path), n)) for n in range(next_control(str(tmp_path)))] == [{"idle": ["b"]}]
    watch.saw_rows(["b"])
    for _ in range(2):
        clock.advance(1)
        watch.note_silent()
    assert next_control(str(tmp_path)) == 2
