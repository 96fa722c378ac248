"""What a batch takes of the files that wait: an offset may end inside a file, and rows and seconds bound it."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.conducting import Batches, InProcess
from eddyline.runtime.sharded.ingest.backlog import Backlog, TakenUpTo
from eddyline.runtime.sharded.ingest.file_log import FileLog
from eddyline.runtime.sharded.ingest.inputs import Inputs
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.output.parcels import opened
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.shard.engines import forget
from eddyline.runtime.sharded.shard.pipeline import model_pipeline
from eddyline.runtime.spark.ingest.sources import PacketReader
from eddyline.settings import Settings
from eddyline.testing.clocks import MovedClock
from eddyline.tuning import InputTuning, Tuning
from tests.seeds import first_seed
from tests.spark.material import equality, layout, merged_rows, query, rows, stream
from tests.spark.test_ranges import written


class Run:
    """A bounded run over files as Spark conducts it, in this process; `again` makes every batch in a new process."""

    def __init__(self, of: JobLayout, again: bool = False) -> None:
        self.rows: list[int] = []
        self.results: list[dict] = []
        self.letters: list[tuple[str, ...]] = []
        self.ends: list[dict] = []
        packed, number, start = PackedLayout.of(of), 0, None
        while True:
            if again or start is None:
                reader, inputs, batches = PacketReader(packed, True), Inputs(of), Batches(of.checkpoint, of.shards)
                reader.prepareForTriggerAvailableNow()
                conductor, model = InProcess(Phases(packed, most_engines=of.width)), model_pipeline(of)
                forget(of.checkpoint)
            start = start or reader.initialOffset()
            end = json.loads(json.dumps(reader.latestOffset(start, None)))
            if end == start:
                break
            self._batch(of, batches, inputs, conductor, model, number, packed, end)
            reader.commit(end)
            start, number = end, number + 1
            self.ends.append(end)
        forget(of.checkpoint)

    def _batch(self, of, batches, inputs, conductor, model, number, packed, end) -> None:
        def planned(head) -> tuple[BatchDocument, dict]:
            return inputs.batch(number, packed, end, head), end

        tables: dict[str, list[pa.Table]] = {}
        for parcel in batches.parcels(number, str(number), planned, conductor.run):
            if parcel.kind == "note" and parcel.shard == 0:
                self.rows.append(sum(json.loads(parcel.blob or b"")["rows_in"].values()))
            elif parcel.kind == "result":
                tables.setdefault(parcel.name, []).append(opened(parcel.path, parcel.blob))
            elif parcel.kind == "dead":
                found = opened(parcel.path, parcel.blob)
                self.letters += [tuple(map(str, row.values())) for row in found.to_pylist()]
        for name, used in tables.items():
            self.results += merged_rows(used, model.queries[name].merging)


def job(folder: Path, checkpoint: str, kind: str, settings: Settings, names: str = "ab") -> JobLayout:
    streams = [replace(stream(name, at, folder, format=kind), lateness=100_000) for at, name in enumerate(names)]
    asked = query("q", "a b", equality("a.k", "b.k")) if names == "ab" else query("q", "a")
    return layout(streams, [asked], 2, folder / checkpoint, settings)


def bounded(batch_bytes: int, most_rows: int | None = None, **tuning: int) -> Settings:
    parts = {"piece_bytes": max(batch_bytes // 3, 1), "sample_bytes": 2_000, **tuning}
    return Settings(max_rows_per_batch=most_rows, tuning=Tuning(input=InputTuning(batch_bytes=batch_bytes, **parts)))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_job_goes_on_inside_a_file(tmp_path: Path, kind: str) -> None:
    random = Random(first_seed(9_400))
    for name in "ab":
        written(tmp_path / name, kind, random)
    whole = Run(job(tmp_path, "whole", kind, Settings()))
    parts = Run(job(tmp_path, "parts", kind, bounded(900)), again=True)
    assert len(whole.ends) == 1 and len(parts.ends) > 3
    assert sum(bool(end["within"]) for end in parts.ends) > 2
    assert parts.results == whole.results and whole.results
    assert sorted(parts.letters) == sorted(whole.letters) and whole.letters
    assert parts.ends[-1]["done"] and not parts.ends[-1]["within"]


def csv_file(path: Path, count: int, first: int = 0) -> None:
    """Rows whose texts grow and shrink: 20 to 60 bytes."""
    table = rows(first, count)
    texts = ["k,v,ts"] + [
        f"{k},{v},{ts.isoformat(' ')}{' ' * (v // 500 % 5 * 8)}"
        for k, v, ts in zip(*(table.column(name).to_pylist() for name in ("k", "v", "ts")), strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(texts))


def test_rows_of_a_batch_are_bounded_to_a_row_group_and_nearly_so_in_text(tmp_path: Path) -> None:
    settings = Settings(max_rows_per_batch=1_000, tuning=Tuning(input=InputTuning(sample_bytes=2_000)))
    csv_file(tmp_path / "text" / "a" / "1.csv", 6_000)
    csv_file(tmp_path / "text" / "a" / "2.csv", 3_000, 6_000)
    text = Run(job(tmp_path / "text", "ck", "csv", settings, "a"))
    assert sum(text.rows) == 9_000 and all(800 <= count <= 1_200 for count in text.rows[:-2]), text.rows
    folder = tmp_path / "groups" / "a"
    folder.mkdir(parents=True)
    parquet.write_table(rows(0, 4_000), folder / "1.parquet", row_group_size=300)
    groups = Run(job(tmp_path / "groups", "ck", "parquet", settings, "a"))
    assert groups.rows == [900, 900, 900, 900, 400], groups.rows
    for number in range(30):
        path = tmp_path / "packed" / "a" / f"{number:02d}.csv"
        csv_file(path, 100, 100 * number)
        path.with_suffix(".csv.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    small = Run(job(tmp_path / "packed", "ck", "csv", Settings(max_rows_per_batch=1_000), "a"))
    assert small.rows == [1_000] * 3, small.rows
    # Of what is longer than a sample nothing is known: one after the other.
    assert len(Run(job(tmp_path / "packed", "alone", "csv", settings, "a")).rows) == 30


def logs(folder: Path, sizes: dict[str, list[int]], **options: str) -> dict[str, FileLog]:
    """Files of some sizes; nothing reads them."""
    found = {}
    for at, (name, all_sizes) in enumerate(sizes.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, size in enumerate(all_sizes):
            path = folder / name / f"{number:04d}.csv"
            path.touch()
            os.truncate(path, size)
        found[name] = FileLog(stream(name, at, folder, format="csv", **options), str(folder / "ck"))
        found[name].append_new()
    return found


def sizes_of_batches(backlog: Backlog, of: dict[str, FileLog], clock: MovedClock, speed: float) -> list[int]:
    """Bytes of each batch until nothing is left, on a machine with that many bytes per second."""
    place, found = dict.fromkeys(of, TakenUpTo(0)), []
    while (after := backlog.after(place)) != place:
        size = sum(taken(of[name], after[name]) - taken(of[name], place[name]) for name in of)
        found.append(size)
        clock.advance(0.1 + size / speed)
        place = after
    assert all(place[name] == TakenUpTo(log.total) for name, log in of.items())
    return found


def taken(log: FileLog, place: TakenUpTo) -> int:
    return sum(file.size for file in log.files(0, place.files)) + place.within


@pytest.mark.parametrize("files", [[4_000_000] * 100, [400_000_000]])
def test_a_burst_is_taken_in_batches_of_the_seconds_asked_for(tmp_path: Path, files: list[int]) -> None:
    of, clock = logs(tmp_path, {"a": [10_000, *files, 10_000]}), MovedClock()
    backlog = Backlog(of, str(tmp_path / "ck"), Settings(batch_seconds=2.0), clock)
    found = sizes_of_batches(backlog, of, clock, 10e6)
    assert max(found) <= 25_000_000 and sum(size >= 15_000_000 for size in found) >= len(found) - 4, found
    # Slow queries have smaller batches, fast ones are bounded by memory.
    slow = sizes_of_batches(Backlog(of, str(tmp_path / "ck"), Settings(), clock), of, clock, 1e6)
    assert max(slow[6:]) <= (4_000_000 if len(files) > 1 else 2_500_000), slow
    fast = sizes_of_batches(Backlog(of, str(tmp_path / "ck"), Settings(), clock), of, clock, 1e9)
    assert max(fast) <= 64 << 20 and fast[:3] == sorted(fast[:3]) and len(fast) < 12, fast


def test_streams_are_taken_side_by_side_and_a_number_of_files_wins(tmp_path: Path) -> None:
    of, clock = logs(tmp_path, {"a": [80_000_000], "b": [1_000_000] * 8}), MovedClock()
    backlog = Backlog(of, str(tmp_path / "ck"), Settings(), clock)
    place = dict.fromkeys(of, TakenUpTo(0))
    for _ in range(4):
        place = backlog.after(place)
        shares = [taken(log, place[name]) / taken(log, TakenUpTo(log.total)) for name, log in of.items()]
        assert abs(shares[0] - shares[1]) <= 1 / 8, shares
    numbered = logs(tmp_path / "numbered", {"a": [80_000_000] * 3}, files_per_batch="2")
    of |= {"n": next(iter(numbered.values()))}
    after = Backlog(of, str(tmp_path / "ck"), Settings(max_rows_per_batch=1), clock).after(
        {**dict.fromkeys(of, TakenUpTo(0)), "n": TakenUpTo(0, 7)}
    )
    assert after["n"] == TakenUpTo(2)


def test_no_stream_waits_for_ever_where_a_batch_takes_one_piece(tmp_path: Path) -> None:
    of = logs(tmp_path, {"a": [10] * 5, "b": [10]}, multiline="true")
    for number, path in enumerate(sorted((tmp_path / "a").iterdir())):
        os.utime(path, (1_000 + number, 1_000 + number))
    os.utime(tmp_path / "b" / "0000.csv", (1_001, 1_001))
    of = {name: FileLog(log.stream, str(tmp_path / "anew")) for name, log in of.items()}
    for log in of.values():
        log.append_new()
    settings = Settings(tuning=Tuning(input=InputTuning(batch_bytes=1)))
    backlog, place = Backlog(of, str(tmp_path / "anew"), settings, MovedClock()), dict.fromkeys(of, TakenUpTo(0))
    found = []
    while (after := backlog.after(place)) != place:
        found += [name for name in of if after[name] != place[name]]
        place = after
    assert found[:3] in (["a", "b", "a"], ["a", "a", "b"]) and sorted(found) == ["a"] * 5 + ["b"]
