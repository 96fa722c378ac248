"""The plain twins of the sharing kernels, and of a set of filters: one row, one range, one query at a time.

Answer   `matches` evaluates every predicate on every row with three-valued logic. The others say in lists and loops
         what the kernel of the same name computes with arrays.
Limits   Only the functions that the filter tests use. NaN is equal to itself and above all numbers; texts compare
         bytewise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal

Range = tuple[int, int]
#: Column number and ranges of each term.
Term = tuple[int, list[Range]]


# ---- kernels/intervals.py


def contains(ranges: list[Range], key: int | None) -> bool:
    """Whether a value is in one of the ranges; (high, low) with high > low stands for null, None is null."""
    if key is None:
        return any(low > high for low, high in ranges)
    return any(low <= key <= high for low, high in ranges)


def box_pairs(boxes: list[list[Term]], keys: list[list[int | None]]) -> list[tuple[int, int]]:
    """All (box, row) pairs; `keys` has one list per column."""
    rows = len(keys[0])
    return [
        (b, row)
        for b, terms in enumerate(boxes)
        for row in range(rows)
        if all(contains(ranges, keys[column][row]) for column, ranges in terms)
    ]


def cover(keys: list[int], low: int, high: int) -> tuple[int, int]:
    """How many keys lie below a range, and how many do not lie above it."""
    return sum(key < low for key in keys), sum(key <= high for key in keys)


def locate(bounds: list[bytes], text: bytes) -> tuple[int, bool]:
    """The number of bounds below a text, and whether it is a bound."""
    return sum(bound < text for bound in bounds), text in bounds


# ---- kernels/bitsets.py


def as_sets(words: Sequence[Sequence[int]]) -> list[set[int]]:
    """Rows of 64-bit words as sets of bit numbers."""
    return [
        {64 * place + bit for place, word in enumerate(line) for bit in range(64) if int(word) >> bit & 1}
        for line in words
    ]


# ---- operators/sharing/grouped_filter.py


def matches(predicates: Mapping[int, Expression | None], rows: Sequence[Mapping[str, object]]) -> list[tuple[int, int]]:
    """All (slot, row) pairs for which the slot's predicate is true, by slot and then by row."""
    return [(slot, at) for slot in sorted(predicates) for at, row in enumerate(rows) if holds(predicates[slot], row)]


def holds(predicate: Expression | None, row: Mapping[str, object]) -> bool:
    return predicate is None or value_of(predicate, row) is True


def value_of(e: Expression, row: Mapping[str, object]) -> object:
    """The value over one row (column name to value); None is NULL."""
    if isinstance(e, ColumnRef):
        return row[e.column]
    if isinstance(e, Literal):
        return e.value
    assert isinstance(e, Call)
    values = [value_of(a, row) for a in e.args]
    if e.function == "and":
        return False if False in values else None if None in values else True
    if e.function == "or":
        return True if True in values else None if None in values else False
    if e.function == "in":
        found = [None if v is None or values[0] is None else order_of(v) == order_of(values[0]) for v in values[1:]]
        return True if True in found else None if None in found else False
    if e.function == "is_null":
        return values[0] is None
    if e.function == "is_not_null":
        return values[0] is not None
    if e.function == "is_not_distinct":
        return values == [None, None] if None in values else order_of(values[0]) == order_of(values[1])
    if None in values:
        return None
    return _strict(e, values)


def _strict(e: Call, values: list[object]) -> object:
    if e.function == "not":
        return not values[0]
    if e.function == "cast":
        return {"DOUBLE": float, "BIGINT": int, "TIMESTAMP": lambda days: days * 86_400_000_000}[e.type.name](values[0])
    if e.function == "%":
        return int(math.fmod(values[0], values[1])) if values[1] else None
    if e.function == "length":
        return len(values[0])
    if e.function == "like":
        pattern = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in values[1])
        return re.fullmatch(pattern, values[0], re.DOTALL) is not None
    a, b = order_of(values[0]), order_of(values[1])
    return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[e.function]


def order_of(value: object) -> tuple[bool, object]:
    """Something that compares as SQL does."""
    if isinstance(value, str):
        return False, value.encode()
    if isinstance(value, float):
        return math.isnan(value), 0 if math.isnan(value) else value if math.isinf(value) else Fraction(value)
    return False, value
