"""Arithmetic and mathematics on BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP and INTERVAL values.

Answer   Kernels over NumPy arrays. An integer result that does not fit its type, and an integer divided by zero, is
         NULL and counted; doubles follow IEEE 754, as in DuckDB.
Limits   Logarithms, exponentials and powers may differ from DuckDB's in the last bit. DECIMAL is in
         `functions_decimal.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eddyline.model.datatypes import DATE, DOUBLE, INT
from eddyline.model.expressions.expression import Call
from eddyline.operators.expressions.vectors import Array, Frame, Kernel, Mask, Vector, both

#: The ends of the ranges of INT and BIGINT.
_LOWEST = {np.dtype(np.int32): -(2**31), np.dtype(np.int64): -(2**63)}
_SMALL = (-(2**31), 2**31 - 1)


def narrow(frame: Frame, wide: Array, valid: Mask | None) -> Vector:
    """int64 results as int32; those that do not fit are issues."""
    if not _within(wide, *_SMALL):
        valid = frame.spoil("overflow", (wide < _SMALL[0]) | (wide > _SMALL[1]), valid)
    return Vector(wide.astype(np.int32), valid)


def _within(values: Array, low: int, high: int) -> bool:
    """Whether all values lie between two bounds: two fast passes, which mostly replace a test of each value."""
    return bool(values.max(initial=low) <= high and values.min(initial=high) >= low)


def _roomy(values: Array) -> bool:
    """Whether two such values can be added or subtracted without overflow."""
    return _within(values, -(2**62), 2**62 - 1)


def make_sum(call: Call) -> Kernel:
    """Sums and differences."""
    operation: Callable[[Array, Array], Array] = np.add if call.function == "+" else np.subtract
    if call.type == DOUBLE:
        return _plain_binary(operation)
    if call.type in (INT, DATE):
        return lambda frame, a, b: narrow(frame, operation(a.values.astype(np.int64), b.values), both(a.valid, b.valid))

    def compute(frame: Frame, a: Vector, b: Vector) -> Vector:
        found = operation(a.values, b.values)
        if _roomy(a.values) and _roomy(b.values):
            return Vector(found, both(a.valid, b.valid))
        # A sum has overflowed where both terms have one sign and the sum has the other; a - b is a + ~b + 1.
        other = b.values if call.function == "+" else ~b.values
        bad = ((a.values ^ found) & (other ^ found)) < 0
        return Vector(found, frame.spoil("overflow", bad, both(a.valid, b.valid)))

    return compute


def make_multiply(call: Call) -> Kernel:
    if call.type == DOUBLE:
        return _plain_binary(np.multiply)
    if call.type == INT:
        return lambda frame, a, b: narrow(frame, a.values.astype(np.int64) * b.values, both(a.valid, b.valid))

    def multiply(frame: Frame, a: Vector, b: Vector) -> Vector:
        product = a.values * b.values
        valid = both(a.valid, b.valid)
        if _within(a.values, -(2**31), 2**31) and _within(b.values, -(2**31), 2**31):
            return Vector(product, valid)
        size = np.abs(a.values.astype(np.float64)) * np.abs(b.values.astype(np.float64))
        if (size < 2.0**62).all():
            return Vector(product, valid)
        # Near the limit a product is tested by a division. The lowest number divided by -1 overflows: -1 is tested apart.
        lowest = _LOWEST[np.dtype(np.int64)]
        divisor = np.where((a.values == 0) | (a.values == -1), 1, a.values)
        wrong = (product // divisor != b.values) | (product % divisor != 0)
        bad = np.where(a.values == -1, b.values == lowest, (a.values != 0) & wrong) & (size >= 2.0**62)
        return Vector(product, frame.spoil("overflow", bad, valid))

    return multiply


def make_whole_divide(call: Call) -> Kernel:
    if call.type == DOUBLE:

        def divide_doubles(frame: Frame, a: Vector, b: Vector) -> Vector:
            return Vector(a.values / b.values, frame.spoil("division by zero", b.values == 0, both(a.valid, b.valid)))

        return divide_doubles
    return lambda frame, a, b: _quotient(frame, a, b, remainder=False)


def make_modulo(call: Call) -> Kernel:
    if call.type == DOUBLE:
        return _plain_binary(np.fmod)
    return lambda frame, a, b: _quotient(frame, a, b, remainder=True)


def _quotient(frame: Frame, a: Vector, b: Vector, remainder: bool) -> Vector:
    zero = b.values == 0
    valid = frame.spoil("division by zero", zero, both(a.valid, b.valid))
    bad = (a.values == _LOWEST[a.values.dtype]) & (b.values == -1)
    valid = frame.spoil("overflow", bad, valid)
    divisor = np.where(zero | bad, 1, b.values).astype(b.values.dtype)
    rest = np.fmod(a.values, divisor)
    return Vector(rest if remainder else (a.values - rest) // divisor, valid)


def _of_sign(function: Callable[[Array], Array]) -> Callable[[Call], Kernel]:
    """Negation and absolute value: only those of the lowest integer do not fit."""

    def compute(frame: Frame, a: Vector) -> Vector:
        if a.values.dtype == np.float64:
            return Vector(function(a.values), a.valid)
        return Vector(function(a.values), frame.spoil("overflow", a.values == _LOWEST[a.values.dtype], a.valid))

    return lambda call: compute


def sign(frame: Frame, a: Vector) -> Vector:
    return Vector((a.values > 0).astype(np.int32) - (a.values < 0), a.valid)


def half_away(values: Array) -> Array:
    """Rounded as C's round does: halves away from zero, the sign of zero kept."""
    cut = np.trunc(values)
    return np.copysign(cut + np.where(np.abs(values - cut) >= 0.5, np.sign(values), 0.0), values)


