"""Nested data in random cases: the same rows and queries, with some columns inside of STRUCTs and ARRAYs.

Answer   `inside` moves columns of streams into a STRUCT `n` and into ARRAYs; `unnested` makes one row of neighbours of
         equal time, with an array of what they were, and queries UNNEST it. Both have the answers of the case that they
         are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa

from tests.oracle.expressions import Agg, Call, Col, Expression
from tests.oracle.relational import Range, Reference, Unbounded
from tests.property.specs import Case, QuerySpec, Row, StreamSpec

PLAIN = ("INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN")


@dataclass(frozen=True)
class NestedCase(Case):
    """What the engine gets; `plain` is the case whose answers it has."""

    plain: Case | None = None
    #: Per stream its columns that are in `n`, and those that are arrays.
    within: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    unnests: bool = False

    def statements(self, directory: str = ".") -> list[str]:
        assert self.plain is not None
        out = [] if self.scheduler is None else [f"SET scheduler = '{self.scheduler}'"]
        out += [
            f"CREATE STREAM {s.name} ({self._columns(s)}) WITH {s.statement().split(' WITH ', 1)[1]}"
            for s in self.plain.streams
        ]
        out += [t.statement(directory) for t in self.tables]
        return out + [statement for q in self.queries for statement in q.statements()]

    def _columns(self, stream: StreamSpec) -> str:
        return ", ".join(f"{field.name} {_sql(field.type)}" for field in self.arrow_rows(stream.name, ()).schema)

    def arrow_rows(self, source: str, rows: Any) -> pa.Table:
        assert self.plain is not None
        table = self.plain.arrow_rows(source, rows)
        stream = next((s for s in self.plain.streams if s.name == source), None)
        if stream is None:
            return table
        return self._grouped(stream, table) if self.unnests else self._moved(source, table)

    def _moved(self, source: str, table: pa.Table) -> pa.Table:
        _, held, lists = next(found for found in self.within if found[0] == source)
        for name in lists:
            values = table.column(name).to_pylist()
            array = pa.array([[value, value] for value in values], pa.list_(table.schema.field(name).type))
            table = table.set_column(table.column_names.index(name), f"w_{name}", array)
        if held:
            kept = table.select(held)
            struct = pa.array(kept.to_pylist(), pa.struct(list(kept.schema)))
            table = table.drop_columns(list(held)).append_column("n", struct)
        return table

    def _grouped(self, stream: StreamSpec, table: pa.Table) -> pa.Table:
        rest = [name for name in table.column_names if name != stream.time]
        kind = pa.struct([table.schema.field(name) for name in rest])
        runs = [(at, list(found)) for at, found in groupby(table.to_pylist(), key=lambda row: row[stream.time])]
        times = pa.array([at for at, _ in runs], pa.timestamp("us"))
        lists = pa.array([[{name: row[name] for name in rest} for row in found] for _, found in runs], pa.list_(kind))
        return pa.table({"u": lists, stream.time: times})


def inside(rng: Random, case: Case) -> NestedCase:
    """The case with some columns in a STRUCT and some as ARRAYs."""
    within = []
    # Windows name columns, not parts of them.
    named = {(r.source, name) for q in case.queries for r in q.references for name in getattr(r.window, "columns", ())}
    for stream in case.streams:
        free = [name for name, kind in stream.columns if kind in PLAIN and name not in (stream.time, stream.sequence)]
        free = [name for name in free if (stream.name, name) not in named]
        held = tuple(name for name in free if rng.random() < 0.5)
        lists = tuple(name for name in free if name not in held and rng.random() < 0.5)
        within.append((stream.name, held, lists))
    places = {name: {**{c: f"n.{c}" for c in held}, **{c: f"w_{c}[1]" for c in lists}} for name, held, lists in within}
    queries = tuple(
        _renamed(case, q, lambda ref, name: places.get(ref.source, {}).get(name, name)) for q in case.queries
    )
    return _made(case, queries, within=tuple(within))


def unnested(case: Case) -> NestedCase | None:
    """The case with an UNNEST for every stream; None: windows of rows need rows as they are."""
    if any(not isinstance(r.window, Range | Unbounded | type(None)) for q in case.queries for r in q.references):
        return None
    if any(kind not in (*PLAIN, "TIMESTAMP") for s in case.streams for _, kind in s.columns) or any(
        s.sequence for s in case.streams
    ):
        return None
    times = {s.name: s.time for s in case.streams}
    made = []
    for query in case.queries:
        found = _renamed(
            case, query, lambda ref, name: name if times.get(ref.source, name) == name else f"u_{ref.alias}.{name}"
        )
        made.append(
            _Unnesting(**{field.name: getattr(found, field.name) for field in fields(QuerySpec)}, streams=tuple(times))
        )
    return _made(case, tuple(made), unnests=True)


@dataclass(frozen=True)
class _Unnesting(QuerySpec):
    streams: tuple[str, ...] = ()

    def _reference(self, reference: Reference) -> str:
        text = super()._reference(reference)
        return (
            f"{text}, UNNEST({reference.alias}.u) AS u_{reference.alias}" if reference.source in self.streams else text
        )

    def select(self) -> str:
        # The names of elements stand for themselves: the alias of their stream is not before them.
        text = super().select()
        for reference in self.references:
            text = text.replace(f"{reference.alias}.u_{reference.alias}.", f"u_{reference.alias}.")
        return text


def _made(case: Case, queries: tuple[QuerySpec, ...], **more: Any) -> NestedCase:
    plain = {field.name: getattr(case, field.name) for field in fields(Case)}
    return NestedCase(**{**plain, "queries": queries}, plain=case, **more)


def _renamed(case: Case, query: QuerySpec, name_of: Callable[[Reference, str], str]) -> QuerySpec:
    references = {r.alias: r for r in query.references}

    def within(e: Expression) -> Expression:
        if isinstance(e, Col):
            return replace(e, name=name_of(references[e.ref], e.name))
        if isinstance(e, Agg):
            arg, by = (None if part is None else within(part) for part in (e.arg, e.by))
            return replace(e, arg=arg, by=by)
        return Call(e.function, tuple(within(a) for a in e.args)) if isinstance(e, Call) else e

    return replace(
        query,
        where=tuple(within(e) for e in query.where),
        outputs=tuple((name, within(e)) for name, e in case.outputs(query)),
        group_by=tuple(within(e) for e in query.group_by),
        having=None if query.having is None else within(query.having),
        joins_written=False,
    )


def _sql(kind: pa.DataType) -> str:
    names: Mapping[Any, str] = {
        pa.int32(): "INT",
        pa.int64(): "BIGINT",
        pa.float64(): "DOUBLE",
        pa.string(): "STRING",
        pa.bool_(): "BOOLEAN",
        pa.timestamp("us"): "TIMESTAMP",
        pa.date32(): "DATE",
    }
    if pa.types.is_list(kind):
        return f"{_sql(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{field.name} {_sql(field.type)}' for field in kind)})"
    return f"DECIMAL({kind.precision}, {kind.scale})" if pa.types.is_decimal(kind) else names[kind]


__all__ = ["NestedCase", "Row", "inside", "unnested"]
