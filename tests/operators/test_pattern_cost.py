"""What patterns cost, counted: the events that the automaton visits are bounded by events and matches."""

from __future__ import annotations

import json
from math import log2

import numpy as np
import pyarrow as pa
import pytest

from eddyline.language import Job, parse_script
from eddyline.operators.pattern.book import TraceBook
from eddyline.operators.pattern.config import BookConfig
from eddyline.plan.patterns.patterns import plan_pattern, rules_for
from eddyline.tuning import PatternTuning

STREAM = "CREATE STREAM s (k BIGINT, type STRING, v BIGINT, ts TIMESTAMP) WITH (time = 'ts');"
#: Four events, one directly after the other.
FRAUD = "SEQ(T a, NOT(T n1), T b, NOT(T n2), T c, NOT(T n3), T d) FROM s TYPE type WHERE a.v = 0 AND b.v = 0 AND c.v = 0 AND d.v = 1"
SIZES = (200, 400, 800)


def rows_of(types: str, size: int, seed: int = 1) -> pa.Table:
    draw = np.random.default_rng(seed)
    kinds = draw.choice(list(types), size) if len(set(types)) > 1 else np.full(size, types[0])
    return table_of(kinds, draw.integers(0, 2, size))


def table_of(kinds: np.ndarray, values: np.ndarray) -> pa.Table:
    size = len(kinds)
    ts = pa.array(np.arange(size) * 1_000, pa.timestamp("us"))
    return pa.table({"k": np.zeros(size, np.int64), "type": pa.array(kinds), "v": values, "ts": ts})


def book_of(pattern: str, tuning: PatternTuning | None = None) -> TraceBook:
    """A book with one query q."""
    job = Job()
    for statement in parse_script(f"{STREAM} CREATE QUERY q AS EVENT {pattern} RETURN 1 AS one;"):
        job.apply(statement)
    (query,) = job.queries
    assert query.pattern is not None
    columns = {c.name: c.type for c in job.streams[0].schema.columns}
    rules = rules_for(query.pattern.book, ())
    book = TraceBook(BookConfig(query.pattern.book, columns, rules), tuning=tuning)
    book.add(plan_pattern(query, rules).config(columns), query.outputs, -(10**15))
    return book


def visited(
    pattern: str, table: pa.Table, tuning: PatternTuning | None = None, slices: int = 4
) -> tuple[int, int, TraceBook]:
    """The events that the automaton visits, the matches, and the book afterwards."""
    book = book_of(pattern, tuning)
    ts = np.asarray(table.column("ts").cast(pa.int64()))
    matches = 0
    for place in np.array_split(np.arange(len(ts)), slices):
        book.take(table.take(pa.array(place)), ts[place], place, place)
        frontier = int(ts[place[-1]]) + 1
        matches += sum(len(made.table) for made in book.advance(frontier).get("q", ()))
        book.purge(frontier)
    return book.report()["probes"], matches, book


@pytest.mark.parametrize(
    ("pattern", "types"),
    [
        (FRAUD, "T"),
        # Most events of b have no event of a before them that is not separated from them.
        ("SEQ(A a, NOT(X x), B b, C c) FROM s TYPE type", "XXXXXXABBBBCCCC"),
        ("SEQ(A a, B b, NOT(X x), C c) FROM s TYPE type", "ABBBBXXXXCC"),
        ("SEQ(A a, NOT(X x), B b, NOT(X y), C c, NOT(X z), D d) FROM s TYPE type", "ABCDABCDX"),
        # Events of a and b that are old, and of one of them that is new.
        ("SEQ(AND(A a, B b), NOT(X x), C c) FROM s TYPE type", "AABBXXXXXXCC"),
        ("SEQ(A a, B b, C c) FROM s TYPE type WITHIN 6 MILLISECONDS", "ABCYYYYY"),
        ("SEQ(A a, NOT(X x), B b) FROM s TYPE type WHERE x.v > b.v WITHIN 50 MILLISECONDS", "AAXB"),
    ],
    ids=["fraud", "dead prefix", "dead suffix", "all steps", "both before", "within", "condition"],
)
def test_the_events_visited_are_bounded_by_events_and_matches(pattern: str, types: str) -> None:
    each = []
    for size in SIZES:
        probes, matches, _ = visited(pattern, rows_of(types, size))
        assert matches
        each.append(probes / (size + matches))
        assert each[-1] <= 2 * log2(size), (size, probes, matches)
    # Logarithms grow so, and not what each event costs.
    assert each[-1] <= 2.2 * each[0], each


@pytest.mark.parametrize("size", SIZES)
def test_a_not_of_the_same_type_leaves_events_that_follow_each_other(size: int) -> None:
    table = rows_of("T", size)
    values = "".join(map(str, table.column("v").to_pylist()))
    assert visited(FRAUD, table)[1] == sum(values.startswith("0001", at) for at in range(size))


def test_a_full_output_does_not_begin_anew() -> None:
    table = table_of(np.array(["A"] * 60 + ["B"] * 60 + ["C"] * 3), np.zeros(123, np.int64))
    probes, matches, _ = visited(
        "SEQ(A a, B b, C c) FROM s TYPE type", table, PatternTuning(matches_at_once=5, most_steps=9)
    )
    assert matches == 60 * 60 * 3
    assert probes <= 6 * (123 + matches)


@pytest.mark.parametrize(
    "pattern",
    ["SEQ(A a, NOT(X x), B b) FROM s TYPE type", FRAUD.replace("(T ", "(A ").replace(" T ", " A ")],
    ids=["two", "fraud"],
)
def test_events_behind_a_not_are_not_kept(pattern: str) -> None:
    """Without WITHIN: what no match to come can contain goes."""
    kinds = np.array(["A", "X", "A", "X"] * 2_000)
    _, _, book = visited(pattern, table_of(kinds, np.zeros(len(kinds), np.int64)), slices=80)
    assert book.report()["peak_events_held"] <= 700, json.dumps(book.report())
