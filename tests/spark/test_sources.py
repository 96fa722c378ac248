"""Offsets count files in the order of taking; bounded runs end their streams in the batch of the last file."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from eddyline.runtime.sharded.ingest.control import write_control
from eddyline.runtime.sharded.ingest.file_log import FileLog
from eddyline.runtime.sharded.ingest.packet import from_blob
from eddyline.runtime.sharded.job.layout import PackedLayout
from eddyline.runtime.spark.ingest.sources import PacketReader, Work
from eddyline.settings import Settings
from eddyline.tuning import InputTuning, Tuning
from tests.spark.material import layout, query, stream, write_files


def reader(tmp_path: Path, once: bool = True, settings: Settings | None = None, **options: str) -> PacketReader:
    streams = [stream("a", 0, tmp_path, **options), stream("b", 1, tmp_path, **options)]
    packed = PackedLayout.of(layout(streams, [query("q", "a b")], 2, tmp_path / "ck", settings))
    made = PacketReader(packed, 2, once)
    if once:
        made.prepareForTriggerAvailableNow()
    return made


def offsets(of: PacketReader, start: dict | None = None) -> list[dict]:
    """All offsets until nothing changes any more."""
    found = [start or of.initialOffset()]
    while (after := of.latestOffset(found[-1], None)) != found[-1]:
        found.append(after)
    return found


def taken(work: list[Work]) -> list[tuple[str, str, bool]]:
    return sorted((name, file, last) for w in work for name, _, file, _, last in w.files)


def test_files_come_in_name_order_and_each_batch_has_its_share(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet", "2.parquet", "3.parquet"], 10)
    write_files(tmp_path / "b", ["x.parquet"], 10)
    of = reader(tmp_path, files_per_batch="2")
    start, middle, end = offsets(of)
    assert taken(of.partitions(start, middle)) == [
        ("a", "1.parquet", False),
        ("a", "2.parquet", False),
        ("b", "x.parquet", True),
    ]
    assert taken(of.partitions(middle, end)) == [("a", "3.parquet", True)]
    assert [any(w.closing for w in of.partitions(*pair)) for pair in ((start, middle), (middle, end))] == [False, True]
    assert of.partitions(end, end) == []


def test_an_empty_stream_ends_at_once(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet", "2.parquet"], 10)
    (tmp_path / "b").mkdir()
    of = reader(tmp_path, files_per_batch="1")
    start, middle, end = offsets(of)
    assert [w.ends for w in of.partitions(start, middle) if w.ends] == [[("b", 0)]]
    assert [w.ends for w in of.partitions(middle, end) if w.ends] == []


def test_a_later_run_takes_only_what_is_new_whatever_its_name(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["5.parquet"], 10)
    write_files(tmp_path / "b", ["5.parquet"], 10)
    end = offsets(reader(tmp_path))[-1]
    assert end["done"]
    assert offsets(reader(tmp_path), end) == [end]
    write_files(tmp_path / "a", ["1.parquet"], 10)
    of = reader(tmp_path)
    start, after = offsets(of, end)
    assert taken(of.partitions(start, after)) == [("a", "1.parquet", True)]
    assert after["runs"] == 2


def test_a_batch_that_is_planned_again_ends_the_same_streams(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet", "2.parquet"], 10)
    write_files(tmp_path / "b", ["1.parquet"], 10)
    start, middle, _ = offsets(reader(tmp_path, files_per_batch="1"))
    write_files(tmp_path / "b", ["2.parquet"], 10)
    again = reader(tmp_path, files_per_batch="1")
    assert taken(again.partitions(start, middle)) == [("a", "1.parquet", False), ("b", "1.parquet", True)]


def test_following_never_ends(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet"], 10)
    (tmp_path / "b").mkdir()
    of = reader(tmp_path, once=False)
    start, end = offsets(of)
    assert end["open"] == {"a": True, "b": True} and not end["done"]
    assert taken(of.partitions(start, end)) == [("a", "1.parquet", False)]
    write_files(tmp_path / "b", ["1.parquet"], 10)
    assert taken(of.partitions(*offsets(of, end))) == [("b", "1.parquet", False)]


def test_without_a_number_batches_are_cut_by_size(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet", "2.parquet", "3.parquet"], 10)
    (tmp_path / "b").mkdir()
    size = (tmp_path / "a" / "1.parquet").stat().st_size
    settings = Settings(tuning=Tuning(input=InputTuning(batch_bytes=2 * size + 10)))
    assert [o["files"]["a"] for o in offsets(reader(tmp_path, settings=settings))] == [0, 2, 3]


def test_a_line_that_was_not_finished_does_not_count(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet"], 10)
    of = stream("a", 0, tmp_path)
    FileLog(of, str(tmp_path / "ck")).look()
    path = tmp_path / "ck" / "eddyline" / "files" / "a.log"
    with path.open("ab") as log:
        log.write(b'{"crc32": "2.par')
    write_files(tmp_path / "a", ["0.parquet"], 10)
    again = FileLog(of, str(tmp_path / "ck"))
    assert again.names() == ["1.parquet"]
    again.look()
    assert FileLog(of, str(tmp_path / "ck")).names() == ["1.parquet", "0.parquet"]


def test_reading_gives_packets_for_every_shard_and_survives_a_bad_file(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet"], 10)
    (tmp_path / "a" / "2.parquet").write_bytes(b"this is not parquet")
    (tmp_path / "b").mkdir()
    of = reader(tmp_path)
    start, end = offsets(of)
    made = pa.Table.from_batches([batch for work in of.partitions(start, end) for batch in of.read(work)])
    assert made.filter(pa.compute.equal(made["stream"], 0)).num_rows == 4
    assert made.column("bad").drop_null().length() == 1
    assert sum(made.column("rows").to_pylist()) == 2 * 10
    assert sorted(made.column("shard").unique().to_pylist()) == [0, 1]


def test_control_records_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    of = reader(tmp_path, once=False)
    start = of.initialOffset()
    write_control(str(tmp_path / "ck"), {"idle": ["a"]})
    write_control(str(tmp_path / "ck"), {"idle": []})
    end = of.latestOffset(start, None)
    (work,) = of.partitions(start, end)
    assert work.control == [0, 1]
    assert [batch.column("blob")[0].as_py() for batch in of.read(work)] == [b'{"idle": ["a"]}', b'{"idle": []}']


def test_a_batch_keeps_the_instant_at_which_it_was_planned(tmp_path: Path) -> None:
    """Rows too far ahead of it are dead letters in every run of the batch, whatever the clock says then."""
    write_files(tmp_path / "a", ["1.parquet"], 10)
    (tmp_path / "b").mkdir()
    of = reader(tmp_path)
    before = time.time_ns() // 1000
    start, end = offsets(of)
    assert start["at"] == 0 and before <= end["at"] <= time.time_ns() // 1000
    # Nothing new, so no other instant; an offset of an earlier version has none.
    assert of.latestOffset(end, None) == end
    assert [work.at for work in reader(tmp_path).partitions(start, end)] == [end["at"]]
    del end["at"]
    assert of.latestOffset(end, None) == {**end, "at": 0}


def test_rows_too_far_ahead_are_packed_as_bad_rows(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, 2, 3], "v": [1, 2, 3], "ts": pa.array([10, 20, 30], pa.timestamp("us"))})
    streams = [replace(stream("a", 0, tmp_path), most_ahead=5)]
    made = layout(streams, [query("q", "a")], 2, tmp_path / "ck")
    (tmp_path / "a").mkdir()
    parquet.write_table(rows, tmp_path / "a" / "1.parquet")
    of = PacketReader(PackedLayout.of(made), 1, True)
    of.prepareForTriggerAvailableNow()
    start, end = of.initialOffset(), of.latestOffset(of.initialOffset(), None)
    (work,) = of.partitions(start, {**end, "at": 15})
    packets = [row for batch in of.read(work) for row in batch.to_pylist() if row["stream"] == 0]
    assert packets[0]["rows"] == 2 and packets[0]["newest"] == 20
    bad = [from_blob(row["bad"]) for row in packets if row["bad"]]
    assert [table.column("k").to_pylist() for table in bad] == [["3"]]
    assert bad[0].column("_reason")[0].as_py().startswith("ahead: event time lies after 1970-01-01T00:00:00.000020")
