"""What is new in an epoch, for all nodes of a group.

Answer   `range_of` gives the new rows of an input as ids; `aged` says which node inputs got combinations older than the epoch.
State    Of one epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.inputs import Input, StreamInput


@dataclass(slots=True)
class Moment:
    fresh: Mapping[str, tuple[int, int]]
    #: The earliest time of a new row: nothing that is dead by then is wanted any more.
    low: int
    #: The latest.
    high: int
    #: The smallest stamp of a new row.
    first: int
    #: Per node input, the ids that were added in this epoch.
    added: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: Node inputs that got combinations older than this epoch.
    aged: set[int] = field(default_factory=set)

    def range_of(self, one: Input) -> tuple[int, int]:
        if isinstance(one, StreamInput):
            return (0, 0) if one.stream.is_table else self.fresh.get(one.port.source, (0, 0))
        return self.added.get(id(one), (0, 0))

    def new_among(self, one: Input, rows: Combinations | None) -> Combinations | None:
        """Without those that were made late: nothing newer than them could have used them before."""
        return rows if rows is None or id(one) not in self.aged else rows.take(rows.stamp >= self.first)
