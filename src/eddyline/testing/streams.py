"""A stream written as a text table, with arrival order, epochs and notes.

Answer   `stream(text)` reads a header, rows with cells between `|`, lines of dashes (the end of an epoch), `! …` (a note: a
         punctuation, or `! fail`) and comments after `--`. The types of columns are inferred from the cells, or given.
State    None.
Limits   Cells hold no `|`, no `--` and no leading or trailing spaces. The event time is written in seconds. A note is kept
         as text with the number of rows before it; the test decides what it means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from eddyline.errors import DataProblem
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, DataType
from eddyline.model.schema import Column, Schema


@dataclass(frozen=True)
class DrawnNote:
    """A line `! text`, and the number of rows before it."""

    after: int
    text: str


@dataclass(frozen=True)
class WrittenStream:
    """A stream read from text: all rows in arrival order, the ends of epochs, and notes."""

    schema: Schema
    time: str
    table: pa.Table
    #: Row numbers at which an epoch ends, in order; the last is the number of rows.
    ends: tuple[int, ...]
    notes: tuple[DrawnNote, ...] = ()

    @property
    def rows(self) -> list[dict[str, object]]:
        """All rows; the event time as a datetime without zone."""
        return self.table.to_pylist()

    def epochs(self) -> list[pa.Table]:
        """The rows between lines of dashes, one table each, empty ones too."""
        begins = (0, *self.ends[:-1])
        return [self.table.slice(begin, end - begin) for begin, end in zip(begins, self.ends, strict=True)]

    @property
    def columns_sql(self) -> str:
        """The columns in the form of CREATE STREAM."""
        return ", ".join(f"{c.name} {c.type}" for c in self.schema.columns)


def stream(text: str, *, time: str | None = None, types: Mapping[str, DataType] | None = None) -> WrittenStream:
    """The stream that a text shows.

    Args:
        text: header, rows, lines of dashes, notes; see the top of this file.
        time: the event-time column, in seconds; without it the first column.
        types: types of columns that are not inferred from their cells.

    >>> bids = stream('''
    ...     t   | item | price
    ...     1   |    7 |   3.0
    ...     2.5 |    7 |          -- no price
    ...     ------------
    ...     ! t <= 2
    ...     5   |    8 |   nan
    ... ''')
    >>> bids.columns_sql
    't TIMESTAMP, item BIGINT, price DOUBLE'
    >>> [epoch.num_rows for epoch in bids.epochs()], bids.notes
    ([2, 1], (DrawnNote(after=2, text='t <= 2'),))
    """
    lines = [stripped for line in text.splitlines() if (stripped := _without_comment(line))]
    if not lines:
        raise DataProblem("a written stream needs a header", hint="for example: t | item | price")
    names = [cell.strip() for cell in lines[0].split("|")]
    rows: list[list[str]] = []
    ends: list[int] = []
    notes: list[DrawnNote] = []
    for line in lines[1:]:
        if line.startswith("!"):
            notes.append(DrawnNote(len(rows), line[1:].strip()))
        elif re.fullmatch(r"-{3,}", line):
            ends.append(len(rows))
        else:
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) != len(names):
                message = f"a row has {len(cells)} cells, the header {len(names)}"
                raise DataProblem(message, detail=line, hint="one cell per column, | between them")
            rows.append(cells)
    time = time or names[0]
    known = {time: TIMESTAMP} | dict(types or {})
    columns = []
    arrays = []
    for i, name in enumerate(names):
        cells = [row[i] for row in rows]
        kind = known.get(name) or _type_of(cells)
        columns.append(Column(name, kind))
        arrays.append(pa.array([None if _is_null(cell) else _READ[kind.name](cell) for cell in cells], kind.arrow))
    schema = Schema(tuple(columns))
    return WrittenStream(schema, time, pa.table(arrays, schema=schema.arrow), (*ends, len(rows)), tuple(notes))


def _without_comment(line: str) -> str:
    """The line without what follows `--`; a line of dashes is no comment."""
    stripped = line.strip()
    return stripped if re.fullmatch(r"-{3,}", stripped) else re.split(r"(?:^|\s)--(?:\s|$)", stripped)[0].rstrip()


def _is_null(cell: str) -> bool:
    return cell == "" or cell.lower() == "null"


def _instant(cell: str) -> object:
    """Seconds since 1970, or a date and time; microseconds exactly."""
    try:
        return int(Decimal(cell) * 1_000_000)
    except InvalidOperation:
        return datetime.fromisoformat(cell)


def _boolean(cell: str) -> bool:
    return {"true": True, "false": False}[cell.lower()]


_READ: dict[str, Callable[[str], object]] = {
    "BOOLEAN": _boolean,
    "INT": int,
    "BIGINT": int,
    "DOUBLE": float,
    "STRING": str,
    "DATE": date.fromisoformat,
    "TIMESTAMP": _instant,
    "DECIMAL": Decimal,
}
#: Tried in this order; the first type that reads every cell is the column's.
_GUESSES = (
    (BIGINT, r"[+-]?\d+"),
    (DOUBLE, r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf|nan"),
    (BOOLEAN, r"true|false"),
    (DATE, r"\d{4}-\d\d-\d\d"),
)


def _type_of(cells: list[str]) -> DataType:
    present = [cell for cell in cells if not _is_null(cell)]
    for kind, pattern in _GUESSES:
        if present and all(re.fullmatch(pattern, cell, re.IGNORECASE) for cell in present):
            return kind
    return STRING
