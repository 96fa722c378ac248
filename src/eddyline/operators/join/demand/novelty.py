"""What is new in a slice for the demand of a group: times, and what each node has put out so far.

Answer   `range_of` gives the new rows of an input as ids; `aged` has the node inputs that got combinations older than
         the slice.
State    Of one slice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.inputs import Input, StreamInput
from eddyline.operators.join.join_slice import JoinSlice


@dataclass(slots=True)
class Novelty:
    join_slice: JoinSlice
    #: The earliest time of a new row: a combination that is dead by then is not wanted any more.
    low: int
    #: The latest time of a new row.
    high: int
    #: The smallest stamp of a new row.
    first: int
    #: Per node input, the ids that were added in this slice.
    added: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: Node inputs that got combinations older than this slice.
    aged: set[int] = field(default_factory=set)

    @staticmethod
    def of(join_slice: JoinSlice, bases: Iterable[StreamInput]) -> Novelty | None:
        """None: the slice has no new row for the group."""
        times, first = [], []
        for base in bases:
            start, stop = join_slice.range_of(base.port.source)
            if stop > start and not base.stream.is_table:
                ends = np.array([start, stop - 1])
                times += base.store.at("ts", ends).tolist()
                first.append(base.least_stamp(start))
        return Novelty(join_slice, min(times), max(times), min(first)) if times else None

    def range_of(self, one: Input) -> tuple[int, int]:
        if isinstance(one, StreamInput):
            return (0, 0) if one.stream.is_table else self.join_slice.range_of(one.port.source)
        return self.added.get(id(one), (0, 0))

    def new_among(self, one: Input, rows: Combinations | None) -> Combinations | None:
        """The rows without combinations that were made late: no row that came before this slice could have used
        them."""
        return rows if rows is None or id(one) not in self.aged else rows.take(rows.stamp >= self.first)
