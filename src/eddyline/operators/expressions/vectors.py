"""Values of a whole column while an expression is computed.

Answer   A `Vector` is a NumPy array with a validity mask, or, for STRING and DECIMAL, an Arrow array that holds its own
         nulls. A constant has length one (NumPy) or is an Arrow scalar, and spreads by broadcasting.
State    A `Frame` lives for one evaluation: the columns, how many rows, the rows that count (`active`), and issues.
Limits   Values at invalid places are arbitrary. Buffers of the input are read in place, never written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import ColumnKey
from eddyline.state.plain_arrays import pack_bits, plain_array

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Array = np.ndarray[Any, Any]

NOTHING: Mask = np.zeros(1, np.bool_)
EVERYTHING: Mask = np.ones(1, np.bool_)


class Vector(NamedTuple):
    #: NumPy array, or a pa.Array or pa.Scalar that holds its own nulls.
    values: Any
    #: Where there is a value; None: everywhere (and always None for Arrow values).
    valid: Mask | None = None


#: A function over vectors; its first argument is the frame.
Kernel = Callable[..., Vector]


class Issues:
    """How many values could not be computed where DuckDB would raise an error, by kind; each became NULL.

    >>> issues = Issues()
    >>> issues.add("overflow", 2)
    >>> issues.total
    2
    """

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, kind: str, count: int) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + count

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class Frame:
    """One evaluation over one block of rows."""

    __slots__ = ("columns", "rows", "issues", "active", "memo")

    def __init__(self, columns: Mapping[ColumnKey, Any], rows: int, issues: Issues | None):
        self.columns = columns
        self.rows = rows
        self.issues = issues
        #: Rows whose issues count; None: all. CASE narrows it to the rows that take a branch.
        self.active: Mask | None = None
        self.memo: dict[int, Vector] = {}

    def spoil(self, kind: str, bad: Mask, valid: Mask | None) -> Mask | None:
        """The validity without the `bad` places, which are counted where they had a value and count at all."""
        if valid is not None:
            bad = bad & valid
        if not bad.any():
            return valid
        if self.issues is not None:
            counted = bad if self.active is None else bad & self.active
            count = int(np.count_nonzero(counted)) * (self.rows if len(counted) == 1 else 1)
            if count:
                self.issues.add(kind, count)
        return ~bad if valid is None else valid & ~bad


def both(a: Mask | None, b: Mask | None) -> Mask | None:
    """Where both have a value."""
    return b if a is None else a if b is None else a & b


def is_arrow(kind: DataType) -> bool:
    """Whether values of the type stay in Arrow form."""
    return kind.numpy is None


def bits(buffer: Any, offset: int, length: int) -> Mask:
    """An Arrow bitmap as booleans."""
    first = offset >> 3
    packed = np.frombuffer(buffer, np.uint8, ((offset + length + 7) >> 3) - first, first)
    start = offset & 7
    return np.unpackbits(packed, count=start + length, bitorder="little")[start:].view(np.bool_)


def from_arrow(array: Any, kind: DataType) -> Vector:
    """A column as a vector, without copying (booleans and nulls are unpacked)."""
    if isinstance(array, np.ndarray):
        return Vector(array)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    dtype = kind.numpy
    if dtype is None:
        return Vector(array)
    length = len(array)
    if length == 0:
        return Vector(np.empty(0, dtype))
    buffers = array.buffers()
    offset = array.offset
    valid = bits(buffers[0], offset, length) if array.null_count else None
    if dtype == np.bool_:
        return Vector(bits(buffers[1], offset, length), valid)
    return Vector(np.frombuffer(buffers[1], dtype, length, offset * dtype.itemsize), valid)


def to_arrow(vector: Vector, kind: DataType, rows: int) -> pa.Array:
    """The vector as an Arrow array of exactly `rows` values."""
    values, valid = vector
    if not isinstance(values, np.ndarray):
        if isinstance(values, pa.Scalar):
            return pa.repeat(values, rows)
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    dtype = kind.numpy
    if dtype is None:
        return pa.nulls(rows, kind.arrow)
    if len(values) != rows:
        values = np.broadcast_to(values, rows)
    if valid is not None and len(valid) != rows:
        valid = np.broadcast_to(valid, rows)
    return plain_array(kind, np.asarray(values, dtype), valid)


def constant(value: object, kind: DataType) -> Vector:
    """A literal as a vector of length one."""
    dtype = kind.numpy
    if dtype is None:
        return Vector(pa.scalar(value, kind.arrow))
    if value is None:
        return Vector(np.zeros(1, dtype), NOTHING)
    return Vector(np.array([value], dtype))


def validity(vector: Vector) -> Mask | None:
    """Where a vector of either form has a value; None: everywhere."""
    values = vector.values
    if isinstance(values, np.ndarray):
        return vector.valid
    if isinstance(values, pa.Scalar):
        return None if values.is_valid else NOTHING
    if values.null_count == 0:
        return None
    buffer = values.buffers()[0]
    return mask(pc.is_valid(values)) if buffer is None else bits(buffer, values.offset, len(values))


def mask(array: Any) -> Mask:
    """An Arrow boolean without nulls as a NumPy mask."""
    if isinstance(array, pa.Scalar):
        return EVERYTHING if array.as_py() else NOTHING
    return bits(array.buffers()[1], array.offset, len(array)) if len(array) else np.empty(0, np.bool_)


def boolean(array: Any) -> Vector:
    """An Arrow boolean, array or scalar, as a vector."""
    if isinstance(array, pa.Scalar):
        value = array.as_py()
        return Vector(NOTHING if not value else EVERYTHING, NOTHING if value is None else None)
    if len(array) == 0:
        return Vector(np.empty(0, np.bool_))
    return Vector(bits(array.buffers()[1], array.offset, len(array)), validity(Vector(array)))


def truth(vector: Vector) -> Mask:
    """Where a condition holds; NULL does not."""
    return vector.values if vector.valid is None else vector.values & vector.valid


def spread(values: Any, rows: int) -> Any:
    """An Arrow scalar as an array; an array as it is."""
    return pa.repeat(values, rows) if isinstance(values, pa.Scalar) else values


def bitmap(where: Mask, rows: int) -> pa.Array:
    """A mask as an Arrow boolean array of `rows` values."""
    if len(where) != rows:
        where = np.broadcast_to(where, rows)
    return pa.Array.from_buffers(pa.bool_(), rows, [None, pack_bits(where)], 0)


def without(values: Any, bad: Mask, rows: int) -> Any:
    """An Arrow value with nulls at the `bad` places."""
    if not bad.any():
        return values
    return pc.if_else(bitmap(~bad, rows), values, pa.scalar(None, values.type))
