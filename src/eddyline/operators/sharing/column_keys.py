"""Column values as int64 keys that are ordered and equal exactly as the values are.

Answer   Integers, dates, timestamps, booleans and decimals of up to 18 digits are their own keys. A double's key is its
         bit pattern, turned so that it ascends: -0.0 is 0.0, NaN is one value above infinity. A text's key is its place
         among the *bounds*, the texts that predicates compare with: a bound has a label, what lies between two bounds
         has a key between their labels.
State    `TextKeys`: the bounds in ascending order. Labels are far apart, so that there is a free one for a new bound.
         Where there is none, all bounds get new labels; a caller that keeps old labels reads the `relabelling`.
Limits   Texts that lie between the same two bounds share a key: no predicate separates them.
"""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa

from eddyline.kernels.intervals import double_keys
from eddyline.kernels.texts.text import locate_texts
from eddyline.model.datatypes import DataType

#: The distance between two labels, so that labels to come fit between; and the label of a bound that had none.
_SPACING = 2**40
_UNKNOWN = np.int64(-(2**63))
#: Bounds that are inserted one by one.
_FEW = 16
#: More digits than any DECIMAL has.
_EXACT = Context(prec=80)
_NAN_KEY = 0x7FF8000000000000


def has_keys(kind: DataType) -> bool:
    """Whether values of a type have int64 keys that do not depend on bounds."""
    return kind.name in ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP") or (
        kind.name == "DECIMAL" and kind.precision <= 18
    )


def literal_key(value: object, kind: DataType) -> int:
    """The key of one value.

    >>> from eddyline.model.datatypes import DOUBLE
    >>> literal_key(-0.0, DOUBLE) == literal_key(0.0, DOUBLE) < literal_key(1e-300, DOUBLE)
    True
    """
    if kind.name == "DOUBLE":
        number = float(value) + 0.0  # type: ignore[arg-type]
        if math.isnan(number):
            return _NAN_KEY
        bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
        return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF
    if kind.name == "DECIMAL":
        return int(Decimal(str(value)).scaleb(kind.scale, _EXACT))
    return int(value)  # type: ignore[call-overload]


def number_keys(column: pa.Array, kind: DataType) -> np.ndarray:
    """The keys of a column without texts; where the value is null, any number."""
    if kind.name == "DOUBLE":
        numbers = _plain(column, np.dtype(np.float64))
        keys = np.empty(len(column), np.int64)
        double_keys(numbers, numbers.view(np.int64), keys)
        return keys
    if kind.name == "BOOLEAN":
        return column.fill_null(False).cast(pa.uint8()).to_numpy()
    if kind.name == "DECIMAL":
        # 128 bits, the low half first: it holds up to 18 digits.
        return _plain(column, np.dtype(np.int64), 2)[::2]
    return _plain(column, np.dtype(kind.numpy))


def _plain(column: pa.Array, kind: np.dtype[np.generic], words: int = 1) -> np.ndarray:
    """The values buffer as an array, without a copy."""
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(len(column) * words, kind)
    first = column.offset * words
    return np.frombuffer(buffer, kind, count=first + len(column) * words)[first:]


