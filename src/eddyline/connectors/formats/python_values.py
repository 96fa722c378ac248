"""Python objects as Arrow columns, each object by itself.

Answer   `column_of` gives the column of Python objects that `convert` takes. Objects of one sort become an array of
         Arrow's type for that sort. Objects of several sorts become a union with one part per sort, so that `convert`
         treats each object as if it stood alone. Lists and objects for nested types are converted here; those that do
         not fit are the part `REFUSED`, as text.
Limits   The sort of an object depends on the object and the declared type alone. An object that no sort describes is
         its `str`. Objects are looked at one by one: that is what Python objects cost. Columns of one plain sort are
         built by Arrow in one call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.connectors.formats.conversion import Reading, convert
from eddyline.connectors.formats.json_values import json_text
from eddyline.connectors.formats.unions import REFUSED
from eddyline.model.datatypes import DataType

#: Ends of 64 bits, which a column of integers has.
_LOW, _HIGH = -(2**63), 2**63 - 1
#: Decimals with at most so many digits behind the point, and in all, have a type of Arrow's; others are text.
_FINEST, _WIDEST = 38, 76
#: What pandas has in place of a value that is not there.
_MISSING = frozenset({"NaTType", "NAType"})
#: Classes whose objects are of one sort, whatever they hold.
_PLAIN: dict[type, str] = {bool: "boolean", float: "float", date: "date", time: "time", bytes: "bytes"}
_TYPES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "instant": pa.timestamp("us"),
    "zoned": pa.timestamp("us", "UTC"),
}


def column_of(values: Sequence[object], kind: DataType, unit: str | None = None) -> pa.Array:
    """Objects for a column of a declared type, in the types that they have themselves. `unit` is that of integers in
    nested objects.

    >>> from eddyline.model.datatypes import BIGINT
    >>> column_of([1, None, 2], BIGINT).type, column_of([1, "x"], BIGINT).to_pylist()
    (DataType(int64), [1, 'x'])
    """
    classes = set(map(type, values)) - {NoneType}
    if len(classes) <= 1:
        made = _in_one_call(values, next(iter(classes), NoneType))
        if made is not None:
            return made
    parts: dict[str, list[Any]] = {}
    codes, places = np.empty(len(values), np.int8), np.empty(len(values), np.int32)
    numbers: dict[str, int] = {}
    for row, value in enumerate(values):
        sort, plain = _sorted(value, kind)
        part = parts.setdefault(sort, [])
        codes[row], places[row] = numbers.setdefault(sort, len(numbers)), len(part)
        part.append(plain)
    arrays: list[pa.Array] = []
    refused: list[str] = []
    for code, (sort, part) in enumerate(parts.items()):
        if sort not in ("struct", "list"):
            arrays.append(pa.array(part, _TYPES.get(sort)))
            continue
        array, fits = (_objects if sort == "struct" else _lists)(part, kind, unit)
        arrays.append(array)
        wrong = np.flatnonzero(~fits)
        rows = np.flatnonzero(codes == code)[wrong]
        codes[rows], places[rows] = len(parts), len(refused) + np.arange(len(rows))
        refused += [_json(part[place]) for place in wrong.tolist()]
    if refused:
        arrays.append(pa.array(refused, pa.string()))
    elif len(arrays) == 1:
        return arrays[0]
    return pa.UnionArray.from_dense(pa.array(codes), pa.array(places), arrays, [*parts, REFUSED][: len(arrays)])


def _objects(
    values: list[Mapping[Any, object]], kind: DataType, unit: str | None
) -> tuple[pa.Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Objects as a STRUCT, and which of them fit."""
    fits, children = np.ones(len(values), np.bool_), []
    for name, part in kind.parts:
        child, fit = _converted([field_of(value, name) for value in values], part, unit)
        children.append(child)
        fits &= fit
    return pa.StructArray.from_arrays(children, fields=list(kind.arrow)), fits


