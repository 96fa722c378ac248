"""Keys of which no further row comes: sets that only grow, one per stream and column set.

Answer   `Intervals` holds values of one column with an order, as keys, in intervals: neighbours become one, so that
         dense keys cost nothing. `Keys` holds values of several columns, or texts, by their hash, and compares the
         values themselves.
State    Sorted arrays. In `Intervals` new ones lie beside them: they are merged when there are an eighth as many as
         merged ones.
Limits   A lone value costs 16 bytes in `Intervals`. Keys keep the order of values: `operators/promises/closed.py`
         makes them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.kernels.order import least_at
from eddyline.model.triggers import INDEX, SinceLastRun
from eddyline.state.columns import Ints
from eddyline.state.growing_table import GrowingTable
from eddyline.state.runs import run_begins
from eddyline.tuning import PunctuationTuning

Mask = npt.NDArray[np.bool_]

#: Keys count as dense where an array from the least to the greatest has at most this many places for each of them.
_DENSE = PunctuationTuning.dense
_NONE: Ints = np.empty(0, np.int64)
_TOP, _BOTTOM = int(np.iinfo(np.int64).max), int(np.iinfo(np.int64).min)


class Intervals:
    def __init__(self) -> None:
        self.low: Ints = np.empty(0, np.int64)
        self.high: Ints = np.empty(0, np.int64)
        #: Intervals since the last merge; `_recent` has the same in order, computed on first use.
        self._new: list[tuple[Ints, Ints]] = []
        self._recent: tuple[Ints, Ints] | None = None
        #: Least and greatest key of these.
        self._span = _TOP, _BOTTOM
        self._waiting = 0

    @property
    def nbytes(self) -> int:
        return self.low.nbytes + self.high.nbytes + 16 * self._waiting

    @property
    def count(self) -> int:
        """How many intervals there are; new ones count beside those that they will become one with."""
        return len(self.low) + self._waiting

    def add_keys(self, keys: Ints) -> None:
        """Single keys; neighbours become one interval at once."""
        self.add(*spans_of(keys))

    def add(self, low: Ints, high: Ints) -> None:
        """The keys from each `low` to its `high`, both included."""
        if len(low) == 1 and len(self.high) and not self._new and self.high[-1] < low[0] == self.high[-1] + 1:
            # Dense keys mostly close in their order: the last interval grows.
            self.high[-1] = high[0]
        elif len(low):
            self._span = min(self._span[0], int(low.min())), max(self._span[1], int(high.max()))
            self._new.append((low, high))
            self._recent = None
            self._waiting += len(low)
            if not len(self.low) or INDEX.is_due(SinceLastRun(new=self._waiting, kept=len(self.low))):
                self.merge()

    def merge(self) -> None:
        """Neighbours become one interval."""
        if self._new:
            self.low, self.high = _united([(self.low, self.high), *self._new])
            self._new, self._recent, self._waiting = [], None, 0
            self._span = _TOP, _BOTTOM

    def holds(self, keys: Ints) -> Mask:
        """Whether each key lies in an interval."""
        found = _within(self.low, self.high, keys)
        if self._new and len(keys) and keys.min() <= self._span[1] and keys.max() >= self._span[0]:
            found |= _within(*self.parts()[2:], keys)
        return found

    def is_near(self, low: int, high: int) -> bool:
        """Whether an interval may have a key between two: False is certain."""
        old = bool(len(self.low)) and bool(self.low[0] <= high) and bool(self.high[-1] >= low)
        return old or (bool(self._new) and self._span[0] <= high and self._span[1] >= low)

    def parts(self) -> tuple[Ints, Ints, Ints, Ints]:
        """The ends of the intervals in two lists, each in order: merged ones, and those since the last merge."""
        if self._new and self._recent is None:
            self._recent = _united(self._new)
            self._new, self._waiting = [self._recent], len(self._recent[0])
        return self.low, self.high, *(self._recent if self._recent is not None else (_NONE, _NONE))

    def covers(self, low: int, high: int) -> bool:
        """Whether one interval holds all keys between two."""
        self.merge()
        last = np.searchsorted(self.low, low, side="right") - 1
        return bool(self.holds(np.array([low]))[0]) and int(self.high[last]) >= high

    def spans(self) -> tuple[Ints, Ints]:
        """The ends of all intervals, in no order."""
        low, high, new_low, new_high = self.parts()
        return np.concatenate([low, new_low]), np.concatenate([high, new_high])


def spans_of(keys: Ints) -> tuple[Ints, Ints]:
    """The ends of the intervals that single keys make: neighbours become one."""
    if not len(keys):
        return keys, keys
    keys = distinct(keys)
    # Only the first key can be the least number of 64 bits: the subtraction does not overflow.
    begins = np.append(True, keys[1:] - 1 != keys[:-1])
    return keys[begins], keys[np.append(begins[1:], True)]


def _united(parts: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Intervals in order; neighbours become one."""
    low = np.concatenate([a for a, _ in parts])
    high = np.concatenate([b for _, b in parts])
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    # An interval begins at a key where no earlier interval reaches the key before it.
    begins = np.ones(len(low), np.bool_)
    begins[1:] = (high[:-1] != _TOP) & (low[1:] > np.where(high[:-1] == _TOP, _TOP, high[:-1] + 1))
    starts = np.flatnonzero(begins)
    return low[starts].copy(), high[np.append(starts[1:], len(low)) - 1].copy()


def _within(low: Ints, high: Ints, keys: Ints) -> Mask:
    """Which keys lie in intervals that are in order."""
    if not len(low) or not len(keys):
        return np.zeros(len(keys), np.bool_)
    # Mostly the closed keys and those of new rows lie apart.
    found: Mask = (keys >= low[0]) & (keys <= high[-1])
    if len(low) > 1 and found.any():
        at = np.searchsorted(low, keys, side="right") - 1
        found &= keys <= high[np.maximum(at, 0)]
    return found


