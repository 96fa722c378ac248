"""Random aggregates over outer joins of live rows.

Answer   `random_live(rng)` is a case with one such query; `live_tables` what the oracle says of it, by instant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.oracle.aggregation import Table, aggregate, instants, is_aggregate
from tests.oracle.expressions import Agg, Col, Expression, aliases, render
from tests.oracle.outer import live_outer
from tests.oracle.relational import Emit, Query, Reference
from tests.property.outer import SECOND, TreeSpec, _tree
from tests.property.specs import Case, Last, LastPer, Range, Unbounded, span
from tests.property.strategies import random_case


@dataclass(frozen=True)
class LiveSpec:
    """Stands in a `Case` where a `QuerySpec` would: the joins of a tree, under groups."""

    tree: TreeSpec
    group_by: tuple[Expression, ...]
    emit: Emit

    @property
    def name(self) -> str:
        return self.tree.name

    @property
    def references(self) -> tuple[Reference, ...]:
        return self.tree.references

    def statements(self) -> list[str]:
        (text,) = self.tree.statements()
        text += f" GROUP BY {', '.join(render(e) for e in self.group_by)}" if self.group_by else ""
        return [text + (f" EMIT EVERY {span(self.emit.period)}" if self.emit.kind == "every" else "")]


def random_live(rng: Random) -> Case:
    while True:
        case = random_case(rng)
        for spec in case.queries:
            first = spec.references[0]
            if (
                2 <= len(spec.references) <= 3
                and first.window is not None
                and not is_aggregate(case.query(spec))
                and not spec.distinct
            ):
                return replace(case, queries=(_live(rng, case, _tree(rng, case, spec)),), scheduler=None, pauses=())  # type: ignore[arg-type]


def _live(rng: Random, case: Case, tree: TreeSpec) -> LiveSpec:
    tables = {r.alias for r in tree.join.references if r.window is None}
    # Rows of tables are not kept, and none asks about them.
    joins = tuple(
        (
            "LEFT" if r.alias in tables and join in ("RIGHT", "FULL") else join,
            tuple(c for c in on if not aliases(c) & (tables - {r.alias})),
        )
        for r, (join, on) in zip(tree.join.references[1:], tree.joins, strict=True)
    )
    tests = tuple(
        (which, r, tuple(c for c in on if not aliases(c) & (tables - {r.alias}))) for which, r, on in tree.tests
    )
    windows = {r.alias: _window(rng, case, r) for r in tree.references}
    references = tuple(windows[r.alias] for r in tree.join.references)
    columns = [Col(r.alias, name, kind) for r in references for name, kind in case.source(r.source).columns]
    numbers = [c for c in columns if c.type in ("INT", "BIGINT", "DOUBLE")] or columns
    group_by = tuple(rng.sample(columns, rng.choice((0, 1, 1, 2)) if len(columns) > 1 else 1))
    measured = rng.choice(columns)
    outputs: list[tuple[str, Expression]] = [(f"g{n}", e) for n, e in enumerate(group_by)]
    outputs += [
        ("n", Agg("COUNT", None)),
        ("m", Agg("COUNT", measured)),
        ("s", Agg(rng.choice(("MIN", "MAX")), rng.choice(numbers))),
    ]
    if rng.random() < 0.3:
        outputs.append(("d", Agg("COUNT", rng.choice(columns), distinct=True)))
    join = replace(tree.join, references=references, outputs=tuple(outputs))
    emit = Emit("every", SECOND * rng.choice((1, 2, 5))) if rng.random() < 0.5 else Emit()
    return LiveSpec(TreeSpec(join, joins, tuple((w, windows[r.alias], on) for w, r, on in tests)), group_by, emit)


def _window(rng: Random, case: Case, reference: Reference) -> Reference:
    """Any window but NOW."""
    if reference.window is None:
        return reference
    names = [name for name, kind in case.source(reference.source).columns if kind != "DOUBLE"]
    window = rng.choices(
        (
            Range(SECOND * rng.choice((0, 1, 2, 5, 9))),
            Last(rng.choice((1, 2, 5))),
            LastPer((rng.choice(names),), rng.choice((1, 2))),
            Unbounded(),
        ),
        (6, 2, 2, 1),
    )[0]
    return replace(reference, window=window)


def live_query(spec: LiveSpec) -> Query:
    join = spec.tree.join
    return Query(join.references, join.where, join.outputs, spec.group_by, None, False, spec.emit)


def live_tables(case: Case) -> dict[int, Table]:
    """The aggregate at each instant of emission."""
    spec: LiveSpec = case.queries[0]  # type: ignore[assignment]
    taken = case.intake(spec)  # type: ignore[arg-type]
    return {
        now: live_table(case, spec, now)
        for now in instants(Query(spec.references, (), (), emit=spec.emit), taken.rows, taken.frontiers, taken.end)
    }


def live_table(case: Case, spec: LiveSpec, now: int) -> Table:
    taken, query = case.intake(spec), live_query(spec)  # type: ignore[arg-type]
    columns = {r.alias: [name for name, _ in case.source(r.source).columns] for r in spec.references}
    joins = {r.alias: join for r, join in zip(spec.tree.join.references[1:], spec.tree.joins, strict=True)}
    found = live_outer(query, joins, taken.rows, case.table_values(), columns, spec.tree.tests, now)
    return aggregate(query, found)
