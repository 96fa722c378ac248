"""Sharing is never visible: among many queries that come and go, each answers as if it ran alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from tempfile import TemporaryDirectory

import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from tests.oracle.relational import Reference, answer
from tests.property.compare import _answers, _canonical, plain_rows, report
from tests.property.conditions import Place, filter_on, random_domain, some_output
from tests.property.specs import Case, QuerySpec
from tests.property.strategies import SECOND, Source, _flow, _query, _split, _stream, _table, _window

#: Cases per block; a failure names its seed.
BLOCK = 10
BLOCKS = int(os.environ.get("EDDYLINE_ISOLATION_BLOCKS", "4"))
FIRST = int(os.environ.get("EDDYLINE_FIRST_SEED", "0"))


@dataclass(frozen=True)
class Life:
    """A query and the epochs before which it is added and dropped."""

    spec: QuerySpec
    added: int
    dropped: int | None


def random_lives(rng: Random, counts: Sequence[int] = (1, 3, 8, 20, 60)) -> tuple[Case, list[Life]]:
    """Streams, and families of queries that share their joins and differ in filters, windows and outputs."""
    tick = rng.choice((SECOND, SECOND // 4, 1))
    keys = [random_domain(rng, family, 4) for family in rng.choices(("number", "text", "real"), (6, 3, 1), k=2)]
    streams = [_stream(rng, f"s{i}", keys, tick) for i in range(rng.choice((1, 2, 2, 3)))]
    tables = [_table(rng, keys)] if rng.random() < 0.2 else []
    flow = _flow(rng, streams, 26, tick, 0)
    arrivals = _split(rng, flow)
    # One query per stream stays for ever, so that the frontier does not depend on who else is there.
    queries = [QuerySpec(f"all{i}", (Reference("a", s.spec.name, _window(rng, tick, 1)),), ()) for i, s in enumerate(streams)]
    lives = [Life(spec, 0, None) for spec in queries]
    count = rng.choice(counts)
    families: list[tuple[QuerySpec, list[Place]]] = []
    while len(families) < min(count, 5):
        spec = _query(rng, "family", [*streams, *tables], rng.choices((1, 2, 3), (3, 5, 2))[0], tick)
        if not (spec.group_by or spec.distinct or any(_is_aggregate(e) for _, e in spec.outputs)):
            families.append((spec, _places(spec, [*streams, *tables])))
    for number in range(count):
        family, places = rng.choice(families)
        fixed = [r.window is None or rng.random() < 0.4 for r in family.references]
        references = tuple(
            r if kept else replace(r, window=_window(rng, tick, 3)) for r, kept in zip(family.references, fixed, strict=True)
        )
        where = family.where + tuple(filter_on(rng, place) for place in places if rng.random() < 0.4)
        outputs = family.outputs if rng.random() < 0.4 else tuple((f"c{i}", some_output(rng, places)) for i in range(rng.randint(1, 3)))
        added = 0 if rng.random() < 0.4 else rng.randint(0, len(arrivals))
        dropped = None if rng.random() < 0.5 else rng.randint(added, len(arrivals))
        spec = replace(family, name=f"q{number}", references=references, where=tuple(dict.fromkeys(where)), outputs=outputs)
        lives.append(Life(spec, added, dropped))
    case = Case(tuple(s.spec for s in streams), tuple(life.spec for life in lives), arrivals, tuple(t.spec for t in tables))
    return case, lives


def _is_aggregate(expression: object) -> bool:
    return "Agg(" in repr(expression)


def _places(spec: QuerySpec, sources: Sequence[Source]) -> list[Place]:
    by_name = {s.spec.name: s for s in sources}
    return [by_name[r.source].place(r.alias) for r in spec.references]


def check_lives(case: Case, lives: Sequence[Life], route: str) -> None:
    handles = {}
    with TemporaryDirectory() as directory, Session() as session:
        for table in case.tables:
            parquet.write_table(case.arrow_rows(table.name, table.rows), f"{directory}/{table.name}.parquet")
        for statement in [*(s.statement() for s in case.streams), *(t.statement(directory) for t in case.tables)]:
            session.execute(statement)
        for number, epoch in enumerate([*case.epochs(), {}]):
            for life in lives:
                if life.added == number:
                    options = {"plan": life.spec.plan, "probe": life.spec.probe, "route": route}
                    handles[life.spec.name] = session.query(life.spec.name, life.spec.select(), **options)
                if life.dropped == number:
                    session.drop(life.spec.name)
            for stream, rows in epoch.items():
                session.push(stream, case.arrow_rows(stream, rows))
            session.step()
        session.run(once=True)
        results = {name: plain_rows(handle.results()) for name, handle in handles.items()}
    taken = case.intake()
    found = []
    for life in lives:
        query, handle = case.query(life.spec), handles[life.spec.name]
        rows = [_canonical([row[name] for name in (*(n for n, _ in query.outputs), "_ts")]) for row in results[life.spec.name]]
        gone_unseen = life.dropped is not None and handle.stop is None
        right = [] if gone_unseen else answer(query, taken.rows, case.table_values(), start=handle.start, stop=handle.stop)
        expected = [(r.newest, _canonical([*r.values, r.ts])) for r in right]
        wrong = _answers(life.spec.name, expected, rows)
        if wrong:
            found += [*wrong, f"  added before epoch {life.added}, dropped before {life.dropped}: {handle.start} to {handle.stop}"]
    assert not found, f"route {route}\n" + report(case, found)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_each_query_answers_as_if_it_ran_alone(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case, lives = random_lives(Random(seed))
        for route in ("fixed", "lottery"):
            try:
                check_lives(case, lives, route)
            except Exception as problem:
                raise AssertionError(f"random_lives(Random({seed})), route {route}\n{problem}") from problem


@pytest.mark.parametrize("window", ["RANGE 100 SECONDS", "ROWS 9", "UNBOUNDED"])
def test_a_longer_window_that_has_gone_keeps_nothing_alive(window: str) -> None:
    """Partial results are stored with the longest window of all queries; a query that stays must not see them longer than its own."""
    with Session() as session:
        session.execute("CREATE STREAM s (k BIGINT, kind STRING, ts TIMESTAMP) WITH (time='ts')")
        text = "SELECT a.k FROM s [{0}] a, s [{0}] b, s [{0}] c WHERE a.k = b.k AND b.k = c.k"
        text += " AND a.kind = 'a' AND b.kind = 'b' AND c.kind = 'c'"
        short = session.query("short", text.format("RANGE 5 SECONDS"), plan="((b c) a)")
        session.query("long", text.format(window), plan="((b c) a)")
        session.push("s", [(1, "b", 10_000_000), (1, "c", 10_000_000)])
        session.step()
        session.push("s", [(2, "d", 12_000_000)])
        session.drop("long")
        session.step()
        assert "long" not in session.pipeline.queries
        session.push("s", [(1, "a", 16_000_000), (2, "d", 17_000_000)])
        session.run(once=True)
        assert short.table().num_rows == 0
