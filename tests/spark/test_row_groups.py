"""Tasks leave out row groups that no query can use: results, late rows and counts stay as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet

from eddyline.model.datatypes import BIGINT, BOOLEAN
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal
from eddyline.runtime.sharded.ingest.packet import from_blob
from eddyline.runtime.sharded.job.layout import PackedLayout
from eddyline.runtime.sharded.phases import Phases
from eddyline.settings import Settings
from eddyline.tuning import InputTuning, Tuning
from tests.seeds import cases, first_seed
from tests.spark.material import equality, layout, query
from tests.spark.test_needed_columns import documents, streams
from tests.spark.test_ranges import conducted

#: Row groups of any size are looked at.
ANY_GROUP = Settings(tuning=Tuning(input=InputTuning(least_looked_at=0)))


def written(folder: Path, random: Random) -> None:
    """Rows in stretches of equal keys, of which some come late."""
    folder.mkdir(parents=True)
    times = [n - random.choice([0, 0, 0, 3, 20]) for n in range(100, 160)]
    stretch = random.choice((1, 12, 20))
    table = {
        "note": [f"note {n}" for n in range(60)],
        "k": [random.choice((n // stretch, n // stretch, None)) for n in range(60)],
        "v": list(range(60)),
        "ts": pa.array(times, pa.timestamp("us")),
    }
    parquet.write_table(pa.table(table), folder / "1.parquet", row_group_size=random.choice((4, 6, 9)))


def compared(column: str, function: str, value: int) -> Expression:
    alias, _, name = column.partition(".")
    return Call(function, (ColumnRef(alias, name, BIGINT), Literal(value, BIGINT)), BOOLEAN)


def test_answers_and_letters_are_those_of_all_row_groups(tmp_path: Path) -> None:
    late = skipped = 0
    for case in range(cases(16)):
        random, folder = Random(first_seed(9_700) + case), tmp_path / str(case)
        for name in "ab":
            written(folder / name, random)
        # No row group has keys above 100: in the first case all are skipped.
        above = 100 if case == 0 else random.randrange(4)
        function = ">" if case == 0 else random.choice(("=", "<=", ">"))
        where = [compared("a.k", function, above), compared("b.v", "<", 40)]
        batches, answers = [2, 5, 8], []
        for row_groups in ("off", "on"):
            settings = replace(ANY_GROUP, row_groups=row_groups)
            asked = query("q", "a b", equality("a.k", "b.k"), *where)
            of = layout(streams(folder, "parquet"), [asked], 2, folder / f"ck{row_groups}", settings)
            made = documents(of, 200, batches)
            answers.append(conducted(of, made))
            phases = Phases(PackedLayout.of(of))
            packets = [packet for piece in made[0].pieces for packet in phases.read(made[0], piece)]
            skipped += sum("skipped" in packet.row_groups for packet in packets)
        assert answers[0] == answers[1], case
        late += sum("late" in letter[-1] for letter in answers[1][1])
    assert late > 5 and skipped > 1


def test_a_skipped_row_group_is_a_tick(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    table = {"note": ["x"] * 60, "k": [n // 20 for n in range(60)], "v": list(range(60)), "ts": range(100, 160)}
    table["ts"] = pa.array(table["ts"], pa.timestamp("us"))
    parquet.write_table(pa.table(table), folder / "1.parquet", row_group_size=10)
    one = streams(tmp_path, "parquet")[0]
    of = layout([one], [query("q", "a", compared("a.k", "=", 1))], 2, tmp_path / "ck", ANY_GROUP)
    first = replace(documents(of, 1 << 20, [])[0], control=())

    def read(**changed: object) -> list[tuple[int, int | None, list[int]]]:
        """Of the packets of each shard: rows, newest event time, and the values of v in them."""
        document = replace(first, **changed)
        packets = [packet for piece in document.pieces for packet in Phases(PackedLayout.of(of)).read(document, piece)]
        found = {packet.place: (packet.rows, packet.newest, []) for packet in packets}
        for packet in packets:
            found[packet.place][2].extend(from_blob(packet.blob).column("v").to_pylist() if packet.blob else [])
        return [(rows, newest, sorted(values)) for rows, newest, values in found.values()]

    assert read() == [(20, 119, []), (20, 139, list(range(20, 40))), (20, 159, [])]
    # A row before 105 may be late: its row group is read, and the rows before 105 are placed.
    assert read(before={0: "x"}, late_below={"a": 105})[0] == (10, 109, list(range(5)))
    everything = [(60, 159, list(range(60)))]
    assert read(before={0: "x"}) == read(control=({"idle": ["a"]},)) == everything
