"""A book that is saved and brought back gives the matches of one that goes on; a snapshot has what has changed."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from eddyline.language import Job, parse_script
from eddyline.operators.pattern.book import TraceBook
from eddyline.operators.pattern.config import BookConfig
from eddyline.operators.pattern.saved import BookBlocks
from eddyline.plan.patterns.patterns import plan_pattern, rules_for
from eddyline.tuning import PatternTuning
from tests.operators.test_pattern_cost import STREAM
from tests.seeds import cases, first_seed

#: Patterns over one partition; the first ones have conditions that keys and columns decide, and a NOT at the end.
PATTERNS = {
    "keys": "SEQ(A a, B b, C c) FROM s TYPE type PARTITION BY k WHERE a.v <= b.v WITHIN 60 MILLISECONDS",
    "tail": "SEQ(A a, B b, NOT(C x)) FROM s TYPE type PARTITION BY k WHERE x.v = a.v WITHIN 20 MILLISECONDS",
    "gap": "SEQ(A a, NOT(X x), B b) FROM s TYPE type PARTITION BY k WHERE x.v = 1 WITHIN 40 MILLISECONDS",
    "first": "AND(A a, C c) FROM s TYPE type PARTITION BY k WITHIN 30 MILLISECONDS FIRST MATCH",
}
TEXT = "a.v AS v, a.type AS t"
SMALL = PatternTuning(least_swept=8, most_holes=8)


def book_of(names: list[str]) -> TraceBook:
    job = Job()
    for name in names:
        for statement in parse_script(
            f"{STREAM if not job.streams else ''} CREATE QUERY {name} AS EVENT {PATTERNS[name]} RETURN {TEXT};"
        ):
            job.apply(statement)
    first = job.queries[0].pattern
    assert first is not None
    columns = {c.name: c.type for c in job.streams[0].schema.columns}
    rules = rules_for(first.book, ())
    book = TraceBook(BookConfig(first.book, columns, rules), tuning=SMALL)
    for query in job.queries:
        book.add(plan_pattern(query, rules).config(columns), query.outputs, -(10**15))
    return book


def rows_of(first: int, count: int, traces: int, rng: np.random.Generator) -> pa.Table:
    ts = (first + np.arange(count)) * 1_000
    return pa.table(
        {
            "k": rng.integers(0, traces, count),
            "type": pa.array(rng.choice(list("ABCX"), count)),
            "v": rng.integers(0, 3, count),
            "ts": pa.array(ts, pa.timestamp("us")),
        }
    )


def given(book: TraceBook, table: pa.Table, first: int) -> dict[str, list[object]]:
    place = np.arange(first, first + len(table))
    book.take(table, place * 1_000, place, place)
    frontier = (first + len(table)) * 1_000
    found = {
        name: [row for one in made for row in one.table.to_pylist()] for name, made in book.advance(frontier).items()
    }
    for name, query in book.queries.items():
        found.setdefault(name, []).extend(row for one in query.ready() for row in one.table.to_pylist())
    book.purge(frontier)
    return found


def again(blocks: BookBlocks, run: str, tables: dict[str, pa.Table], names: list[str]) -> BookBlocks:
    """The book in a new process, which may lack queries."""
    state, made = blocks.snapshot(run)
    tables |= {name: make() for name, make in made.items() if name not in tables}
    restored = BookBlocks(book_of(names))
    restored.restore(json.loads(json.dumps(state)), tables.__getitem__)
    return restored


@pytest.mark.parametrize("seed", [first_seed(19) + at for at in range(cases(16))])
def test_a_book_that_was_saved_goes_on(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = rng.permutation(list(PATTERNS)).tolist()
    whole, kept, tables, found = book_of(names), BookBlocks(book_of(names)), {}, 0
    first = 0
    for life in range(40):
        table = rows_of(first, int(rng.integers(1, 40)), 5, rng)
        wanted, got = given(whole, table, first), given(kept.book, table, first)
        assert got == wanted
        found += sum(map(len, wanted.values()))
        first += len(table)
        if rng.random() < 0.5:
            restored = again(kept, f"book-{life if rng.random() < 0.3 else 'x'}-{len(tables)}", tables, names)
            assert restored.book.report() == kept.book.report()
            if rng.random() < 0.5:
                kept = restored
    assert found > 20


@pytest.mark.parametrize("gone", PATTERNS)
def test_a_query_that_has_gone_leaves_the_others_as_they_were(gone: str) -> None:
    rng = np.random.default_rng(5)
    names = list(PATTERNS)
    rest = [name for name in names if name != gone]
    one, tables = BookBlocks(book_of(names)), {}
    other = book_of(rest)
    for first in range(0, 300, 30):
        table = rows_of(first, 30, 3, rng)
        given(one.book, table, first)
        given(other, table, first)
    one = again(one, "book", tables, rest)
    assert one.book.report()["events_held"] > 0
    found = 0
    for first in range(300, 600, 30):
        table = rows_of(first, 30, 3, rng)
        wanted = given(other, table, first)
        assert given(one.book, table, first) == wanted
        found += sum(map(len, wanted.values()))
        if first == 420:
            one = again(one, "later", tables, rest)
    assert found > 20


def test_a_snapshot_has_the_links_runs_and_events_that_have_changed() -> None:
    rng = np.random.default_rng(2)
    book = book_of(["keys", "tail"])
    kept, known, sizes = BookBlocks(book), set(), []
    given(book, rows_of(0, 5_000, 4_000, rng), 0)
    for step in range(8):
        _, made = kept.snapshot("book")
        sizes.append(sum(len(make()) for name, make in made.items() if name not in known))
        known |= set(made)
        given(book, rows_of(5_000 + step, 1, 4_000, rng), 5_000 + step)
    assert sizes[0] > 1_000 and sorted(sizes[1:])[3] < 20
