"""Expressions that are monotone functions of an event time.

Answer   `trend_of` recognises an expression that is a monotone function of one TIMESTAMP column: then all times with
         one value of the expression form an interval, a bucket. It gives the column, and whether values rise or fall
         with time.

             date_trunc('hour', ts + INTERVAL '30 minutes')    epoch_us(ts) // 300000000    CAST(ts AS DATE)    -year(ts)

Limits   A sufficient test, built from functions that are monotone in one argument, with constants for the others. An
         expression that overflows between the years 1 and 9999 is not recognised: NULL is no bucket.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

from eddyline.model.datatypes import BIGINT, DATE, DOUBLE, INT, INTERVAL, TIMESTAMP, DataType
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal

#: Microseconds.
_DAY = 86_400_000_000
#: The years 1 and 9999, in microseconds since 1970.
EARLY, LATE = -719_162 * _DAY, 2_932_897 * _DAY - 1
_LIMITS: dict[DataType, int] = {
    INT: 2**31 - 1,
    BIGINT: 2**63 - 1,
    DATE: 2**31 - 1,
    TIMESTAMP: 2**63 - 1,
    INTERVAL: 2**63 - 1,
}
_NUMBERS = (INT, BIGINT, DOUBLE)
#: Types whose values have a next value, so that one bucket ends where the next begins.
_BUCKETS = (*_NUMBERS, DATE, TIMESTAMP)
#: Functions of one argument -> their factor.
_FACTORS = {"epoch": 1e-6, "epoch_ms": 1e-3, "epoch_us": 1.0, "make_timestamp": 1.0, "make_timestamp_ms": 1e3}


@dataclass(frozen=True, slots=True)
class Trend:
    column: ColumnRef
    rising: bool
    #: About the values in the years 1 and 9999.
    early: float
    late: float

    def through(self, early: float, late: float, kind: DataType, turned: bool = False) -> Trend | None:
        """The trend after a further step; None where it overflows."""
        limit = _LIMITS.get(kind)
        if limit is not None and max(abs(early), abs(late)) > limit:
            return None
        return replace(self, rising=self.rising != turned, early=early, late=late)


def trend_of(e: Expression) -> Trend | None:
    """How an expression rises or falls with the one column that it reads; None: not known.

    >>> from eddyline.model.expressions.functions import resolve
    >>> ts = ColumnRef("s", "ts", TIMESTAMP)
    >>> fives = resolve("//", (resolve("epoch_us", (ts,)), Literal(300_000_000, BIGINT)))
    >>> str(trend_of(fives).column)
    's.ts'
    >>> trend_of(resolve("%", (resolve("epoch_us", (ts,)), Literal(60, BIGINT))))
    """
    found = _trend(e)
    return found if found is not None and e.type in _BUCKETS else None


def _trend(e: Expression) -> Trend | None:
    if isinstance(e, ColumnRef):
        return Trend(e, True, EARLY, LATE) if e.type == TIMESTAMP else None
    if not isinstance(e, Call):
        return None
    if e.function in ("+", "-", "*", "/", "//"):
        return _arithmetic(e)
    if e.function == "date_diff":
        return _difference(e)
    if e.function in ("date_trunc", "date_part"):
        inner = _trend(e.args[1])
        if inner is None or e.function == "date_trunc":
            return inner
        year = isinstance(e.args[0], Literal) and e.args[0].value == "year"
        return inner.through(inner.early / (365 * _DAY), inner.late / (365 * _DAY), BIGINT) if year else None
    if e.function == "tumble_start":
        return _trend(e.args[0])
    inner = _trend(e.args[0]) if len(e.args) == 1 else None
    if inner is None:
        return None
    if e.function == "neg":
        return inner.through(-inner.early, -inner.late, e.type, turned=True)
    scale = _scale(e)
    return None if scale is None else inner.through(inner.early * scale, inner.late * scale, e.type)


def _scale(e: Call) -> float | None:
    """The factor of a rising function of one argument, such as 1e-6 from microseconds to seconds; None: it may fall."""
    before = e.args[0].type
    if e.function == "cast":
        steps = {(TIMESTAMP, DATE): 1 / _DAY, (DATE, TIMESTAMP): float(_DAY)}
        same = before == e.type or (before in _NUMBERS and e.type in _NUMBERS)
        return steps.get((before, e.type), 1.0 if same else None)
    if e.function in ("floor", "ceil", "round"):
        return 1.0 if before in _NUMBERS else None
    return _FACTORS.get(e.function)


def _arithmetic(e: Call) -> Trend | None:
    left, right = e.args
    inner, value = _trend(left), constant_of(right)
    if inner is not None and value is not None:
        if e.function in ("+", "-"):
            shift = value if e.function == "+" else -value
            return inner.through(inner.early + shift, inner.late + shift, e.type)
        if value == 0:
            return None
        factor = value if e.function == "*" else 1 / value
        return inner.through(inner.early * factor, inner.late * factor, e.type, turned=factor < 0)
    inner, value = _trend(right), constant_of(left)
    if inner is None or value is None or e.function not in ("+", "-", "*") or (e.function == "*" and value == 0):
        return None
    if e.function == "+":
        return inner.through(inner.early + value, inner.late + value, e.type)
    if e.function == "-":
        return inner.through(value - inner.early, value - inner.late, e.type, turned=True)
    return inner.through(inner.early * value, inner.late * value, e.type, turned=value < 0)


def _difference(e: Call) -> Trend | None:
    """date_diff('unit', a, b): rises with b, falls with a."""
    for moving, fixed, turned in ((e.args[2], e.args[1], False), (e.args[1], e.args[2], True)):
        inner, value = _trend(moving), constant_of(fixed)
        if inner is not None and value is not None:
            return inner.through(inner.early - value, inner.late - value, BIGINT, turned)
    return None


def constant_of(e: Expression) -> float | None:
    """The value of a constant expression, in the form of literals; None: it is no number, or not known."""
    if isinstance(e, Literal):
        value = e.value
        return value if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) else None
    if not isinstance(e, Call):
        return None
    values = [constant_of(a) for a in e.args]
    if any(v is None for v in values) or (e.type not in _LIMITS and e.type != DOUBLE):
        return None
    given: list[float] = [v for v in values if v is not None]
    found: float | None = None
    if e.function == "cast" and e.args[0].type in (INT, BIGINT, DOUBLE) and e.type in (BIGINT, DOUBLE):
        found = float(given[0]) if e.type == DOUBLE else given[0] if isinstance(given[0], int) else None
    elif e.function == "cast" and (e.args[0].type, e.type) == (DATE, TIMESTAMP):
        found = given[0] * _DAY
    elif e.function == "neg":
        found = -given[0]
    elif e.function in ("+", "-", "*") and len(given) == 2:
        found = {"+": given[0] + given[1], "-": given[0] - given[1], "*": given[0] * given[1]}[e.function]
    limit = _LIMITS.get(e.type)
    return found if found is not None and isfinite(found) and (limit is None or abs(found) <= limit) else None
