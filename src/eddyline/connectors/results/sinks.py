"""Sinks for results: files, memory, Python functions, the terminal, none.

Answer   `open_sink` makes the sink that `CREATE SINK … WITH (…)` describes; sessions and tests use the classes.
State    Memory sinks keep all results, numbered sinks those of the current epoch.
Limits   Only file and memory sinks can remove results (`truncate_after`). After a crash the others get the results of the
         epochs since the last checkpoint a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from eddyline.connectors.base import Sink
from eddyline.connectors.formats.encoders import ENCODERS
from eddyline.connectors.results.output import FileSink, Writer, arranged, newest_time
from eddyline.errors import BindingProblem, EddylineError, SourceProblem, UserError
from eddyline.tuning import OutputTuning

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

SINK_FORMATS = (*ENCODERS, "memory", "console", "drop")
#: Written by Spark's own connectors, where their jars are.
SPARK_FORMATS = ("delta", "kafka")


def open_sink(options: Mapping[str, str], name: str) -> Sink:
    """The sink of a CREATE SINK statement: `format` and, for files, `path`."""
    kind = sink_format(options)
    simple: dict[str, Callable[[], Sink]] = {"drop": DropSink, "memory": MemorySink}
    if kind == "console":
        return ConsoleSink(name)
    if kind in simple:
        return simple[kind]()
    if kind in SPARK_FORMATS:
        hint = "eddyline run --engine spark, or Session(spark=…)"
        raise SourceProblem(f"sink {name} has the format {kind}, which Spark writes", hint=hint)
    if kind not in ENCODERS:
        hint = f"formats are {', '.join(SINK_FORMATS)}"
        raise SourceProblem(f"sink {name} has the unknown format {kind!r}", hint=hint)
    path = options.get("path", "").strip()
    if not path:
        hint = "WITH (format = 'parquet', path = 'results/…') says where its files go"
        raise SourceProblem(f"sink {name} has no path", hint=hint)
    return FileSink(path, ENCODERS[kind])


def sink_format(options: Mapping[str, str]) -> str:
    kind = options.get("format", "parquet").strip().lower()
    return "jsonl" if kind == "json" else kind


def hand_over_problem(problem: Exception) -> EddylineError:
    """The exception of a sink or a callback as an error of the job."""
    if isinstance(problem, EddylineError):
        return problem
    return UserError(
        "results could not be handed over",
        detail=f"{type(problem).__name__}: {problem}",
        hint="once the sink or the callback is mended, a start on the same checkpoint hands them over again",
    )


def ParquetSink(folder: str, writer: Writer | None = None, tuning: OutputTuning | None = None) -> FileSink:
    return FileSink(folder, ENCODERS["parquet"], writer, tuning)


class PassingSink:
    """A sink that keeps nothing until a checkpoint and removes nothing after a restart."""

    def open(self, schema: pa.Schema) -> None:
        self.schema = schema

    def flush(self, epoch: int) -> None:
        return None

    def truncate_after(self, epoch: int) -> None:
        return None

    def close(self) -> None:
        return None


class CallbackSink(PassingSink):
    """Calls a function with each table of results."""

    def __init__(self, function: Callable[[pa.Table], object]):
        self._function = function

    def write(self, epoch: int, table: pa.Table) -> None:
        if table.num_rows:
            self._function(table)


class NumberedSink(PassingSink):
    """Calls a function with each epoch's results and the epoch's number. An epoch that is repeated after a crash has the
    same number."""

    def __init__(self, function: Callable[[pa.Table, int], object]):
        self._function = function
        self._tables: list[pa.Table] = []
        self._epoch = -1

    def write(self, epoch: int, table: pa.Table) -> None:
        if epoch != self._epoch:
            self._hand_over()
        self._epoch = epoch
        if table.num_rows:
            self._tables.append(table)

    def flush(self, epoch: int) -> None:
        self._hand_over()

    def close(self) -> None:
        self._hand_over()

    def _hand_over(self) -> None:
        tables, self._tables = self._tables, []
        if tables:
            self._function(pa.concat_tables(tables), self._epoch)


class DropSink(PassingSink):
    """Counts results and forgets them."""

    def __init__(self) -> None:
        self.count = 0

    def write(self, epoch: int, table: pa.Table) -> None:
        self.count += table.num_rows


class MemorySink(PassingSink):
    """Keeps results, by epoch."""

    def __init__(self) -> None:
        self.schema = None
        self._tables: list[tuple[int, pa.Table]] = []

    def write(self, epoch: int, table: pa.Table) -> None:
        if table.num_rows:
            self._tables.append((epoch, table))

    def truncate_after(self, epoch: int) -> None:
        self._tables = [(e, t) for e, t in self._tables if e <= epoch]

    @property
    def tables(self) -> list[pa.Table]:
        return [table for _, table in self._tables]

    def last_time(self) -> int | None:
        """The `_ts` of the newest row, in microseconds; None: there is none."""
        return newest_time(self._tables[-1][1]) if self._tables else None

    def table(self) -> pa.Table:
        """All results so far."""
        assert self.schema is not None, "open comes before table"
        return pa.concat_tables([self.schema.empty_table(), *self.tables])


class ConsoleSink(PassingSink):
    """Shows results as tables on the terminal, a bounded number of rows of each."""

    def __init__(self, title: str, rows: int = 20, console: Console | None = None):
        # Few jobs print tables, and Rich takes long to load.
        from rich.console import Console

        self._title = title
        self._limit = rows
        self._console = console or Console()

    def write(self, epoch: int, table: pa.Table) -> None:
        if table.num_rows:
            self._console.print(as_rich(table, self._title, self._limit))


def as_rich(table: pa.Table, title: str, limit: int) -> RichTable:
    """The first rows of a table for the terminal."""
    from rich.markup import escape
    from rich.table import Table as RichTable

    more = None if table.num_rows <= limit else f"{table.num_rows - limit} more rows"
    shown = RichTable(title=title, title_justify="left", caption=more)
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        shown.add_column(field.name, justify="right" if number else "left")
    for row in zip(*(column.to_pylist() for column in table.slice(0, limit).columns), strict=True):
        shown.add_row(*("" if value is None else escape(str(value)) for value in row))
    return shown


def _unite(types: dict[str, tuple[pa.DataType, str]], query: str, schema: pa.Schema) -> bool:
    """Add a query's columns to those known by name; returns whether there are new ones."""
    for field in schema:
        known = types.get(field.name)
        if known is not None and known[0] != field.type:
            raise BindingProblem(
                f"column {field.name} has two types in a sink FOR ALL",
                detail=f"{known[0]} in query {known[1]}, {field.type} in query {query}",
                hint="rename one of the columns with AS, CAST one of them, or give the queries sinks of their own",
            )
    new = {field.name: (field.type, query) for field in schema if field.name not in types}
    types.update(new)
    return bool(new)


