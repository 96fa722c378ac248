"""Punctuations: promises that no further row of a stream matches a pattern.

Answer   A `ValuePattern` is a set of values of one column: intervals, and null or not. `patterns_of` turns a condition
         into one pattern per column that it names; columns that it leaves out are `*`. `DerivedPunctuation` is
         CREATE PUNCTUATION.
Limits   A condition is a conjunction of conditions on one column each, with literals. Values have the form of literals
         (`model/expressions/expression.py`). A DOUBLE has no pattern with NaN, and BIGINT none with a number that has a
         point: neither would be exact.
Reading  docs/punctuations.md
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, floor, isnan
from typing import Any

from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal, conjuncts, spelled_out

#: The name of the kind of record.
KIND = "punctuation"
#: The column of a record's body that holds patterns as text; other bodies have constants under the names of their
#: columns.
PATTERN = "_pattern"
#: The column of a body that moves the horizon of its stream: no row with this time or an earlier one comes.
HEARTBEAT = "_heartbeat"

#: The range of INT.
_LEAST_INT, _MOST_INT = -(2**31), 2**31 - 1
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Interval:
    """Values between two bounds; None is no bound."""

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False

    @property
    def is_empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return bool(self.low > self.high or (self.low == self.high and (self.low_open or self.high_open)))

    @property
    def is_point(self) -> bool:
        return self.low is not None and self.low == self.high and not self.low_open and not self.high_open

    def meet(self, other: Interval) -> Interval:
        """What lies in both."""
        low, low_open = self.low, self.low_open
        if low is None or (other.low is not None and (other.low > low or (other.low == low and other.low_open))):
            low, low_open = other.low, other.low_open
        high, high_open = self.high, self.high_open
        if high is None or (other.high is not None and (other.high < high or (other.high == high and other.high_open))):
            high, high_open = other.high, other.high_open
        return Interval(low, high, low_open, high_open)

    def holds(self, other: Interval) -> bool:
        """Whether every value of another interval lies in this one."""
        return self.meet(other) == other


@dataclass(frozen=True, slots=True)
class ValuePattern:
    """The values that a column may have: those in one of the intervals, and null if `null` is true."""

    intervals: tuple[Interval, ...] = ()
    null: bool = False

    @property
    def is_all(self) -> bool:
        return self.null and Interval() in self.intervals

    @property
    def is_empty(self) -> bool:
        return not self.intervals and not self.null

    @property
    def constants(self) -> tuple[Any, ...] | None:
        """The values of a constant or a list; None: the pattern is none."""
        points = tuple(i.low for i in self.intervals if i.is_point)
        return points if points and len(points) == len(self.intervals) and not self.null else None

    def meet(self, other: ValuePattern) -> ValuePattern:
        if self.constants is not None and other.constants is not None:
            # Two lists are compared as sets, not each value with each.
            listed = set(other.intervals)
            return ValuePattern(tuple(i for i in self.intervals if i in listed))
        both = (a.meet(b) for a in self.intervals for b in other.intervals)
        return ValuePattern(tuple(dict.fromkeys(i for i in both if not i.is_empty)), self.null and other.null)

    def join(self, other: ValuePattern) -> ValuePattern:
        return ValuePattern(tuple(dict.fromkeys((*self.intervals, *other.intervals))), self.null or other.null)

    def holds(self, other: ValuePattern) -> bool:
        """Whether every value of another pattern is one of this; a sufficient test interval by interval."""
        return (self.null or not other.null) and all(
            any(mine.holds(one) for mine in self.intervals) for one in other.intervals
        )


ALL = ValuePattern((Interval(),), True)
EMPTY = ValuePattern()
NULLS = ValuePattern((), True)


def patterns_of(condition: Expression) -> dict[str, ValuePattern] | None:
    """One pattern per column that a condition names; None: the condition is not a conjunction of patterns.

    >>> from eddyline.model.datatypes import BIGINT, BOOLEAN
    >>> item = ColumnRef("bids", "item", BIGINT)
    >>> patterns_of(Call("<", (item, Literal(5, BIGINT)), BOOLEAN))["item"].intervals[0].high
    5
    """
    parts = [part for part in conjuncts(condition) if not (isinstance(part, Literal) and part.value is True)]
    found = [one for part in parts if (one := _pattern(part)) is not None]
    return _met(found) if len(found) == len(parts) else None


def regions_of(condition: Expression | None) -> dict[str, ValuePattern]:
    """Patterns per column that hold for all rows that pass a filter; terms that are no patterns are left out."""
    parts = () if condition is None else conjuncts(condition)
    return _met([one for part in parts if (one := _pattern(part)) is not None])


def _met(patterns: list[tuple[str, ValuePattern]]) -> dict[str, ValuePattern]:
    """One pattern per column: what lies in all of its patterns."""
    found: dict[str, ValuePattern] = {}
    for column, pattern in patterns:
        found[column] = found[column].meet(pattern) if column in found else pattern
    return found


def _pattern(e: Expression) -> tuple[str, ValuePattern] | None:
    """The one column that a condition names, and the values for which it holds; None: there is no such pattern."""
    if isinstance(e, ColumnRef) and e.type.name == "BOOLEAN":
        return e.column, _point(True)
    if not isinstance(e, Call):
        return None
    if e.function == "not" and isinstance(e.args[0], ColumnRef):
        return e.args[0].column, _point(False)
    if e.function in ("is_null", "is_not_null") and isinstance(e.args[0], ColumnRef):
        return e.args[0].column, NULLS if e.function == "is_null" else ValuePattern((Interval(),))
    if e.function in ("or", "and"):
        parts = [_pattern(a) for a in e.args]
        columns = {part[0] for part in parts if part is not None}
        if None in parts or len(columns) != 1:
            return None
        whole = EMPTY if e.function == "or" else ALL
        for part in parts:
            assert part is not None
            whole = whole.join(part[1]) if e.function == "or" else whole.meet(part[1])
        return columns.pop(), whole
    if e.function == "in":
        alternatives = [_pattern(Call("=", (e.args[0], value), e.type)) for value in spelled_out(e).args[1:]]
        known = [one for one in alternatives if one is not None]
        if len(known) < len(alternatives):
            return None
        listed = dict.fromkeys(interval for _, one in known for interval in one.intervals)
        return known[0][0], ValuePattern(tuple(listed), any(one.null for _, one in known))
    return _comparison(e)


def _comparison(e: Call) -> tuple[str, ValuePattern] | None:
    if e.function not in _TURNED or len(e.args) != 2:
        return None
    left, right, function = *e.args, e.function
    if isinstance(left, Literal):
        left, right, function = right, left, _TURNED[function]
    column = _column(left)
    if column is None or not isinstance(right, Literal):
        return None
    if right.value is None:
        return column.column, EMPTY
    return (column.column, _compared(function, right.value, column.type)) if _fits(column.type, right) else None


def _column(e: Expression) -> ColumnRef | None:
    """A column, also behind a cast that changes no value."""
    if isinstance(e, Call) and e.function == "cast" and widens(e.args[0].type, e.type):
        e = e.args[0]
    return e if isinstance(e, ColumnRef) else None


def widens(narrow: DataType, wide: DataType) -> bool:
    """Whether a cast keeps the order of values, and different values different."""
    if narrow == wide:
        return True
    if narrow.name == "INT":
        return wide.name in ("BIGINT", "DOUBLE")
    return (narrow.name, wide.name) == ("DATE", "TIMESTAMP")


def _fits(kind: DataType, literal: Literal) -> bool:
    value = literal.value
    if isinstance(value, float) and (isnan(value) or kind.name == "BIGINT"):
        return False
    if kind.name == "DATE":
        return literal.type.name == "DATE"
    if kind.name == "DECIMAL":
        return isinstance(value, Decimal | int)
    return True


def _compared(function: str, value: Any, kind: DataType) -> ValuePattern:
    """The values of a column that a comparison with a literal allows."""
    if kind.name == "INT" and not _LEAST_INT <= value <= _MOST_INT:
        all_satisfy = function == "<>" or (function != "=" and (value > 0) == (function in ("<", "<=")))
        return ValuePattern((Interval(),)) if all_satisfy else EMPTY
    if kind.name == "INT" and isinstance(value, float) and not value.is_integer():
        if function in ("=", "<>"):
            return EMPTY if function == "=" else ValuePattern((Interval(),))
        whole = floor(value) if function in ("<", "<=") else ceil(value)
        return _compared("<=" if function in ("<", "<=") else ">=", whole, kind)
    if kind.name == "INT" and isinstance(value, float):
        value = int(value)
    if function == "=":
        return _point(value)
    if function == "<>":
        return ValuePattern((Interval(high=value, high_open=True), Interval(low=value, low_open=True)))
    if function in ("<", "<="):
        return ValuePattern((Interval(high=value, high_open=function == "<"),))
    return ValuePattern((Interval(low=value, low_open=function == ">"),))


def _point(value: Any) -> ValuePattern:
    return ValuePattern((Interval(value, value),))


def to_text(patterns: Mapping[str, ValuePattern]) -> str:
    """Patterns as one line of text, for records in files and messages."""
    body = {
        column: {"null": p.null, "in": [[_plain(i.low), _plain(i.high), i.low_open, i.high_open] for i in p.intervals]}
        for column, p in patterns.items()
    }
    return json.dumps(body, sort_keys=True)


def from_text(text: str, types: Mapping[str, DataType]) -> dict[str, ValuePattern]:
    """The reverse of `to_text`."""
    found = {}
    for column, saved in json.loads(text).items():
        kind = types[column]
        intervals = tuple(Interval(_own(low, kind), _own(high, kind), a, b) for low, high, a, b in saved["in"])
        found[column] = ValuePattern(intervals, saved["null"])
    return found


def body_of(text: str, types: Mapping[str, DataType], time: str) -> dict[str, Any]:
    """The body of a record for patterns as text: a bare `ts <= T` moves the horizon."""
    patterns = from_text(text, types)
    if list(patterns) == [time] and len(patterns[time].intervals) == 1 and not patterns[time].null:
        [interval] = patterns[time].intervals
        if interval.low is None and interval.high is not None:
            return {HEARTBEAT: interval.high - interval.high_open}
    return {PATTERN: text}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


def _own(value: Any, kind: DataType) -> Any:
    return Decimal(str(value)) if kind.name == "DECIMAL" and value is not None else value


@dataclass(frozen=True)
class DerivedPunctuation:
    """CREATE PUNCTUATION name ON stream (columns) FROM source (source_columns) [AT at]."""

    name: str
    stream: str
    columns: tuple[str, ...]
    source: str
    source_columns: tuple[str, ...]
    #: A TIMESTAMP column of the source; None: its event time.
    at: str | None = None

    def __str__(self) -> str:
        at = "" if self.at is None else f" AT {self.at}"
        return f"{self.name} ON {self.stream} ({', '.join(self.columns)}) FROM {self.source} ({', '.join(self.source_columns)}){at}"
