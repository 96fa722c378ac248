"""Groups that no result to come can change: an aggregate with EMIT ON CHANGE forgets them, and their last value
stays.

Answer   `FinishedGroups.forget` is called after the changes of an epoch have been emitted: groups that punctuations
         have closed leave.
State    How many punctuations had taken effect at the last sweep, and how many groups it left.
Limits   Groups without windows, under EMIT ON CHANGE. A sweep costs about as much as there are groups and stored
         rows. It runs when there are half as many groups again as the last one left, and punctuations have come.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eddyline.model.expressions.expression import Expression
from eddyline.operators.aggregate.aggregation import Aggregation
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.policy import Came
from eddyline.operators.promises.closings import Closings

if TYPE_CHECKING:
    from eddyline.operators.join.punctuations.group_roots import GroupRoots


class FinishedGroups:
    def __init__(
        self, group: JoinGroup, closings: Closings, keys: tuple[Expression, ...], aggregation: Aggregation, least: int
    ) -> None:
        """`least` is the number of groups below which there is no sweep."""
        self.group = group
        self.closings = closings
        self.keys = keys
        self.aggregation = aggregation
        self.least = least
        self.forgotten = 0
        self._roots: GroupRoots | None = None
        self._seen = 0
        self._left = 0

    def forget(self, frontier: int, came: Came) -> None:
        """All rows below the frontier have been counted, and what they changed has been emitted."""
        groups = self.aggregation.groups
        if groups is None or self.closings.count == self._seen or 2 * groups.held < 3 * self._left + self.least:
            return
        # Loaded with the first punctuation.
        from eddyline.operators.join.punctuations.group_roots import GroupRoots

        self._seen = self.closings.count
        self._roots = self._roots or GroupRoots(self.group, self.closings, self.keys)
        codes = groups.live()
        values = [self.aggregation.key_column(at, codes) for at in range(len(self.keys))]
        over = codes[self._roots.alive(values, len(codes), came) < frontier]
        if len(over):
            self.aggregation.emitted.remove(over)
            self.aggregation.release(over)
            self.forgotten += len(over)
        self._left = groups.held
