"""Files in pieces: whatever a batch is cut into, answers, dead letters and their line numbers are those of whole files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.conducting import Batches, InProcess
from eddyline.runtime.sharded.ingest.file_log import FileLog
from eddyline.runtime.sharded.ingest.needed import latest_bounds
from eddyline.runtime.sharded.ingest.ranges import Cutter
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.output.parcels import opened
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.shard.engines import forget
from eddyline.runtime.sharded.shard.pipeline import model_pipeline
from eddyline.runtime.sharded.storage.heads import Head
from eddyline.tuning import InputTuning
from tests.seeds import cases, first_seed
from tests.spark.material import equality, layout, merged_rows, query, rows, stream

#: Which files are there, by format.
ENDINGS = {"csv": ".csv", "jsonl": ".jsonl", "parquet": ".parquet"}


def written(folder: Path, kind: str, random: Random) -> None:
    """Two files of a stream, with lines that are no rows and rows that do not fit."""
    folder.mkdir(parents=True)
    for number in range(2):
        table = rows(number * 40, 40, random.randrange(100))
        path = folder / f"{number}{ENDINGS[kind]}"
        if kind == "parquet":
            times = [None if random.random() < 0.1 else time for time in table.column("ts").to_pylist()]
            parquet.write_table(table.set_column(2, "ts", pa.array(times, pa.timestamp("us"))), path, row_group_size=7)
            continue
        ending = random.choice(["\n", "\r\n"])
        lines = ["k,v,ts"] if kind == "csv" else []
        for row in table.to_pylist():
            ts = row["ts"].isoformat(" ")
            good = (
                f"{row['k']},{row['v']},{ts}"
                if kind == "csv"
                else f'{{"k": {row["k"]}, "v": {row["v"]}, "ts": "{ts}"}}'
            )
            lines.append(
                random.choice([good] * 12 + ["", "nothing", good.replace(str(row["v"]), "none", 1), f"{good},1"])
            )
        path.write_bytes(ending.join([*lines, *[""] * random.randrange(3)]).encode())


def conducted(of: JobLayout, documents: list[BatchDocument], needed: bool = True) -> tuple[list[dict], list[str]]:
    """Results in order and dead letters of the streams, from batches run one after the other; unless `needed`, tasks do
    not know which rows may be late."""
    phases = Phases(PackedLayout.of(of), most_engines=of.width)
    conductor, batches = InProcess(phases), Batches(of.checkpoint, of.shards)
    model, results, letters = model_pipeline(of), [], []
    for number, document in enumerate(documents):
        held: list[BatchDocument] = []

        def planned(head: Head | None) -> tuple[BatchDocument, None]:
            lines = {} if head is None else head.notes[0]["lines"]
            before = {} if head is None else head.before
            notes = [{}] if head is None or not needed else head.notes.values()
            found = replace(document, number=number, before=before, lines=lines, late_below=latest_bounds(notes))  # noqa: B023
            held.append(found if needed else replace(found, control=(*found.control, {})))  # noqa: B023
            return held[0], None  # noqa: B023

        tables = []
        for parcel in batches.parcels(number, str(number), planned, conductor.run):
            if parcel.kind == "result":
                tables.append(opened(parcel.path, parcel.blob))
            elif parcel.kind == "dead":
                found = opened(parcel.path, parcel.blob)
                letters += [tuple(map(str, row.values())) for row in found.to_pylist()]
        results += merged_rows(tables, model.queries["q"].merging) if tables else []
    forget(of.checkpoint)
    return results, sorted(letters)


def batched(pieces: list[list[FilePiece]], cuts: list[int], digest: str) -> list[BatchDocument]:
    """Documents that take the pieces of all streams between the same places of each."""
    found = []
    for low, high in zip([0, *cuts], [*cuts, None], strict=True):
        found.append(BatchDocument(0, digest, tuple(piece for of in pieces for piece in of[low:high])))
    last = found[-1]
    silent = tuple(of[-1].stream for of in pieces if of[-1] not in last.pieces)
    found[-1] = replace(last, ended=silent, control=({"closing": True},))
    return found


@pytest.mark.parametrize("kind", list(ENDINGS))
def test_answers_and_letters_do_not_depend_on_how_files_are_cut(tmp_path: Path, kind: str) -> None:
    for case in range(cases(24)):
        random, folder = Random(first_seed(9_300) + case), tmp_path / str(case)
        for name in "ab":
            written(folder / name, kind, random)
        streams = [replace(stream(name, at, folder, format=kind), lateness=100_000) for at, name in enumerate("ab")]
        joined = query("q", "a b", equality("a.k", "b.k"))
        answers = []
        for most in (1 << 20, random.choice([1, 40, 300])):
            of = layout(streams, [joined], random.choice([1, 2, 3]), folder / f"ck{most}")
            tuning = InputTuning(piece_bytes=most)
            pieces = []
            for each in streams:
                log = FileLog(each, of.checkpoint, tuning)
                log.append_new()
                taken = [(log.file(number), 0, None) for number in range(log.total)]
                pieces.append(list(Cutter(each, of.checkpoint, tuning).pieces(taken, True)))
            shortest = min(map(len, pieces))
            cuts = [] if most == 1 << 20 else sorted(random.sample(range(shortest), min(shortest, random.randrange(4))))
            answers.append(conducted(of, batched(pieces, cuts, PackedLayout.of(of).digest)))
        assert answers[0][0] and answers[0] == answers[1], case
    assert answers[0][1]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_is_gone_or_has_become_shorter_is_one_letter(tmp_path: Path, kind: str) -> None:
    def letters(change: Callable[[Path], None]) -> list[str]:
        folder = tmp_path / change.__name__
        for name in "ab":
            written(folder / name, kind, Random(4))
        streams = [stream(name, at, folder, format=kind) for at, name in enumerate("ab")]
        of = layout(streams, [query("q", "a b", equality("a.k", "b.k"))], 2, folder / "ck")
        pieces = []
        for each in streams:
            log = FileLog(each, of.checkpoint)
            log.append_new()
            taken = [(log.file(number), 0, None) for number in range(log.total)]
            pieces.append(list(Cutter(each, of.checkpoint, InputTuning(piece_bytes=200)).pieces(taken, True)))
        path = folder / "a" / f"1{ENDINGS[kind]}"
        assert sum(piece.path == str(path) for piece in pieces[0]) > 3
        change(path)
        found = conducted(of, batched(pieces, [], PackedLayout.of(of).digest))[1]
        return [letter[-1] for letter in found if "cannot be read" in letter[-1] and path.name in letter[-1]]

    def gone(path: Path) -> None:
        path.unlink()

    def shorter(path: Path) -> None:
        if kind == "csv":
            os.truncate(path, 150)
        else:
            parquet.write_table(parquet.read_table(path).slice(0, 9), path, row_group_size=7)

    (said,) = letters(gone)
    assert "No such file" in said
    (said,) = letters(shorter)
    assert "fewer than when" in said or "from byte 150 on: it has become shorter" in said