def make_round(call: Call) -> Kernel:
    if call.type == DOUBLE:
        return _round_doubles
    if len(call.args) == 1:
        return lambda frame, a: a
    return _round_integers


def _round_doubles(frame: Frame, a: Vector, digits: Vector | None = None) -> Vector:
    if digits is None:
        return Vector(np.where(np.isfinite(a.values), half_away(a.values), a.values), a.valid)
    places = digits.values
    scale = np.power(10.0, np.abs(places, dtype=np.float64))
    up = half_away(a.values * scale) / scale
    up = np.where(np.isfinite(up), up, a.values)
    down = half_away(a.values / scale) * scale
    down = np.where(np.isfinite(down), down, np.where(np.isfinite(a.values), 0.0, a.values))
    return Vector(np.where(places < 0, down, up), both(a.valid, digits.valid))


def _round_integers(frame: Frame, a: Vector, digits: Vector) -> Vector:
    places = np.maximum(0, -digits.values.astype(np.int64))
    most = 10 if a.values.dtype == np.int32 else 19
    power = np.power(np.uint64(10), np.minimum(places, 19).astype(np.uint64))
    lowest = _LOWEST[a.values.dtype]
    negative = a.values < 0
    size = np.where(negative, np.uint64(0) - a.values.astype(np.int64).view(np.uint64), a.values.astype(np.uint64))
    rounded = (size + power // np.uint64(2)) // power * power
    rounded = np.where(places >= most + (most == 19), np.uint64(0), rounded)
    limit = np.where(negative, np.uint64(-lowest), np.uint64(-lowest - 1))
    valid = frame.spoil("overflow", (rounded > limit) & (places > 0), both(a.valid, digits.valid))
    signed = np.where(negative, np.uint64(0) - rounded, rounded).view(np.int64)
    return Vector(np.where(places > 0, signed, a.values).astype(a.values.dtype), valid)


def _unary(function: Callable[[Array], Array]) -> Callable[[Call], Kernel]:
    return lambda call: lambda frame, a: Vector(function(a.values), a.valid)


def _plain_binary(function: Callable[[Array, Array], Array]) -> Kernel:
    return lambda frame, a, b: Vector(function(a.values, b.values), both(a.valid, b.valid))


MAKERS: dict[str, Callable[[Call], Kernel]] = {
    "+": make_sum,
    "-": make_sum,
    "*": make_multiply,
    "/": lambda call: _plain_binary(np.true_divide),
    "//": make_whole_divide,
    "%": make_modulo,
    "neg": _of_sign(np.negative),
    "abs": _of_sign(np.abs),
    "sign": lambda call: sign,
    "round": make_round,
    "power": lambda call: _plain_binary(np.power),
    "ceil": _unary(np.ceil),
    "floor": _unary(np.floor),
    "sqrt": _unary(np.sqrt),
    "ln": _unary(np.log),
    "log10": _unary(np.log10),
    "log2": _unary(np.log2),
    "exp": _unary(np.exp),
    "isnan": _unary(np.isnan),
    "isinf": _unary(np.isinf),
    "isfinite": _unary(np.isfinite),
}
