"""Columns of any Arrow type to the declared types, without losing what does not fit.

Answer   `convert` gives the column in the declared type and, where some values do not fit, which ones did. The plain
         Arrow cast is tried first; only when it refuses are the misfits looked for, by masks over the whole column.
         A union, which pushed Python objects of several sorts are, is converted part by part.
State    A `Reading` per table: what the stream says of integers as times, and whether one of them was early.
Limits   Nothing is rounded into a type silently: 3.5 is no BIGINT, 1.234 no DECIMAL(10, 2), 10:30 no DATE. Two
         exceptions: time finer than a microsecond is cut off, and DOUBLE values become the nearest DECIMAL. An integer
         is a TIMESTAMP in the unit that the stream says, otherwise in microseconds; one in a text is a TIMESTAMP only
         where the stream says the unit. Other numbers are no times and booleans no numbers: their meaning would be a
         guess. Empty text is null everywhere but in STRING.
         Whether a value fits depends on the value alone, never on its neighbours: 5.0 and 1e3 are integers, 0x10 and
         1_000 no numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.connectors.formats.attempts import Cast, Converted, attempt
from eddyline.connectors.formats.json_values import json_text
from eddyline.connectors.formats.nested import convert_nested, parsed
from eddyline.connectors.formats.unions import REFUSED, by_part
from eddyline.connectors.formats.valid_text import is_folded, written_out
from eddyline.model.datatypes import BIGINT, DataType, decimal

_BOUNDS = {"INT": (-(2**31), 2**31 - 1), "BIGINT": (-(2**63), 2**63 - 1)}
_TICKS = {"s": 10**6, "ms": 10**3}
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
_FLOAT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:nan|inf|infinity)$"
_WHOLE = r"^\+?(-?)0*(\d+)(?:\.0*)?$"
_POWER = r"^[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+$"
_WIDE = pa.decimal128(38, 0)
#: Digits of the widest decimals.
_WIDEST = 76
_TIME = r"^\d{4}-\d\d-\d\d([ T]\d\d(:\d\d(:\d\d(\.\d{1,6})?)?)?)?$"
_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)$"
_DIGITS = r"^[+-]?\d+$"
#: The first microsecond of 1971: an instant before it is rarely meant.
_1971 = 31_536_000_000_000


class Reading:
    """What a stream says about its integers as times, and what was seen of them."""

    def __init__(self, unit: str | None = None) -> None:
        #: s | ms | us | ns; None: the stream does not say.
        self.unit = unit
        #: An integer became an instant before 1971, and the stream does not say its unit.
        self.early = False

    def check(self, instants: pa.ChunkedArray) -> None:
        """Instants that were integers."""
        if self.unit is None and not self.early and len(instants) > instants.null_count:
            self.early = bool(pc.min(instants.cast(pa.int64())).as_py() < _1971)


def convert(values: pa.ChunkedArray, kind: DataType, reading: Reading | None = None) -> Converted:
    """The column in the declared type, and which of its values fit.

    >>> from eddyline.model.datatypes import BIGINT
    >>> column, fits = convert(pa.chunked_array([["7", "x"]]), BIGINT)
    >>> column.to_pylist(), fits.to_pylist()
    ([7, None], [True, False])
    """
    source = values.type
    if source == kind.arrow:
        return values, None
    reading = reading or Reading()
    if isinstance(source, pa.BaseExtensionType):
        return convert(pa.chunked_array([c.storage for c in values.chunks], source.storage_type), kind, reading)
    if is_folded(source):
        return convert(written_out(values), kind, reading)
    if pa.types.is_union(source) and not len(values):
        return pa.chunked_array([], kind.arrow), None
    if pa.types.is_union(source):
        made, fits = by_part(values, partial(_whole, kind=kind, reading=reading))
        return made, None if pc.all(fits).as_py() else fits
    if pa.types.is_null(source):
        return values.cast(kind.arrow), None
    if pa.types.is_large_string(source) or pa.types.is_string_view(source):
        return convert(values.cast(pa.string()), kind, reading)
    if _is_bytes(source):
        text, fits = attempt(values, _decoded)
        column, also = convert(text, kind, reading)
        return column, also if fits is None else fits if also is None else pc.and_(fits, also)
    if kind.is_nested:
        return _to_nested(values, kind, reading)
    if kind.name == "TIMESTAMP":
        return _to_timestamp(values, kind, reading)
    return _RULES[kind.name](values, kind)


def _whole(
    values: pa.ChunkedArray, name: str, kind: DataType, reading: Reading
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The same as `convert` for a part of a union, with a mask also where all values fit."""
    column, fits = _none_fits(values, kind) if name == REFUSED else convert(values, kind, reading)
    return column, pa.chunked_array([pa.repeat(True, len(column))]) if fits is None else fits


