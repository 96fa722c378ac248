"""Rows that no query can use stay where they are read; answers and letters are those of all rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from eddyline.language import bind_script
from eddyline.model.query import BoundQuery
from eddyline.plan.shards.shares import route_all
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.ingest.needed import NeededColumns
from eddyline.runtime.sharded.ingest.packet import Packet, from_blob
from eddyline.runtime.sharded.ingest.wanted import WantedRows, constant_condition
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.phases import Phases
from tests.seeds import cases, first_seed
from tests.spark.test_needed_columns import documents
from tests.spark.test_ranges import conducted

COLUMNS = "k BIGINT, v BIGINT, s STRING, ts TIMESTAMP"


def layout_of(folder: Path, shards: int, *queries: str, options: str = "") -> JobLayout:
    """A layout of queries over the streams a and b, whose files are in the folder."""
    streams = [
        f"CREATE STREAM {name} ({COLUMNS}) WITH (format='csv', path='{folder / name}', time='ts', "
        f"lateness='5 microseconds'{options})"
        for name in "ab"
    ]
    named = [f"CREATE QUERY {'q' if at == 0 else f'q{at}'} AS {text}" for at, text in enumerate(queries)]
    job = bind_script(";\n".join([*streams, *named]))
    routing = route_all(job.queries, [s.name for s in job.streams], {}, shards)
    return JobLayout(
        tuple(job.streams), tuple(job.queries), routing, shards, str(folder / f"ck{shards}"), steps=routing.steps
    )


def written(folder: Path, random: Random, rows: int = 60) -> None:
    """Rows of which some come late, and lines that are no rows."""
    for name in "ab":
        (folder / name).mkdir(parents=True)
        lines = ["k,v,s,ts"]
        for n in range(rows):
            time = 100 + n - random.choice([0, 0, 0, 3, 20])
            key = random.choice(["", "bad", *map(str, range(5)), *map(str, range(5)), *map(str, range(5))])
            lines.append(f"{key},{random.randrange(10)},{random.choice('xyz')},1970-01-01 00:00:00.{time:06d}")
        (folder / name / "1.csv").write_text("\n".join(lines))


#: One query each; `{c}` is a constant condition.
QUERIES = [
    "SELECT v, s FROM a WHERE {c}",
    "SELECT a.v, b.v AS w FROM a [RANGE 20 MICROSECONDS], b [RANGE 20 MICROSECONDS] WHERE a.k = b.k AND {c}",
    "SELECT a.v, b.v AS w FROM a [ROWS 7], b [RANGE 20 MICROSECONDS] WHERE a.k = b.k AND {c}",
    "SELECT a.v, b.v AS w FROM b [NOW], a [PARTITION BY k ROWS 1] WHERE a.k = b.k AND {c}",
    "SELECT b.v, a.v AS w FROM b [RANGE 9 MICROSECONDS] LEFT JOIN a [RANGE 9 MICROSECONDS] ON a.k = b.k AND {c}",
    "SELECT a.v, b.v AS w FROM a [RANGE 9 MICROSECONDS] LEFT JOIN b [RANGE 9 MICROSECONDS] ON a.k = b.k AND {c}",
    "SELECT a.v, b.v AS w FROM a [RANGE 9 MICROSECONDS] LEFT JOIN b [RANGE 9 MICROSECONDS] ON a.k = b.k WHERE {c}",
    "SELECT a.v FROM a [RANGE 9 MICROSECONDS] WHERE {c} AND NOT EXISTS (SELECT 1 FROM b [RANGE 9 MICROSECONDS] WHERE b.k = a.k)",
    "SELECT b.v FROM b [RANGE 9 MICROSECONDS] WHERE NOT EXISTS (SELECT 1 FROM a [RANGE 9 MICROSECONDS] WHERE b.k = a.k AND {c})",
    "SELECT k, count(*) AS n FROM a [RANGE 20 MICROSECONDS] WHERE {c} GROUP BY k EMIT EVERY 7 MICROSECONDS",
    "SELECT count(*) AS n FROM a [RANGE 20 MICROSECONDS] WHERE {c} EMIT EVERY 7 MICROSECONDS",
    "SELECT k, v FROM a [RANGE 20 MICROSECONDS] WHERE {c} "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 2 EMIT EVERY 7 MICROSECONDS",
    "SELECT v, LAG(v) OVER (PARTITION BY k ORDER BY ts) AS p FROM a WHERE {c}",
]
CONDITIONS = [
    "a.v < 3",
    "a.s = 'x' AND a.v > 2",
    "a.k IN (1, 2)",
    "10 / a.v > 2",
    "a.v < 5 AND 10 / a.v > 2",
    "a.k IS NULL",
]


def test_answers_and_letters_are_those_of_all_rows(tmp_path: Path) -> None:
    fewer = 0
    for case in range(cases(len(QUERIES) * 8)):
        random, folder = Random(first_seed(9_700) + case), tmp_path / str(case)
        written(folder, random)
        text = QUERIES[case % len(QUERIES)].replace("{c}", random.choice(CONDITIONS))
        shards, answers = random.choice([1, 2, 3]), []
        for needed in (False, True):
            of = replace(layout_of(folder, shards, text), checkpoint=str(folder / f"ck{needed}"))
            answers.append(conducted(of, documents(of, 200, [3, 5, 8]), needed))
        assert answers[0] == answers[1], (case, text)
        test = WantedRows(of, NeededColumns(of)).of(of.streams[0], BatchDocument(0, ""))
        fewer += test is not None
    assert fewer > 5


def read(of: JobLayout, document: BatchDocument) -> list[Packet]:
    phases = Phases(PackedLayout.of(of))
    return [packet for piece in document.pieces for packet in phases.read(document, piece)]


def travelling(packets: list[Packet], stream: int) -> tuple[int, int]:
    """Rows of a stream that travel, and bytes."""
    blobs = [packet.blob for packet in packets if packet.blob is not None and packet.stream == stream]
    return sum(from_blob(blob).num_rows for blob in blobs), sum(map(len, blobs))


def ticks(packets: list[Packet]) -> list[tuple[object, ...]]:
    return [(p.shard, p.stream, p.place, p.newest, p.rows, p.closed, p.bad, p.census, p.lines) for p in packets]


@pytest.mark.parametrize("shards", [1, 3])
def test_rows_that_no_query_can_use_do_not_travel_and_ticks_are_those_of_all(tmp_path: Path, shards: int) -> None:
    written(tmp_path, Random(3), 3000)
    joined = "SELECT a.v FROM a [ROWS 50], b [RANGE 5 MICROSECONDS] WHERE a.k = b.k"
    plain, fewer = (layout_of(tmp_path, shards, text) for text in (joined, f"{joined} AND a.v = 1"))
    document = replace(documents(fewer, 1 << 20, [])[0], control=())
    before, after = (read(of, replace(document, layout=PackedLayout.of(of).digest)) for of in (plain, fewer))
    rows, size = travelling(before, 0)
    kept, small = travelling(after, 0)
    assert 8 < rows / kept < 12 and size > 5 * small
    assert travelling(before, 1) == travelling(after, 1) and ticks(before) == ticks(after)
    # A row that may be late travels, whatever its columns: its letter says who missed it.
    late = replace(document, before={0: "x"}, late_below={"a": 10**9, "b": None})
    assert travelling(read(fewer, late), 0)[0] == rows
    for changed in ({"before": {0: "x"}}, {"control": ({"idle": ["a"]},)}):
        assert travelling(read(fewer, replace(document, **changed)), 0)[0] == rows


def test_which_conditions_are_tested_before_rows_are_placed(tmp_path: Path) -> None:
    def conditions(text: str) -> list[str]:
        of = layout_of(tmp_path, 2, text)
        (query,) = of.queries
        assert isinstance(query, BoundQuery)
        parts = [(part, reference) for part in (*query.makers, query) for reference in part.streams]
        return [str(constant_condition(p, r, of.streams[of.numbers[r.source]])) for p, r in parts if not r.derived]

    b = "b [RANGE 1 SECOND]"
    assert conditions(f"SELECT a.v FROM a [ROWS 2], {b} WHERE a.k = b.k AND a.v < 3 AND b.v > a.v AND a.s = 'x'") == [
        "(a.v < 3) AND (a.s = 'x')",
        "None",
    ]
    assert conditions(f"SELECT a.v FROM a [PARTITION BY k ROWS 1], {b} WHERE a.k = b.k AND a.v < 3") == ["None", "None"]
    assert conditions("SELECT v FROM a WHERE v < 3 AND CAST(s AS BIGINT) > 0 AND s = 'x'") == ["a.v < 3"]
    assert conditions("SELECT v FROM a WHERE CAST(s AS BIGINT) > 0 AND v < 3") == ["None"]
    assert conditions("SELECT count(*) AS n FROM a [RANGE 1 SECOND] WHERE v < 3") == ["None"]
    kept = f"SELECT b.v FROM {b} LEFT JOIN a [RANGE 1 SECOND] ON a.k = b.k AND a.v < 3"
    assert "a.v < 3" in conditions(kept) and conditions(f"{kept} AND b.v < 3").count("None") == 1

    def test(*texts: str, options: str = "") -> object:
        of = layout_of(tmp_path, 2, *texts, options=options)
        return WantedRows(of, NeededColumns(of)).of(of.streams[0], BatchDocument(0, ""))

    assert test("SELECT v FROM a WHERE v < 3") is not None
    assert test("SELECT v FROM a WHERE v < 3", "SELECT v FROM a WHERE s = 'x'") is not None
    assert test("SELECT v FROM a WHERE v < 3", "SELECT s FROM a") is None
    assert test("SELECT v FROM b") is not None
    assert test("SELECT v FROM a WHERE v < 3", options=", most_ahead='1 hour'") is None
    assert test(*(f"SELECT v FROM a WHERE v = {n}" for n in range(9))) is None