class Keys:
    def __init__(self) -> None:
        #: The values, each once, in the order in which they came.
        self.values = GrowingTable()
        #: Hashes, ascending, with the places of their values: few runs, each at most half as long as the one before.
        self._runs: list[tuple[Ints, Ints]] = []

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + 16 * len(self.values)

    def add(self, keys: Ints, values: pa.Table) -> None:
        """Keys with their hashes; the columns have always the same names."""
        if not len(keys):
            return
        first = np.unique(codes_of(values), return_index=True)[1]
        chosen = first[~self.holds(keys[first], values.take(pa.array(first)))]
        places = len(self.values) + np.arange(len(chosen))
        self.values.append(values.take(pa.array(chosen)))
        self._runs.append(_in_order(keys[chosen], places))
        while len(self._runs) > 1 and 2 * len(self._runs[-1][0]) > len(self._runs[-2][0]):
            self._runs[-2:] = [_in_order(*map(np.concatenate, zip(*self._runs[-2:], strict=True)))]

    def holds(self, keys: Ints, values: pa.Table) -> Mask:
        """Whether each key is in the set; a key with a null never is."""
        found = np.zeros(len(keys), np.bool_)
        for hashes, places in self._runs:
            rows = np.flatnonzero(~found)
            at = np.searchsorted(hashes, keys[rows])
            # Keys with equal hashes are neighbours; more than one is rare.
            while len(rows):
                here = at < len(hashes)
                here[here] = hashes[at[here]] == keys[rows[here]]
                rows, at = rows[here], at[here]
                if len(rows):
                    same = _same(values.take(pa.array(rows)), self.values.take(places[at]))
                    found[rows[same]] = True
                    rows, at = rows[~same], at[~same] + 1
        return found


def _in_order(hashes: Ints, places: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], places[order]


def _same(a: pa.Table, b: pa.Table) -> Mask:
    same = np.ones(len(a), np.bool_)
    for name in b.column_names:
        equal = pc.equal(a.column(name), b.column(name)).combine_chunks()
        same &= np.asarray(pc.fill_null(equal, False))
    return same


def codes_of(values: pa.Table) -> Ints:
    """A number per row; equal rows have equal numbers. Rows with a null have numbers of their own kind."""
    codes = np.zeros(len(values), np.int64)
    for name in values.column_names:
        encoded = values.column(name).combine_chunks().dictionary_encode()
        one = np.asarray(pc.fill_null(encoded.indices, len(encoded.dictionary))).astype(np.int64)
        codes = np.unique(codes * (len(encoded.dictionary) + 1) + one, return_inverse=True)[1].reshape(-1)
    return codes


def earliest(keys: Ints, places: Ints, wanted: Ints, none: int) -> Ints | None:
    """The least place of each wanted key; `none`: it has no place. None: no wanted key lies between the least and the
    greatest key."""
    if not len(keys) or not len(wanted):
        return None
    low, high = int(keys.min()), int(keys.max())
    if int(wanted.min()) > high or int(wanted.max()) < low:
        return None
    rows = np.flatnonzero((wanted >= low) & (wanted <= high))
    if not len(rows):
        return None
    found = np.full(len(wanted), none)
    if high - low < _DENSE * (len(keys) + len(wanted)):
        # Dense keys: the places of all keys between the least and the greatest, in an array.
        found[rows] = least_at(keys, low, high, places, none)[wanted[rows] - low]
        return found
    order = np.lexsort((places, keys))
    keys, places = keys[order], places[order]
    first = run_begins(keys)
    keys, places = keys[first], places[first]
    at = np.searchsorted(keys, wanted[rows])
    same = keys[at] == wanted[rows]
    found[rows[same]] = places[at[same]]
    return found


def least_places(keys: Ints, low: int, high: int, places: Ints, none: int) -> Ints | None:
    """The least place of every key from the least to the greatest; None: they lie too far apart."""
    if high - low >= _DENSE * len(keys):
        return None
    found: Ints = least_at(keys, low, high, places, none)
    return found


def distinct(keys: Ints) -> Ints:
    """Each key once, ascending."""
    if not len(keys):
        return keys
    low, high = int(keys.min()), int(keys.max())
    if high - low >= _DENSE * len(keys):
        return np.unique(keys)
    seen = np.zeros(high - low + 1, np.bool_)
    seen[keys - low] = True
    return np.flatnonzero(seen) + low


def places_of(keys: Ints, wanted: Ints) -> Ints:
    """The position of each wanted key among keys that are ascending; -1: it is not there."""
    if not len(keys) or not len(wanted):
        return np.full(len(wanted), -1)
    low, high = int(keys[0]), int(keys[-1])
    if high - low < _DENSE * (len(keys) + len(wanted)):
        table = np.full(high - low + 2, -1)
        table[keys - low] = np.arange(len(keys))
        # Keys outside of the table are looked up at its last place, which is empty.
        return table[np.where((wanted >= low) & (wanted <= high), wanted - low, high - low + 1)]
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)


def joint_codes(first: pa.Table, second: pa.Table) -> tuple[Ints, Ints]:
    """Numbers of the rows of two tables with the same columns; equal rows have equal numbers, and a row with a null has
    -1."""
    names = first.column_names
    whole = pa.concat_tables([first, second.select(names)])
    codes = codes_of(whole)
    for name in names:
        column = whole.column(name)
        if column.null_count:
            codes = np.where(np.asarray(column.is_null().combine_chunks()), -1, codes)
    return codes[: len(first)], codes[len(first) :]
