"""Random outer, semi and anti joins: the join of a random case, with rows kept.

Answer   `random_outer(rng)` is a case with one query that keeps rows; `expected_outer` what the oracle says of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.oracle.aggregation import is_aggregate
from tests.oracle.expressions import Call, Col, Expression, Value, aliases, render
from tests.oracle.outer import outer_results
from tests.property.specs import Case, LastPer, QuerySpec, Range, Reference, Unbounded
from tests.property.strategies import random_case

SECOND = 1_000_000
KINDS = ("LEFT", "RIGHT", "FULL", "EXISTS", "NOT EXISTS")


@dataclass(frozen=True)
class OuterSpec:
    """Stands in a `Case` where a `QuerySpec` would. The conditions of `join` are ON, or stand in EXISTS."""

    join: QuerySpec
    kind: str
    where: tuple[Expression, ...] = ()
    #: FROM takes the sources as they are, or as subqueries.
    nested: bool = False

    @property
    def name(self) -> str:
        return self.join.name

    @property
    def references(self) -> tuple[Reference, ...]:
        return self.join.references

    @property
    def kept(self) -> tuple[Reference, ...]:
        left, right = self.references
        return {"LEFT": (left,), "RIGHT": (right,), "FULL": (left, right)}.get(self.kind, (left,))

    def select(self) -> str:
        left, right = (self.join._reference(r) for r in self.references)
        chosen = ", ".join(f"{render(e)} AS {name}" for name, e in self.join.outputs)
        on = " AND ".join(render(c) for c in self.join.where) or "TRUE"
        rest = [render(c) for c in self.where]
        if self.kind in ("EXISTS", "NOT EXISTS"):
            rest.insert(len(rest) // 2, f"{self.kind} (SELECT 1 FROM {right} WHERE {on})")
            text = f"SELECT {chosen} FROM {left}"
        else:
            text = f"SELECT {chosen} FROM {left} {self.kind} JOIN {right} ON {on}"
        return text + (f" WHERE {' AND '.join(rest)}" if rest else "")

    def statements(self) -> list[str]:
        text = f"SELECT * FROM ({self.select()}) x" if self.nested else self.select()
        return [f"CREATE QUERY {self.name} WITH (probe = '{self.join.probe}') AS {text}"]


def random_outer(rng: Random) -> Case:
    while True:
        case = random_case(rng)
        for spec in case.queries:
            if len(spec.references) == 2 and not is_aggregate(case.query(spec)) and not spec.distinct:
                return replace(case, queries=(_outer(rng, case, spec),), scheduler=None)  # type: ignore[arg-type]


def _outer(rng: Random, case: Case, spec: QuerySpec) -> OuterSpec:
    left, right = spec.references
    kinds = [k for k in KINDS if not (left.window is None and k != "RIGHT") and not (right.window is None and k in ("RIGHT", "FULL"))]
    kind = rng.choice(kinds)
    kept = OuterSpec(spec, kind).kept
    if kind != "EXISTS":
        references = tuple(_ending(rng, r) if r in kept else r for r in spec.references)
        spec = replace(spec, references=references)
    outputs = case.outputs(spec)
    if "EXISTS" in kind:
        alias = spec.references[0].alias
        outputs = tuple((f"o{n}", Col(alias, name, kind)) for n, (name, kind) in enumerate(case.source(left.source).columns))
    alone = [c for c in spec.where if len(aliases(c)) == 1 and ("EXISTS" not in kind or aliases(c) == {left.alias})]
    where = [c for c in alone if rng.random() < 0.4]
    spec = replace(spec, outputs=tuple(outputs), where=tuple(c for c in spec.where if c not in where))
    if kind in ("LEFT", "RIGHT", "FULL") and rng.random() < 0.3:
        other = rng.choice(spec.references)
        name, type_ = rng.choice(case.source(other.source).columns)
        where.append(Call(rng.choice(("is_null", "is_not_null")), (Col(other.alias, name, type_),)))
    return OuterSpec(spec, kind, tuple(where), rng.random() < 0.2)


def _ending(rng: Random, reference: Reference) -> Reference:
    """The reference with a window that ends."""
    if isinstance(reference.window, Unbounded | LastPer):
        return replace(reference, window=Range(rng.choice((0, 1, 1_000, SECOND, 3 * SECOND, 8 * SECOND))))
    return reference


def expected_outer(case: Case) -> list[tuple[int, tuple[Value, ...]]]:
    spec: OuterSpec = case.queries[0]  # type: ignore[assignment]
    taken = case.intake(spec)  # type: ignore[arg-type]
    columns = {r.alias: [name for name, _ in case.source(r.source).columns] for r in spec.references}
    end = taken.frontiers[-1]
    return outer_results(case.query(spec.join), spec.kind, spec.where, taken.rows, case.table_values(), columns, 0 if end is None else end)
