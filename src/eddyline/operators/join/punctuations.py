"""Forget what no row to come can need: rows whose partners are promised to be complete.

Answer   `settle` is called when an epoch has ended and its punctuations have taken effect. Rows that are in no result to come, by the rule
         of `alive.py`, leave the group: they leave their store when no other group wants them. Answers stay the same.
State    Counts, and how much has come since the last look.
Limits   A look costs about what the group has stored. `purge = auto` looks when half as many rows have come as were stored after the last
         look, `eager` after every epoch with a punctuation, a number after that number of punctuations. A bounded end looks in any case.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from eddyline.operators.closings import Closings
from eddyline.operators.join.alive import Came, Rule
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.group import JoinConfig, JoinGroup
from eddyline.operators.join.policy import JoinPolicy

#: `purge = auto` does not look for fewer rows than this.
_FEW = 512


class Punctuations(JoinPolicy):
    """Purges one group. What is promised lies in `Closings`, which all groups of a timeline share."""

    def __init__(self, closings: Closings, purge: str) -> None:
        self.closings = closings
        self.purge_when = purge
        #: Rows that have left the group, and looks that were taken.
        self.purged = 0
        self.looks = 0
        self._rule: Rule | None = None
        self._seen = 0
        self._looked = 0
        self._left = 0

    def enrolled(self, group: JoinGroup) -> None:
        if self._rule is not None:
            self._rule.reload()
        # What was promised before can concern the rows of another query too.
        self._seen = min(self._seen, self.closings.count - 1)

    def settle(self, group: JoinGroup, frontier: int, came: Came, closing: bool) -> None:
        """An epoch has ended: all rows below the frontier have been joined, all punctuations below it count."""
        since = self.closings.count - self._seen
        if since <= 0 or len(group.bases) < 2 or not group.members or not self._is_due(group, since, closing):
            return
        self._rule = self._rule or Rule(group, self.closings)
        look = self._rule.look(came)
        # All are judged before any leaves: what one row says of another is said of the rows as they were.
        judged = {position: look.rows_alive(position) for position, base in group.bases.items() if not base.stream.is_table}
        for position, (ids, alive) in judged.items():
            dead = ids[alive < frontier]
            if len(dead):
                base = group.bases[position]
                base.stream.release(base.port, dead)
                self.purged += len(dead)
        self.looks += 1
        self._seen, self._looked = self.closings.count, self._came(group)
        self._left = sum(base.store.live for base in group.bases.values() if not base.stream.is_table)

    def _is_due(self, group: JoinGroup, since: int, closing: bool) -> bool:
        if self.purge_when == "eager" or closing:
            return True
        if self.purge_when != "auto":
            return since >= int(self.purge_when)
        return 2 * (self._came(group) - self._looked) >= max(_FEW, self._left)

    def _came(self, group: JoinGroup) -> int:
        return sum(base.end for base in group.bases.values() if not base.stream.is_table)


def punctuations(config: JoinConfig, commons: Commons) -> JoinPolicy | None:
    if config.settings.punctuations == "off" or len(config.seats) < 2:
        return None
    return Punctuations(commons.one(Closings), config.settings.purge)