def _united(types: Mapping[str, tuple[pa.DataType, str]]) -> pa.Schema:
    last = [name for name in ("_op", "_ts") if name in types]
    names = [name for name in types if name not in last] + last
    return pa.schema([("_query", pa.string())] + [(name, types[name][0]) for name in names])


class AllSink:
    """One sink for all queries: each query writes through its own port, which adds the column `_query`."""

    def __init__(self, inner: Sink):
        self._inner = inner
        #: Every column by name: its type, and the first query that has it.
        self._types: dict[str, tuple[pa.DataType, str]] = {}
        self._union: pa.Schema | None = None
        self._open = 0

    def port(self, query: str) -> Sink:
        """The sink of the query with this name."""
        return _Port(self, query)

    def add(self, query: str, schema: pa.Schema) -> None:
        grown = _unite(self._types, query, schema)
        self._open += 1
        if self._union is None or grown:
            self._union = _united(self._types)
            self._inner.open(self._union)

    def write(self, epoch: int, query: str, table: pa.Table) -> None:
        self.write_all(epoch, pa.repeat(pa.scalar(query), table.num_rows), table)

    def write_all(self, epoch: int, queries: pa.Array, table: pa.Table) -> None:
        """Results of several queries in one table; `queries` has the name of the query of each row."""
        assert self._union is not None
        self._inner.write(epoch, arranged(table, self._union, {"_query": queries}))

    def flush(self, epoch: int) -> None:
        self._inner.flush(epoch)

    def truncate_after(self, epoch: int) -> None:
        self._inner.truncate_after(epoch)

    def close(self) -> None:
        self._inner.close()

    def open_again(self) -> None:
        """Open the sink after `close`, for the same queries."""
        assert self._union is not None
        self._inner.open(self._union)

    def leave(self) -> None:
        self._open -= 1
        if self._open == 0:
            self.close()


class _Port:
    def __init__(self, whole: AllSink, query: str):
        self._whole = whole
        self._query = query

    def open(self, schema: pa.Schema) -> None:
        self._whole.add(self._query, schema)

    def write(self, epoch: int, table: pa.Table) -> None:
        if table.num_rows:
            self._whole.write(epoch, self._query, table)

    def flush(self, epoch: int) -> None:
        self._whole.flush(epoch)

    def truncate_after(self, epoch: int) -> None:
        self._whole.truncate_after(epoch)

    def close(self) -> None:
        self._whole.leave()
