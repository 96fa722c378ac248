"""Times: cutting, parts, differences, and to and from numbers.

Answer   Kernels over int64 microseconds, and int64 spans; calendar units by NumPy's datetime64 (proleptic Gregorian).
Limits   Values outside of what a TIMESTAMP of DuckDB can hold are issues; infinite timestamps are not known.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eddyline.errors import Fault
from eddyline.model.expressions.expression import Call, Literal
from eddyline.operators.expressions.vectors import Array, Frame, Kernel, Vector, both

#: Microseconds.
DAY = 86_400_000_000
#: Units of fixed length that begin at the epoch.
MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": DAY,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1_200, "millennium": 12_000}
#: The first day of month 0 counted from year 0, as months before 1970.
_YEAR_ZERO = -1970 * 12
#: DuckDB's timestamps begin here.
LOWEST = -9_223_372_022_400_000_000


def months_of(micros: Array) -> Array:
    """Months since January of year 0."""
    return micros.view("M8[us]").astype("M8[M]").view(np.int64) - _YEAR_ZERO


def _month_start(months: Array) -> Array:
    start: Array = (months + _YEAR_ZERO).view("M8[M]").astype("M8[us]").view(np.int64)
    return start


def _unit(call: Call) -> str:
    unit = call.args[0]
    if not isinstance(unit, Literal):
        raise Fault(f"{call.function} without a literal unit")
    return str(unit.value)


def make_date_trunc(call: Call) -> Kernel:
    unit = _unit(call)

    def cut(micros: Array) -> Array:
        if unit in MICROSECONDS:
            return micros - micros % MICROSECONDS[unit]
        if unit == "week":
            days = micros // DAY
            # 1970-01-01 is a Thursday; weeks begin on Monday.
            return (days - (days + 3) % 7) * DAY
        months = months_of(micros)
        size = _MONTHS[unit]
        # Decades and longer units are cut towards year 0: times before year 0 get a later one.
        years = np.fmod(months // 12, size // 12) if size > 12 else 0
        return _month_start(months - months % 12 - years * 12 if size >= 12 else months - months % size)

    return lambda frame, _, t: Vector(cut(t.values), t.valid)


def make_tumble_start(call: Call) -> Kernel:
    _, span, offset = call.args
    assert isinstance(span, Literal) and isinstance(span.value, int)
    assert isinstance(offset, Literal) and isinstance(offset.value, int)
    size, shift = span.value, offset.value % span.value
    return lambda frame, t, *_: Vector(t.values - (t.values - shift) % size, t.valid)


def _truncated(values: Array, size: int) -> Array:
    """Division cut towards zero."""
    return (values - np.fmod(values, size)) // size


def _year_start(days: Array) -> Array:
    start: Array = days.view("M8[D]").astype("M8[Y]").astype("M8[D]").view(np.int64)
    return start


def _iso_week(days: Array) -> Array:
    """The week of the year that the Thursday of the same week lies in."""
    thursday = days - (days + 3) % 7 + 3
    return (thursday - _year_start(thursday)) // 7 + 1


def _era(years: Array, size: int) -> Array:
    """Centuries and millennia: the first begins with year 1, and there is none with the number 0."""
    return np.where(years > 0, (years - 1) // size + 1, -(_truncated(-years, size) + 1))


#: Parts of the time of day: microseconds of one, and how many there are in the next larger part or in a minute.
_OF_CLOCK = {unit: (MICROSECONDS[unit], 60 * size) for unit, size in (("millisecond", 1_000), ("microsecond", 10**6))}
_OF_CLOCK |= {unit: (MICROSECONDS[unit], size) for unit, size in (("hour", 24), ("minute", 60), ("second", 60))}
#: Parts that days give, and parts that months since year 0 give.
_OF_DAYS: dict[str, Callable[[Array], Array]] = {
    "dow": lambda days: (days + 4) % 7,
    "isodow": lambda days: (days + 3) % 7 + 1,
    "week": _iso_week,
    "doy": lambda days: days - _year_start(days) + 1,
}
_OF_MONTHS: dict[str, Callable[[Array], Array]] = {
    "year": lambda months: months // 12,
    "month": lambda months: months % 12 + 1,
    "quarter": lambda months: months % 12 // 3 + 1,
    "decade": lambda months: _truncated(months // 12, 10),
    "century": lambda months: _era(months // 12, 100),
    "millennium": lambda months: _era(months // 12, 1000),
}


def part_of(unit: str, micros: Array) -> Array:
    """One part of a time, as BIGINT."""
    if unit in _OF_CLOCK:
        size, limit = _OF_CLOCK[unit]
        return micros // size % limit
    if unit in _OF_DAYS:
        return _OF_DAYS[unit](micros // DAY)
    months = months_of(micros)
    return micros // DAY - _month_start(months) // DAY + 1 if unit == "day" else _OF_MONTHS[unit](months)


def make_date_part(call: Call) -> Kernel:
    unit = _unit(call)
    return lambda frame, _, t: Vector(part_of(unit, t.values), t.valid)


def make_date_diff(call: Call) -> Kernel:
    """How many boundaries lie between two times; weeks are whole spans of seven days."""
    unit = _unit(call)

    def count(micros: Array) -> Array:
        if unit in MICROSECONDS:
            return micros // MICROSECONDS[unit]
        months = months_of(micros)
        size = _MONTHS[unit]
        return _truncated(months // 12, size // 12) if size > 12 else months // size

    def difference(frame: Frame, _: Vector, a: Vector, b: Vector) -> Vector:
        valid = both(a.valid, b.valid)
        if unit == "week":
            return Vector(_truncated(b.values // DAY - a.values // DAY, 7), valid)
        return Vector(count(b.values) - count(a.values), valid)

    return difference


def seconds(frame: Frame, t: Vector) -> Vector:
    return Vector(t.values / 1e6, t.valid)


def milliseconds(frame: Frame, t: Vector) -> Vector:
    # Rounded, halves away from zero.
    return Vector(_truncated(t.values + np.where(t.values < 0, -500, 500), 1000), t.valid)


def same(frame: Frame, t: Vector) -> Vector:
    return t


def from_microseconds(frame: Frame, n: Vector) -> Vector:
    bad = (n.values < LOWEST) | (n.values == 2**63 - 1)
    return Vector(n.values, frame.spoil("timestamp out of range", bad, n.valid))


def from_milliseconds(frame: Frame, n: Vector) -> Vector:
    limit = (2**63 - 1) // 1000
    bad = (n.values > limit) | (n.values < LOWEST // 1000)
    return Vector(n.values * 1000, frame.spoil("timestamp out of range", bad, n.valid))


MAKERS: dict[str, Callable[[Call], Kernel]] = {
    "date_trunc": make_date_trunc,
    "tumble_start": make_tumble_start,
    "date_part": make_date_part,
    "date_diff": make_date_diff,
    "epoch": lambda call: seconds,
    "epoch_ms": lambda call: milliseconds,
    "epoch_us": lambda call: same,
    "make_timestamp": lambda call: from_microseconds,
    "make_timestamp_ms": lambda call: from_milliseconds,
}
