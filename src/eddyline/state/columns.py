"""Stored columns: contiguous arrays that grow at the end and are forgotten from the front.

Answer   `append` takes an Arrow array, `gather` gives the values at positions as an Arrow array. Position 0 is the
         first row that is physically held; the store knows which row that is.

             |· · dead · ·|======== live ========|   free   |
             0                                 used     capacity

State    Fixed-width values: one NumPy array, and from the first null on one byte of validity per row. Strings: offsets
         and bytes, which kernels compare and gather without Python objects. Nested values: Arrow arrays.
Limits   Slides and growth copy live rows: amortised constant per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.kernels import order
from eddyline.model.datatypes import DataType
from eddyline.state.plain_arrays import bytes_array, plain_array

Ints = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


class StoredColumn(Protocol):
    """One column of a store. The store keeps all its columns at the same used length."""

    def append(self, values: pa.Array, used: int) -> None: ...

    def reserve(self, capacity: int, used: int) -> None: ...

    def forget(self, rows: int, used: int) -> None: ...

    def keep(self, positions: Ints, used: int) -> None: ...

    def gather(self, positions: Ints) -> pa.Array: ...

    @property
    def nbytes(self) -> int: ...


def stored_column(kind: DataType) -> StoredColumn:
    if kind.name == "STRING":
        return StringColumn()
    return NestedColumn(kind) if kind.is_nested else FixedColumn(kind)


def as_plain(values: pa.Array, kind: DataType) -> Array:
    """The values of a fixed-width Arrow array as NumPy, nulls as zeros; a view where Arrow allows."""
    if kind.name == "BOOLEAN":
        return np.asarray(values.fill_null(False) if values.null_count else values)
    if kind.name == "DECIMAL":
        raw = np.frombuffer(values.buffers()[1], dtype=np.int64).reshape(-1, 2)
        return raw[values.offset : values.offset + len(values)]
    assert kind.numpy is not None
    if len(values) == 0:
        return np.empty(0, kind.numpy)
    raw = np.frombuffer(values.buffers()[1], dtype=kind.numpy)
    return raw[values.offset : values.offset + len(values)]


def validity(values: pa.Array) -> npt.NDArray[np.bool_] | None:
    """True where a value is there; None when all are."""
    return np.asarray(values.is_valid()) if values.null_count else None


class FixedColumn:
    """Numbers, booleans, dates, timestamps, decimals."""

    def __init__(self, kind: DataType) -> None:
        self.kind = kind
        shape: tuple[int, ...] = (0, 2) if kind.name == "DECIMAL" else (0,)
        self.values: Array = np.empty(shape, np.int64 if kind.name == "DECIMAL" else kind.numpy)
        self.valid: npt.NDArray[np.bool_] | None = None

    def append(self, values: pa.Array, used: int) -> None:
        stop = used + len(values)
        self.values[used:stop] = as_plain(values, self.kind)
        there = validity(values)
        if there is not None and self.valid is None:
            self.valid = np.ones(len(self.values), np.bool_)
        if self.valid is not None:
            self.valid[used:stop] = True if there is None else there

    def reserve(self, capacity: int, used: int) -> None:
        wide = np.empty((capacity, *self.values.shape[1:]), self.values.dtype)
        wide[:used] = self.values[:used]
        self.values = wide
        if self.valid is not None:
            there = np.ones(capacity, np.bool_)
            there[:used] = self.valid[:used]
            self.valid = there

    def forget(self, rows: int, used: int) -> None:
        self.values[: used - rows] = self.values[rows:used]
        if self.valid is not None:
            self.valid[: used - rows] = self.valid[rows:used]

    def keep(self, positions: Ints, used: int) -> None:
        self.values[: len(positions)] = self.values[positions]
        if self.valid is not None:
            self.valid[: len(positions)] = self.valid[positions]

    def gather(self, positions: Ints) -> pa.Array:
        values = self.values.take(positions, axis=0)
        return plain_array(self.kind, values, None if self.valid is None else self.valid.take(positions))

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.valid is None else self.valid.nbytes)


class StringColumn:
    """Strings: `offsets[p]` to `offsets[p + 1]` are the bytes of row p, counted from `shift`."""

    def __init__(self) -> None:
        self.offsets: Ints = np.zeros(1, np.int64)
        self.data: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        #: The offset of data[0]: grows as rows are forgotten, so that offsets need no rewriting.
        self.shift = 0
        self.valid: npt.NDArray[np.bool_] | None = None

    def append(self, values: pa.Array, used: int) -> None:
        offsets, data = string_buffers(values)
        start, stop = used, used + len(values)
        begin = int(self.offsets[used]) - self.shift
        size = int(offsets[-1] - offsets[0])
        if begin + size > len(self.data):
            wide = np.empty(max(2 * len(self.data), begin + size, 1024), np.uint8)
            wide[:begin] = self.data[:begin]
            self.data = wide
        self.data[begin : begin + size] = data[int(offsets[0]) : int(offsets[-1])]
        self.offsets[start + 1 : stop + 1] = offsets[1:] - offsets[0] + self.offsets[used]
        there = validity(values)
        if there is not None and self.valid is None:
            self.valid = np.ones(len(self.offsets) - 1, np.bool_)
        if self.valid is not None:
            self.valid[start:stop] = True if there is None else there

    def reserve(self, capacity: int, used: int) -> None:
        wide = np.zeros(capacity + 1, np.int64)
        wide[: used + 1] = self.offsets[: used + 1]
        self.offsets = wide
        if self.valid is not None:
            there = np.ones(capacity, np.bool_)
            there[:used] = self.valid[:used]
            self.valid = there

    def forget(self, rows: int, used: int) -> None:
        begin, end = int(self.offsets[rows]) - self.shift, int(self.offsets[used]) - self.shift
        self.data[: end - begin] = self.data[begin:end].copy() if begin < end - begin else self.data[begin:end]
        self.shift += begin
        self.offsets[: used - rows + 1] = self.offsets[rows : used + 1]
        if self.valid is not None:
            self.valid[: used - rows] = self.valid[rows:used]

    def keep(self, positions: Ints, used: int) -> None:
        packed = order.string_lengths(self.offsets, positions)
        data = order.gather_strings(self.offsets, self.data, self.shift, positions, packed)
        if len(self.data) > 4 * max(len(data), 1024):
            self.data = np.empty(2 * max(len(data), 1024), np.uint8)
        self.data[: len(data)] = data
        self.offsets[: len(packed)] = packed
        self.shift = 0
        if self.valid is not None:
            self.valid[: len(positions)] = self.valid[positions]

    def gather(self, positions: Ints) -> pa.Array:
        packed = order.string_lengths(self.offsets, positions)
        data = order.gather_strings(self.offsets, self.data, self.shift, positions, packed)
        return bytes_array(pa.string(), packed, data, None if self.valid is None else self.valid.take(positions))

    @property
    def nbytes(self) -> int:
        return self.offsets.nbytes + self.data.nbytes + (0 if self.valid is None else self.valid.nbytes)


class NestedColumn:
    """STRUCTs and ARRAYs: Arrow arrays one after the other, of which each is at least twice as long as the next."""

    def __init__(self, kind: DataType) -> None:
        self.kind = kind
        self.pieces: list[pa.Array] = []

    def append(self, values: pa.Array, used: int) -> None:
        self._cut(used)
        if len(values):
            self.pieces.append(values)
        while len(self.pieces) > 1 and len(self.pieces[-2]) < 2 * len(self.pieces[-1]):
            self.pieces[-2:] = [pa.concat_arrays(self.pieces[-2:])]

    def reserve(self, capacity: int, used: int) -> None:
        self._cut(used)

    def forget(self, rows: int, used: int) -> None:
        self.keep(np.arange(rows, used), used)

    def keep(self, positions: Ints, used: int) -> None:
        kept = self.gather(positions)
        self.pieces = [kept] if len(kept) else []

    def gather(self, positions: Ints) -> pa.Array:
        if len(self.pieces) == 1:
            return self.pieces[0].take(pa.array(positions))
        ends = np.cumsum([len(piece) for piece in self.pieces])
        of = np.searchsorted(ends, positions, side="right")
        found = [
            piece.take(pa.array(positions[of == at] - (ends[at] - len(piece)))) for at, piece in enumerate(self.pieces)
        ]
        together = pa.concat_arrays([pa.nulls(0, self.kind.arrow), *found])
        back = np.empty(len(positions), np.int64)
        back[np.argsort(of, kind="stable")] = np.arange(len(positions))
        return together.take(pa.array(back))

    def _cut(self, used: int) -> None:
        """Rows behind the last one that is used are not there."""
        while self.pieces and sum(map(len, self.pieces)) > used:
            rest = used - sum(map(len, self.pieces[:-1]))
            self.pieces[-1:] = [self.pieces[-1].slice(0, rest)] if rest > 0 else []

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)


def joined_pairs(parts: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Two columns that come in parts, each as one array."""
    if len(parts) == 1:
        return parts[0]
    none = np.empty(0, np.int64)
    return np.concatenate([none, *(a for a, _ in parts)]), np.concatenate([none, *(b for _, b in parts)])


def string_buffers(values: pa.Array) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Offsets (int64) and bytes of a string array, whatever slice it is."""
    if len(values) == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, raw_offsets, raw_data = values.buffers()
    offsets = np.frombuffer(raw_offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    data = np.frombuffer(raw_data, np.uint8) if raw_data is not None and raw_data.size else np.empty(0, np.uint8)
    return offsets, data
