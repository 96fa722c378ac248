"""Streams and tables as declared: columns, time, order, and how to read them.

Answer   `Stream` and `Table` hold what a CREATE statement (or `Session.stream`) declares, checked when made.
Limits   Nothing here opens a file; `options` are for `connectors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eddyline.errors import BindingProblem
from eddyline.model.datatypes import TIMESTAMP, DataType
from eddyline.model.patterns.constraint import ConstraintSet
from eddyline.model.records.punctuation import DerivedPunctuation

if TYPE_CHECKING:
    import pyarrow as pa

#: The event time of results: a stream that reads the results of another job may have it for its event time.
RESULT_TIME = "_ts"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Schema:
    columns: tuple[Column, ...]
    #: s | ms | us | ns: what integers count that are read as TIMESTAMP; None: nothing is said, and they are microseconds.
    time_unit: str | None = None

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for column in self.columns:
            if column.name in seen:
                hint = "give each column a name of its own"
                raise BindingProblem(f"column {column.name} is declared twice", hint=hint)
            if column.name.startswith("_") and column.name != RESULT_TIME:
                hint = "names that begin with _ are the engine's own (_ts, _op, _reason)"
                raise BindingProblem(f"column name {column.name} is reserved", hint=hint)
            seen.add(column.name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def arrow(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([(c.name, c.type.arrow) for c in self.columns])

    def find(self, name: str) -> Column | None:
        """The column of that name; as in SQL, the case of letters does not matter."""
        wanted = name.lower()
        return next((c for c in self.columns if c.name.lower() == wanted), None)


#: What integers may count that are read as TIMESTAMP.
TIME_UNITS = ("s", "ms", "us", "ns")


def time_unit(text: str) -> str:
    """The unit of that name."""
    found = text.strip().lower()
    if found not in TIME_UNITS:
        raise BindingProblem(f"time_unit = '{text}' is not known", hint=f"units are {', '.join(TIME_UNITS)}")
    return found


#: The event time of a derived stream, which queries call `_ts`: no column that a query selects has this name.
DERIVED_TIME = "ts$"
#: The number of a row in its stream, as a column that only the engine reads.
ROW = "row$"
#: Columns of streams of live combinations, which only the engine reads: the kind of row, and the instant at which it
#: leaves its windows of time.
PART, ENDS = "part$", "ends$"
#: `_op` in a derived stream of changes.
CHANGE = "op$"
#: Columns of tables that are read again, which only the engine reads: when the version of the row began, and ended.
SINCE, UNTIL = "since$", "until$"


@dataclass(frozen=True)
class Stream:
    """A named, typed, unending sequence of rows with a time column."""

    name: str
    schema: Schema
    time: str
    #: How far, in microseconds of event time, a row may be older than the newest one without being late.
    lateness: int = 0
    #: After this many microseconds of processing time without rows the frontier no longer waits for the stream.
    idle: int | None = None
    #: How far, in microseconds, the time of a row may lie ahead of the wall clock when it is read; None: any distance.
    most_ahead: int | None = None
    #: The column that orders rows of equal time; None: the position in the source does.
    sequence: str | None = None
    #: Place in the catalog; orders rows of equal time of different streams.
    position: int = 0
    #: format, path, rate, distinct_x, files_per_batch …: everything else in WITH, as text.
    options: Mapping[str, str] = field(default_factory=dict)
    #: The constraints of its events (CREATE CONSTRAINTS).
    constraints: tuple[ConstraintSet, ...] = ()
    #: Whether PUNCTUATE statements, or the queries that make it, give it punctuations.
    receives_punctuations: bool = False
    #: After every row: no further row with its values in these columns.
    key: tuple[str, ...] = ()
    #: A row in which this BOOLEAN column is true, or which has a condition in this STRING column, is a punctuation.
    punctuation: str | None = None
    #: A row that has a text in this STRING column is a herald.
    herald: str | None = None
    #: Whether it has heralds of statements, and whether the span of one is a number of rows: then every shard with a part
    #: of the stream counts all of its rows.
    heralded: bool = False
    counted: bool = False
    #: How long punctuations are kept, in microseconds of event time; None: for ever.
    remember: int | None = None
    #: The punctuations that CREATE PUNCTUATION declares for this stream, and those that it derives from its rows.
    promised: tuple[DerivedPunctuation, ...] = ()
    promising: tuple[DerivedPunctuation, ...] = ()
    #: Of a derived stream: the queries whose results are its rows.
    makers: tuple[str, ...] = ()
    #: Of a derived stream: the column that has one element per row, where its makers have whole arrays; empty: there is
    #: none.
    unnests: str = ""
    #: Whether rows of equal time have an order that does not depend on epochs, which ROWS and EVENT need.
    ordered: bool = True

    @property
    def is_punctuated(self) -> bool:
        """Whether it may have punctuations, by its declaration and the statements before."""
        return bool(self.key or self.punctuation or self.promised or self.remember or self.receives_punctuations)

    @property
    def called_time(self) -> str:
        """The name of its event time in queries."""
        return RESULT_TIME if self.is_derived else self.time

    @property
    def is_derived(self) -> bool:
        return bool(self.makers)

    @property
    def is_changes(self) -> bool:
        """Whether it has the changes of a table that other rows meet (JOIN LATEST)."""
        return self.is_derived and self.schema.find(CHANGE) is not None

    def __post_init__(self) -> None:
        column = self.schema.find(self.time)
        if column is None:
            raise BindingProblem(
                f"stream {self.name} has no column {self.time}",
                detail=f"columns are {', '.join(self.schema.names)}",
                hint="time = '…' names the event-time column",
            )
        if column.type != TIMESTAMP:
            message = f"the event-time column {self.time} of stream {self.name} is {column.type}"
            raise BindingProblem(message, hint="declare it as TIMESTAMP")
        if self.time != RESULT_TIME and self.schema.find(RESULT_TIME) is not None:
            hint = f"time = '{RESULT_TIME}': a stream that reads results has their time"
            raise BindingProblem(f"column {RESULT_TIME} of stream {self.name} is not its event time", hint=hint)
        if self.sequence is not None and self.schema.find(self.sequence) is None:
            hint = "sequence = '…' names one of its columns"
            raise BindingProblem(f"stream {self.name} has no column {self.sequence}", hint=hint)


@dataclass(frozen=True)
class Table:
    """A static table: no time, no window. It is read once, or again after a span of the wall clock."""

    name: str
    schema: Schema
    options: Mapping[str, str] = field(default_factory=dict)
    #: The microseconds of the wall clock after which it is read again; None: never.
    refresh: int | None = None
