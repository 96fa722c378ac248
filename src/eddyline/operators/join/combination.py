"""Combinations of rows, many at a time, as columns of row ids.

Answer   `ids[r][i]` is the row of reference r in combination i. `stamp` orders combinations by their newest row: its
         place in the total order times 64 plus the position of its reference. A row under two references of a self-join
         is older under the earlier one. `clock` is the newest row's event time, `dead` the last instant at which every
         component is still in its window, `lineage` the queries that still want the combination, as bits.
Limits   At most 64 references in one join. Payload is not here: it is gathered by id, once, for results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.kernels.bitsets import any_bits
from eddyline.kernels.order import ascends, merge_order, pick, rank_order
from eddyline.state.columns import Ints

#: Bits of a stamp that hold the position of the reference.
POSITION_BITS = 6
MOST_REFERENCES = 1 << POSITION_BITS

LineageBits = npt.NDArray[np.uint64]


def any_bit(lineage: LineageBits) -> npt.NDArray[np.bool_]:
    """Per row whether a query wants it."""
    return lineage[:, 0] != 0 if lineage.shape[1] == 1 else any_bits(lineage)


@dataclass(slots=True)
class Combinations:
    ids: dict[int, Ints]
    stamp: Ints
    clock: Ints
    #: None for complete combinations: they are not stored, so no purge looks at it.
    dead: Ints | None
    lineage: LineageBits | None

    def __len__(self) -> int:
        return len(self.stamp)

    @property
    def rank(self) -> Ints:
        """Place of the newest row in the total order."""
        return self.stamp >> POSITION_BITS

    def only(self, references: frozenset[int]) -> Combinations:
        """The combinations without the rows of other references, without a copy."""
        return Combinations(
            {r: ids for r, ids in self.ids.items() if r in references}, self.stamp, self.clock, self.dead, self.lineage
        )

    def part(self, begin: int, stop: int) -> Combinations:
        """The combinations begin … stop-1, without a copy."""
        return self._at(slice(begin, stop))

    def take(self, chosen: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Combinations:
        return self._at(np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen)

    def _at(self, chosen: slice | npt.NDArray[Any]) -> Combinations:
        return Combinations(
            {r: ids[chosen] for r, ids in self.ids.items()},
            self.stamp[chosen],
            self.clock[chosen],
            None if self.dead is None else self.dead[chosen],
            None if self.lineage is None else self.lineage[chosen],
        )


def in_order(parts: Sequence[Combinations], lowest: int, span: int) -> Combinations:
    """The parts as one, by the rank of the newest row; ranks lie in [lowest, lowest + span). There is at least one
    part."""
    if len(parts) == 2 and parts[0].lineage is None and ascends(parts[0].stamp) and ascends(parts[1].stamp):
        a, b = parts
        chosen = merge_order(a.stamp, b.stamp)
        ids = {r: pick(a.ids[r], b.ids[r], chosen) for r in a.ids}
        return Combinations(ids, pick(a.stamp, b.stamp, chosen), pick(a.clock, b.clock, chosen), None, None)
    rows = concatenate(parts)
    return rows if ascends(rows.stamp) else rows.take(rank_order(rows.rank, lowest, span))


def concatenate(parts: Sequence[Combinations]) -> Combinations:
    """One after the other; the parts have the same references. There is at least one."""
    if len(parts) == 1:
        return parts[0]
    lineage = [p.lineage for p in parts if p.lineage is not None]
    deaths = [p.dead for p in parts if p.dead is not None]
    return Combinations(
        {r: np.concatenate([p.ids[r] for p in parts]) for r in parts[0].ids},
        np.concatenate([p.stamp for p in parts]),
        np.concatenate([p.clock for p in parts]),
        np.concatenate(deaths) if deaths else None,
        np.concatenate(lineage) if lineage else None,
    )
