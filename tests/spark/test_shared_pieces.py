"""Pieces of a batch that several processes share, and pieces that a process reads before it is asked."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from random import Random

import pytest

from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.conducting import InProcess
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.workers.ahead import ReadAhead
from eddyline.runtime.sharded.workers.shared_pieces import SharedPieces, remove
from tests.spark.test_processes import SHARDS, batch, made, results

PIECES = [FilePiece("a", number, str(number), "", 1, False) for number in range(20)]


def reader(log: Path, before: Callable[[FilePiece], None] = lambda piece: None) -> Callable[..., Iterator[Packet]]:
    def read(piece: FilePiece) -> Iterator[Packet]:
        before(piece)
        with open(log, "a") as file:
            file.write(f"{piece.number}\n")
        for shard in range(SHARDS):
            blob = Random(piece.number * SHARDS + shard).randbytes(7 if piece.number % 2 else 70_001)
            yield Packet(shard, 0, piece.number, None, 1, False, blob, None, b"census")

    return read


def take(folder: str, log: Path, shard: int, before: Callable[[FilePiece], None] = lambda piece: None) -> bool:
    """Whether a shard gets what it would read."""
    found = list(SharedPieces(folder, PIECES, reader(log, before)).packets(shard, SHARDS))
    right = [packet for piece in PIECES for packet in reader(Path(os.devnull))(piece) if packet.shard == shard]
    found.sort(key=lambda packet: packet.place)
    return [Packet._make(bytes(f) if isinstance(f, memoryview) else f for f in packet) for packet in found] == right


def test_each_piece_is_read_once_and_every_shard_gets_its_packets(tmp_path: Path) -> None:
    (folder := tmp_path / "batch").mkdir()
    forking = get_context("fork")
    asked = [
        forking.Process(target=lambda s=s: os._exit(not take(str(folder), tmp_path / "log", s))) for s in range(SHARDS)
    ]
    for process in asked:
        process.start()
    for process in asked:
        process.join()
    assert [process.exitcode for process in asked] == [0] * SHARDS
    assert sorted(map(int, (tmp_path / "log").read_text().split())) == [*range(20)]
    remove(str(folder))
    assert not folder.exists()


def test_a_piece_whose_reader_is_killed_is_read_by_another(tmp_path: Path) -> None:
    """It is killed while others wait for its lock."""
    (folder := tmp_path / "batch").mkdir()
    forking = get_context("fork")

    def stuck() -> None:
        take(str(folder), Path(os.devnull), 0, lambda piece: time.sleep(60) if piece.number == 3 else None)

    killed = forking.Process(target=stuck)
    killed.start()
    while not (folder / "3.lock").exists():
        time.sleep(0.01)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(take(str(folder), tmp_path / "log", 1)))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive(), "it waits for the piece"
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    waiting.join(20)
    killed.join()
    assert answers == [True]
    assert (tmp_path / "log").read_text().split().count("3") == 1


def test_a_reader_that_fails_leaves_its_piece_to_the_next(tmp_path: Path) -> None:
    (folder := tmp_path / "batch").mkdir()
    struck: list[int] = []

    def fail_once(piece: FilePiece) -> None:
        if piece.number == 5 and not struck:
            struck.append(1)
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        take(str(folder), Path(os.devnull), 2, fail_once)
    assert take(str(folder), Path(os.devnull), 2, fail_once)


def blobs(packets: list[Packet]) -> list[tuple[object, ...]]:
    return [tuple(packet) for packet in packets]


def test_what_was_read_ahead_is_what_would_be_read(tmp_path: Path) -> None:
    phases = made(tmp_path, "ck")
    whole = batch(phases, tmp_path)
    first = replace(whole, pieces=whole.pieces[:1], control=(), likely=whole.pieces[1:])
    first = replace(first, likely=tuple(replace(piece, is_last=False) for piece in first.likely))
    ahead = ReadAhead()
    ahead.look(phases, first, 0, {"a": None}, 1)
    ahead.fill(lambda: False)
    then = replace(first, number=1, pieces=whole.pieces[1:], likely=(), before={0: "x"}, late_below={"a": None})
    read: list[int] = []

    class Noted(Phases):
        def read(self, batch: BatchDocument, piece: FilePiece) -> Iterator[Packet]:
            read.append(piece.number)
            return super().read(batch, piece)

    noted = Noted(phases.packed)
    for piece in then.pieces:
        assert blobs(ahead.read(noted, then, piece)) == blobs(list(phases.read(then, piece)))
    assert not read


@pytest.mark.parametrize(
    "change",
    [{"late_below": {"a": 5}}, {"late_below": {}}, {"control": ({},)}, {"before": {}}, {"layout": "other"}],
    ids=str,
)
def test_what_was_read_ahead_does_not_count_where_a_read_would_differ(tmp_path: Path, change: dict) -> None:
    phases = made(tmp_path, "ck")
    whole = batch(phases, tmp_path)
    then = replace(whole, number=1, control=(), before={0: "x"}, late_below={"a": None})
    right = phases.reading_of(then, whole.pieces[1])
    if "layout" in change:
        other = made(tmp_path / "o", "ck")
        assert other.reading_of(replace(then, layout=other.packed.digest), whole.pieces[1]) != right
        return
    assert phases.reading_of(replace(then, **change), whole.pieces[1]) != right


def test_an_attempt_to_read_ahead_stops_when_somebody_asks(tmp_path: Path) -> None:
    phases = made(tmp_path, "ck")
    whole = batch(phases, tmp_path)
    ahead, asked = ReadAhead(), iter([False, True])
    ahead.look(phases, replace(whole, likely=whole.pieces), 0, {}, 1)
    ahead.fill(lambda: next(asked))
    assert len(ahead._found) == 1


def test_results_that_nothing_takes_are_counted(tmp_path: Path) -> None:
    phases = made(tmp_path, "ck")
    right = list(results(InProcess(made(tmp_path, "other")).run(batch(made(tmp_path, "other"), tmp_path))))
    parcels = InProcess(phases).run(replace(batch(phases, tmp_path), untaken=frozenset({"pairs"})))
    counted = [parcel for parcel in parcels if parcel.name == "pairs"]
    assert all(parcel.path is None and parcel.blob is None for parcel in counted)
    assert sum(parcel.rows for parcel in counted) == sum(row.startswith("pairs ") for row in right)
    kept = sorted(results([parcel for parcel in parcels if parcel.name != "pairs"]))
    assert kept == sorted(row for row in right if not row.startswith("pairs "))