def _to_nested(values: pa.ChunkedArray, kind: DataType, reading: Reading) -> Converted:
    """STRUCT and ARRAY: from Arrow's nested types, or from JSON text."""
    if not pa.types.is_string(values.type):
        return convert_nested(values, kind, partial(convert, reading=reading))
    faces, fits = attempt(_trimmed(values), lambda v: parsed(v, kind))
    column, also = convert(faces, kind, reading)
    return column, also if fits is None else fits if also is None else pc.and_(fits, also)


def as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Any column as text, for dead letters: readable, never failing."""
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(values), pa.string())])
    if is_folded(kind):
        return as_text(written_out(values))
    if pa.types.is_union(kind):
        return by_part(values, lambda part, _: (as_text(part),))[0]
    if _is_bytes(kind):
        text, fits = attempt(values, _decoded)
        return text if fits is None else pc.if_else(fits, text, _as_str(values))
    try:
        return values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _as_str(values)


def _as_str(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Nested values and bytes that are no text: rare, and only ever on rows that are dead already."""
    return pa.chunked_array([pa.array([None if v is None else str(v) for v in _python_values(values)], pa.string())])


def _python_values(values: pa.ChunkedArray) -> list[Any]:
    """The objects of Python; a text where there is none, for a time outside of the years 1 to 9999."""
    found: list[Any] = []
    for value in values:
        try:
            found.append(value.as_py())
        except (OverflowError, ValueError):
            found.append("a time outside of the years 1 to 9999")
    return found


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values.cast(pa.binary()).cast(pa.string())


def _none_fits(values: pa.ChunkedArray, kind: DataType) -> Converted:
    return pa.chunked_array([pa.nulls(len(values), kind.arrow)]), pc.is_null(values)


