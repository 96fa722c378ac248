"""Random sets of queries that come and go: streams, and families of queries that share what they can.

Answer   `random_lives` gives a case and the epochs before which each of its queries is added and dropped; `lived` plays
         it in the embedded engine.
Limits   One query per stream stays for ever, so that the frontier does not depend on the other queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import pyarrow.parquet as parquet

from eddyline import Session
from eddyline.settings import Settings
from tests.memory import folder_of_a_case
from tests.oracle.intake import Values
from tests.oracle.relational import Reference
from tests.property.compare import plain_rows
from tests.property.conditions import Place, filter_on, random_domain, some_output
from tests.property.specs import Case, QuerySpec
from tests.property.strategies import SECOND, Source, _flow, _query, _split, _stream, _table, _window

#: How many queries there are, beside those that stay.
COUNTS = (1, 3, 8, 20, 60)

Instants = tuple[int | None, int | None]


@dataclass(frozen=True)
class Life:
    """A query and the epochs before which it is added and dropped."""

    spec: QuerySpec
    added: int
    dropped: int | None


def random_lives(rng: Random, counts: Sequence[int] = COUNTS, aggregates: bool = False) -> tuple[Case, list[Life]]:
    """Families differ in what they join (the same streams or others); members of one in filters, windows and
    outputs."""
    tick = rng.choice((SECOND, SECOND // 4, 1))
    keys = [random_domain(rng, family, 4) for family in rng.choices(("number", "text", "real"), (6, 3, 1), k=2)]
    streams = [_stream(rng, f"s{i}", keys, tick) for i in range(rng.choice((1, 2, 2, 3)))]
    tables = [_table(rng, keys)] if rng.random() < 0.2 else []
    flow = _flow(rng, streams, 26, tick, 0)
    arrivals = _split(rng, flow)
    queries = [
        QuerySpec(f"all{i}", (Reference("a", s.spec.name, _window(rng, tick, 1)),), ()) for i, s in enumerate(streams)
    ]
    lives = [Life(spec, 0, None) for spec in queries]
    count = rng.choice(counts)
    families: list[tuple[QuerySpec, list[Place]]] = []
    while len(families) < min(count, 5):
        spec = _query(rng, "family", [*streams, *tables], rng.choices((1, 2, 3), (3, 5, 2))[0], tick)
        if aggregates or not is_aggregate_spec(spec):
            families.append((spec, _places(spec, [*streams, *tables])))
    for number in range(count):
        family, places = rng.choice(families)
        # The windows of EMIT ON CLOSE stay: in a join the bucket of a reference closes only with RANGE.
        fixed = [r.window is None or family.emit.kind == "close" or rng.random() < 0.4 for r in family.references]
        references = tuple(
            r if kept else replace(r, window=_window(rng, tick, 3))
            for r, kept in zip(family.references, fixed, strict=True)
        )
        where = family.where + tuple(filter_on(rng, place) for place in places if rng.random() < 0.4)
        outputs = family.outputs
        if rng.random() < 0.6 and not is_aggregate_spec(family):
            outputs = tuple((f"c{i}", some_output(rng, places)) for i in range(rng.randint(1, 3)))
        added = 0 if rng.random() < 0.4 else rng.randint(0, len(arrivals))
        dropped = None if rng.random() < 0.5 else rng.randint(added, len(arrivals))
        spec = replace(
            family, name=f"q{number}", references=references, where=tuple(dict.fromkeys(where)), outputs=outputs
        )
        lives.append(Life(spec, added, dropped))
    case = Case(
        tuple(s.spec for s in streams), tuple(life.spec for life in lives), arrivals, tuple(t.spec for t in tables)
    )
    return case, lives


def is_aggregate_spec(spec: QuerySpec) -> bool:
    return bool(spec.group_by or spec.distinct or any("Agg(" in repr(e) for _, e in spec.outputs))


def _places(spec: QuerySpec, sources: Sequence[Source]) -> list[Place]:
    by_name = {s.spec.name: s for s in sources}
    return [by_name[r.source].place(r.alias) for r in spec.references]


def lived(
    case: Case, lives: Sequence[Life], base: Settings | None = None, staying: Sequence[str] = (), **options: str
) -> tuple[dict[str, list[Values]], dict[str, Instants]]:
    """Results of all queries that come and go, and their starts and stops; `staying` are statements of queries that
    only stay."""
    handles = {}
    with folder_of_a_case() as directory, Session(base) as session:
        for table in case.tables:
            parquet.write_table(case.arrow_rows(table.name, table.rows), f"{directory}/{table.name}.parquet")
        for statement in [
            *(s.statement() for s in case.streams),
            *(t.statement(directory) for t in case.tables),
            *staying,
        ]:
            session.execute(statement)
        for number, epoch in enumerate([*case.epochs(), {}]):
            for life in lives:
                if life.added == number:
                    wishes = {"plan": life.spec.plan, "probe": life.spec.probe, **options}
                    handles[life.spec.name] = session.query(life.spec.name, life.spec.select(), **wishes)
                if life.dropped == number:
                    session.drop(life.spec.name)
            for stream, rows in epoch.items():
                session.push(stream, case.arrow_rows(stream, rows))
            session.step()
        session.run(once=True, final=False)
        results = {name: plain_rows(handle.results()) for name, handle in handles.items()}
        return results, {name: (handle.start, handle.stop) for name, handle in handles.items()}
