"""Forget what no row to come can need: rows whose partners are promised to be complete.

Answer   New rows that can be in no result have a partner that is closed and not stored (`dropping.py`). Where partners
         are stored first, a port refuses to have them stored. `admit` leaves out the others: they are not joined, and
         leave their store with the slice. `epoch_ended` is called when the punctuations of an epoch have taken
         effect. Rows that are in no result to come, by the rule of `alive.py`, leave the group: they leave their store
         when no other group wants them. Answers stay the same.
State    Counts, and how much has come since the last look.
Limits   Where all references are equal in one key a look costs what came in and the chains of newly closed keys
         (`chains.py`), elsewhere about what the group has stored. `purge = auto` looks when half as many rows have come
         as were stored after the last look, `eager` after every epoch with a punctuation, a number after that number of
         punctuations. A bounded end looks in any case.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eddyline.model.triggers import SinceLastRun, is_due, purge_triggers
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.group import JoinConfig, JoinGroup
from eddyline.operators.join.inputs import Input, StreamInput
from eddyline.operators.join.policy import Came, Fresh, JoinPolicy, PolicyFigures
from eddyline.operators.join.port import NewRows
from eddyline.operators.join.punctuations.alive import JoinShape
from eddyline.operators.join.punctuations.chains import KeyChains
from eddyline.operators.join.punctuations.dropping import Dropping
from eddyline.operators.promises.closings import Closings
from eddyline.state.columns import Ints
from eddyline.tuning import PunctuationTuning

if TYPE_CHECKING:
    from eddyline.operators.join.join_slice import JoinSlice
    from eddyline.operators.join.node import JoinNode


class Punctuations(JoinPolicy):
    """Purges one group. What is promised lies in `Closings`, which all groups of a timeline share."""

    def __init__(self, closings: Closings, purge: str, tuning: PunctuationTuning) -> None:
        self.closings = closings
        self.tuning = tuning
        self.triggers = {"purge": self._run_when}
        self._run_when(purge)
        #: Rows that have left the group, and looks that were taken.
        self.purged = 0
        self.looks = 0
        #: Stored rows that looks have judged.
        self.visited = 0
        self._chains: KeyChains | None = None
        #: `purge = auto` waits this many times as long: longer after every look that found next to nothing.
        self._patience = 1
        #: How many rows had come at the last look at all rows.
        self._whole_at = 0
        self._rule: JoinShape | None = None
        self._group: JoinGroup | None = None
        self._seen = 0
        self._looked = 0
        self._left = 0
        #: New rows that were not joined, and those of them that are still stored, by reference.
        self.dropped = 0
        self._dropping: dict[int, list[Ints]] = {}
        self._drops: Dropping | None = None

    # -- new rows

    def admit(self, node: JoinNode, fresh: Fresh, join_slice: JoinSlice) -> Fresh:
        if not self.closings.speaks or self._group is None:
            return fresh
        _, chains = self._begun(self._group)
        for one, rows in zip(node.inputs, fresh, strict=True):
            if rows is not None and len(rows) and isinstance(one, StreamInput):
                chains.see(one.port.position, rows)
        found = [self._possible(one, rows) for one, rows in zip(node.inputs, fresh, strict=True)]
        lost = sum(len(a) - len(b) for a, b in zip(fresh, found, strict=True) if a is not None and b is not None)
        self.dropped += lost
        return found if lost else fresh

    def _refused(self, position: int, new: NewRows, wanted: npt.NDArray[np.bool_] | None) -> Ints | None:
        """Positions of the wanted rows that are not stored: they are in no result, and no query looks at them."""
        group = self._group
        if not self.closings.speaks or group is None or group.watched or len(group.bases) < 2:
            return None
        port = group.bases[position].port
        if port.lingers is not None or port.judge is not None:
            return None
        self._begun(group)
        assert self._drops is not None
        asked = np.arange(len(new.ts)) if wanted is None else np.flatnonzero(wanted)
        refused = self._drops.refused(position, new, asked)
        if refused is None:
            return None
        self.dropped += int(refused.sum())
        return asked[refused]

    def _begun(self, group: JoinGroup) -> tuple[JoinShape, KeyChains]:
        """The rule and the chains of the group, from its first promise on."""
        if self._rule is None or self._chains is None:
            self._rule = JoinShape(group, self.closings)
            self._chains = KeyChains(group, self._rule, self.closings)
            self._drops = Dropping(self._rule)
        return self._rule, self._chains

    def _possible(self, one: Input, rows: Combinations | None) -> Combinations | None:
        if rows is None or not len(rows) or not isinstance(one, StreamInput):
            return rows
        assert self._drops is not None
        position = one.port.position
        impossible = self._drops.impossible(position, rows.ids[position])
        if impossible is None or not impossible.any():
            return rows
        self._dropping.setdefault(position, []).append(rows.ids[position][impossible])
        return rows.take(~impossible)

    def slice_ended(self, group: JoinGroup, frontier: int) -> None:
        """The rows that were not joined leave their stores."""
        for position, ids in self._dropping.items():
            base = group.bases[position]
            base.stream.release(base.port, np.concatenate(ids))
        self._dropping = {}
        if self._drops is not None:
            self._drops.end_slice()

    # -- a group

    def changed(self, group: JoinGroup, is_replanted: bool) -> None:
        if self._group is None:
            self._group = group
            for position, base in group.bases.items():
                base.port.refuses = partial(self._refused, position)
        if self._rule is not None:
            self._rule.reload()
        if self._chains is not None:
            self._chains.reload()
        # Earlier promises can close rows that the new query wants: the next look takes all of them.
        self._seen = min(self._seen, max(self.closings.count - 1, 0))

    def _run_when(self, purge: str) -> None:
        """Look for rows to forget as `purge` says from now on."""
        self._triggers = purge_triggers(purge, self.tuning.least_rows)

    def figures(self) -> PolicyFigures:
        return PolicyFigures(counts={"purged_rows": self.purged, "dropped_rows": self.dropped})

    def epoch_ended(self, group: JoinGroup, frontier: int, came: Came, is_closing: bool, is_resting: bool) -> None:
        """All punctuations below the frontier count."""
        since = self.closings.count - self._seen
        if since > 0 and len(group.bases) > 1:
            self._begun(group)
        if self._chains is not None:
            self._chains.close()
        if (
            since <= 0
            or len(group.bases) < 2
            or not group.members
            or not self._is_due(group, since, is_closing, is_resting)
        ):
            return
        assert self._rule is not None and self._chains is not None
        come = self._came(group)
        stored = self._live(group)
        short = self._is_short(come, stored)
        if come - self._whole_at >= self.tuning.whole_look * self._left or short:
            self._chains.whole = True
        keys = self._chains.concerned()
        if keys is None:
            self._whole_at = come
        if short and self._waits_for_rows:
            # The next look comes when as many rows have come again: it is short too, and needs no list of their keys.
            self._chains.whole = True
        dead, visited = self._dead(group, came, keys, frontier)
        purged = sum(map(len, dead.values()))
        for position, ids in dead.items():
            base = group.bases[position]
            base.stream.release(base.port, ids)
        self.purged += purged
        self.visited += visited
        self.looks += 1
        fruitful = self.tuning.fruitful * purged >= visited and (purged > 0 or not self._chains.windowed)
        most = self.tuning.windowed_patience if self._chains.windowed else self.tuning.most_patience
        self._patience = 1 if fruitful else min(2 * self._patience, most)
        self._seen, self._looked = self.closings.count, come
        self._left = self._live(group)

    def _is_short(self, come: int, stored: int) -> bool:
        """Whether a look at all rows costs what came in: no more are stored than a few for each that has come since the
        last look."""
        assert self._chains is not None
        return (
            self._chains.one_key.serves
            and self._chains.one_key.is_pair
            and stored <= self.tuning.short * (come - self._looked)
        )

    @property
    def _waits_for_rows(self) -> bool:
        return any(trigger.event == "half as many rows" for trigger in self._triggers)

    def _live(self, group: JoinGroup) -> int:
        return sum(base.store.live for base in group.bases.values() if not base.stream.is_table)

    def _dead(self, group: JoinGroup, came: Came, keys: Ints | None, frontier: int) -> tuple[dict[int, Ints], int]:
        """The rows with these keys that are in no result to come, by reference, and how many were judged; None: all
        rows are. All are
        judged before one leaves: the judgement of a row looks at the rows that were stored before the look."""
        assert self._rule is not None and self._chains is not None
        if self._chains.one_key.serves:
            return self._chains.one_key.dead(keys, came, frontier)
        look = self._rule.look(came, None if keys is None else self._chains.rows(keys))
        judged = {
            position: look.rows_alive(position) for position, base in group.bases.items() if not base.stream.is_table
        }
        dead = {position: ids[alive < frontier] for position, (ids, alive) in judged.items()}
        return {position: ids for position, ids in dead.items() if len(ids)}, sum(
            len(ids) for ids, _ in judged.values()
        )

    def _is_due(self, group: JoinGroup, since: int, is_closing: bool, is_resting: bool) -> bool:
        new = (self._came(group) - self._looked) // self._patience
        seen = SinceLastRun(punctuations=since, new=new, kept=self._left, asked=is_closing, idle=is_resting)
        return is_due(self._triggers, seen)

    def _came(self, group: JoinGroup) -> int:
        return sum(base.end for base in group.bases.values() if not base.stream.is_table)


def punctuations(config: JoinConfig, commons: Commons) -> JoinPolicy | None:
    if config.settings.punctuations == "off" or len(config.seats) < 2:
        return None
    return Punctuations(commons.one(Closings), config.settings.purge, config.settings.tuning.punctuations)
