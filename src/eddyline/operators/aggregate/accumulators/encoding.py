"""Values as 64-bit integers, and back: groups and aggregates hold all values in this form.

Answer   `ValueEncoder.encode` turns an Arrow array into integers and a validity mask. Equal values have equal integers.
         STRING, DECIMAL and BYTES become ids of interned bytes, whose bytewise order is that of the values. The
         integers of all other types are in the order of the values. `decode` goes back.
State    The interned bytes. `sweep` forgets those whose ids no group has any more; the others keep their ids.
Limits   -0.0 is 0.0, and all NaNs are one value, as in groups and comparisons of SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.kernels import hashing
from eddyline.kernels.groups import group as kernels
from eddyline.model.datatypes import BYTES, DataType
from eddyline.operators.aggregate.accumulators.lists import list_bytes
from eddyline.operators.expressions.vectors import Mask
from eddyline.state.columns import Array, Ints, as_plain, string_buffers, validity
from eddyline.state.plain_arrays import bytes_array, plain_array

#: `valid` of a column without nulls, for kernels.
ALL: Mask = np.empty(0, np.bool_)
_SMALLEST = 256
_SIGN = np.uint64(1 << 63)
#: `is_full` is true after this number of new strings, besides twice those that the last sweep kept.
_BEFORE_SWEEP = 65_536


def grown(values: Array, size: int, fill: int = 0) -> Array:
    """The array with at least `size` rows; new ones are filled."""
    if len(values) >= size:
        return values
    shape = (max(size, 2 * len(values)), *values.shape[1:])
    # Zeros come from the system without being written: pages that no row reaches take no memory.
    wide = np.full(shape, fill, values.dtype) if fill else np.zeros(shape, values.dtype)
    wide[: len(values)] = values
    return wide


def is_text(kind: DataType) -> bool:
    """Whether the integers of this type are ids of interned bytes."""
    return kind.name in ("STRING", "DECIMAL", "BYTES", "ARRAY")


class ValueEncoder:
    def __init__(self) -> None:
        self.heads: Ints = np.full(_SMALLEST, -1, np.int64)
        self.following: Ints = np.full(_SMALLEST, -1, np.int64)
        self.hashes: Ints = np.zeros(_SMALLEST, np.int64)
        self.begins: Ints = np.zeros(_SMALLEST, np.int64)
        self.sizes: Ints = np.zeros(_SMALLEST, np.int64)
        self.arena: npt.NDArray[np.uint8] = np.empty(4096, np.uint8)
        self.used: Ints = np.zeros(1, np.int64)
        #: Id 0 is the integer of nulls and is never given out.
        self.free: Ints = np.arange(_SMALLEST - 1, -1, -1)
        self.free_count: Ints = np.array([_SMALLEST - 1])
        #: How many strings the last sweep kept.
        self.kept = 0
        #: How often ids were taken away.
        self.sweeps = 0
        #: The height of the stack of free ids at the last call of `given`, and ids that left an earlier stack since; None:
        #: there was no call.
        self._told: int | None = None
        self._given: list[Ints] = []

    # -- values to integers

    def encode(self, values: pa.Array, kind: DataType) -> tuple[Ints, Mask]:
        """Encoded values and validity; the validity is ALL where there are no nulls."""
        if kind.name == "NULL":
            return np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
        if kind.name == "ARRAY":
            # Lists are only compared: `decode` does not take them.
            values, kind = list_bytes(values, kind.element), BYTES
        there = validity(values)
        valid = ALL if there is None else there
        if kind.name in ("STRING", "BYTES"):
            return self._intern(*string_buffers(values), valid), valid
        if kind.name == "DECIMAL":
            raw = ordered_bytes(as_plain(values, kind))
            return self._intern(np.arange(len(values) + 1) * 16, raw, valid), valid
        plain = as_plain(values, kind)
        if kind.name == "DOUBLE":
            # As in SQL, -0.0 equals 0.0 and NaN equals NaN, whatever their bits.
            encoded: Ints = _ordered((np.where(np.isnan(plain), np.nan, plain) + 0.0).view(np.int64))
        else:
            encoded = plain.astype(np.int64)
        if there is not None:
            encoded = np.where(there, encoded, 0)
        return encoded, valid

    def encode_columns(self, columns: Iterable[pa.Array], kinds: Iterable[DataType]) -> tuple[list[Ints], list[Mask]]:
        """Integers and validity, per column."""
        pairs = [self.encode(column, kind) for column, kind in zip(columns, kinds, strict=False)]
        return [encoded for encoded, _ in pairs], [valid for _, valid in pairs]

    def encode_rows(self, columns: Sequence[pa.Array], kinds: Sequence[DataType], count: int | None = None) -> Ints:
        """Rows of integers: one per column, then one whose bits are the columns that are null.

        Args:
            count: How many rows, where there may be no column.
        """
        rows = np.zeros((len(columns[0]) if count is None else count, len(columns) + 1), np.int64)
        for at, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
            rows[:, at], valid = self.encode(column, kind)
            if len(valid):
                rows[:, -1] |= (~valid).astype(np.int64) << at
        return rows

    def _intern(self, offsets: Ints, data: npt.NDArray[np.uint8], valid: Mask) -> Ints:
        encoded = hashing.hash_strings(offsets, data)
        ids, strings = np.zeros(len(encoded), np.int64), kernels.Strings(encoded, offsets, data, valid)
        done = 0
        while True:
            chains, places = (self.heads, self.following, self.hashes), (self.begins, self.sizes, self.arena, self.used)
            done = kernels.intern(kernels.Interned(*chains, *places, self.free, self.free_count), strings, done, ids)
            if done == len(encoded):
                return ids
            self._make_room(int(offsets[done + 1] - offsets[done]))

    def _make_room(self, size: int) -> None:
        if int(self.used[0]) + size > len(self.arena):
            self.arena = grown(self.arena, int(self.used[0]) + size)
        if self.free_count[0] == 0:
            capacity = len(self.following)
            for name in ("following", "hashes", "begins", "sizes"):
                setattr(self, name, grown(getattr(self, name), 2 * capacity))
            if self._told is not None:
                self._given.append(self.free[: self._told])
                self._told = capacity
            self.free = np.arange(2 * capacity - 1, -1, -1)
            self.free_count[0] = capacity
            self._relink(np.arange(1, capacity))

    def _relink(self, ids: Ints) -> None:
        self.heads = np.full(len(self.following), -1, np.int64)
        kernels.relink(self.heads, self.following, self.hashes, ids)

    def texts(self, kind: DataType) -> tuple[Ints, Ints, npt.NDArray[np.uint8]] | None:
        """What kernels need to compare interned values; None where the integers themselves compare."""
        return (self.begins, self.sizes, self.arena) if is_text(kind) else None

    # -- integers to values

    def decode(self, encoded: Ints, valid: Mask, kind: DataType) -> pa.Array:
        if kind.name == "NULL":
            return pa.nulls(len(encoded))
        if kind.name in ("STRING", "BYTES"):
            ids = np.where(valid, encoded, 0) if len(valid) else encoded
            offsets, data = kernels.gather_bytes(self.begins, self.sizes, self.arena, ids)
            return bytes_array(kind.arrow, offsets, data, valid)
        if kind.name == "DECIMAL":
            return plain_array(kind, np.stack(self.whole(encoded), axis=1), valid)
        if kind.name == "DOUBLE":
            return plain_array(kind, floats(encoded), valid)
        assert kind.numpy is not None
        return plain_array(kind, encoded.astype(kind.numpy), valid)

    def whole(self, ids: Ints) -> tuple[Ints, Ints]:
        """Low and high halves of interned decimals; those of id 0 are arbitrary."""
        raw = self.arena[self.begins[ids][:, None] + np.arange(16)].view(">u8").astype(np.uint64)
        return raw[:, 1].view(np.int64), (raw[:, 0] ^ _SIGN).view(np.int64)

    # -- strings that are still in use

    @property
    def held(self) -> int:
        return len(self.following) - 1 - int(self.free_count[0])

    @property
    def is_full(self) -> bool:
        """Whether the owner has to call `sweep`."""
        return self.held > 2 * self.kept + _BEFORE_SWEEP

    def sweep(self, named: Iterable[Ints]) -> None:
        """Forget every string whose id is not among these."""
        here = np.zeros(len(self.following), np.bool_)
        for ids in named:
            here[ids] = True
        here[0] = False
        ids = np.flatnonzero(here)
        self.restore(ids, *self.strings(ids), len(ids))

    def restore(self, ids: Ints, offsets: Ints, data: npt.NDArray[np.uint8], kept: int) -> None:
        """Exactly these strings, with these ids (ascending); the last sweep kept so many."""
        capacity = _SMALLEST
        while capacity <= (int(ids[-1]) if len(ids) else 0):
            capacity *= 2
        for name in ("following", "hashes", "begins", "sizes"):
            old = getattr(self, name)
            setattr(self, name, old[:capacity].copy() if len(old) >= capacity else grown(old, capacity))
        self.arena = np.empty(max(4096, 2 * len(data)), np.uint8)
        self.arena[: len(data)] = data
        self.used[0] = len(data)
        # Id 0 is an empty string.
        self.sizes[0] = 0
        self.begins[ids], self.sizes[ids] = offsets[:-1], np.diff(offsets)
        self.hashes[ids] = hashing.hash_strings(offsets, data)
        rest = np.setdiff1d(np.arange(1, capacity), ids)[::-1]
        self.free = np.zeros(capacity, np.int64)
        self.free[: len(rest)] = rest
        self.free_count[0] = len(rest)
        self._relink(ids)
        self.sweeps += 1
        self._given = []
        self._told = None if self._told is None else len(rest)
        self.kept = kept

    # -- snapshots

    def ids(self) -> Ints:
        """All ids in use, ascending."""
        here = np.ones(len(self.following), np.bool_)
        here[self.free[: self.free_count[0]]] = False
        here[0] = False
        return np.flatnonzero(here)

    def given(self) -> Ints:
        """The ids that were given out since the last call, or since the last sweep."""
        found = [*self._given, self.free[int(self.free_count[0]) : self._told or 0]]
        self._given, self._told = [], int(self.free_count[0])
        return np.concatenate(found)

    def strings(self, ids: Ints) -> tuple[Ints, npt.NDArray[np.uint8]]:
        """Offsets and bytes of some strings."""
        return kernels.gather_bytes(self.begins, self.sizes, self.arena, ids)


def _ordered(bits: Ints) -> Ints:
    """Bits of doubles so that they compare as their values do; its own reverse."""
    turned: Ints = bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    return turned


def floats(encoded: Ints) -> npt.NDArray[np.float64]:
    """The doubles that were encoded."""
    return _ordered(encoded).view(np.float64)


def ordered_bytes(pairs: Array) -> npt.NDArray[np.uint8]:
    """128-bit integers (low, high) as 16 bytes each, in the order of their values."""
    flipped = np.stack(
        [np.ascontiguousarray(pairs[:, 1]).view(np.uint64) ^ _SIGN, np.ascontiguousarray(pairs[:, 0]).view(np.uint64)],
        axis=1,
    )
    return flipped.astype(">u8").view(np.uint8).reshape(-1)
