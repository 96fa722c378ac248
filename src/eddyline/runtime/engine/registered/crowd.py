"""A row that makes very many results: found while its results leave in pieces, and warned of once.

Answer   `Crowd.see` counts the results of each newest row of a query, whatever pieces they come in. The first row with
         more than `most_results` is named in a warning when its slice is done: with query, stream, the values of the
         row's join keys, and the count.
State    Of the newest row at hand: its place and its results so far.
Limits   Once per query and process. A piece that is shorter than the limit costs one search at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence

import numpy as np

from eddyline.model.expressions.expression import ColumnRef
from eddyline.operators.join.combination import POSITION_BITS, Combinations
from eddyline.operators.join.inputs import StreamInput
from eddyline.plan.lower import Lowered

#: The bits of a stamp that hold the position of a reference.
_POSITION = (1 << POSITION_BITS) - 1


class Crowd:
    def __init__(
        self, lowered: Lowered, bases: Mapping[int, StreamInput], most: int, crowds: MutableSequence[Crowd]
    ) -> None:
        """`crowds` takes this object when such a row is found: when the slice is done, `told` gives the warning."""
        self.lowered = lowered
        self.bases = bases
        self.most = most
        self._crowds = crowds
        self._is_told = False
        #: The last newest row, its stamp, and its results so far.
        self._stamp = -1
        self._count = 0
        #: The stamp of the row with too many results, and its results so far.
        self._found: tuple[int, int] | None = None

    def see(self, rows: Combinations) -> None:
        """Results of the query, in the order of their newest rows."""
        stamps = rows.stamp
        if self._is_told or not len(stamps):
            return
        first, last = int(stamps[0]), int(stamps[-1])
        carried = self._count if first == self._stamp else 0
        if self._found is not None:
            self._found = (self._found[0], self._found[1] + int(np.searchsorted(stamps, self._found[0], side="right")))
        elif carried + len(stamps) > self.most:
            self._look(rows, carried)
        same = len(stamps) - int(np.searchsorted(stamps, last))
        self._stamp, self._count = last, same + (carried if first == last else 0)

    def _look(self, rows: Combinations, carried: int) -> None:
        begins = np.concatenate(([0], np.flatnonzero(np.diff(rows.stamp)) + 1))
        counts = np.diff(np.append(begins, len(rows)))
        counts[0] += carried
        found = np.flatnonzero(counts > self.most)
        if len(found):
            self._found = (int(rows.stamp[begins[found[0]]]), int(counts[found[0]]))
            self._crowds.append(self)

    def told(self) -> str:
        """The warning; the query is not warned of again."""
        assert self._found is not None
        (stamp, count), self._is_told, self._found = self._found, True, None
        position = stamp & _POSITION
        base, seat = self.bases[position], self.lowered.seats[position]
        row = base.store.first + np.searchsorted(base.store.column(base.order), [stamp >> POSITION_BITS])
        keys = {}
        for key in seat.keys:
            name = key.expression.column if isinstance(key.expression, ColumnRef) else "its key"
            keys[name] = base.values_of(key.name, row)[0].as_py()
        of_key = f" with {' and '.join(f'{name} = {value!r}' for name, value in keys.items())}" if keys else ""
        made = f"one row of stream {seat.source}{of_key} makes {count:,} results"
        return f"{made}; most_results is {self.most:,}"
