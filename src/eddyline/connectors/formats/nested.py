"""STRUCT and ARRAY columns from what files hold: Arrow's own nested types, or JSON text.

Answer   `convert_nested` gives a column in the declared nested type, and which of its values fit. Fields and elements
         are converted by the rules of their own types. A value fits when all that is in it fits. `json_face` is how
         JSON shows a type.
Limits   A field that the declaration has and a value has not is null; further fields are left out. Everything is
         computed on whole columns; only texts that are no JSON are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from eddyline.connectors.formats.json_values import decode
from eddyline.kernels.texts.json_text import MALFORMED, Path, locate
from eddyline.model.datatypes import DataType
from eddyline.state.columns import string_buffers

Converted = tuple[pa.ChunkedArray, pa.ChunkedArray | None]
Convert = Callable[[pa.ChunkedArray, DataType], Converted]
#: The path to a whole text.
_WHOLE = Path(np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(1, np.int64), np.frombuffer(b" ", np.uint8))
#: How JSON shows the values of a type; times and dates are text.
_FACES = {"BOOLEAN": pa.bool_(), "INT": pa.int64(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}


def json_face(kind: DataType) -> pa.DataType:
    """The type that JSON values of a declared type have before they are converted."""
    if kind.name == "STRUCT":
        return pa.struct([(name, json_face(part)) for name, part in kind.parts])
    if kind.name == "ARRAY":
        return pa.list_(json_face(kind.element))
    return kind.arrow if kind.name == "DECIMAL" else _FACES.get(kind.name, pa.string())


def convert_nested(values: pa.ChunkedArray, kind: DataType, convert: Convert) -> Converted:
    """A column of Arrow's nested types as the declared one; `convert` is for what is in it."""
    source = values.type
    array = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if kind.name == "STRUCT" and pa.types.is_struct(source):
        made, fits = _struct(array, kind, convert)
    elif kind.name == "ARRAY" and (
        pa.types.is_list(source) or pa.types.is_large_list(source) or pa.types.is_fixed_size_list(source)
    ):
        plain = array if pa.types.is_list(source) else array.cast(pa.list_(source.value_type))
        made, fits = _array(plain, kind, convert)
    else:
        return pa.chunked_array([pa.nulls(len(values), kind.arrow)]), pc.is_null(values)
    if fits is None or fits.all():
        return pa.chunked_array([made]), None
    return pa.chunked_array([pc.if_else(pa.array(fits), made, pa.scalar(None, kind.arrow))]), pa.chunked_array(
        [pa.array(fits)]
    )


def _struct(array: pa.StructArray, kind: DataType, convert: Convert) -> tuple[pa.Array, np.ndarray | None]:
    names = [field.name for field in array.type]
    lower = [name.lower() for name in names]
    children: list[pa.Array] = []
    fits: np.ndarray | None = None
    for name, part in kind.parts:
        place = names.index(name) if name in names else lower.index(name.lower()) if name.lower() in lower else -1
        if place < 0:
            children.append(pa.nulls(len(array), part.arrow))
            continue
        child, fit = convert(pa.chunked_array([pc.struct_field(array, [place])]), part)
        children.append(child.combine_chunks())
        fits = _both(fits, fit)
    mask = pc.is_null(array) if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(kind.arrow), mask=mask), fits


def _array(array: pa.ListArray, kind: DataType, convert: Convert) -> tuple[pa.Array, np.ndarray | None]:
    offsets = array.offsets.to_numpy()
    first, end = int(offsets[0]), int(offsets[-1])
    elements, fit = convert(pa.chunked_array([array.values.slice(first, end - first)]), kind.element)
    mask = pc.is_null(array) if array.null_count else None
    made = pa.ListArray.from_arrays(
        pa.array(offsets - first, pa.int32()), elements.combine_chunks(), type=kind.arrow, mask=mask
    )
    if fit is None:
        return made, None
    misfits = np.concatenate(([0], np.cumsum(~fit.to_numpy())))
    return made, misfits[offsets[1:] - first] == misfits[offsets[:-1] - first]


def _both(fits: np.ndarray | None, fit: pa.ChunkedArray | None) -> np.ndarray | None:
    if fit is None:
        return fits
    found: np.ndarray = fit.to_numpy()
    return found if fits is None else fits & found


def _check(texts: pa.StringArray) -> None:
    """Refuse what is not one JSON value, or nested too deep, before Arrow's parser sees it: that takes `1,"w":2` within
    an object for 1."""
    states, _, _ = locate(*string_buffers(texts), _WHOLE)
    for place in np.flatnonzero(states == MALFORMED):
        try:
            # Python also knows NaN and Infinity.
            decode(texts[int(place)].as_py())
        except ValueError as problem:
            raise pa.ArrowInvalid(str(problem)) from problem


def parsed(text: pa.ChunkedArray, kind: DataType) -> pa.ChunkedArray:
    """Texts of JSON values as a column of the type's face.

    Raises:
        pa.ArrowInvalid: one of them is no such value.
    """
    if not len(text):
        return pa.chunked_array([pa.nulls(0, json_face(kind))])
    plain = pc.fill_null(pc.replace_substring_regex(text, "[\r\n]", " "), "null").combine_chunks()
    _check(plain)
    lines = pc.binary_join_element_wise('{"v":', plain, "}\n", "")
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
    data = lines.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    found = pyarrow.json.read_json(
        pa.BufferReader(data),
        pyarrow.json.ReadOptions(use_threads=False, block_size=data.size + 1024),
        pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([("v", json_face(kind))]), unexpected_field_behavior="ignore"
        ),
    )
    if found.num_rows != len(text):
        raise pa.ArrowInvalid("a text is not one value")
    return found.column("v")
