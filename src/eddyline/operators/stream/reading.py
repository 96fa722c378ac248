"""How far a timeline has read the store of a stream.

Answer   A `ReadPosition` parts the rows of a store: those that its timeline has taken, those that it has passed without
         taking, and those that it has not reached. Probes compare places in the timeline's order and see rows of the
         first kind only.

             first        taken, or passed         position      not reached       end
               |=======================================|···························|

State    The position. The columns of the store with the places of the rows in the timeline's total order, and with
         their numbers. How far the timeline had come when the store was last purged for it.
Limits   Both columns never fall along the store: a row that is passed has those of the row before it, and no query
         behind the position wants it; a row that is not reached has `UNREAD`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from eddyline.state.columns import Ints
from eddyline.state.renumbering import Renumbering
from eddyline.state.store import Store

#: The place, and the number, of a row that a timeline has not reached: not older than any row.
UNREAD = int(np.iinfo(np.int64).max)
#: Those of rows that were stored before the timeline began to read: older than every row.
BEFORE = -1


def timeline_name(streams: Iterable[str]) -> str:
    """The name of the timeline of a set of streams."""
    return "+".join(sorted(set(streams)))


class ReadPosition:
    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store
        #: The columns with the places of rows in the timeline's order, and with their numbers where a ROWS window
        #: counts them.
        self.order = f"seq:{name}"
        self.numbers = f"num:{name}"
        self.columns: tuple[str, ...] = (self.order,)
        self.counts = False
        self.position = store.end
        #: The id after the last row that units were given: their next rows begin here.
        self.given = store.end
        #: Rows still to come are at or after this instant; None: the timeline has not moved yet.
        self.now: int | None = None
        #: How many rows of the stream the timeline has released.
        self.seen = 0
        #: The newest row that was passed without being taken.
        self.passed = -1
        #: The rows that were written to segments before this timeline reached them: their first id and the id after the
        #: last.
        self.sealed = (0, 0)
        store.add_column(self.order, np.int64, fill=BEFORE)

    def need_numbers(self) -> None:
        """Hold the numbers of rows from now on."""
        if not self.counts:
            self.counts, self.columns = True, (self.order, self.numbers)
            self.store.add_column(self.numbers, np.int64, fill=BEFORE)
            self.store.columns[self.numbers][self.position - self.store.base :] = UNREAD

    @property
    def has_taken_all(self) -> bool:
        """Whether no row that is stored was passed without being taken."""
        return self.passed < self.store.first

    def take_all(self, stop: int, ranks: Ints, numbers: Ints) -> None:
        """Read the rows up to the id `stop`, which have these ranks and numbers; none is passed."""
        begin, end = self.position - self.store.base, stop - self.store.base
        self.store.columns[self.order][begin:end] = ranks
        if self.counts:
            self.store.columns[self.numbers][begin:end] = numbers
        self.position = stop

    def take(self, stop: int, places: npt.NDArray[np.int64], ranks: Ints, numbers: Ints) -> Ints:
        """Read the rows up to the id `stop`: `ranks[places[i]]` is the rank of row i, and it is passed where places[i]
        is negative.

        Returns the ids of the rows that are passed.
        """
        start = self.position
        self.position = stop
        gone = np.flatnonzero(places < 0)
        values = {self.order: ranks, self.numbers: numbers}
        for name in self.columns:
            column = self.store.columns[name]
            found = values[name][places]
            if len(gone):
                found[gone] = BEFORE
                found[:1] = max(int(found[0]), self._last(column, start))
                np.maximum.accumulate(found, out=found)
            column[start - self.store.base : stop - self.store.base] = found
        return self._note(gone + start)

    def pass_to(self, stop: int) -> Ints:
        """Pass the rows up to the id `stop` without taking any; returns their ids."""
        start, self.position = self.position, stop
        self._fill(np.arange(start, stop))
        return self._note(np.arange(start, stop))

    def pass_over(self, ids: Ints) -> None:
        """Rows before the position are new in the store, one by one: they have been passed."""
        self._fill(ids)
        self._note(ids)

    def _fill(self, ids: Ints) -> None:
        for name in self.columns:
            column = self.store.columns[name]
            column[ids - self.store.base] = BEFORE
            begin = max(int(ids[0]) - 1, self.store.first) - self.store.base if len(ids) else 0
            stretch = column[begin : self.position - self.store.base]
            np.maximum.accumulate(stretch, out=stretch)

    def _note(self, ids: Ints) -> Ints:
        if len(ids):
            self.passed = max(self.passed, int(ids[-1]))
        return ids

    def _last(self, column: npt.NDArray[np.generic], start: int) -> int:
        """The value of the row before `start`."""
        return int(column[start - 1 - self.store.base]) if start > self.store.first else BEFORE

    def unsealed(self) -> None:
        """The store was written to segments: rows that are not reached lie in them as such."""
        first, end = self.amended
        if self.position < self.store.end:
            self.sealed = (first if first < end else self.position, self.store.end)

    @property
    def amended(self) -> tuple[int, int]:
        """The rows that were not reached when they were written and are now: their first id and the id after the
        last."""
        first = max(self.sealed[0], self.store.first)
        return first, max(first, min(self.sealed[1], self.position))

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows have new ids, and are written to segments anew."""
        self.position = old_to_new.bound(self.position)
        self.given = old_to_new.bound(self.given)
        self.passed = old_to_new.bound(self.passed + 1) - 1 if self.passed >= old_to_new.first else -1
        self.sealed = (0, 0)
