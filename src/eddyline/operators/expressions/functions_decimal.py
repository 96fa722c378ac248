"""DECIMAL: exact arithmetic, rounding, and to and from other numbers.

Answer   Kernels over Arrow decimals. Results are made in 256 bits and then fitted into their type, so that an overflow
         is counted and not raised; halves round away from zero. `rounded` divides, for Arrow's own division gives wrong
         digits for some values.
Limits   The remainder is computed in 64 bits: wider types are refused when a query is bound.
"""

from __future__ import annotations

import decimal as decimals
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Call, Literal
from eddyline.operators.expressions.vectors import (
    Array,
    Frame,
    Kernel,
    Mask,
    Vector,
    both,
    mask,
    spread,
    validity,
    without,
)
from eddyline.state.plain_arrays import pack_bits, plain_array

#: How `rounded` rounds, by the numbers of `kernels/decimals.py`: planning loads this file and no kernels.
HALF_AWAY, UP, DOWN = 0, 1, 2
_WIDEST = 76


def fit(frame: Frame, values: pa.Array, kind: DataType, issue: str = "overflow") -> Vector:
    """Decimals of any width, rounded and checked into the type; those that do not fit are issues."""
    scale = values.type.scale
    if scale > kind.scale:
        values, scale = rounded(values, kind.scale), kind.scale
    limit = pa.scalar(decimals.Decimal(10) ** (kind.precision - kind.scale), pa.decimal256(_WIDEST, 0))
    if values.type.precision - scale > kind.precision - kind.scale:
        bad = mask(pc.fill_null(pc.greater_equal(pc.abs(values), limit.cast(pa.decimal256(_WIDEST, scale))), False))
        frame.spoil(issue, bad, None)
        values = without(values, bad, len(values))
    wide = values.cast(pa.decimal256(_WIDEST, kind.scale), safe=False)
    return Vector(wide.cast(kind.arrow, safe=False))


def rounded(values: pa.Array, places: int, rounding: int = HALF_AWAY) -> pa.Array:
    """Decimals of any width with at most `places` digits after the point, and as much room before it as there is.

    Places below 0 lie before the point: 125 with -1 gives 130.
    """
    scale = values.type.scale
    if places >= scale:
        return widened(values)
    from eddyline.kernels.decimals import rescale

    wide = widened(values)
    given = np.empty((0, 4), np.int64)
    if len(wide):
        given = np.frombuffer(wide.buffers()[1], np.int64, 4 * len(wide), 32 * wide.offset).reshape(-1, 4)
    made = np.empty_like(given)
    rescale(given, scale - places, max(-places, 0), rounding, made)
    valid = validity(Vector(wide))
    buffers = [None if valid is None else pack_bits(valid), pa.py_buffer(made)]
    return pa.Array.from_buffers(pa.decimal256(_WIDEST, max(places, 0)), len(wide), buffers)


def widened(values: pa.Array) -> pa.Array:
    """The same decimals with as much room before the point as there is."""
    return values.cast(pa.decimal256(_WIDEST, values.type.scale))


def halves(values: pa.Array) -> tuple[Array, Array]:
    """The unscaled 128-bit integers as low and high 64-bit halves."""
    if len(values) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    pairs = np.frombuffer(values.buffers()[1], np.int64, 2 * len(values), 16 * values.offset).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def from_halves(low: Array, high: Array, valid: Mask | None, kind: DataType) -> pa.Array:
    """Decimals whose unscaled 128-bit integers are given in two halves."""
    pairs = np.stack((low, high), axis=1)
    return plain_array(kind, pairs, None if valid is None else np.broadcast_to(valid, len(pairs)))


def from_doubles(frame: Frame, values: Array, valid: Mask | None, kind: DataType) -> Vector:
    """Doubles as decimals: scaled, rounded, and split into halves without loss."""
    scaled = values * 10.0**kind.scale
    cut = np.trunc(scaled)
    whole = cut + np.where(np.abs(scaled - cut) >= 0.5, np.sign(scaled), 0.0)
    bad = ~(np.abs(whole) < 10.0**kind.precision)
    valid = frame.spoil("failed cast", bad, valid)
    size = np.where(bad, 0.0, np.abs(whole))
    above = np.floor(size / 2.0**64)
    low = (size - above * 2.0**64).astype(np.uint64).view(np.int64)
    high = above.astype(np.int64)
    # The sign last, in two's complement: a double cannot hold 2**64 less a little.
    low, high = np.where(whole < 0, -low, low), np.where(whole < 0, ~high + (low == 0), high)
    return Vector(from_halves(low, high, valid, kind))


