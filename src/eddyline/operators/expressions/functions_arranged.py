"""Several values as one value of bytes, in the order of their parts.

Answer   `arranged('-+x', y, t, x)` is NULL where a part is. Bytes of a part under `+` compare as its values do, under
         `-` the other way round. The last part is under `x`, or under `n` where it may be NULL; `payloads` reads it
         back. `place` is the place of each row, which the caller gives as the column `PLACE`.

             +  number: 8 bytes, DECIMAL: 16, the first one greatest    text: its bytes, 00 as 00 FF, then 00 01
             x  number: 8 bytes, DECIMAL: 16                            text: its bytes, then their number in 4 bytes

Limits   Texts that contain a zero byte, as x, lie in the order of their bytes only up to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import Fault
from eddyline.kernels.groups import group as kernels
from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Call, ColumnKey, Literal
from eddyline.operators.aggregate.accumulators.encoding import ALL, ValueEncoder, ordered_bytes
from eddyline.operators.expressions.vectors import Frame, Kernel, Vector, to_arrow
from eddyline.state.columns import as_plain, string_buffers, validity
from eddyline.state.plain_arrays import bytes_array, equal_bytes, plain_array

#: The column with the places of rows.
PLACE: ColumnKey = ("", "place")
_SIGN = np.uint64(1 << 63)
#: Encodes values that are no texts: for these an encoder has no state.
_PLAIN = ValueEncoder()
Bytes = npt.NDArray[np.uint8]


def make_arranged(call: Call) -> Kernel:
    form = call.args[0]
    if not isinstance(form, Literal):
        raise Fault("arranged without a literal form")
    kinds = [part.type for part in call.args[1:]]
    signs = str(form.value)

    def arrange(frame: Frame, _: Vector, *parts: Vector) -> Vector:
        written = [
            _WRITTEN[sign](array, kind) if sign in _WRITTEN else _ordered(array, kind, sign == "-")
            for sign, kind, array in zip(
                signs, kinds, (to_arrow(p, k, frame.rows) for p, k in zip(parts, kinds, strict=True)), strict=True
            )
        ]
        return Vector(_joined(*written))

    return arrange


def make_place(call: Call) -> Kernel:
    return lambda frame, _: Vector(frame.columns[PLACE])


def make_number(call: Call) -> Kernel:
    """The number of a row in its partition. It is known when the rows are ranked: the ranking replaces this 0."""
    return lambda frame, _: Vector(np.zeros(1, np.int64))


MAKERS: dict[str, Callable[[Call], Kernel]] = {
    "arranged": make_arranged,
    "place": make_place,
    "row_number": make_number,
}


def _fixed(array: pa.Array, kind: DataType) -> Bytes:
    """Values that are no texts as rows of bytes, in the order of values."""
    if kind.name == "DECIMAL":
        return ordered_bytes(as_plain(array, kind)).reshape(-1, 16)
    encoded, _ = _PLAIN.encode(array, kind)
    return (encoded.view(np.uint64) ^ _SIGN).astype(">u8").view(np.uint8).reshape(-1, 8)


def _ordered(array: pa.Array, kind: DataType, turned: bool) -> pa.Array:
    if kind.name != "STRING":
        rows = _fixed(array, kind)
        return equal_bytes(~rows if turned else rows, validity(array))
    escaped = pc.replace_substring(array.cast(pa.binary()), b"\x00", b"\x00\xff")
    ended = _joined(escaped, pa.scalar(b"\x00\x01", pa.binary()))
    if not turned:
        return ended
    offsets, data = string_buffers(ended)
    return bytes_array(pa.binary(), offsets, ~data, validity(ended))


def _payload(array: pa.Array, kind: DataType) -> pa.Array:
    if kind.name != "STRING":
        return equal_bytes(_fixed(array, kind), validity(array))
    sizes = np.diff(string_buffers(array)[0]).astype(">u4").view(np.uint8).reshape(-1, 4)
    return _joined(array.cast(pa.binary()), equal_bytes(sizes, validity(array)))


def _nullable(array: pa.Array, kind: DataType) -> pa.Array:
    """A payload that may be NULL: its last byte is 0 then, otherwise 1."""
    there = validity(array)
    flags = np.ones((len(array), 1), np.uint8) if there is None else there.astype(np.uint8)[:, None]
    return _joined(_payload(array, kind).fill_null(b""), equal_bytes(flags))


_WRITTEN = {"x": _payload, "n": _nullable}


def _joined(*parts: Any) -> pa.Array:
    """The bytes of several values, one after the other."""
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))


def payloads(values: pa.Array, kind: DataType, nullable: bool = False) -> pa.Array:
    """The last parts of arranged values, of type `kind`; NULL where there is no value. With `nullable` they were
    written under `n`."""
    offsets, data = string_buffers(values)
    there = validity(values)
    ends = offsets[1:]
    if nullable:
        ends = ends - 1
        flags = data[ends] == 1
        there = flags if there is None else there & flags
    ends = ends if there is None else np.where(there, ends, 0)
    if kind.name == "STRING":
        return _texts(values, ends, data, there)
    width = 16 if kind.name == "DECIMAL" else 8
    if not len(data):
        return pa.nulls(len(values), kind.arrow)
    raw = data[np.maximum(ends - width, 0)[:, None] + np.arange(width)].view(">u8").astype(np.uint64)
    if kind.name == "DECIMAL":
        pairs = np.stack([raw[:, 1].view(np.int64), (raw[:, 0] ^ _SIGN).view(np.int64)], axis=1)
        return plain_array(kind, pairs, there)
    encoded = (raw[:, 0] ^ _SIGN).view(np.int64)
    return _PLAIN.decode(encoded, ALL if there is None else there, kind)


def _texts(values: pa.Array, ends: npt.NDArray[np.int64], data: Bytes, there: npt.NDArray[np.bool_] | None) -> pa.Array:
    if not len(data):
        return pa.nulls(len(values), pa.string())
    begins = np.maximum(ends - 4, 0)
    sizes = data[begins[:, None] + np.arange(4)].view(">u4").astype(np.int64)[:, 0]
    sizes = np.where(ends > 0, sizes, 0)
    offsets, packed = kernels.gather_bytes(begins - sizes, sizes, data, np.arange(len(values)))
    return bytes_array(pa.string(), offsets, packed, there)
