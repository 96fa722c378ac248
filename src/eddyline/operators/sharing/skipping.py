"""Stretches of a stream that no query can use, by what is known of their rows before they are read.

Answer   `Skipping.reason` says why a stretch must be read; an empty text: no row of it can be in a result, and none is
         late. A reference cannot use a stretch if each box of its filter has a column without a common value:

             WHERE k = 7 AND x > 100        k in [7, 8)   and   x in [101, …)
             a stretch with k 10 … 12       the sets of k have nothing in common: the reference cannot use it

State    How many stretches were skipped, and read for each reason.
Limits   Expressions that are no sets of values decide nothing.
Reading  docs/formats.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The planning process of a source on Spark loads this module, and no kernels.
    from eddyline.operators.sharing.predicates import Box
    from eddyline.operators.sharing.value_sets import ValueSet

SKIPPED = "skipped"
_LATE = "rows may be late"
_USED = "a query can use rows"


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is known of rows that were not read. No event time is null."""

    rows: int
    #: The least and the greatest event time.
    least: int
    greatest: int
    #: Column -> the values that may be there; any value where a column is missing.
    values: Mapping[str, ValueSet]


#: The boxes of the filter of each reference to a stream.
References = Sequence[Sequence["Box"]]


@dataclass(frozen=True, slots=True)
class Skipping:
    #: The event time of the stream.
    time: str
    #: Finds the boxes, and keeps them: only streams with row groups that are looked at need them.
    references: Callable[[], References] = tuple
    #: A row before this event time may be late; None: none is.
    below: int | None = None
    #: Why all rows of the stream are read; empty: they need not be.
    problem: str = ""
    #: How many stretches were skipped, which whoever takes them counts, and read for each reason.
    counts: Counter[str] = field(default_factory=Counter)
    #: A stretch with fewer rows is read without a look.
    least_rows: int = 0

    @property
    def columns(self) -> frozenset[str]:
        """The columns whose values decide."""
        return frozenset(name for boxes in self.references() for box in boxes for name in box.sets)

    def at(self, below: int | None) -> Skipping:
        """The same while rows before another event time may be late."""
        return self if below == self.below else replace(self, below=below)

    def reason(self, stretch: Stretch) -> str:
        """Why a stretch must be read; empty: nothing can use it."""
        if self.problem:
            return self.problem
        if self.below is not None and stretch.least < self.below:
            return _LATE
        return _USED if any(_uses(boxes, stretch) for boxes in self.references()) else ""


def told(counts: Mapping[str, int]) -> str:
    """How many stretches were skipped, and why others were read.

    >>> told({"a query can use rows": 2, "skipped": 38})
    '38 skipped, 2 read (a query can use rows)'
    """
    others = [f"{count:,} read ({reason})" for reason, count in counts.items() if reason != SKIPPED]
    return ", ".join([f"{counts.get(SKIPPED, 0):,} skipped", *others])


def _uses(boxes: Sequence[Box], stretch: Stretch) -> bool:
    """Whether a row of the stretch may be in one of the boxes."""
    return any(
        all(
            name not in stretch.values or not values.intersection(stretch.values[name]).is_empty
            for name, values in box.sets.items()
        )
        for box in boxes
    )