def to_doubles(values: pa.Array, kind: DataType) -> Array:
    low, high = halves(values)
    size = 10.0**kind.scale
    # Integers beyond 2**53 are not doubles: whole and fraction are converted apart.
    unit = 10 ** min(kind.scale, 18)
    rest = np.fmod(low, unit)
    apart = ((low - rest) // unit).astype(np.float64) + rest / size
    found = np.where(np.abs(low) <= 2**53, low / size, apart) if 0 < kind.scale <= 18 else low / size
    wide = high != low >> 63
    if kind.precision > 18 and wide.any():
        found = np.where(wide, pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False), found)
    return found


def to_text(values: pa.Array, kind: DataType) -> pa.Array:
    """Decimals as text with all their digits, never with an exponent."""
    if kind.scale == 0:
        return values.cast(pa.string())
    negative = pc.less(values, pa.scalar(decimals.Decimal(0), pa.decimal128(1, 0)).cast(values.type))
    low, high = halves(pc.abs(values))
    digits = from_halves(low, high, validity(Vector(values)), DataType("DECIMAL", 38, 0)).cast(pa.string())
    digits = pc.utf8_lpad(digits, kind.scale + 1, "0")
    sign = pc.if_else(negative, "-", "")
    whole = pc.utf8_slice_codeunits(digits, 0, -kind.scale)
    fraction = pc.utf8_slice_codeunits(digits, -kind.scale, None)
    if kind.precision == kind.scale:
        # A type without whole digits is written without the zero before the point.
        whole = pc.utf8_slice_codeunits(whole, 0, 0)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, whole, ""), fraction, ".")


def _two(frame: Frame, a: Vector, b: Vector) -> tuple[pa.Array, pa.Array]:
    return spread(a.values, frame.rows), spread(b.values, frame.rows)


def make_sum(call: Call) -> Kernel:
    operation = pc.add if call.function == "+" else pc.subtract
    kind = call.type

    def compute(frame: Frame, a: Vector, b: Vector) -> Vector:
        x, y = _two(frame, a, b)
        wide = pa.decimal256(kind.precision, kind.scale)
        return fit(frame, operation(x.cast(wide), y.cast(wide)), kind)

    return compute


def make_product(call: Call) -> Kernel:
    kind = call.type

    def compute(frame: Frame, a: Vector, b: Vector) -> Vector:
        x, y = _two(frame, a, b)
        # Two operands of 38 digits would need one digit more than 256 bits promise; those digits never fit the result.
        room = min(y.type.precision, _WIDEST - 1 - x.type.precision)
        left = x.cast(pa.decimal256(x.type.precision, x.type.scale))
        right = fit(frame, y, DataType("DECIMAL", room, y.type.scale)).values if room < y.type.precision else y
        return fit(frame, pc.multiply(left, right.cast(pa.decimal256(room, y.type.scale))), kind)

    return compute


def make_modulo(call: Call) -> Kernel:
    kind = call.type

    def compute(frame: Frame, a: Vector, b: Vector) -> Vector:
        x, y = _two(frame, a, b)
        (low, _), (divisor, _) = halves(x), halves(y)
        zero = divisor == 0
        valid = frame.spoil("division by zero", zero, both(validity(Vector(x)), validity(Vector(y))))
        rest = np.fmod(low, np.where(zero, 1, divisor))
        return Vector(from_halves(rest, rest >> 63, valid, kind))

    return compute


def make_round(call: Call) -> Kernel:
    kind = call.type
    digits = call.args[1].value if len(call.args) > 1 and isinstance(call.args[1], Literal) else 0
    places = int(str(digits))

    def compute(frame: Frame, a: Vector, *_: Vector) -> Vector:
        values = spread(a.values, frame.rows)
        if places < 0:
            # A decimal has at most 38 digits before the point: rounded to 39 places before it, it is 0.
            values = rounded(values, max(places, -39))
        return fit(frame, values, kind)

    return compute


def _whole(rounding: int) -> Callable[[Call], Kernel]:
    def make(call: Call) -> Kernel:
        return lambda frame, a: fit(frame, rounded(spread(a.values, frame.rows), 0, rounding), call.type)

    return make


def sign(frame: Frame, a: Vector) -> Vector:
    values = spread(a.values, frame.rows)
    low, high = halves(values)
    return Vector((high < 0).astype(np.int32) * -1 + ((high >= 0) & ((high | low) != 0)), validity(Vector(values)))


MAKERS: dict[str, Callable[[Call], Kernel]] = {
    "+": make_sum,
    "-": make_sum,
    "*": make_product,
    "%": make_modulo,
    "neg": lambda call: lambda frame, a: Vector(pc.negate(a.values)),
    "abs": lambda call: lambda frame, a: Vector(pc.abs(a.values)),
    "sign": lambda call: sign,
    "round": make_round,
    "ceil": _whole(UP),
    "floor": _whole(DOWN),
}
