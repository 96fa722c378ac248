"""Offsets count files in the order of taking; bounded runs end their streams in the batch of the last file."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.ingest.control import write_control
from eddyline.runtime.sharded.ingest.file_log import FileLog
from eddyline.runtime.sharded.ingest.inputs import Inputs
from eddyline.runtime.sharded.ingest.packet import Packet, from_blob
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.storage.heads import Head
from eddyline.runtime.spark.conductor import grouped
from eddyline.runtime.spark.ingest.sources import PacketReader
from eddyline.settings import Settings
from eddyline.tuning import InputTuning, Tuning
from tests.spark.material import layout, query, stream, write_files


def made_layout(tmp_path: Path, settings: Settings | None = None, **options: str) -> JobLayout:
    streams = [stream("a", 0, tmp_path, **options), stream("b", 1, tmp_path, **options)]
    return layout(streams, [query("q", "a b")], 2, tmp_path / "ck", settings)


def reader(tmp_path: Path, once: bool = True, settings: Settings | None = None, **options: str) -> PacketReader:
    made = PacketReader(PackedLayout.of(made_layout(tmp_path, settings, **options)), once)
    if once:
        made.prepareForTriggerAvailableNow()
    return made


def batch(tmp_path: Path, start: dict, end: dict) -> BatchDocument:
    """The document of a batch, as the driver makes it."""
    of = made_layout(tmp_path)
    return Inputs(of).batch(1, PackedLayout.of(of), end, Head(0, "", "", start, {}, []))


def offsets(of: PacketReader, start: dict | None = None) -> list[dict]:
    """All offsets until nothing changes any more."""
    found = [start or of.initialOffset()]
    while (after := of.latestOffset(found[-1], None)) != found[-1]:
        found.append(after)
    return found


def taken(of: BatchDocument) -> list[tuple[str, str, bool]]:
    return sorted((piece.stream, piece.name, piece.is_last) for piece in of.pieces)


def is_closing(of: BatchDocument) -> bool:
    return {"closing": True} in of.control


def test_files_come_in_name_order_and_each_batch_has_its_share(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet", "2.parquet", "3.parquet"], 10)
    write_files(tmp_path / "b", ["x.parquet"], 10)
    of = reader(tmp_path, files_per_batch="2")
    start, middle, end = offsets(of)
    assert taken(batch(tmp_path, start, middle)) == [
        ("a", "1.parquet", False),
        ("a", "2.parquet", False),
        ("b", "x.parquet", True),
    ]
    assert taken(batch(tmp_path, middle, end)) == [("a", "3.parquet", True)]
    assert [is_closing(batch(tmp_path, *pair)) for pair in ((start, middle), (middle, end))] == [False, True]
    assert not batch(tmp_path, end, end).pieces


def test_an_empty_stream_ends_at_once(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet", "2.parquet"], 10)
    (tmp_path / "b").mkdir()
    of = reader(tmp_path, files_per_batch="1")
    start, middle, end = offsets(of)
    assert [batch(tmp_path, *pair).ended for pair in ((start, middle), (middle, end))] == [("b",), ()]


def test_a_later_run_takes_only_what_is_new_whatever_its_name(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["5.parquet"], 10)
    write_files(tmp_path / "b", ["5.parquet"], 10)
    end = offsets(reader(tmp_path))[-1]
    assert end["done"]
    assert offsets(reader(tmp_path), end) == [end]
    write_files(tmp_path / "a", ["1.parquet"], 10)
    of = reader(tmp_path)
    start, after = offsets(of, end)
    assert taken(batch(tmp_path, start, after)) == [("a", "1.parquet", True)]
    assert after["runs"] == 2


def test_a_batch_that_is_planned_again_ends_the_same_streams(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet", "2.parquet"], 10)
    write_files(tmp_path / "b", ["1.parquet"], 10)
    start, middle, _ = offsets(reader(tmp_path, files_per_batch="1"))
    write_files(tmp_path / "b", ["2.parquet"], 10)
    reader(tmp_path, files_per_batch="1")
    assert taken(batch(tmp_path, start, middle)) == [("a", "1.parquet", False), ("b", "1.parquet", True)]


def test_following_never_ends(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet"], 10)
    (tmp_path / "b").mkdir()
    of = reader(tmp_path, once=False)
    start, end = offsets(of)
    assert end["open"] == {"a": True, "b": True} and not end["done"]
    assert taken(batch(tmp_path, start, end)) == [("a", "1.parquet", False)]
    write_files(tmp_path / "b", ["1.parquet"], 10)
    assert taken(batch(tmp_path, *offsets(of, end))) == [("b", "1.parquet", False)]


def test_without_a_number_batches_are_cut_by_size(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet", "2.parquet", "3.parquet"], 10)
    (tmp_path / "b").mkdir()
    size = (tmp_path / "a" / "1.parquet").stat().st_size
    settings = Settings(tuning=Tuning(input=InputTuning(batch_bytes=2 * size + 10)))
    assert [o["files"]["a"] for o in offsets(reader(tmp_path, settings=settings))] == [0, 2, 3]


def test_a_line_that_was_not_finished_does_not_count(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet"], 10)
    of = stream("a", 0, tmp_path)
    FileLog(of, str(tmp_path / "ck")).append_new()
    path = tmp_path / "ck" / "eddyline" / "files" / "a.log"
    with path.open("ab") as log:
        log.write(b'{"crc32": "2.par')
    write_files(tmp_path / "a", ["0.parquet"], 10)
    again = FileLog(of, str(tmp_path / "ck"))
    assert again.names() == ["1.parquet"]
    again.append_new()
    assert FileLog(of, str(tmp_path / "ck")).names() == ["1.parquet", "0.parquet"]


def read(of: JobLayout, document: BatchDocument) -> list[Packet]:
    phases = Phases(PackedLayout.of(of))
    return [packet for piece in document.pieces for packet in phases.read(document, piece)]


def test_reading_gives_packets_for_every_shard_and_survives_a_bad_file(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet"], 10)
    (tmp_path / "a" / "2.parquet").write_bytes(b"this is not parquet")
    (tmp_path / "b").mkdir()
    made = read(made_layout(tmp_path), batch(tmp_path, *offsets(reader(tmp_path))))
    assert sum(packet.stream == 0 for packet in made) == 4
    assert sum(packet.bad is not None for packet in made) == 1
    assert sum(packet.rows for packet in made) == 2 * 10
    assert sorted({packet.shard for packet in made}) == [0, 1]


def test_a_process_reads_on_in_the_list_of_files_of_another_one(tmp_path: Path) -> None:
    """Also where the list was begun anew, and where a line is being written."""
    (tmp_path / "a").mkdir()
    of = stream("a", 0, tmp_path)
    following, tuning = FileLog(of, str(tmp_path / "ck")), InputTuning(log_bytes=300)
    writing = FileLog(of, str(tmp_path / "ck"), tuning)
    path, heads = tmp_path / "ck" / "eddyline" / "files" / "a.log", set()
    for number in range(12):
        write_files(tmp_path / "a", [f"{number:02d}.parquet"], 1)
        writing.append_new()
        whole = path.read_bytes()
        heads.add(whole[:24])
        path.write_bytes(whole[:-5])
        following.read_on()
        assert following.total == (number if len(whole.splitlines()) > 1 else 0)
        path.write_bytes(whole)
        following.read_on()
        assert following.total == writing.total == number + 1
        assert following.file(number) == writing.file(number)
        writing.forget(number - 1)
    assert len(heads) > 1


def test_little_is_one_task_and_much_is_spread(tmp_path: Path) -> None:
    pieces = [FilePiece("a", n, f"{n}", f"/{n}", size << 20, False) for n, size in enumerate((3, 1, 1, 2))]
    assert [[p.number for p in group] for group in grouped(pieces, 2)] == [[0], [1, 2, 3]]
    assert len(grouped([replace(p, size=9) for p in pieces], 2)) == 1 and grouped([], 2) == ()


def test_control_records_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    of = reader(tmp_path, once=False)
    start = of.initialOffset()
    write_control(str(tmp_path / "ck"), {"idle": ["a"]})
    write_control(str(tmp_path / "ck"), {"idle": []})
    end = of.latestOffset(start, None)
    assert batch(tmp_path, start, end).control == ({"idle": ["a"]}, {"idle": []})


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
    assert batch(tmp_path, start, end).at == end["at"]
    del end["at"]
    assert of.latestOffset(end, None) == {**end, "at": 0}


def test_rows_too_far_ahead_are_packed_as_bad_rows(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, 2, 3], "v": [1, 2, 3], "ts": pa.array([10, 20, 30], pa.timestamp("us"))})
    streams = [replace(stream("a", 0, tmp_path), most_ahead=5)]
    made = layout(streams, [query("q", "a")], 2, tmp_path / "ck")
    (tmp_path / "a").mkdir()
    parquet.write_table(rows, tmp_path / "a" / "1.parquet")
    piece = FilePiece("a", 0, "1.parquet", str(tmp_path / "a" / "1.parquet"), 1, True)
    packets = read(made, BatchDocument(0, PackedLayout.of(made).digest, (piece,), at=15))
    assert packets[0].rows == 2 and packets[0].newest == 20
    bad = [from_blob(packet.bad) for packet in packets if packet.bad]
    assert [table.column("k").to_pylist() for table in bad] == [["3"]]
    assert bad[0].column("_reason")[0].as_py().startswith("ahead: event time lies after 1970-01-01T00:00:00.000020")
