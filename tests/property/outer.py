"""Random outer, semi and anti joins: the join of a random case, with rows kept.

Answer   `random_outer(rng)` is a case with one query that keeps rows; `expected_outer` what the oracle says of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.oracle.aggregation import is_aggregate
from tests.oracle.expressions import Call, Col, Expression, Value, aliases, render
from tests.oracle.outer import kinds, outer_results, tree_results
from tests.property.specs import Case, Last, LastPer, QuerySpec, Range, Reference, Unbounded
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
    kinds = [
        k
        for k in KINDS
        if not (left.window is None and k != "RIGHT") and not (right.window is None and k in ("RIGHT", "FULL"))
    ]
    kind = rng.choice(kinds)
    kept = OuterSpec(spec, kind).kept
    if kind != "EXISTS":
        references = tuple(_ending(rng, r, True) if r in kept else r for r in spec.references)
        spec = replace(spec, references=references)
    outputs = case.outputs(spec)
    if "EXISTS" in kind:
        alias = spec.references[0].alias
        outputs = tuple(
            (f"o{n}", Col(alias, name, kind)) for n, (name, kind) in enumerate(case.source(left.source).columns)
        )
    alone = [c for c in spec.where if len(aliases(c)) == 1 and ("EXISTS" not in kind or aliases(c) == {left.alias})]
    where = [c for c in alone if rng.random() < 0.4]
    spec = replace(spec, outputs=tuple(outputs), where=tuple(c for c in spec.where if c not in where))
    if kind in ("LEFT", "RIGHT", "FULL") and rng.random() < 0.3:
        other = rng.choice(spec.references)
        name, type_ = rng.choice(case.source(other.source).columns)
        where.append(Call(rng.choice(("is_null", "is_not_null")), (Col(other.alias, name, type_),)))
    return OuterSpec(spec, kind, tuple(where), rng.random() < 0.2)


def _ending(rng: Random, reference: Reference, partitions: bool = False) -> Reference:
    """The reference with a window that ends."""
    if isinstance(reference.window, Unbounded) or (isinstance(reference.window, LastPer) and not partitions):
        return replace(reference, window=Range(rng.choice((0, 1, 1_000, SECOND, 3 * SECOND, 8 * SECOND))))
    return reference


def expected_outer(case: Case) -> list[tuple[int, tuple[Value, ...]]]:
    spec: OuterSpec = case.queries[0]  # type: ignore[assignment]
    taken = case.intake(spec)  # type: ignore[arg-type]
    columns = {r.alias: [name for name, _ in case.source(r.source).columns] for r in spec.references}
    end = taken.frontiers[-1]
    return outer_results(
        case.query(spec.join),
        spec.kind,
        spec.where,
        taken.rows,
        case.table_values(),
        columns,
        0 if end is None else end,
        ended=case.final,
    )


@dataclass(frozen=True)
class TreeSpec:
    """Joins of several streams."""

    join: QuerySpec
    #: Per reference after the first: LEFT, RIGHT, FULL or INNER, and ON.
    joins: tuple[tuple[str, tuple[Expression, ...]], ...]
    #: (EXISTS or NOT EXISTS, what it looks at, conditions)
    tests: tuple[tuple[str, Reference, tuple[Expression, ...]], ...] = ()

    @property
    def name(self) -> str:
        return self.join.name

    @property
    def references(self) -> tuple[Reference, ...]:
        return (*self.join.references, *(reference for _, reference, _ in self.tests))

    def statements(self) -> list[str]:
        text = self.join._reference(self.join.references[0])
        for reference, (join, on) in zip(self.join.references[1:], self.joins, strict=True):
            text += f" {join} JOIN {self.join._reference(reference)} ON {' AND '.join(render(c) for c in on) or 'TRUE'}"
        chosen = ", ".join(f"{render(e)} AS {name}" for name, e in self.join.outputs)
        conditions = [render(c) for c in self.join.where]
        for which, reference, on in self.tests:
            inner = " AND ".join(render(c) for c in on) or "TRUE"
            conditions.append(f"{which} (SELECT 1 FROM {self.join._reference(reference)} WHERE {inner})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return [f"CREATE QUERY {self.name} AS SELECT {chosen} FROM {text}{where}"]

    def asking(self, rng: Random, case: Case) -> TreeSpec:
        """The last references as EXISTS, where no other reads them and they read one that every result has."""
        found = self
        while len(found.joins) > 0 and rng.random() < 0.7:
            last, (join, on) = found.join.references[-1], found.joins[-1]
            named = {r.alias: how for r, how in zip(found.join.references[1:], found.joins, strict=True)}
            always = frozenset[str].intersection(*(here for here, _ in kinds(found.join.references[0].alias, named)))
            if join != "LEFT" or not {a for c in on for a in aliases(c)} - {last.alias} <= always:
                break
            root = found.join.references[0]
            outputs = tuple((n, e) for n, e in found.join.outputs if last.alias not in aliases(e))
            outputs = outputs or tuple(
                (name, Col(root.alias, name, kind)) for name, kind in case.source(root.source).columns
            )
            where = tuple(c for c in found.join.where if last.alias not in aliases(c))
            join_left = replace(found.join, references=found.join.references[:-1], outputs=outputs, where=where)
            test = (rng.choice(("EXISTS", "NOT EXISTS")), last, on)
            found = TreeSpec(join_left, found.joins[:-1], (*found.tests, test))
        return found


def random_tree(rng: Random) -> Case:
    while True:
        case = random_case(rng)
        for spec in case.queries:
            streams = all(r.window is not None for r in spec.references)
            if len(spec.references) in (3, 4) and streams and not is_aggregate(case.query(spec)) and not spec.distinct:
                return replace(case, queries=(_tree(rng, case, spec),), scheduler=None, pauses=())  # type: ignore[arg-type]


def _tree(rng: Random, case: Case, spec: QuerySpec) -> TreeSpec:
    rest, joins = list(spec.where), []
    named: dict[str, tuple[str, tuple[Expression, ...]]] = {}
    first = spec.references[0].alias
    for place, reference in enumerate(spec.references[1:], 1):
        before = {r.alias for r in spec.references[:place]}
        always = frozenset[str].intersection(*(here for here, _ in kinds(first, named)))
        join = rng.choice(("LEFT", "LEFT", "RIGHT", "FULL", "INNER"))
        if place + 1 == len(spec.references) and all(j == "INNER" for j, _ in joins) and join == "INNER":
            join = "RIGHT"
        on: list[Expression] = []
        for condition in list(rest):
            read = aliases(condition)
            others = {a for c in on for a in aliases(c)} | read
            # What an alias that may be without a row is compared with does not hold there.
            fits = read - {reference.alias} <= always or _compares(condition, read - always - {reference.alias})
            fits &= join == "INNER" or len(others - {reference.alias}) <= 1
            if reference.alias in read and read <= before | {reference.alias} and fits and rng.random() < 0.9:
                on.append(condition)
                rest.remove(condition)
        if join != "INNER" and not always and not any(aliases(c) - {reference.alias} for c in on):
            join = "INNER"
        joins.append((join, tuple(on)))
        named[reference.alias] = joins[-1]
    anchors = {a for _, on in joins for c in on for a in aliases(c)} | {spec.references[0].alias}
    anchors |= {alias for alias, (join, _) in named.items() if join in ("RIGHT", "FULL")}
    references = tuple(
        replace(r, window=Range(rng.choice((0, 1_000, SECOND, 3 * SECOND))))
        if r.alias in anchors and isinstance(r.window, Last) and rng.random() < 0.4
        else r
        for r in (_ending(rng, r, partitions=True) if r.alias in anchors else r for r in spec.references)
    )
    made = TreeSpec(
        replace(spec, references=references, where=tuple(rest), outputs=tuple(case.outputs(spec))), tuple(joins)
    )
    return made.asking(rng, case) if rng.random() < 0.4 else made


def _compares(condition: Expression, wanted: set[str] | frozenset[str]) -> bool:
    """Whether a condition compares a column of every alias, and so does not hold where one of them has no row."""
    if not isinstance(condition, Call) or condition.function not in ("=", "<", "<=", ">", ">=", "<>"):
        return False
    return wanted <= {x.ref for x in condition.args if isinstance(x, Col)}


def expected_tree(case: Case) -> list[tuple[int, tuple[Value, ...]]]:
    spec: TreeSpec = case.queries[0]  # type: ignore[assignment]
    taken = case.intake(spec)  # type: ignore[arg-type]
    columns = {r.alias: [name for name, _ in case.source(r.source).columns] for r in spec.references}
    joins = {r.alias: join for r, join in zip(spec.join.references[1:], spec.joins, strict=True)}
    return tree_results(case.query(spec.join), joins, taken.rows, columns, spec.tests, ended=case.final)