def _lists(
    values: list[list[object]], kind: DataType, unit: str | None
) -> tuple[pa.Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Lists as an ARRAY, and which of them fit."""
    ends = np.cumsum([0, *map(len, values)])
    elements, fit = _converted([item for value in values for item in value], kind.element, unit)
    wrong = np.concatenate(([0], np.cumsum(~fit)))
    made = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), elements, type=kind.arrow)
    return made, wrong[ends[1:]] == wrong[ends[:-1]]


def _converted(
    values: Sequence[object], kind: DataType, unit: str | None
) -> tuple[pa.Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    column, fits = convert(pa.chunked_array([column_of(values, kind, unit)]), kind, Reading(unit))
    array = column.combine_chunks()
    return array, np.ones(len(values), np.bool_) if fits is None else fits.to_numpy()


def _in_one_call(values: Sequence[object], known: type) -> pa.Array | None:
    """A column of objects of one class, some of which may be None. Returns None if they must be examined one by one."""
    sort = "null" if known is NoneType else _PLAIN.get(known)
    try:
        if sort is not None:
            return pa.array(values, _TYPES[sort])
        if known is int:
            return pa.array(values, pa.int64())
        if known is str:
            return pa.array(values, pa.string())
        if known is datetime and all(value is None or value.tzinfo is None for value in values):  # type: ignore[attr-defined]
            return pa.array(values, pa.timestamp("us"))
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        # An integer of more than 64 bits, or half of a surrogate pair.
        pass
    return None


def _sorted(value: object, kind: DataType) -> tuple[str, object]:
    """The sort of an object, and the object as that sort has it."""
    if isinstance(value, np.generic):
        value = _plain(value)
    if value is None or type(value).__name__ in _MISSING:
        return "null", None
    found = _PLAIN.get(type(value))
    if found is not None:
        return found, value
    for known, sort in _SORTS:
        if isinstance(value, known):
            return sort(value, kind)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object(fields_of(value), kind)
    return _text(str(value))


def _plain(value: np.generic) -> object:
    """A scalar of NumPy as an object of Python."""
    if isinstance(value, np.datetime64):
        return value.astype("M8[us]").item()
    if isinstance(value, np.timedelta64):
        return str(value)
    return value.item()


def fields_of(value: Any) -> dict[str, object]:
    """The fields of a dataclass object; objects in it stay as they are."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _integer(value: Any, kind: DataType) -> tuple[str, object]:
    whole = int(value)
    return ("integer", whole) if _LOW <= whole <= _HIGH else ("text", str(whole))


def _decimal(value: Any, kind: DataType) -> tuple[str, object]:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or kind.name == "DOUBLE" or not -_WIDEST < value.adjusted() < _WIDEST:
        # DOUBLE: Arrow's cast from a decimal may differ in the last bit from that of the text.
        return "text", json_text(value) if value.is_finite() else str(value)
    if exponent > 0:
        value, exponent = Decimal(int(value)), 0
    if exponent < -_FINEST or max(value.adjusted(), 0) + 1 - exponent > _WIDEST:
        return "text", json_text(value)
    # Decimals of one sort have one scale, so each keeps its own digits: 1.50 stays 1.50.
    return f"decimal{-exponent}", value


def _instant(value: Any, kind: DataType) -> tuple[str, object]:
    if value.utcoffset() is None:
        return "instant", value
    try:
        return "zoned", value.astimezone(UTC)
    except OverflowError:
        # Within a day of the ends of the calendar: Python has no such instant in UTC, and a text may have any zone.
        return "text", value.isoformat(" ")


def _object(value: Mapping[Any, object], kind: DataType) -> tuple[str, object]:
    return ("struct", value) if kind.name == "STRUCT" else _text(_json(value))


def _listed(value: Any, kind: DataType) -> tuple[str, object]:
    items = value.tolist() if isinstance(value, np.ndarray) else list(value)
    if kind.name == "STRUCT" and hasattr(value, "_fields"):
        return "struct", dict(zip(value._fields, items, strict=True))
    return ("list", items) if kind.name == "ARRAY" else _text(_json(items))


def _bytes(value: Any, kind: DataType) -> tuple[str, object]:
    return "bytes", bytes(value)


#: In this order: a bool is an int, and a datetime a date.
_SORTS: tuple[tuple[type | tuple[type, ...], Callable[[Any, DataType], tuple[str, object]]], ...] = (
    (bool, lambda value, kind: ("boolean", bool(value))),
    (int, _integer),
    (float, lambda value, kind: ("float", float(value))),
    (str, lambda value, kind: _text(str.__str__(value))),
    (datetime, _instant),
    (date, lambda value, kind: ("date", value)),
    (time, lambda value, kind: ("time", value.replace(tzinfo=None)) if value.tzinfo is None else ("text", str(value))),
    (Decimal, _decimal),
    ((bytearray, memoryview, bytes), _bytes),
    (Mapping, _object),
    ((list, tuple, np.ndarray), _listed),
)


def _text(value: str) -> tuple[str, object]:
    """A text of Python; one with half of a surrogate pair is bytes that are no text."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return "bytes", value.encode("utf-8", "surrogatepass")
    return "text", value


def _json(value: object) -> str:
    return str(json_text(_jsonable(value)))


def _jsonable(value: object) -> object:
    """An object with what JSON has: lists, objects with texts for keys, numbers, texts."""
    if isinstance(value, np.generic):
        value = _plain(value)
    if value is None or isinstance(value, str | bool | int | float | Decimal):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = fields_of(value)
    if isinstance(value, Mapping):
        return {str(name): _jsonable(found) for name, found in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_jsonable(found) for found in value]
    return str(value)


def field_of(value: Mapping[Any, object], name: str) -> object:
    """What an object has under a name; whatever the case of its letters, where it is not there as written."""
    if name in value:
        return value[name]
    wanted = name.lower()
    return next((found for key, found in value.items() if isinstance(key, str) and key.lower() == wanted), None)


def spellings(names: Iterable[object], declared: Sequence[str]) -> tuple[dict[str, list[Any]], list[object]]:
    """Given names by declared name, those as declared first; and the names that are not declared."""
    lower = {name.lower(): name for name in reversed(declared)}
    found: dict[str, list[Any]] = {}
    unknown: list[object] = []
    for name in names:
        known = name if name in declared else lower.get(name.lower()) if isinstance(name, str) else None
        if isinstance(known, str):
            found.setdefault(known, []).insert(0 if known == name else len(found.get(known, ())), name)
        else:
            unknown.append(name)
    return found, unknown
