"""Tasks read only the columns that queries need, and whole rows where one may be late: no letter loses a value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.model.datatypes import BIGINT, STRING, TIMESTAMP
from eddyline.model.schema import Column, Schema, Stream
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.ingest.file_log import FileLog
from eddyline.runtime.sharded.ingest.needed import NeededColumns
from eddyline.runtime.sharded.ingest.packet import from_blob
from eddyline.runtime.sharded.ingest.ranges import Cutter
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.phases import Phases
from eddyline.tuning import InputTuning
from tests.seeds import cases, first_seed
from tests.spark.material import equality, layout, query
from tests.spark.test_ranges import batched, conducted

SCHEMA = Schema((Column("note", STRING), Column("k", BIGINT), Column("v", BIGINT), Column("ts", TIMESTAMP)))


def streams(folder: Path, kind: str) -> list[Stream]:
    return [
        Stream(name, SCHEMA, "ts", position=at, lateness=5, options={"format": kind, "path": str(folder / name)})
        for at, name in enumerate("ab")
    ]


def written(folder: Path, kind: str, random: Random) -> None:
    """Rows of which some come late, and in text some lines that are no rows."""
    folder.mkdir(parents=True)
    times = [n - random.choice([0, 0, 0, 3, 20]) for n in range(100, 160)]
    notes, keys = [f"note {n}" for n in range(60)], [random.randrange(5) for _ in range(60)]
    if kind == "parquet":
        table = {"note": notes, "k": keys, "v": list(range(60)), "ts": pa.array(times, pa.timestamp("us"))}
        parquet.write_table(pa.table(table), folder / "1.parquet", row_group_size=9)
        return
    lines = [
        f"{note},{key if random.random() < 0.95 else 'bad'},{v},1970-01-01 00:00:00.{time:06d}"
        for v, (note, key, time) in enumerate(zip(notes, keys, times, strict=True))
    ]
    (folder / "1.csv").write_text("\n".join(["note,k,v,ts", *lines]))


def documents(of: JobLayout, most: int, batches: list[int]) -> list[BatchDocument]:
    pieces, tuning = [], InputTuning(piece_bytes=most)
    for each in of.streams:
        log = FileLog(each, of.checkpoint)
        log.append_new()
        pieces.append(list(Cutter(each, of.checkpoint, tuning).pieces([(log.file(0), 0, None)], True)))
    shortest = min(map(len, pieces))
    cuts = sorted({cut * shortest // 10 for cut in batches} - {0, shortest})
    return batched(pieces, cuts, PackedLayout.of(of).digest)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_late_and_bad_rows_keep_the_columns_that_no_query_needs(tmp_path: Path, kind: str) -> None:
    late = 0
    for case in range(cases(16)):
        random, folder = Random(first_seed(9_500) + case), tmp_path / str(case)
        for name in "ab":
            written(folder / name, kind, random)
        batches, answers = [3, 5, 8], []
        for needed in (False, True):
            of = layout(streams(folder, kind), [query("q", "a b", equality("a.k", "b.k"))], 2, folder / f"ck{needed}")
            answers.append(conducted(of, documents(of, 200, batches), needed))
        assert answers[0] == answers[1], case
        assert all("note" in letter[0] for letter in answers[1][1])
        late += sum("late" in letter[-1] for letter in answers[1][1])
    assert late > 5


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_are_left_out_of_packets_unless_a_row_may_be_late(tmp_path: Path, kind: str) -> None:
    for name in "ab":
        written(tmp_path / name, kind, Random(7))
    of = layout(streams(tmp_path, kind), [query("q", "a b", equality("a.k", "b.k"))], 2, tmp_path / "ck")
    first = documents(of, 1 << 20, [])[0]
    phases = Phases(PackedLayout.of(of))

    def names(**changed: object) -> set[str]:
        document = replace(first, **{"control": (), **changed})
        packets = [packet for piece in document.pieces for packet in phases.read(document, piece)]
        return {name for packet in packets if packet.blob for name in from_blob(packet.blob).column_names}

    assert not {"note"} & names()
    assert "note" not in names(before={0: "x"}, late_below={"a": 10, "b": None})
    assert "note" in names(before={0: "x"}, late_below={"a": 130, "b": None})
    # Nothing is known of the shards, or control records may change it.
    assert "note" in names(before={0: "x"})
    assert "note" in names(control=({"idle": ["a"]},))


def test_columns_are_needed_by_conditions_outputs_and_routes_and_always_the_time(tmp_path: Path) -> None:
    document = BatchDocument(0, "")

    def needed(*of: Stream, asked: str = "a b") -> list[frozenset[str] | None]:
        made = layout(of, [query("q", asked)], 2, tmp_path / "ck")
        return [NeededColumns(made).of(one, document) for one in of]

    one, two = streams(tmp_path, "csv")
    assert needed(one, two) == [frozenset({"v", "ts"})] * 2
    assert needed(replace(one, most_ahead=5), two) == [None, frozenset({"v", "ts"})]
    assert needed(replace(one, key=("k",)), two)[0] is None
    assert needed(one, two, asked="a")[1] == frozenset({"v", "ts"})
