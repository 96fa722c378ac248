"""Comparison, membership and extremes.

Answer   Kernels for `= <> < <= > >=`, `is_not_distinct`, `in`, `greatest` and `least`, for every type.
Limits   As in DuckDB NaN equals NaN and lies above infinity, and -0.0 equals 0.0. Arrow and NumPy both differ, so this
         module has comparisons of doubles of its own; they take one pass where one side is a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import DOUBLE, DataType
from eddyline.model.expressions.expression import Call, Literal, in_values
from eddyline.operators.expressions.vectors import Array, Frame, Kernel, Mask, Vector, boolean, both, is_arrow, validity

_ARROW = {"=": "equal", "<>": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
#: NumPy's functions have the names of Arrow's.
_NUMPY: dict[str, Callable[[Array, Array], Mask]] = {sign: getattr(np, name) for sign, name in _ARROW.items()}
#: The comparison that gives the same with its sides exchanged.
SWAPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def make_comparison(call: Call) -> Kernel:
    name = call.function
    kind = call.args[0].type
    if is_arrow(kind):
        compare = getattr(pc, _ARROW[name])
        return lambda frame, a, b: boolean(compare(a.values, b.values))
    if kind == DOUBLE:
        left, right = call.args
        if _is_plain(right):
            return _against_number(name)
        if _is_plain(left):
            swapped = _against_number(SWAPPED[name])
            return lambda frame, a, b: swapped(frame, b, a)
        doubles = _DOUBLES[name]
        return lambda frame, a, b: Vector(doubles(a.values, b.values), both(a.valid, b.valid))
    plain = _NUMPY[name]
    return lambda frame, a, b: Vector(plain(a.values, b.values), both(a.valid, b.valid))


def _is_plain(e: object) -> bool:
    return isinstance(e, Literal) and isinstance(e.value, float) and e.value == e.value


def _against_number(name: str) -> Kernel:
    """A comparison with a constant that is a number. NaN lies above it: `>` and `>=` are negations, which NaN passes."""
    if name in (">", ">="):
        below = np.less_equal if name == ">" else np.less
        return lambda frame, a, b: Vector(~below(a.values, b.values), a.valid)
    plain = _NUMPY[name]
    return lambda frame, a, b: Vector(plain(a.values, b.values), a.valid)


def equal_doubles(a: Array, b: Array) -> Mask:
    return (a == b) | ((a != a) & (b != b))


def less_doubles(a: Array, b: Array) -> Mask:
    return (a < b) | ((b != b) & (a == a))


_DOUBLES: dict[str, Callable[[Array, Array], Mask]] = {
    "=": equal_doubles,
    "<>": lambda a, b: ~equal_doubles(a, b),
    "<": less_doubles,
    "<=": lambda a, b: ~less_doubles(b, a),
    ">": lambda a, b: less_doubles(b, a),
    ">=": lambda a, b: ~less_doubles(a, b),
}


def equal(a: Vector, b: Vector, kind: DataType) -> Vector:
    if is_arrow(kind):
        return boolean(pc.equal(a.values, b.values))
    same = equal_doubles if kind == DOUBLE else np.equal
    return Vector(same(a.values, b.values), both(a.valid, b.valid))


def make_not_distinct(call: Call) -> Kernel:
    kind = call.args[0].type

    def not_distinct(frame: Frame, a: Vector, b: Vector) -> Vector:
        same = equal(a, b, kind)
        left, right = validity(a), validity(b)
        if left is None and right is None:
            return Vector(same.values)
        here = np.ones(1, np.bool_) if left is None else left
        there = np.ones(1, np.bool_) if right is None else right
        return Vector((same.values & here & there) | (~here & ~there))

    return not_distinct


def make_in(call: Call) -> Kernel:
    """Membership; with a NULL among the values, what is not found is unknown."""
    kind = call.args[0].type
    literals = in_values(call)
    if literals is None:
        return lambda frame, needle, *others: _any_equal(needle, others, kind)
    has_null = any(v is None for v in literals)
    present = [v for v in literals if v is not None]
    if is_arrow(kind):
        wanted = pa.array(present, kind.arrow)

        def search(values: Any) -> Mask:
            return boolean(pc.is_in(values, value_set=wanted)).values
    else:
        table = np.unique(np.array([v for v in present if v == v], kind.numpy))
        has_nan = any(v != v for v in present)

        def search(values: Any) -> Mask:
            found = np.isin(values, table) if len(table) > 8 else _is_one_of(values, table)
            return found | (values != values) if has_nan else found

    def member(frame: Frame, needle: Vector, *_: Vector) -> Vector:
        found = search(needle.values)
        valid = validity(needle)
        return Vector(found, both(valid, found) if has_null else valid)

    return member


def _is_one_of(values: Array, table: Array) -> Mask:
    found: Mask = np.zeros(len(values), np.bool_)
    for wanted in table:
        found |= values == wanted
    return found


def _any_equal(needle: Vector, others: tuple[Vector, ...], kind: DataType) -> Vector:
    found: Mask = np.zeros(1, np.bool_)
    known: Mask = np.ones(1, np.bool_)
    for other in others:
        same = equal(needle, other, kind)
        found = found | (same.values if same.valid is None else same.values & same.valid)
        known = known if same.valid is None else known & same.valid
    return Vector(found, found | known)


def make_extreme(call: Call) -> Kernel:
    """greatest and least; NULLs do not take part."""
    kind = call.type
    greatest = call.function == "greatest"
    if is_arrow(kind):
        element_wise = pc.max_element_wise if greatest else pc.min_element_wise
        return lambda frame, *args: Vector(element_wise(*(a.values for a in args), skip_nulls=True))
    less: Callable[[Array, Array], Mask] = less_doubles if kind == DOUBLE else np.less

    def extreme(frame: Frame, *args: Vector) -> Vector:
        values, valid = args[0]
        for other in args[1:]:
            better = less(values, other.values) if greatest else less(other.values, values)
            if valid is not None:
                better = better | ~valid
            if other.valid is not None:
                better = better & other.valid
            values = np.where(better, other.values, values)
            valid = None if valid is None or other.valid is None else valid | other.valid
        return Vector(values, valid)

    return extreme


MAKERS: dict[str, Callable[[Call], Kernel]] = {
    **dict.fromkeys(_ARROW, make_comparison),
    "is_not_distinct": make_not_distinct,
    "in": make_in,
    "greatest": make_extreme,
    "least": make_extreme,
}
