"""Time buckets that close: groups of EMIT ON CLOSE by when they are complete.

Answer   `Buckets.due` is, for groups, the first instant after their bucket (the latest, where they have several); `enter` notes new
         groups, `closed` hands out those whose bucket lies below the frontier, in order.
State    A queue of open groups.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels import group as kernels
from eddyline.operators.aggregate.expiry import ExpiryQueue
from eddyline.operators.aggregate.words import grown
from eddyline.operators.functions_time import DAY, months_of
from eddyline.state.columns import Ints

_FIXED = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": DAY,
    "week": 7 * DAY,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1_200, "millennium": 12_000}


def end_of(begin: Ints, unit: str) -> Ints:
    """The first microsecond after buckets that begin so.

    >>> int(end_of(np.array([0]), "month")[0]) // DAY
    31
    """
    if unit in _FIXED:
        return begin + _FIXED[unit]
    months = months_of(begin) + _MONTHS[unit] - 1970 * 12
    end: Ints = months.view("M8[M]").astype("M8[us]").view(np.int64)
    return end


class Buckets:
    def __init__(self, keys: tuple[tuple[int, str], ...]) -> None:
        #: Which grouping expressions are buckets, and of which unit.
        self.keys = keys
        self.queue = ExpiryQueue()
        self.open = np.zeros(0, np.bool_)

    def due(self, groups: Ints) -> Ints:
        """Of rows of group words."""
        ends = [end_of(np.ascontiguousarray(groups[:, at]), unit) for at, unit in self.keys]
        latest: Ints = ends[0] if len(ends) == 1 else np.maximum.reduce(ends)
        return latest

    def enter(self, codes: Ints, groups: Ints) -> None:
        """Groups that something was added to; `groups` are the words of all groups by code."""
        self.open = grown(self.open, len(groups))
        fresh = np.empty(len(codes), np.int64)
        fresh = fresh[: kernels.collect(self.open, codes, fresh, 0)]
        self.queue.push(self.due(groups[fresh]), fresh)

    def closed(self, frontier: int, groups: Ints) -> tuple[Ints, Ints]:
        """Codes of the groups that are complete and when each was due, in that order; they are no longer open."""
        codes = self.queue.pop(frontier + 1)
        due = self.due(groups[codes])
        order = np.argsort(due, kind="stable")
        self.open[codes] = False
        return codes[order], due[order]
