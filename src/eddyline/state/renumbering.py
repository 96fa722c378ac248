"""The map from old row ids to new ones, after a store has closed the gaps that dropped rows left, or put rows between
others.

Answer   `of` gives the new id of each old id, `GONE` for a row that is no longer there. The order of rows stays. Where
         gaps are closed, the id after the last row stays too. Every holder of ids of a store has a method `renumber`
         that takes this map.

             old   first |=====··==·=···====| end          · dropped
             new            first |=============| end
State    The store, and one new id per old id from the old `first` on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from eddyline.state.columns import Ints
    from eddyline.state.store import Store

#: The new id of a row that has left the store: smaller than every id.
GONE = -1


@dataclass(frozen=True, slots=True)
class Renumbering:
    store: Store
    #: The old `first` of the store.
    first: int
    #: The new ids of the rows from the old `first` on.
    ids: Ints
    #: The id after the last row, now.
    end: int

    @staticmethod
    def of_alive(store: Store, alive: npt.NDArray[np.bool_]) -> Renumbering:
        """Rows between `first` and `end` that are not `alive` go; the others close up towards `end`."""
        places = np.cumsum(alive)
        start = store.end - int(places[-1]) - 1 if len(places) else store.end
        return Renumbering(store, store.first, np.where(alive, places + start, GONE), store.end)

    def of(self, ids: Ints) -> Ints:
        """The new ids, in the order of the old ones."""
        known = ids >= self.first
        found: Ints = (
            np.where(known, self.ids[np.where(known, ids - self.first, 0)], GONE)
            if len(self.ids)
            else np.full(len(ids), GONE)
        )
        return found

    def kept(self, ids: Ints) -> Ints:
        """The new ids of those rows that are still there."""
        new = self.of(ids)
        return new[new != GONE]

    def bound(self, row: int) -> int:
        """The new id from which the rows lie that had the id `row` or a larger one."""
        rest = self.ids[max(row - self.first, 0) :]
        rest = rest[rest != GONE]
        return int(rest[0]) if len(rest) else self.end
