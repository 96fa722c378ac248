"""A random case as plain data: streams, tables, queries, and rows in epochs.

Answer   `Case.statements()` renders it to eddyline SQL, `Case.tables_as_arrow()` and `arrow_rows` to Arrow;
         `expected(case)` evaluates it with the oracle. A case's `repr` is Python: `from tests.property.specs import *`
         and paste it.
Limits   Every epoch of a case is one step; the run then closes with an epoch without rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa

from tests.oracle.aggregation import Table, closed_groups, instants, is_aggregate, table_at
from tests.oracle.expressions import Agg, Call, Col, Expression, Lit, Value, aliases, render, span
from tests.oracle.intake import Epoch, Intake, Stream, Values, dead_letters, intake
from tests.oracle.relational import (
    ON_CHANGE,
    Emit,
    Last,
    LastPer,
    Now,
    Query,
    Range,
    Reference,
    Result,
    Unbounded,
    Window,
    answer,
)

nan = math.nan
inf = math.inf

ARROW = {
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DECIMAL(10, 2)": pa.decimal128(10, 2),
    "DECIMAL(18, 4)": pa.decimal128(18, 4),
    **{f"DECIMAL(38, {scale})": pa.decimal128(38, scale) for scale in (0, 4, 38)},
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}

Row = tuple[Value, ...]
#: How long a stream says nothing before it is idle; a pause is longer.
IDLE_SECONDS = 3_600


@dataclass(frozen=True)
class StreamSpec:
    name: str
    #: (name, type) in order; one of them is the event time.
    columns: tuple[tuple[str, str], ...]
    time: str = "ts"
    lateness: int = 0
    sequence: str | None = None
    #: Whether it is left out of the frontier after a pause.
    idle: bool = False
    #: The column that marks punctuations.
    punctuation: str | None = None

    def statement(self) -> str:
        options = [f"time='{self.time}'", "format='memory'"]
        if self.lateness:
            options.append(f"lateness='{span(self.lateness).lower()}'")
        if self.sequence:
            options.append(f"sequence='{self.sequence}'")
        if self.punctuation:
            options.append(f"punctuation='{self.punctuation}'")
        if self.idle:
            # No test lasts so long: only pauses make a stream idle.
            options.append(f"idle='{IDLE_SECONDS} seconds'")
        return f"CREATE STREAM {self.name} ({_columns(self.columns)}) WITH ({', '.join(options)})"


@dataclass(frozen=True)
class TableSpec:
    name: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    #: (number of an epoch, rows): what the table is when that epoch begins, if it changes.
    changes: tuple[tuple[int, tuple[Row, ...]], ...] = ()

    def statement(self, directory: str) -> str:
        refresh = ", refresh='1 hour'" if self.changes else ""
        options = f"format='parquet', path='{directory}/{self.name}.parquet'{refresh}"
        return f"CREATE TABLE {self.name} ({_columns(self.columns)}) WITH ({options})"

    def rows_at(self, epoch: int) -> tuple[Row, ...]:
        """The rows when an epoch begins."""
        return next((rows for first, rows in reversed(self.changes) if first <= epoch), self.rows)


@dataclass(frozen=True)
class QuerySpec:
    name: str
    references: tuple[Reference, ...]
    where: tuple[Expression, ...]
    #: Empty: SELECT *.
    outputs: tuple[tuple[str, Expression], ...] = ()
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    distinct: bool = False
    emit: Emit = ON_CHANGE
    #: auto, mjoin, bjtree or a tree over the aliases of streams.
    plan: str = "auto"
    probe: str = "hash"
    #: How it is written: JOIN … ON rather than commas; the window after the alias; settings by SET rather than WITH.
    joins_written: bool = False
    window_last: bool = False
    by_set: bool = False

    def select(self) -> str:
        chosen = ", ".join(f"{render(e)} AS {name}" for name, e in self.outputs) or "*"
        source, rest = self._from()
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{chosen} FROM {source}"
        if rest:
            text += " WHERE " + " AND ".join(render(c) for c in rest)
        if self.group_by:
            text += " GROUP BY " + ", ".join(render(e) for e in self.group_by)
        if self.having is not None:
            text += " HAVING " + render(self.having)
        if self.emit.kind != "change":
            text += " EMIT ON CLOSE" if self.emit.kind == "close" else f" EMIT EVERY {span(self.emit.period)}"
        return text

    def statements(self) -> list[str]:
        if self.by_set:
            return [
                f"SET plan = '{self.plan}'",
                f"SET probe = '{self.probe}'",
                f"CREATE QUERY {self.name} AS {self.select()}",
            ]
        return [f"CREATE QUERY {self.name} WITH (plan = '{self.plan}', probe = '{self.probe}') AS {self.select()}"]

    def _from(self) -> tuple[str, list[Expression]]:
        """The FROM clause, and the conditions that are left for WHERE."""
        text = ""
        rest = list(self.where)
        #: The aliases that an ON may speak of: those of the chain of joins since the last comma.
        chain: set[str] = set()
        for i, reference in enumerate(self.references):
            chain.add(reference.alias)
            here = (
                [c for c in rest if reference.alias in aliases(c) and aliases(c) <= chain]
                if self.joins_written and i
                else []
            )
            if here:
                text += f" JOIN {self._reference(reference)} ON " + " AND ".join(render(c) for c in here)
                rest = [c for c in rest if c not in here]
            else:
                text += f"{', ' if i else ''}{self._reference(reference)}"
                chain = {reference.alias}
        return text, rest

    def _reference(self, reference: Reference) -> str:
        window = {
            Range: lambda w: f" [RANGE {span(w.micros)}]",
            Last: lambda w: f" [ROWS {w.count}]",
            Unbounded: lambda w: " [UNBOUNDED]",
            Now: lambda w: " [NOW]",
            LastPer: lambda w: f" [PARTITION BY {', '.join(w.columns)} ROWS {w.count}]",
            type(None): lambda w: "",
        }[type(reference.window)](reference.window)
        return (
            f"{reference.source} {reference.alias}{window}"
            if self.window_last
            else f"{reference.source}{window} {reference.alias}"
        )


@dataclass(frozen=True)
class Case:
    streams: tuple[StreamSpec, ...]
    queries: tuple[QuerySpec, ...]
    #: Per epoch (stream, rows in source order).
    arrivals: tuple[tuple[tuple[str, tuple[Row, ...]], ...], ...]
    tables: tuple[TableSpec, ...] = ()
    label: str = ""
    #: The numbers of epochs before which the clock moves on, so that streams without rows in them are idle.
    pauses: tuple[int, ...] = ()
    #: In which order results of joins with several windows are released; None: as the engine chooses.
    scheduler: str | None = None
    #: Statements that the queries need.
    before: tuple[str, ...] = ()
    #: Whether the streams end with the run.
    final: bool = False

    def epochs(self) -> list[dict[str, list[Row]]]:
        return [{stream: list(rows) for stream, rows in epoch} for epoch in self.arrivals]

    def statements(self, directory: str = ".") -> list[str]:
        """The job, one statement each; tables are read from `<directory>/<name>.parquet`."""
        out = [] if self.scheduler is None else [f"SET scheduler = '{self.scheduler}'"]
        out += [s.statement() for s in self.streams]
        out += [t.statement(directory) for t in self.tables]
        out += self.before
        return out + [statement for q in self.queries for statement in q.statements()]

    def source(self, name: str) -> StreamSpec | TableSpec:
        return next(s for s in (*self.streams, *self.tables) if s.name == name)

    def arrow_rows(self, source: str, rows: Sequence[Row]) -> pa.Table:
        return arrow_table(self.source(source).columns, rows)

    def outputs(self, query: QuerySpec) -> tuple[tuple[str, Expression], ...]:
        """The named outputs of a query, SELECT * written out."""
        if query.outputs:
            return query.outputs
        alone = len(query.references) == 1
        return tuple(
            (name if alone else f"{r.alias}_{name}", Col(r.alias, name, kind))
            for r in query.references
            for name, kind in self.source(r.source).columns
        )

    def query(self, spec: QuerySpec) -> Query:
        """The query as the oracle reads it."""
        return Query(
            spec.references, spec.where, self.outputs(spec), spec.group_by, spec.having, spec.distinct, spec.emit
        )

    def intake(self, spec: QuerySpec) -> Intake:
        """What a query sees."""
        return intake(self._oracle_streams(), self._oracle_epochs(), streams_of(spec))

    def dead_letters(self) -> dict[str, list[tuple[str, Values]]]:
        """Per stream (reason, values) of each row that some query misses."""
        return dead_letters(self._oracle_streams(), self._oracle_epochs(), [streams_of(q) for q in self.queries])

    def _oracle_streams(self) -> list[Stream]:
        return [Stream(s.name, s.time, s.lateness, s.sequence) for s in self.streams]

    def _oracle_epochs(self) -> list[Epoch]:
        rows = [{name: self.values(name, rows) for name, rows in epoch} for epoch in self.arrivals]
        return [
            *(Epoch(epoch, idle=idle) for epoch, idle in zip(rows, self.idle(), strict=True)),
            Epoch({}, closing=True, final=self.final),
        ]

    def idle(self) -> list[frozenset[str]]:
        """Per epoch the streams that are idle: a pause came after their last rows."""
        silent: set[str] = set()
        found = []
        for number, epoch in enumerate(self.arrivals):
            # The first epoch begins the time of all streams.
            if number in self.pauses and number:
                silent |= {stream.name for stream in self.streams if stream.idle}
            silent -= {name for name, rows in epoch if rows}
            found.append(frozenset(silent))
        return found

    def values(self, source: str, rows: Sequence[Row]) -> list[Values]:
        names = [name for name, _ in self.source(source).columns]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def table_values(self, epoch: int = 0) -> dict[str, list[Values]]:
        """The static tables as they are when an epoch begins."""
        return {t.name: self.values(t.name, t.rows_at(epoch)) for t in self.tables}

    def eras(self) -> list[tuple[int, int | None, int | None]]:
        """(epoch, after, up to): when an epoch at which tables change begins, and the times of the newest rows that
        meet them then."""
        starts = [0, *sorted({epoch for table in self.tables for epoch, _ in table.changes})]
        # What a table was before the first row of any stream is at no newest row.
        end = len(self.arrivals)
        starts = [epoch for epoch, after in pairwise([*starts, end]) if after == end or self._newest(after) is not None]
        instants = [self._newest(epoch) for epoch in starts]
        return list(zip(starts, instants, [*instants[1:], None], strict=True))

    def _newest(self, epoch: int) -> int | None:
        """The newest time of any stream before an epoch."""
        times = {stream.name: [name for name, _ in stream.columns].index(stream.time) for stream in self.streams}
        rows = [(times[name], row) for earlier in self.arrivals[:epoch] for name, found in earlier for row in found]
        return max((row[place] for place, row in rows if row[place] is not None), default=None)


def maybe_ended(case: Case, seed: int) -> Case:
    """Every second case ends its streams."""
    return replace(case, final=seed % 2 == 1)


def streams_of(spec: QuerySpec) -> frozenset[str]:
    """The streams that a query reads, without static tables."""
    return frozenset(r.source for r in spec.references if r.window is not None)


def _columns(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)


def arrow_table(columns: Sequence[tuple[str, str]], rows: Sequence[Row]) -> pa.Table:
    """Rows of the oracle (times as numbers) as an Arrow table of the declared types."""
    plain = {"TIMESTAMP": pa.int64(), "DATE": pa.int32()}
    arrays = [
        pa.array([row[i] for row in rows], plain.get(kind, ARROW[kind]), from_pandas=False).cast(ARROW[kind])
        for i, (_, kind) in enumerate(columns)
    ]
    return pa.table(arrays, schema=pa.schema([(name, ARROW[kind]) for name, kind in columns]))


@dataclass
class Expected:
    """What the oracle says of a case."""

    #: Per query what it sees.
    intakes: dict[str, Intake] = field(default_factory=dict)
    #: Per stream (reason, values).
    dead: dict[str, list[tuple[str, Values]]] = field(default_factory=dict)
    #: Select-project-join queries.
    answers: dict[str, list[Result]] = field(default_factory=dict)
    #: ON CHANGE and EVERY: the aggregate at each instant of emission.
    tables: dict[str, dict[int, Table]] = field(default_factory=dict)
    #: ON CLOSE: (`_ts`, row).
    closed: dict[str, list[tuple[int, Row]]] = field(default_factory=dict)

    def is_empty(self, name: str) -> bool:
        """Whether a query has no result at all."""
        if name in self.answers:
            return not self.answers[name]
        if name in self.closed:
            return not self.closed[name]
        return not any(len(table) for table in self.tables[name].values())


def expected(case: Case) -> Expected:
    out = Expected(dead=case.dead_letters())
    seen: dict[frozenset[str], Intake] = {}
    tables: Mapping[str, list[Values]] = case.table_values()
    for spec in case.queries:
        query = case.query(spec)
        read = streams_of(spec)
        if read not in seen:
            seen[read] = case.intake(spec)
        taken = out.intakes[spec.name] = seen[read]
        if not is_aggregate(query):
            out.answers[spec.name] = [
                result
                for epoch, after, upto in case.eras()
                for result in answer(query, taken.rows, case.table_values(epoch))
                if (after is None or result.ts > after) and (upto is None or result.ts <= upto)
            ]
        elif query.emit.kind == "close":
            out.closed[spec.name] = closed_groups(query, taken.rows, tables, taken.frontiers, ended=case.final)
        else:
            out.tables[spec.name] = {
                now: table_at(query, taken.rows, tables, now)
                for now in instants(query, taken.rows, taken.frontiers, taken.end)
            }
    return out


__all__ = [
    "Agg",
    "Call",
    "Case",
    "Col",
    "Decimal",
    "Emit",
    "Expected",
    "Expression",
    "Last",
    "LastPer",
    "Lit",
    "Now",
    "QuerySpec",
    "Range",
    "Reference",
    "Row",
    "StreamSpec",
    "TableSpec",
    "Unbounded",
    "Window",
    "arrow_table",
    "expected",
    "inf",
    "nan",
    "streams_of",
]
