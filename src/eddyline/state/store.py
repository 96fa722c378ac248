"""The one kind of store: rows in order of arrival, found again by id, by key hash or by time.

Answer   A row gets the next id when it is appended and keeps it. `first <= id < end` are the live rows. Payload columns
         are gathered by id into Arrow arrays; *marks* are NumPy columns that kernels touch: order, time, key hashes,
         lineage words, ids of the components of a combination.

             base          first                    end
              |··· dead ····|======== live ==========|   free

State    All columns share one capacity and one base, so that position = id - base everywhere.
Limits   Rows leave from the front (`forget_before`). Leaving from the middle (`keep`) gives the remaining rows new ids:
         only for stores whose ids nobody else holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.kernels import probe
from eddyline.model.datatypes import DataType
from eddyline.state.columns import Array, Ints, StoredColumn, stored_column
from eddyline.state.spill import LEAST_ROWS, SpilledColumn

_SMALLEST = 256


class Store:
    def __init__(self, name: str, columns: Mapping[str, DataType] | None = None) -> None:
        self.name = name
        self.base = 0
        self.first = 0
        self.end = 0
        self.capacity = 0
        self.types: dict[str, DataType] = {}
        self.columns: dict[str, StoredColumn] = {}
        self.marks: dict[str, Array] = {}
        self.indexes: dict[str, HashIndex] = {}
        for column, kind in (columns or {}).items():
            self.add_column(column, kind)

    @property
    def live(self) -> int:
        return self.end - self.first

    @property
    def nbytes(self) -> int:
        """Bytes held in memory, payload and marks and indexes together."""
        marks = sum(m.nbytes for m in self.marks.values())
        return marks + sum(c.nbytes for c in self.columns.values()) + sum(i.heads.nbytes for i in self.indexes.values())

    @property
    def payload_bytes(self) -> int:
        return sum(c.nbytes for c in self.columns.values())

    @property
    def spilled_bytes(self) -> int:
        return sum(c.spilled_bytes for c in self.columns.values() if isinstance(c, SpilledColumn))

    # -- shape

    def add_column(self, name: str, kind: DataType) -> None:
        """Start to hold a payload column; rows that are already here have null in it."""
        if name in self.columns:
            return
        column = stored_column(kind)
        column.reserve(self.capacity, 0)
        if self.end > self.base:
            column.append(pa.nulls(self.end - self.base, kind.arrow), 0)
        self.columns[name] = column
        self.types[name] = kind

    def add_mark(self, name: str, dtype: npt.DTypeLike, width: int = 1, fill: int = 0) -> None:
        """Start to hold a NumPy column; `width` above 1 makes it two-dimensional."""
        shape = (self.capacity,) if width == 1 else (self.capacity, width)
        self.marks[name] = np.full(shape, fill, dtype)

    def add_index(self, mark: str) -> HashIndex:
        """A hash index over an int64 mark, for the rows that are here and all that come."""
        if mark not in self.indexes:
            self.marks[f"back:{mark}"] = np.zeros(self.capacity, np.int32)
            self.indexes[mark] = HashIndex(self, mark)
            self.indexes[mark].rebuild()
        return self.indexes[mark]

    # -- rows

    def append(self, rows: int, payload: Mapping[str, pa.Array], marks: Mapping[str, Array]) -> int:
        """Append rows; columns and marks that are not given stay null or as the caller left them. Returns the first id."""
        self._make_room(rows)
        start, used = self.end, self.end - self.base
        for name, column in self.columns.items():
            values = payload.get(name)
            column.append(pa.nulls(rows, self.types[name].arrow) if values is None else values, used)
        for name, values in marks.items():
            self.marks[name][used : used + rows] = values
        self.end += rows
        for index in self.indexes.values():
            index.extend(start)
        return start

    def mark(self, name: str) -> Array:
        """The live part of a mark, a view."""
        return self.marks[name][self.first - self.base : self.end - self.base]

    def at(self, name: str, ids: Ints) -> Array:
        """Values of a mark at row ids."""
        values: Array = self.marks[name].take(ids - self.base, axis=0)
        return values

    def stretch(self, name: str, start: int, stop: int) -> Array:
        """Values of a mark at the row ids start … stop-1."""
        return self.marks[name][start - self.base : stop - self.base].copy()

    def gather(self, name: str, ids: Ints) -> pa.Array:
        """Values of a payload column at row ids, as Arrow."""
        return self.columns[name].gather(ids - self.base)

    def forget_before(self, row: int) -> None:
        """Rows with smaller ids are dead."""
        self.first = min(max(self.first, row), self.end)

    def keep(self, alive: npt.NDArray[np.bool_]) -> None:
        """Keep only some of the live rows; they are numbered anew and the indexes rebuilt."""
        positions = np.flatnonzero(alive) + (self.first - self.base)
        used = self.end - self.base
        for column in self.columns.values():
            column.keep(positions, used)
        for name, values in self.marks.items():
            if not name.startswith("back:"):
                values[: len(positions)] = values[positions]
        self.base = self.first = self.end - len(positions)
        self._fit(len(positions))
        for index in self.indexes.values():
            index.rebuild()

    def spill(self, folder: Path) -> int:
        """Move the payload that is in memory to disk, if it is worth a file; returns the bytes that this freed."""
        before = self.payload_bytes
        for number, (name, column) in enumerate(self.columns.items()):
            if not isinstance(column, SpilledColumn):
                column = self.columns[name] = SpilledColumn(self.types[name], column, self.capacity)
            column.spill(folder, f"{self.name}-{number}", self.end - self.base, max(LEAST_ROWS, self.live // 32))
        return before - self.payload_bytes

    # -- room

    def tidy(self, rows: int) -> None:
        """Make room for so many rows now if it takes no more memory: whoever appends them will not have to."""
        if not self._fits(rows) and self._can_slide(rows):
            self._slide()

    def _fits(self, rows: int) -> bool:
        return self.end - self.base + rows <= self.capacity

    def _can_slide(self, rows: int) -> bool:
        # Sliding copies the live rows: it has to be paid for by dead ones, a quarter as many at least.
        return self.live + rows <= self.capacity and 4 * (self.first - self.base) >= self.live

    def _make_room(self, rows: int) -> None:
        if self._fits(rows):
            return
        enough, needed = self._can_slide(rows), self.live + rows
        self._slide()
        if not enough:
            self._resize(max(_SMALLEST, needed + needed // 4))

    def _slide(self) -> None:
        used, dead = self.end - self.base, self.first - self.base
        if not dead:
            return
        for column in self.columns.values():
            column.forget(dead, used)
        for values in self.marks.values():
            values[: used - dead] = values[dead:used]
        self.base = self.first

    def _resize(self, capacity: int) -> None:
        used = self.end - self.base
        self.capacity = capacity
        for column in self.columns.values():
            column.reserve(capacity, used)
        for name, values in self.marks.items():
            wide = np.zeros((capacity, *values.shape[1:]), values.dtype)
            wide[:used] = values[:used]
            self.marks[name] = wide

    def _fit(self, rows: int) -> None:
        if self.capacity > 8 * max(rows, _SMALLEST):
            self._resize(2 * max(rows, _SMALLEST))


class HashIndex:
    """Chains of rows with equal key hash, newest first (see `kernels/probe.py`)."""

    def __init__(self, store: Store, mark: str) -> None:
        self.store = store
        self.mark = mark
        self.heads: Ints = np.full(_SMALLEST, -1, np.int64)

    @property
    def back(self) -> Array:
        return self.store.marks[f"back:{self.mark}"]

    @property
    def keys(self) -> Array:
        return self.store.marks[self.mark]

    def extend(self, start: int) -> None:
        """Link the rows from id `start` on."""
        if self.store.live > len(self.heads):
            self.rebuild()
        else:
            probe.link(self.heads, self.back, self.keys, self.store.base, start, self.store.end)

    def rebuild(self) -> None:
        size = _SMALLEST
        while 4 * size < 5 * self.store.live:
            size *= 2
        self.heads = np.full(size, -1, np.int64)
        probe.link(self.heads, self.back, self.keys, self.store.base, self.store.first, self.store.end)