class TextKeys:
    """The bounds of one text column, and the keys that they give to texts."""

    def __init__(self) -> None:
        self._heap = np.empty(0, np.uint8)
        self._heap_used = 0
        self._start = np.empty(0, np.int64)
        self._length = np.empty(0, np.int64)
        self._prefix = np.empty(0, np.uint64)
        #: Ascending, at least 2 apart, one per bound.
        self.labels = np.empty(0, np.int64)
        #: Labels before the last change of all, _UNKNOWN for bounds that had none; None: no change since `relabelling`.
        self._previous: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self._heap, self._start, self._length, self._prefix, self.labels))

    def keys(self, column: pa.Array) -> np.ndarray:
        """The keys of a text column; where the value is null, any number."""
        if column.type != pa.string():
            column = column.cast(pa.string())
        _, offsets, data = column.buffers()
        starts = np.frombuffer(offsets, np.int32, count=column.offset + len(column) + 1)[column.offset :]
        has_bytes = data is not None and data.size
        place, equal = self._locate(starts, np.frombuffer(data, np.uint8) if has_bytes else np.zeros(1, np.uint8))
        if not self.labels.size:
            return place
        beyond = place == self.labels.size
        found = self.labels[np.where(beyond, 0, place)]
        return np.where(beyond, self.labels[-1] + 1, found - ~equal)

    def add(self, bounds: list[bytes]) -> None:
        """Makes sure that these are bounds."""
        if len(bounds) > _FEW:
            self._insert_all(sorted(set(bounds)))
            return
        for bound in bounds:
            place, known = self._find([bound])
            if not known[0]:
                self._insert(int(place[0]), bound)

    def labels_of(self, bounds: list[bytes]) -> np.ndarray:
        place, known = self._find(bounds)
        assert known.all(), "a bound has been added before its label is asked for"
        return self.labels[place]

    def relabelling(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Old and new labels, where labels have changed since the last call."""
        if self._previous is None:
            return None
        had = self._previous != _UNKNOWN
        change = self._previous[had], self.labels[had]
        self._previous = None
        return change

    def keep(self, low: np.ndarray, high: np.ndarray) -> None:
        """Forgets the bounds that no range begins or ends at."""
        used = np.isin(self.labels, np.concatenate((low, low - 1, high, high + 1)))
        texts = [self._heap[s : s + n] for s, n in zip(self._start[used], self._length[used], strict=True)]
        self._heap = np.concatenate(texts) if texts else np.empty(0, np.uint8)
        self._heap_used = self._heap.size
        self._length, self._prefix, self.labels = self._length[used], self._prefix[used], self.labels[used]
        self._start = np.cumsum(self._length) - self._length

    def _locate(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = np.empty(offsets.size - 1, np.int64)
        equal = np.empty(offsets.size - 1, np.bool_)
        locate_texts(offsets, data, self._heap, self._start, self._length, self._prefix, place, equal)
        return place, equal

    def _find(self, bounds: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        ends = np.cumsum([0, *map(len, bounds)]).astype(np.int32)
        return self._locate(ends, np.frombuffer(b"".join(bounds) or b"\0", np.uint8))

    def _insert_all(self, bounds: list[bytes]) -> None:
        """Ascending bounds, of which some may be known. All bounds get new labels: it costs no more than to insert
        one."""
        place, known = self._find(bounds)
        fresh = [bound for bound, here in zip(bounds, known.tolist(), strict=True) if not here]
        if not fresh:
            return
        place = place[~known]
        length = np.array([len(bound) for bound in fresh], np.int64)
        self._start = np.insert(self._start, place, self._heap_used + np.cumsum(length) - length)
        self._length = np.insert(self._length, place, length)
        # Texts of at most eight bytes, zeros behind them, are numbers of the same order.
        self._prefix = np.insert(
            self._prefix, place, np.array([bound[:8] for bound in fresh], "S8").view(">u8").astype(np.uint64)
        )
        self._heap = np.concatenate((self._heap[: self._heap_used], np.frombuffer(b"".join(fresh), np.uint8)))
        self._heap_used = self._heap.size
        previous = self.labels if self._previous is None else self._previous
        self._previous = np.insert(previous, place, _UNKNOWN)
        self._label_anew(self._start.size)

    def _insert(self, place: int, bound: bytes) -> None:
        if self._heap_used + len(bound) > self._heap.size:
            larger = np.empty(2 * self._heap.size + len(bound) + 256, np.uint8)
            larger[: self._heap_used] = self._heap[: self._heap_used]
            self._heap = larger
        self._heap[self._heap_used : self._heap_used + len(bound)] = np.frombuffer(bound, np.uint8)
        self._start = np.insert(self._start, place, self._heap_used)
        self._length = np.insert(self._length, place, len(bound))
        self._prefix = np.insert(self._prefix, place, np.uint64(int.from_bytes(bound[:8].ljust(8, b"\0"), "big")))
        self._heap_used += len(bound)
        self.labels = np.insert(self.labels, place, self._free_label(place))
        if self._previous is not None:
            self._previous = np.insert(self._previous, place, _UNKNOWN)
        if self.labels.size > 1 and np.diff(self.labels[max(0, place - 1) : place + 2]).min() < 2:
            if self._previous is None:
                self._previous = self.labels.copy()
                self._previous[place] = _UNKNOWN
            self._label_anew(self.labels.size)

    def _label_anew(self, count: int) -> None:
        self.labels = (np.arange(count, dtype=np.int64) - count // 2) * min(_SPACING, 2**62 // count)

    def _free_label(self, place: int) -> int:
        """A label between the neighbours; too near to one of them where there is no room."""
        if not self.labels.size:
            return 0
        if place == 0:
            return max(int(self.labels[0]) - _SPACING, -(2**62))
        if place == self.labels.size:
            return min(int(self.labels[-1]) + _SPACING, 2**62)
        return (int(self.labels[place - 1]) + int(self.labels[place])) // 2