def _trimmed(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text without blanks around it; empty text becomes null."""
    text = pc.utf8_trim_whitespace(values)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _within(values: pa.ChunkedArray, low: object, high: object) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))


def _to_boolean(values: pa.ChunkedArray, kind: DataType) -> Converted:
    if not pa.types.is_string(values.type):
        return _none_fits(values, kind)
    text = pc.utf8_lower(_trimmed(values))
    true, false = (pc.is_in(text, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
    known = pc.or_(true, false)
    return pc.if_else(known, true, pa.scalar(None, pa.bool_())), pc.or_(known, pc.is_null(text))


def _to_integer(values: pa.ChunkedArray, kind: DataType) -> Converted:
    source, (low, high) = values.type, _BOUNDS[kind.name]
    cast: Cast = lambda v: v.cast(kind.arrow)
    if pa.types.is_unsigned_integer(source):
        return attempt(values, cast, lambda v: pc.less_equal(v, pa.scalar(high, pa.uint64())))
    if pa.types.is_integer(source):
        return attempt(values, cast, lambda v: _within(v, low, high))
    if pa.types.is_floating(source):
        # 2**63 itself is a DOUBLE, the largest BIGINT is not.
        inside: Cast = lambda v: pc.and_(pc.greater_equal(v, float(low)), pc.less(v, high + 1.0))
        return attempt(values, cast, lambda v: pc.and_(pc.equal(pc.floor(v), v), inside(v)))
    if pa.types.is_decimal(source):
        whole, fits = _to_decimal(values, decimal(38, 0))
        inside = pc.fill_null(_within(whole, pa.scalar(low, _WIDE), pa.scalar(high, _WIDE)), True)
        kept = pc.if_else(inside, whole, pa.scalar(None, _WIDE)).cast(kind.arrow)
        return kept, inside if fits is None else pc.and_(fits, inside)
    if pa.types.is_string(source):
        return _integers_of_text(_trimmed(values), kind)
    return _none_fits(values, kind)


def _integers_of_text(text: pa.ChunkedArray, kind: DataType) -> Converted:
    """Whole numbers in any decimal notation: 5, +5, 5.0, 1e3."""
    # Arrow reads 0x10 too, but only where all other values of the column are plain integers.
    if not _has_letter(text, b"xX"):
        try:
            return text.cast(kind.arrow), None
        except pa.ArrowInvalid:
            pass
    low, high = (pa.scalar(bound, _WIDE) for bound in _BOUNDS[kind.name])
    plain = pc.replace_substring_regex(text, _WHOLE, r"\1\2")
    if _has_letter(text, b"."):
        plain = pc.replace_substring_regex(plain, r"^[+-]?\.0+$", "0")
    fits = pc.fill_null(pc.match_substring_regex(plain, r"^-?\d{1,37}$"), True)
    number = pc.if_else(fits, plain, pa.scalar(None, pa.string())).cast(_WIDE)
    number, fits = _with_exponents(text, number, fits)
    inside = pc.fill_null(_within(number, low, high), True)
    return pc.if_else(inside, number, pa.scalar(None, _WIDE)).cast(kind.arrow), pc.and_(fits, inside)


def _with_exponents(
    text: pa.ChunkedArray, number: pa.ChunkedArray, fits: pa.ChunkedArray
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The same with the values of numbers that are written with an exponent, 1e3, where the type holds them exactly."""
    if not _has_letter(text, b"eE"):
        return number, fits
    powers = pc.fill_null(pc.match_substring_regex(text, _POWER), False)
    if not _any(powers):
        return number, fits
    written = pc.replace_substring_regex(text.filter(powers), r"^\+", "")
    # What is far too large would leave the 128 bits of its value unseen.
    most = 1.5 * 10.0 ** (number.type.precision - number.type.scale)
    written = pc.if_else(pc.less(pc.abs(written.cast(pa.float64())), most), written, pa.scalar(None, pa.string()))
    read, _ = attempt(written, lambda v: v.cast(number.type))
    known = pc.is_valid(read)
    # One after another into the places of the mask.
    return _placed(number, powers, read), _placed(fits, powers, known)


def _placed(column: pa.ChunkedArray, mask: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
    whole, where, fresh = (c.combine_chunks() for c in (column, mask, values))
    return pa.chunked_array([pc.replace_with_mask(whole, where, fresh)])


def _has_letter(text: pa.ChunkedArray, letters: bytes) -> bool:
    """Whether some letter is anywhere in a column of text; may be wrong with yes, never with no."""
    for chunk in text.chunks:
        data = chunk.buffers()[2]
        if data is not None and len(chunk):
            view = np.frombuffer(data, np.uint8)
            if any(bool((view == letter).any()) for letter in letters):
                return True
    return False


def _to_double(values: pa.ChunkedArray, kind: DataType) -> Converted:
    source = values.type
    if pa.types.is_integer(source) or pa.types.is_floating(source):
        return values.cast(kind.arrow, safe=False), None
    if pa.types.is_decimal(source):
        # Arrow's cast from a decimal may be off in the last bit; its reader of texts is exact.
        return values.cast(pa.string()).cast(kind.arrow), None
    if pa.types.is_string(source):
        text = _trimmed(values)
        if _has_letter(text, b"("):  # Arrow takes nan(1)
            numbers = pc.fill_null(pc.match_substring_regex(text, _FLOAT), True)
            column, fits = (
                _to_double(pc.if_else(numbers, text, pa.scalar(None, pa.string())), kind)
                if _any(numbers)
                else _none_fits(text, kind)
            )
            return column, numbers if fits is None else pc.and_(numbers, fits)
        return attempt(text, lambda v: v.cast(kind.arrow), lambda v: pc.match_substring_regex(v, _FLOAT))
    return _none_fits(values, kind)


def _to_string(values: pa.ChunkedArray, kind: DataType) -> Converted:
    if not pa.types.is_nested(values.type):
        return as_text(values), None
    # One value after the other: rare, and JSON files do the same.
    return pa.chunked_array([pa.array([json_text(value) for value in _python_values(values)], pa.string())]), None


def _to_date(values: pa.ChunkedArray, kind: DataType) -> Converted:
    source = values.type
    if pa.types.is_date(source):
        return values.cast(kind.arrow), None
    if pa.types.is_timestamp(source):
        naive = values.cast(pa.timestamp(source.unit))
        days, fits = attempt(naive, lambda v: v.cast(kind.arrow))
        whole = pc.fill_null(pc.equal(days.cast(naive.type), naive), True)
        return days, whole if fits is None else pc.and_(fits, whole)
    if pa.types.is_string(source):
        return attempt(
            _trimmed(values), lambda v: v.cast(kind.arrow), lambda v: pc.match_substring_regex(v, r"^\d{4}-\d\d-\d\d$")
        )
    return _none_fits(values, kind)


def _to_timestamp(values: pa.ChunkedArray, kind: DataType, reading: Reading) -> Converted:
    source = values.type
    if pa.types.is_integer(source):
        whole, fits = _to_integer(values, BIGINT)
        made, also = _to_timestamp(whole.cast(pa.timestamp(reading.unit or "us")), kind, reading)
        reading.check(made)
        return made, also if fits is None else fits if also is None else pc.and_(fits, also)
    if pa.types.is_timestamp(source):
        naive = values.cast(pa.timestamp(source.unit))  # a zone is only a way to show the instant: this is its UTC face
        limit = (2**63 - 1) // _TICKS.get(source.unit, 1)
        return attempt(
            naive,
            lambda v: pc.cast(v, options=pc.CastOptions(kind.arrow, allow_time_truncate=True)),
            lambda v: _within(v.cast(pa.int64()), -limit, limit),
        )
    if pa.types.is_date(source):
        return attempt(values, lambda v: v.cast(kind.arrow))
    if pa.types.is_string(source):
        text = _trimmed(values)
        try:
            return text.cast(kind.arrow), None
        except pa.ArrowInvalid:
            return _time_of_text(text, kind) if reading.unit is None else _time_of_digits(text, kind, reading)
    return _none_fits(values, kind)


def _time_of_digits(text: pa.ChunkedArray, kind: DataType, reading: Reading) -> Converted:
    """Texts of integers in the unit of the stream, and other texts of times."""
    whole = pc.fill_null(pc.match_substring_regex(text, _DIGITS), False)
    nothing = pa.scalar(None, pa.string())
    numbers, fits = _to_integer(pc.if_else(whole, text, nothing), BIGINT)
    times, inside = _to_timestamp(numbers, kind, reading)
    others, also = _time_of_text(pc.if_else(whole, nothing, text), kind)
    masks = [mask for mask in (fits, inside, also) if mask is not None]
    return pc.coalesce(times, others), reduce(pc.and_, masks) if masks else None


def _time_of_text(text: pa.ChunkedArray, kind: DataType) -> Converted:
    """Text with zones, or with more than six digits of seconds, or that is no time at all."""
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    match = lambda v: pc.match_substring_regex(v, _TIME)
    zoned = pc.fill_null(pc.match_substring_regex(text, r":\d\d(\.\d+)?" + _ZONE), False)
    if not _any(zoned):
        return attempt(text, lambda v: v.cast(kind.arrow), match)
    nothing = pa.scalar(None, pa.string())
    utc = pa.timestamp("us", "UTC")
    plain, plain_fits = attempt(pc.if_else(zoned, nothing, text), lambda v: v.cast(kind.arrow), match)
    shifted, shifted_fits = attempt(
        pc.if_else(zoned, text, nothing),
        lambda v: v.cast(utc).cast(kind.arrow),
        lambda v: match(pc.replace_substring_regex(v, _ZONE, "")),
    )
    if plain_fits is None or shifted_fits is None:
        fits = shifted_fits if plain_fits is None else plain_fits
    else:
        fits = pc.and_(plain_fits, shifted_fits)
    return pc.coalesce(plain, shifted), fits


def _to_decimal(values: pa.ChunkedArray, kind: DataType) -> Converted:
    source, target = values.type, kind.arrow
    whole_digits = kind.precision - kind.scale
    if pa.types.is_integer(source):
        # Arrow wants room for every possible integer, so the value goes through the widest decimal.
        return _to_decimal(values.cast(pa.decimal128(20, 0)), kind) if source != target else (values, None)
    if pa.types.is_decimal(source):
        return _rescaled(values, kind)
    if pa.types.is_floating(source):
        wide = values.cast(pa.float64())
        return attempt(wide, lambda v: v.cast(target), lambda v: pc.less(pc.abs(v), 10.0**whole_digits))
    if pa.types.is_string(source):
        text = _trimmed(values)
        # Arrow does not see when a longer text leaves the 128 bits of its value.
        short = (pc.max(pc.utf8_length(text)).as_py() or 0) <= 38 - kind.scale and not _has_letter(text, b"eE")
        if short:
            try:
                return text.cast(target), None
            except pa.ArrowInvalid:
                pass
        plain = pc.replace_substring_regex(text, r"^\+", "")
        plain = pc.replace_substring_regex(plain, r"^(-?)0+(\d)", r"\1\2")
        plain = pc.replace_substring_regex(plain, rf"(\.\d{{{kind.scale}}})0+$", r"\1")
        fraction = rf"(\.\d{{0,{kind.scale}}})?"
        form = rf"^-?\d{{0,{whole_digits}}}{fraction}$" if whole_digits else rf"^-?0?{fraction}$"
        formed = pc.fill_null(pc.match_substring_regex(plain, form), True)
        column, fits = attempt(pc.if_else(formed, plain, pa.scalar(None, pa.string())), lambda v: v.cast(target))
        return _with_exponents(text, column, formed if fits is None else pc.and_(formed, fits))
    return _none_fits(values, kind)


def _rescaled(values: pa.ChunkedArray, kind: DataType) -> Converted:
    """Decimals in another precision and scale; Arrow's own casts between scales give wrong digits for some wide
    values."""
    # Most jobs convert no decimals, and the kernels take time to load.
    from eddyline.kernels.decimals import DOWN, UP
    from eddyline.operators.expressions.functions_decimal import rounded

    if values.type.scale < 0:
        plain, fits = attempt(values, lambda v: v.cast(pa.decimal256(_WIDEST, 0)))
        column, also = _rescaled(plain, kind)
        return column, also if fits is None else fits if also is None else pc.and_(fits, also)
    column = values.combine_chunks()
    fits = pc.is_valid(column)
    # Rounded up and down are the same where no digit is cut off.
    cut = rounded(column, kind.scale, DOWN)
    if values.type.scale > kind.scale:
        fits = pc.and_(fits, pc.equal(cut, rounded(column, kind.scale, UP)))
    scale, digits = cut.type.scale, kind.precision - kind.scale
    if digits + scale < _WIDEST:
        fits = pc.and_(fits, pc.less(pc.abs(cut), pa.scalar(Decimal(10) ** digits, pa.decimal256(_WIDEST, scale))))
    fits = pc.fill_null(fits, False)
    kept = pc.if_else(fits, cut, pa.scalar(None, cut.type))
    made = pa.chunked_array([kept.cast(pa.decimal256(_WIDEST, kind.scale), safe=False).cast(kind.arrow, safe=False)])
    fits = pa.chunked_array([pc.or_(fits, pc.is_null(column))])
    return made, None if pc.all(fits).as_py() else fits


def _any(mask: pa.ChunkedArray) -> bool:
    return bool(pc.any(mask).as_py())


_RULES: dict[str, Callable[[pa.ChunkedArray, DataType], Converted]] = {
    "BOOLEAN": _to_boolean,
    "INT": _to_integer,
    "BIGINT": _to_integer,
    "DOUBLE": _to_double,
    "STRING": _to_string,
    "DATE": _to_date,
    "DECIMAL": _to_decimal,
}
