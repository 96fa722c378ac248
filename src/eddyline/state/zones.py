"""Zones: stretches of a store, with their least and greatest values.

Answer   `Zones.ranges` gives, for a column, the least and greatest key of every zone and whether values are missing.
         Keys are int64: whole numbers, dates, times and decimals are their own, a double's key ascends as doubles do
         (NaN on top, -0.0 is 0.0), a text has the key of its first 8 bytes.

             rows   |······|······|······|··    64 to a zone; a zone of 16 rows also ends at a herald
             ids    first  64     128    192 end                                              (`ZoneTuning`)

State    Per zone its first id; per needed column two keys and a flag: less than a byte per row. The ranges of a column
         are computed on first use, later for new rows only, and forgotten with their rows. The places of the latest
         heralds.
Limits   A zone that has lost rows keeps its range: it is then wider than its rows. A store that gives its rows new ids
         forgets its zones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.kernels.intervals import double_keys
from eddyline.kernels.joins.zones import stretch_ranges, text_prefixes, zone_starts
from eddyline.model.datatypes import DataType
from eddyline.state.columns import FixedColumn, Ints, StoredColumn, StringColumn, as_plain, string_buffers, validity
from eddyline.tuning import ZoneTuning

Flags = npt.NDArray[np.bool_]

_NO_ROWS: Ints = np.empty(0, np.int64)

#: The keys of rows start … stop-1 of a column, and where they have values (None: everywhere).
KeysOf = Callable[[Hashable, int, int], tuple[Ints, Flags | None]]


@dataclass(frozen=True, slots=True)
class ZoneColumn:
    """Names the zones over a column of a store, whose values are their own keys."""

    name: str


#: Per zone the least and the greatest key of a column, and whether values are missing.
_Ranges = tuple[Ints, Ints, Flags]


class Zones:
    """The zones of the rows first … end-1 of a store; `keys_of` reads its columns."""

    def __init__(self, keys_of: KeysOf, tuning: ZoneTuning) -> None:
        self._keys_of = keys_of
        self.tuning = tuning
        self._columns: dict[Hashable, _Ranges] = {}
        #: First ids of the zones; where the rows end that they cover.
        self._starts: Ints = np.empty(0, np.int64)
        self._end = 0
        #: Ids of rows before which a herald came, which the zones have not reached yet.
        self._heralds: Ints = _NO_ROWS
        #: Ids of rows before which the latest heralds came, whether or not these have cut a zone, for `stretches`.
        self._latest: Ints = _NO_ROWS

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def nbytes(self) -> int:
        return self._starts.nbytes + sum(part.nbytes for ranges in self._columns.values() for part in ranges)

    def clear(self) -> None:
        """Forget all zones: the rows have other ids."""
        self._columns.clear()
        self._starts = np.empty(0, np.int64)
        self._end = 0
        self._heralds = self._latest = _NO_ROWS

    def cut(self, rows: Ints) -> None:
        """Note that heralds came before these rows, in order, which are among the newest or the next to come."""
        self._heralds, self._latest = self._noted(self._heralds, rows), self._noted(self._latest, rows)

    def _noted(self, places: Ints, rows: Ints) -> Ints:
        most = self.tuning.most_heralds
        if len(places) + len(rows) > most:
            # No caller has read zones for long, or the rows have been probed with: the oldest places are not needed.
            places = places[len(places) // 2 :]
        return np.concatenate((places, rows))[-most:]

    def cuts(self, first: int, end: int) -> Ints:
        """Ids at which the rows first … end-1 are cut, both ends included."""
        self._cover(first, end)
        return np.append(np.maximum(self._starts, first), end)

    def keys(self, column: Hashable, first: int, end: int) -> tuple[Ints, Flags | None]:
        """The keys of the rows first … end-1, and where they have values (None: everywhere)."""
        return self._keys_of(column, first, end)

    def stretches(self, first: int, end: int, start: int, stop: int) -> Ints:
        """Ids at which new rows start … stop-1 are cut, both ends included: where zones begin, and at every herald,
        however few rows it has. The rows first … end-1 are those of the store."""
        self._cover(first, end)
        self._latest = self._latest[self._latest > first]
        inner = np.concatenate((self._starts, self._latest))
        return np.unique(np.concatenate(([start], inner[(inner > start) & (inner < stop)], [stop])))

    def ranges(self, column: Hashable, first: int, end: int) -> tuple[Ints, Ints, Flags]:
        """Least and greatest keys of a column per zone, and whether values are missing; zones as `cuts` gives them."""
        self._cover(first, end)
        if column not in self._columns:
            self._columns[column] = self._ranges_from(column, self._starts)
        return self._columns[column]

    def _cover(self, first: int, end: int) -> None:
        """Make the zones those of the rows first … end-1: zones whose rows have gone leave, new rows fill the last zone
        and new ones."""
        if self._end < first or not len(self._starts):
            self._starts, self._end = np.empty(0, np.int64), first
            self._columns.clear()
        gone = int(np.searchsorted(self._starts, first, side="right")) - 1
        if gone > 0:
            self._starts = self._starts[gone:]
            self._columns = {
                c: (low[gone:], high[gone:], none[gone:]) for c, (low, high, none) in self._columns.items()
            }
        if len(self._starts):
            # Rows that are gone cannot be read again.
            self._starts[0] = max(int(self._starts[0]), first)
        if self._end >= end:
            return
        # The last zone is open: it is worked out again with the rows that fill it.
        keep = max(len(self._starts) - 1, 0)
        begin = int(self._starts[keep]) if len(self._starts) else first
        fresh = self._zones(begin, end)
        self._starts = np.concatenate((self._starts[:keep], fresh))
        self._end = end
        for name, (low, high, nulls) in self._columns.items():
            more = self._ranges_from(name, fresh)
            kept = np.append(low[:keep], more[0]), np.append(high[:keep], more[1]), np.append(nulls[:keep], more[2])
            self._columns[name] = kept

    def _zones(self, begin: int, end: int) -> Ints:
        """Where zones begin: after the most rows of a zone, or at a herald."""
        heralds, self._heralds = self._heralds, self._heralds[self._heralds >= end]
        heralds = heralds[(heralds > begin) & (heralds < end)]
        if not len(heralds):
            return np.arange(begin, end, self.tuning.rows)
        return zone_starts(begin, end, np.unique(heralds), self.tuning.rows, self.tuning.least_rows)

    def _ranges_from(self, name: Hashable, starts: Ints) -> _Ranges:
        """The ranges of a column in the zones that begin at these ids, the last of which ends with the rows."""
        if not len(starts):
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_)
        begin = int(starts[0])
        keys, valid = self._keys_of(name, begin, self._end)
        return ranges_of(keys, valid, np.append(starts, self._end) - begin)


def ranges_of(keys: Ints, valid: Flags | None, cuts: Ints) -> tuple[Ints, Ints, Flags]:
    """Least and greatest keys of stretches, and whether values are missing."""
    count = len(cuts) - 1
    low, high, nulls = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.bool_)
    stretch_ranges(keys, np.empty(0, np.bool_) if valid is None else valid, valid is not None, cuts, low, high, nulls)
    return low, high, nulls


def stored_keys(column: StoredColumn, kind: DataType, positions: Ints | slice) -> tuple[Ints, Flags | None]:
    """The keys of a stored column at positions; a slice is read without a copy where that is possible."""
    if isinstance(column, FixedColumn):
        values = column.values[positions]
        valid = None if column.valid is None else column.valid[positions]
        return _plain_keys(values, kind), valid
    places = np.arange(positions.start, positions.stop) if isinstance(positions, slice) else positions
    if isinstance(column, StringColumn):
        keys = np.empty(len(places), np.int64)
        text_prefixes(column.offsets, column.data, column.shift, places, keys)
        return keys, None if column.valid is None else column.valid[places]
    return arrow_keys(column.gather(places), kind)


def arrow_keys(values: pa.Array, kind: DataType) -> tuple[Ints, Flags | None]:
    """The keys of an Arrow array."""
    if kind.name == "STRING":
        offsets, data = string_buffers(values.cast(pa.string()) if values.type != pa.string() else values)
        keys = np.empty(len(values), np.int64)
        text_prefixes(offsets, data, 0, np.arange(len(values)), keys)
        return keys, validity(values)
    return _plain_keys(as_plain(values, kind), kind), validity(values)


def _plain_keys(values: npt.NDArray[np.generic], kind: DataType) -> Ints:
    if kind.name == "DOUBLE":
        numbers = np.ascontiguousarray(values)
        keys = np.empty(len(numbers), np.int64)
        double_keys(numbers, numbers.view(np.int64), keys)
        return keys
    if kind.name == "DECIMAL":
        # 128 bits, lowest first: a decimal of up to 18 digits fits into the low half.
        return np.ascontiguousarray(values[:, 0])
    return np.ascontiguousarray(values.astype(np.int64, copy=False))
