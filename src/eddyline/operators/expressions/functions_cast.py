"""CAST: values of one type as values of another.

Answer   A kernel for every pair of types that `model/expressions/coercion.py` allows. A value that the target cannot
         hold, or a text that is not one of its values, is NULL and counted.
Limits   Texts of numbers may have blanks around them, one sign, a fraction and an exponent, which moves the point and
         rounds nothing. Times are `YYYY-MM-DD[ HH:MM[:SS[.ffffff]]]` (also with `/`, a backslash or blanks, and with
         `T`) or `epoch`; a zone is read and left out. As in DuckDB there may be blanks around them, but not after a
         TIMESTAMP without a time of day. There are no infinite times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import BOOLEAN, DATE, DOUBLE, NULL, STRING, TIMESTAMP, DataType
from eddyline.model.expressions.expression import Call
from eddyline.operators.expressions import functions_decimal as exact
from eddyline.operators.expressions.functions_time import DAY
from eddyline.operators.expressions.vectors import (
    Array,
    Frame,
    Kernel,
    Mask,
    Vector,
    bitmap,
    constant,
    from_arrow,
    mask,
    spread,
    to_arrow,
    validity,
)

_FAILED = "failed cast"
_LIMITS = {"INT": (-(2**31), 2**31), "BIGINT": (-(2**63), 2**63)}
_BLANKS = " \t\n\v\f\r"
_PLAIN = r"^[+-]?([0-9]{1,40}\.?[0-9]{0,30}|\.[0-9]{1,30})$"
_FLOAT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_BASED = r"^(0[xX][0-9a-fA-F]+(_[0-9a-fA-F]+)*|0[bB][01]+(_[01]+)*)[ \t\n\v\f\r]*$"
_SPECIAL = r"^(?i)[+-]?(nan|inf|infinity)$"
#: Sign, digits before and after the point, and the exponent.
_PARTS = r"^(?P<sign>[+-]?)0*(?P<whole>[0-9]*)\.?(?P<rest>[0-9]*)(?:[eE](?P<power>[+-]?[0-9]+))?$"
#: One digit more than any type has before the point.
_MOST = 39
#: The digits of the widest decimals.
_WIDEST = 76
_MOMENT = (
    r"^[ \t\n\v\f\r]*0*(?P<year>[0-9]{1,5})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?:[T \t\n\v\f\r][ \t\n\v\f\r]*0*(?P<hour>[0-9]{1,2}):"
    r"(?:(?P<minute>[0-9]{1,2})(?::(?:(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?)?)?)?"
    # A zone: Z or an offset at once, or any name after one blank.
    r"(?:(?:Z|[+-][0-9]{2}(?::[0-9]{2}(?::[0-9]{2})?|[0-9]{2})?| [A-Za-z0-9_/+:-]*)[ \t\n\v\f\r]*)?"
)
#: Blanks may follow a date, but no TIMESTAMP without a time of day.
_MOMENTS = {"DATE": _MOMENT + r"|[ \t\n\v\f\r]*)$", "TIMESTAMP": _MOMENT + ")?$"}
#: Dates with another sign than a dash, twice the same one.
_OTHER_DATES = tuple(rf"^([ \t\n\v\f\r]*[0-9]+){sign}([0-9]{{1,2}}){sign}([0-9])" for sign in ("/", " ", r"\\"))


_EPOCH = r"^[ \t\n\v\f\r]*(?i:epoch)[ \t\n\v\f\r]*$"


def make_cast(call: Call) -> Kernel:
    source, target = call.args[0].type, call.type
    if source == NULL:
        empty = constant(None, target)
        return lambda frame, a: empty
    if source == STRING:
        return lambda frame, a: _from_text(frame, spread(a.values, frame.rows), target)
    if source.name == "DECIMAL":
        return lambda frame, a: _from_decimal(frame, spread(a.values, frame.rows), source, target)
    if target == STRING:
        return lambda frame, a: Vector(_to_text(to_arrow(a, source, frame.rows), source))
    if target.name == "DECIMAL":
        return lambda frame, a: _to_decimal(frame, a, source, target)
    return _between_plain(source, target)


def _between_plain(source: DataType, target: DataType) -> Kernel:
    dtype = target.numpy
    if target == BOOLEAN:
        return lambda frame, a: Vector(a.values != 0, a.valid)
    if target == TIMESTAMP:
        return _date_to_timestamp
    if target == DATE:
        return lambda frame, a: Vector((a.values // DAY).astype(np.int32), a.valid)
    if target == DOUBLE or source == BOOLEAN or (source.name == "INT" and target.name == "BIGINT"):
        return lambda frame, a: Vector(a.values.astype(dtype), a.valid)
    return lambda frame, a: to_integers(frame, np.rint(a.values) if source == DOUBLE else a.values, a.valid, target)


def to_integers(frame: Frame, whole: Array, valid: Mask | None, target: DataType) -> Vector:
    """Whole numbers (doubles or wider integers) as the integer type."""
    low, high = _LIMITS[target.name]
    bad = ~((whole >= low) & (whole < high)) if whole.dtype == np.float64 else (whole < low) | (whole > high - 1)
    valid = frame.spoil(_FAILED, bad, valid)
    return Vector(np.where(bad, 0, whole).astype(target.numpy), valid)


def _date_to_timestamp(frame: Frame, a: Vector) -> Vector:
    days = a.values.astype(np.int64)
    return Vector(days * DAY, frame.spoil(_FAILED, np.abs(days) > 106_751_990, a.valid))


def _to_text(array: pa.Array, source: DataType) -> pa.Array:
    if source == DOUBLE:
        plain = from_arrow(array, source)
        return pa.array(plain.values.astype("U32"), pa.string(), mask=None if plain.valid is None else ~plain.valid)
    text = array.cast(pa.string())
    return pc.utf8_rtrim(pc.utf8_rtrim(text, characters="0"), characters=".") if source == TIMESTAMP else text


def _to_decimal(frame: Frame, a: Vector, source: DataType, target: DataType) -> Vector:
    if source == DOUBLE:
        values = np.broadcast_to(a.values, frame.rows)
        return exact.from_doubles(frame, values, a.valid, target)
    array = to_arrow(Vector(a.values.astype(np.int64), a.valid), DataType("BIGINT"), frame.rows)
    return exact.fit(frame, array.cast(pa.decimal256(19, 0)), target, _FAILED)


def _from_decimal(frame: Frame, values: pa.Array, source: DataType, target: DataType) -> Vector:
    if target == STRING:
        return Vector(exact.to_text(values, source))
    valid = validity(Vector(values))
    if target == DOUBLE:
        return Vector(exact.to_doubles(values, source), valid)
    if target == BOOLEAN:
        low, high = exact.halves(values)
        return Vector((low | high) != 0, valid)
    return _fitted(frame, values, target)


def _fitted(frame: Frame, values: pa.Array, target: DataType) -> Vector:
    """Decimals rounded to an integer type, or fitted into a decimal type."""
    if not target.is_integer:
        return exact.fit(frame, values, target, _FAILED)
    nineteen = exact.fit(frame, values, DataType("DECIMAL", 38, 0), _FAILED).values
    low, high = exact.halves(nineteen)
    valid = frame.spoil(_FAILED, high != low >> 63, validity(Vector(nineteen)))
    return to_integers(frame, low, valid, target)


def _from_text(frame: Frame, texts: pa.Array, target: DataType) -> Vector:
    if target == BOOLEAN:
        return _text_to_boolean(frame, texts)
    if target.is_temporal:
        return _text_to_time(frame, texts, target)
    texts = pc.utf8_ltrim(texts, characters=_BLANKS)
    texts = _without_separators(pc.utf8_rtrim(_in_decimal(texts) if target.is_integer else texts, characters=_BLANKS))
    if target == DOUBLE:
        return _text_to_double(frame, texts)
    return _text_to_exact(frame, texts, target)


def _without_separators(texts: pa.Array) -> pa.Array:
    """Numerals without the single `_` between two digits: 1_000 is 1000."""
    if not _holds(pc.match_substring(texts, "_")).any():
        return texts
    # Twice: matches do not overlap, and 1_2_3 has two.
    for _ in range(2):
        texts = pc.replace_substring_regex(texts, r"([0-9])_([0-9])", r"\1\2")
    return texts


def _in_decimal(texts: pa.Array) -> pa.Array:
    """Hexadecimal and binary integers in decimal notation; with blanks behind them they are no integers. Arrow by
    itself reads 0x10 only in an array that has decimal integers too."""
    found = pc.fill_null(pc.match_substring_regex(texts, _BASED), False)
    if not _holds(found).any():
        return texts
    distinct = pc.unique(texts.filter(found))
    decimal = ["none" if text[-1] in _BLANKS else str(int(text, 0)) for text in distinct.to_pylist()]
    places = pc.index_in(texts, value_set=distinct)
    return pc.if_else(found, pa.array(decimal, pa.string()).take(places), texts)


def _holds(condition: pa.Array) -> Mask:
    return mask(pc.fill_null(condition, False))


def _has(texts: pa.Array) -> Mask:
    valid = validity(Vector(texts))
    return np.ones(len(texts), np.bool_) if valid is None else valid


def _text_to_boolean(frame: Frame, texts: pa.Array) -> Vector:
    lowered = pc.utf8_lower(texts)
    yes = _holds(pc.is_in(lowered, value_set=pa.array(["true", "t", "1", "yes", "y"])))
    no = _holds(pc.is_in(lowered, value_set=pa.array(["false", "f", "0", "no", "n"])))
    return Vector(yes, frame.spoil(_FAILED, ~(yes | no), _has(texts)))


def _text_to_double(frame: Frame, texts: pa.Array) -> Vector:
    try:
        found = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        good = pc.or_(pc.match_substring_regex(texts, _FLOAT), pc.match_substring_regex(texts, _SPECIAL))
        frame.spoil(_FAILED, ~_holds(good), _has(texts))
        found = pc.if_else(good, texts, pa.scalar(None, pa.string())).cast(pa.float64())
    return from_arrow(found, DOUBLE)


def _text_to_exact(frame: Frame, texts: pa.Array, target: DataType) -> Vector:
    """Integers and decimals: plain numerals as Arrow reads them, numerals with an exponent or very many digits with
    their point moved."""
    if target.is_integer:
        try:
            return to_integers(frame, *from_arrow(texts.cast(pa.int64()), DataType("BIGINT")), target)
        except pa.ArrowInvalid:
            # Not all are plain integers within 64 bits: the code below tests each.
            texts = pc.replace_substring_regex(texts, r"^\+([0-9.])", r"\1")
    plain = pc.match_substring_regex(texts, _PLAIN)
    numerals = pc.if_else(plain, texts, pa.scalar(None, pa.string())).cast(pa.decimal256(76, 30))
    has, is_plain = _has(texts), _holds(plain)
    is_float = _holds(pc.match_substring_regex(texts, _FLOAT)) & ~is_plain
    frame.spoil(_FAILED, has & ~is_plain & ~is_float, None)
    result = _fitted(frame, numerals, target)
    if not is_float.any():
        return result
    moved = _moved(pc.if_else(bitmap(is_float, len(texts)), texts, pa.scalar(None, pa.string())), target.scale)
    other = _fitted(frame, moved, target)
    if target.is_integer:
        valid = np.where(is_float, _valid(other, len(texts)), _valid(result, len(texts)))
        return Vector(np.where(is_float, other.values, result.values), valid)
    return Vector(pc.if_else(bitmap(is_float, len(texts)), other.values, result.values))


def _moved(texts: pa.Array, scale: int) -> pa.Array:
    """Numerals with exponents as decimals with one digit more than `scale`, by which the caller rounds them; further
    digits are cut off.

    Numerals with the same place of their point are moved at once. There are at most as many places as digits in a type:
    beyond them a numeral is 0, or too large for every type.
    """
    fields = pc.extract_regex(texts, _PARTS)
    whole, rest = fields.field("whole"), fields.field("rest")
    digits = pc.binary_join_element_wise(whole, rest, "")
    significant = pc.utf8_ltrim(digits, characters="0")
    # The exponent by its last digits: one with more of them is as good as the largest.
    power = pc.utf8_ltrim(fields.field("power"), characters="+-0")
    digits_of_power = pc.if_else(pc.equal(power, ""), "0", power)
    size = pc.if_else(pc.greater(pc.utf8_length(power), 6), "999999", digits_of_power).cast(pa.int64())
    size = pc.if_else(pc.starts_with(fields.field("power"), "-"), pc.negate(size), size)
    leading = pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant))
    places = pc.subtract(pc.add(pc.utf8_length(whole).cast(pa.int64()), size), leading.cast(pa.int64()))
    places = pc.min_element_wise(pc.max_element_wise(places, -scale - 2), min(_MOST, _WIDEST - 1 - scale))
    places = pc.if_else(pc.equal(significant, ""), -scale - 2, places)
    numbers = pc.fill_null(places, -scale - 2).to_numpy(zero_copy_only=False)
    made = pa.nulls(len(texts), pa.string())
    for place in np.unique(numbers).tolist():
        if place >= 0:
            wide = pc.utf8_slice_codeunits(pc.utf8_rpad(significant, place + scale + 1, "0"), 0, place + scale + 1)
        else:
            wide = pc.utf8_slice_codeunits(pc.binary_join_element_wise("0" * -place, significant, ""), 0, scale + 1)
        before, after = pc.utf8_slice_codeunits(wide, 0, max(place, 0)), pc.utf8_slice_codeunits(wide, max(place, 0))
        made = pc.if_else(bitmap(numbers == place, len(texts)), pc.binary_join_element_wise(before, after, "."), made)
    signed = pc.binary_join_element_wise(fields.field("sign"), "0", made, "")
    return signed.cast(pa.decimal256(_WIDEST, scale + 1))


def _valid(vector: Vector, rows: int) -> Mask:
    return np.ones(rows, np.bool_) if vector.valid is None else vector.valid


def _text_to_time(frame: Frame, texts: pa.Array, target: DataType) -> Vector:
    if _holds(epochs := pc.match_substring_regex(texts, _EPOCH)).any():
        texts = pc.if_else(epochs, "1970-01-01", texts)
    fields = pc.extract_regex(texts, _MOMENTS[target.name])
    found = _has(fields)
    if not np.array_equal(found, _has(texts)):
        for form in _OTHER_DATES:
            texts = pc.replace_substring_regex(texts, form, r"\1-\2-\3")
        fields = pc.extract_regex(texts, _MOMENTS[target.name])
        found = _has(fields)

    def number(name: str) -> Array:
        digits: Any = fields.field(name)
        filled = pc.if_else(pc.equal(digits, ""), "0", digits)
        return pc.fill_null(filled.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)

    year, month, day = number("year"), number("month"), number("day")
    hour, minute, second = number("hour"), number("minute"), number("second")
    fraction = pc.utf8_rpad(pc.fill_null(fields.field("fraction"), "0"), 6, "0")
    micros = pc.utf8_slice_codeunits(fraction, 0, 6).cast(pa.int64()).to_numpy(zero_copy_only=False)
    months = ((year - 1970) * 12 + month - 1).view("M8[M]")
    days = months.astype("M8[D]").view(np.int64)
    length = (months + 1).astype("M8[D]").view(np.int64) - days
    midnight = (hour == 24) & (minute == 0) & (second == 0) & (micros == 0)
    good = (month >= 1) & (month <= 12) & (day >= 1) & (day <= length)
    good &= ((hour < 24) | midnight) & (minute < 60) & (second < 60)
    valid = frame.spoil(_FAILED, ~(found & good), _has(texts))
    days = days + day - 1
    if target == DATE:
        return Vector(days.astype(np.int32), valid)
    return Vector(days * DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros, valid)
