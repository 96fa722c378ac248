"""Outer joins, EXISTS and trees of them over streams with punctuations, which make rows certain before their windows end."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.oracle.expressions import Call, Col, Expression, Lit, render
from tests.oracle.intake import Row
from tests.oracle.outer import Closing, closed_at, kinds, tree_results
from tests.oracle.relational import Last, LastPer, Now, Query, Range, Reference, Unbounded, Window
from tests.property.embedded import run_embedded
from tests.property.specs import Case, StreamSpec
from tests.property.test_aggregates import Blocks, restarted
from tests.property.texts import TextQuery
from tests.seeds import first_seed
from tests.spark.sharded import run_sharded

BLOCK = 20
BLOCKS = 4
FIRST = first_seed(1_960_000)
SECOND = 1_000_000
COLUMNS = (("k", "INT"), ("j", "INT"), ("done", "BOOLEAN"), ("ts", "TIMESTAMP"))
WINDOWS: dict[str, Window] = {
    "": Unbounded(),
    " [RANGE 3 SECONDS]": Range(3 * SECOND),
    " [RANGE 8 SECONDS]": Range(8 * SECOND),
    " [ROWS 2]": Last(2),
    " [PARTITION BY k ROWS 2]": LastPer(("k",), 2),
    " [NOW]": Now(),
}
On = tuple[Expression, ...]
Made = tuple[str, tuple[tuple[int | None, int | None, bool | None, int], ...]]


def drawn(rng: Random, punctuated: set[str]) -> tuple[list[tuple[str, int, int | None, bool, int]], int]:
    """Rows of all streams as they come, and the time of the newest: a marked one is a punctuation."""
    found, over, now = [], {s: set[int]() for s in "abc"}, 0
    for _ in range(rng.randint(4, 32)):
        now += rng.choice((0, 1, 1, 2)) * SECOND
        stream, k = rng.choice("abc"), rng.randint(0, 3)
        if k in over[stream]:
            continue
        done = stream in punctuated and rng.random() < 0.4
        over[stream] |= {k} if done else set()
        found.append((stream, k, None if done else rng.randint(0, 2), done, now))
    return found, now


def random_on(rng: Random, alias: str, before: list[str]) -> On:
    other = rng.choice(before)
    column = rng.choice("kkkj")
    found: list[Expression] = [Call("=", (Col(alias, column, "INT"), Col(other, column, "INT")))]
    if rng.random() < 0.3:
        found.append(Call(">", (Col(alias, "j", "INT"), Lit(0, "INT"))))
    return tuple(found)


def random_joins(rng: Random, punctuated: set[str]) -> tuple[Query, dict[str, tuple[str, On]], list[tuple[str, Reference, On]], str]:
    """Joins whose rows are certain at some time: the query, how it is joined, its tests and its text."""
    while True:
        names = ["a", "b", "c"][: rng.choice((2, 3, 3))]
        windows = {alias: rng.choice(list(WINDOWS)) for alias in (*names, "e")}
        references = {alias: Reference(alias, "b" if alias == "e" else alias, WINDOWS[windows[alias]]) for alias in windows}
        joins = {a: (rng.choice(("LEFT", "RIGHT", "FULL", "INNER")), random_on(rng, a, names[:at])) for at, a in enumerate(names) if at}
        tests = [(rng.choice(("EXISTS", "NOT EXISTS")), references["e"], random_on(rng, "e", ["a"]))] if rng.random() < 0.3 else []
        made = kinds("a", joins)
        always = frozenset[str].intersection(*(here for here, _ in made))
        lacks = {lack for _, lacks in made for lack in lacks} | {("a", frozenset("e"), on) for _, _, on in tests}
        if not lacks or (tests and "a" not in always):
            continue
        sources = {alias: r.source for alias, r in references.items()}
        closable = [(s, "k", 1, 0) for s in punctuated]
        probe = Row("", {"k": 1, "j": 1}, 0, 0, 0, 0)
        if any(
            isinstance(references[about].window, Unbounded) and closed_at((about, others, on), sources, probe, closable) is None
            for about, others, on in lacks
        ):
            continue
        outputs = tuple((f"{alias}_{column}", Col(alias, column, "INT")) for alias in names for column in "kj")
        text = f"SELECT {', '.join(f'{render(e)} AS {name}' for name, e in outputs)} FROM a{windows['a']}"
        for alias, (join, on) in joins.items():
            text += f" {join} JOIN {alias}{windows[alias]} ON {' AND '.join(map(render, on))}"
        where = [f"{which} (SELECT 1 FROM b{windows['e']} e WHERE {' AND '.join(map(render, on))})" for which, _, on in tests]
        text += f" WHERE {' AND '.join(where)}" if where else ""
        return Query(tuple(references[a] for a in names), (), outputs), joins, tests, text


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_punctuations_make_rows_certain(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        rng = Random(seed)
        punctuated = {s for s in "abc" if rng.random() < 0.8}
        came, newest = drawn(rng, punctuated)
        query, joins, tests, text = random_joins(rng, punctuated)
        order = sorted((ts, "abc".index(s), at) for at, (s, _, _, done, ts) in enumerate(came) if not done)
        rows = [Row(came[at][0], {"k": came[at][1], "j": came[at][2]}, ts, n, 0, 0) for n, (ts, _, at) in enumerate(order)]
        closings: list[Closing] = [(s, "k", k, ts) for s, k, _, done, ts in came if done]
        expected = Counter((ts, *values) for ts, values in tree_results(query, joins, rows, dict.fromkeys("abc", "kj"), tests, closings))
        cuts = sorted(rng.randint(0, newest) for _ in range(rng.randint(0, 4)))
        epochs: list[tuple[Made, ...]] = []
        for low, high in zip([-1, *cuts], [*cuts, newest], strict=True):
            part = [row for row in came if low < row[4] <= high]
            epochs.append(tuple((s, tuple((k, j, done, ts) for t, k, j, done, ts in part if t == s)) for s in "abc"))
        streams = tuple(StreamSpec(s, COLUMNS, punctuation="done" if s in punctuated else None) for s in "abc")
        case = Case(streams, (TextQuery("q", text),), tuple(epochs))  # type: ignore[arg-type]
        blocks = Blocks()
        between = (lambda session: restarted(session, blocks)) if rng.random() < 0.4 else None  # noqa: B023
        outcomes = [run_embedded(case, between)]
        outcomes += [run_sharded(case, rng.choice((1, 3)), seed)] if rng.random() < 0.3 else []
        for outcome in outcomes:
            found = Counter((row["_ts"], *(v for name, v in row.items() if name != "_ts")) for row in outcome.results["q"])
            assert found == expected, f"{seed}: {text}\nmissing {expected - found}\nextra {found - expected}\n{came}"
            stamps = [row["_ts"] for row in outcome.results["q"]]
            assert stamps == sorted(stamps)
