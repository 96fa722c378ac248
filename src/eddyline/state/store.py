"""The one kind of store: rows in order of arrival, found again by id, by key hash or by time.

Answer   A row gets the next id when it is appended and keeps it. `first <= id < end` are the live rows. *Payload* is
         gathered by id into Arrow arrays; *columns* are NumPy arrays that kernels touch: order, time, keys,
         lineage, ids of the components of a combination.

             base          first                    end
              |··· dead ····|======== live ==========|   free

State    Payload and columns share one capacity and one base, so that position = id - base everywhere. Rows that were
         dropped from the middle have a flag in the column `dropped`; a store that never dropped a row has no such
         column.
Limits   Rows leave from the front (`forget_before`) or from anywhere (`drop`). A dropped row leaves the chains of all
         indexes at once, and its room when `compact` or `keep` closes the gaps. These and `arrange`, which puts rows
         into another order, give the rows new ids: `compact` and `arrange` return the map, and every holder of ids has
         a method `renumber` that takes it; `keep` is for stores whose ids have no other holder.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.kernels.joins import probe
from eddyline.model.datatypes import DataType
from eddyline.model.triggers import COMPACT, SinceLastRun, Trigger
from eddyline.state.columns import Array, Ints, StoredColumn, stored_column
from eddyline.state.renumbering import GONE, Renumbering
from eddyline.state.spill import SpilledColumn
from eddyline.state.zones import Flags, ZoneColumn, Zones, stored_keys
from eddyline.tuning import ZoneTuning

#: The first size of arrays that double as rows come.
_SMALLEST = 256
#: The column that flags rows dropped from the middle.
DROPPED = "dropped"
#: An index is made anew when more than an eighth of the live rows leave at once; otherwise single rows are unlinked.
_REBUILD = 8
_NO_FLAGS: Flags = np.empty(0, np.bool_)


class Store:
    def __init__(
        self, name: str, columns: Mapping[str, DataType] | None = None, zones: ZoneTuning | None = None
    ) -> None:
        self.name = name
        self.base = 0
        self.first = 0
        self.end = 0
        self.capacity = 0
        #: Flagged rows between `first` and `end`.
        self.dropped = 0
        #: Rows ever dropped, and how often the rows got new ids: a range of ids has the same rows while both are equal.
        self.drops = 0
        self.generation = 0
        self.types: dict[str, DataType] = {}
        self.payload: dict[str, StoredColumn] = {}
        self.columns: dict[str, Array] = {}
        #: Columns that are computed from payload: checkpoints leave them out.
        self.derived: set[str] = set()
        #: Per indexed column, how far back the next older row of the same chain lies.
        self.links: dict[str, Array] = {}
        self.indexes: dict[str, HashIndex] = {}
        #: Ranges of stretches of rows: computed from payload on first use.
        self.zones = Zones(self._zone_keys, zones or ZoneTuning())
        for column, kind in (columns or {}).items():
            self.add_payload(column, kind)

    @property
    def extent(self) -> int:
        """How many ids lie between `first` and `end`, those of dropped rows included."""
        return self.end - self.first

    @property
    def live(self) -> int:
        return self.end - self.first - self.dropped

    @property
    def nbytes(self) -> int:
        """Bytes held in memory, payload, columns and indexes together."""
        payload = sum(c.nbytes for c in self.payload.values())
        arrays = sum(values.nbytes for values in (*self.columns.values(), *self.links.values()))
        heads = sum(index.heads.nbytes for index in self.indexes.values())
        return self.zones.nbytes + payload + arrays + heads

    @property
    def payload_bytes(self) -> int:
        return sum(c.nbytes for c in self.payload.values())

    @property
    def spilled_bytes(self) -> int:
        return sum(c.spilled_bytes for c in self.payload.values() if isinstance(c, SpilledColumn))

    # -- shape

    def add_payload(self, name: str, kind: DataType) -> None:
        """Start to hold a payload column; rows that are already here have null in it."""
        if name in self.payload:
            return
        column = stored_column(kind)
        column.reserve(self.capacity, 0)
        if self.end > self.base:
            column.append(pa.nulls(self.end - self.base, kind.arrow), 0)
        self.payload[name] = column
        self.types[name] = kind

    def add_column(
        self, name: str, dtype: npt.DTypeLike, width: int = 1, fill: int = 0, *, derived: bool = False
    ) -> None:
        """Start to hold a NumPy column; `width` above 1 makes it two-dimensional. A derived one is not in
        checkpoints."""
        if derived:
            self.derived.add(name)
        shape = (self.capacity,) if width == 1 else (self.capacity, width)
        self.columns[name] = np.full(shape, fill, dtype)

    def add_index(self, column: str) -> HashIndex:
        """A hash index over an int64 column, for the rows that are here and all that come."""
        if column not in self.indexes:
            self.links[column] = np.zeros(self.capacity, np.int32)
            self.indexes[column] = HashIndex(self, column)
            self.indexes[column].rebuild()
        return self.indexes[column]

    # -- rows

    def append(self, rows: int, payload: Mapping[str, pa.Array], columns: Mapping[str, Array]) -> int:
        """Append rows; payload that is not given is null, columns that are not given stay as the caller left them.
        Returns the first id."""
        self._make_room(rows)
        start, used = self.end, self.end - self.base
        for name, column in self.payload.items():
            values = payload.get(name)
            column.append(pa.nulls(rows, self.types[name].arrow) if values is None else values, used)
        for name, values in columns.items():
            self.columns[name][used : used + rows] = values
        if DROPPED in self.columns:
            self.columns[DROPPED][used : used + rows] = False
        self.end += rows
        for index in self.indexes.values():
            index.extend(start)
        return start

    def column(self, name: str) -> Array:
        """A column from `first` to `end`, dropped rows included; a view."""
        return self.columns[name][self.first - self.base : self.end - self.base]

    def at(self, name: str, ids: Ints) -> Array:
        """Values of a column at row ids."""
        values: Array = self.columns[name].take(ids - self.base, axis=0)
        return values

    def stretch(self, name: str, start: int, stop: int) -> Array:
        """Values of a column at the row ids start … stop-1."""
        return self.columns[name][start - self.base : stop - self.base].copy()

    def gather(self, name: str, ids: Ints) -> pa.Array:
        """Values of a payload column at row ids, as Arrow."""
        return self.payload[name].gather(ids - self.base)

    def keys_at(self, name: str, ids: Ints) -> tuple[Ints, Flags | None]:
        """Ordered keys of a payload column at row ids, as zones have them, and where there are values (None:
        everywhere)."""
        return stored_keys(self.payload[name], self.types[name], ids - self.base)

    def _zone_keys(self, name: Hashable, start: int, stop: int) -> tuple[Ints, Flags | None]:
        if isinstance(name, ZoneColumn):
            return self.columns[name.name][start - self.base : stop - self.base], None
        assert isinstance(name, str), "zones of a stream are over its payload and columns"
        return stored_keys(self.payload[name], self.types[name], slice(start - self.base, stop - self.base))

    def ids(self) -> Ints:
        """The ids of the live rows."""
        ids = np.arange(self.first, self.end)
        return ids[~self.column(DROPPED)] if self.dropped else ids

    def holds(self, ids: Ints) -> npt.NDArray[np.bool_]:
        """Whether each id is that of a live row; the ids were given out before."""
        held: npt.NDArray[np.bool_] = ids >= self.first
        if self.dropped:
            held &= ~self.columns[DROPPED][np.maximum(ids - self.base, 0)]
        return held

    def forget_before(self, row: int) -> None:
        """Rows with smaller ids are dead."""
        row = min(max(self.first, row), self.end)
        if self.dropped:
            self.dropped -= int(np.count_nonzero(self.columns[DROPPED][self.first - self.base : row - self.base]))
        self.first = row
        self._skip_dropped()

    def drop(self, ids: Ints) -> int:
        """Rows with these ids are dead, wherever they are; returns how many of them were alive."""
        if DROPPED not in self.columns:
            self.add_column(DROPPED, np.bool_, derived=True)
        flags = self.columns[DROPPED]
        if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
            ids = np.unique(ids)
        if len(ids) and (ids[0] < self.first or ids[-1] >= self.end):
            ids = ids[(ids >= self.first) & (ids < self.end)]
        positions = ids - self.base
        if self.dropped:
            positions = positions[~flags[positions]]
        self.drops += len(positions)
        if len(positions) == self.live:
            # All of them: no chain has to be mended.
            self.forget_before(self.end)
        elif len(positions):
            flags[positions] = True
            self.dropped += len(positions)
            for index in self.indexes.values():
                index.unlink(positions)
            self._skip_dropped()
        return len(positions)

    def _skip_dropped(self) -> None:
        """Dropped rows in front are forgotten rows: `first` is the id of a live row, or `end`."""
        if self.dropped:
            lead = self.extent if self.dropped == self.extent else int(np.argmin(self.column(DROPPED)))
            self.first += lead
            self.dropped -= lead

    def compact(self, least: int = 1) -> Renumbering | None:
        """Close the gaps once half of the rows are gone and at least `least`; returns the map from old ids to new
        ones."""
        many = SinceLastRun(new=self.dropped, kept=self.extent)
        if not self.dropped or not Trigger(COMPACT.event, least).is_due(many):
            return None
        alive = ~self.column(DROPPED)
        moved = Renumbering.of_alive(self, alive)
        self.keep(alive)
        self.generation += 1
        return moved

    def keep(self, alive: npt.NDArray[np.bool_]) -> None:
        """Keep only some of the rows between `first` and `end`; they are numbered anew and the indexes rebuilt."""
        if self.dropped:
            alive = alive & ~self.column(DROPPED)
        positions = np.flatnonzero(alive) + (self.first - self.base)
        used = self.end - self.base
        for column in self.payload.values():
            column.keep(positions, used)
        for values in self.columns.values():
            values[: len(positions)] = values[positions]
        self.base = self.first = self.end - len(positions)
        self.dropped = 0
        self.zones.clear()
        self._fit(len(positions))
        for index in self.indexes.values():
            index.rebuild()

    def arrange(self, positions: Ints) -> Renumbering:
        """Put the rows into another order; rows that are not among the positions are gone. Returns the map to the new
        ids."""
        new = np.full(self.extent, GONE)
        start = self.end - len(positions)
        new[positions - (self.first - self.base)] = np.arange(start, self.end)
        moved = Renumbering(self, self.first, new, self.end)
        for name, column in self.payload.items():
            values = column.gather(positions)
            if isinstance(column, SpilledColumn):
                column.drop_files()
            self.payload[name] = stored_column(self.types[name])
            self.payload[name].reserve(self.capacity, 0)
            self.payload[name].append(values, 0)
        for kept in self.columns.values():
            kept[: len(positions)] = kept[positions]
        self.base = self.first = start
        self.dropped = 0
        self.generation += 1
        self.zones.clear()
        for index in self.indexes.values():
            index.rebuild()
        return moved

    def spill(self, folder: Path, least_rows: int) -> int:
        """Move the payload that is in memory to disk, if a column has `least_rows` there; returns the bytes that this
        freed."""
        before = self.payload_bytes
        for number, (name, column) in enumerate(self.payload.items()):
            if not isinstance(column, SpilledColumn):
                column = self.payload[name] = SpilledColumn(self.types[name], column, self.capacity)
            column.spill(folder, f"{self.name}-{number}", self.end - self.base, max(least_rows, self.extent // 32))
        return before - self.payload_bytes

    # -- room

    def tidy(self, rows: int) -> None:
        """Make room for `rows` rows now if it takes no more memory, so that the next `append` does not have to."""
        if not self._fits(rows) and self._can_slide(rows):
            self._slide()

    def _fits(self, rows: int) -> bool:
        return self.end - self.base + rows <= self.capacity

    def _can_slide(self, rows: int) -> bool:
        # Sliding copies the live rows: it has to be paid for by dead ones, a quarter as many at least.
        return self.extent + rows <= self.capacity and 4 * (self.first - self.base) >= self.extent

    def _make_room(self, rows: int) -> None:
        if self._fits(rows):
            return
        enough, needed = self._can_slide(rows), self.extent + rows
        self._slide()
        if not enough:
            self._resize(max(_SMALLEST, needed + needed // 4))

    def _slide(self) -> None:
        used, dead = self.end - self.base, self.first - self.base
        if not dead:
            return
        for column in self.payload.values():
            column.forget(dead, used)
        for values in (*self.columns.values(), *self.links.values()):
            values[: used - dead] = values[dead:used]
        self.base = self.first

    def _resize(self, capacity: int) -> None:
        used = self.end - self.base
        self.capacity = capacity
        for column in self.payload.values():
            column.reserve(capacity, used)
        for columns in (self.columns, self.links):
            for name, values in columns.items():
                wide = np.zeros((capacity, *values.shape[1:]), values.dtype)
                wide[:used] = values[:used]
                columns[name] = wide

    def _fit(self, rows: int) -> None:
        if self.capacity > 8 * max(rows, _SMALLEST):
            self._resize(2 * max(rows, _SMALLEST))


class HashIndex:
    """Chains of rows with equal key hash, newest first (see `kernels/joins/probe.py`)."""

    def __init__(self, store: Store, column: str) -> None:
        self.store = store
        self.column = column
        self._heads: Ints = np.full(_SMALLEST, -1, np.int64)
        #: Whether the chains have to be made anew before they are walked.
        self._is_stale = False

    def chains(self, order: str, death: str, in_time_order: bool) -> probe.ChainedRows:
        """The rows for `kernels/joins/probe.py`, with the columns of their order and death."""
        store, columns = self.store, self.store.columns
        chains = self.heads, self.back, self.keys
        return probe.ChainedRows(*chains, columns[order], columns[death], store.base, store.first, in_time_order)

    @property
    def heads(self) -> Ints:
        if self._is_stale:
            self.rebuild()
        return self._heads

    @property
    def back(self) -> Array:
        return self.store.links[self.column]

    @property
    def keys(self) -> Array:
        return self.store.columns[self.column]

    def extend(self, start: int) -> None:
        """Link the rows from id `start` on."""
        if self._is_stale or self.store.live > len(self._heads):
            self.rebuild()
        else:
            probe.link(self._heads, self.back, self.keys, self.store.base, start, self.store.end, _NO_FLAGS)

    def unlink(self, positions: Ints) -> None:
        """Take rows that were just flagged as dropped out of their chains."""
        store = self.store
        if self._is_stale or _REBUILD * len(positions) > store.live:
            # The next walk makes the chains anew; `compact` does so in any case.
            self._is_stale = True
        else:
            probe.unlink(self._heads, self.back, self.keys, store.base, store.first, positions, store.columns[DROPPED])

    def rebuild(self) -> None:
        store = self.store
        size = _SMALLEST
        while 4 * size < 5 * store.live:
            size *= 2
        self._heads = np.full(size, -1, np.int64)
        self._is_stale = False
        dropped = store.columns[DROPPED] if store.dropped else _NO_FLAGS
        probe.link(self._heads, self.back, self.keys, store.base, store.first, store.end, dropped)
