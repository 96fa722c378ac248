"""What is new in one slice of an epoch, for all nodes of a group.

Answer   `fresh` has, per stream, the ids of its new rows. `rows_seen` counts the rows of a reference's stream up to
         places of the total order. `into` collects results query by query, where the group serves many queries. `reads`
         are the references whose rows are looked at in complete combinations (None: all); the others may be missing
         there.
State    Of one slice: the record is made when the slice begins and is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from eddyline.operators.join.probing.expansion import Expansion
from eddyline.state.columns import Ints

#: (reference, ranks) -> rows of the reference's stream at or before each rank.
RowsSeen = Callable[[int, Ints], Ints]


@dataclass(frozen=True, slots=True, eq=False)
class JoinSlice:
    fresh: Mapping[str, tuple[int, int]]
    rows_seen: RowsSeen
    into: Expansion | None = None
    reads: frozenset[int] | None = None

    def range_of(self, source: str) -> tuple[int, int]:
        """The ids start … stop-1 of a stream's new rows."""
        return self.fresh.get(source, (0, 0))
