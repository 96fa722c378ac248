"""Forget what no row to come can need: rows whose partners are promised to be complete.

Answer   New rows that can be in no result have a partner that is closed and not stored (`dropping.py`). Where partners
         are stored first, a port refuses to have them stored. `admit` leaves out the others: they are not joined, and
         leave their store with the slice. `epoch_ended` is called when the punctuations of an epoch have taken
         effect. Rows that are in no result to come, by the rule of `alive.py`, leave the group: they leave their store
         when no other group wants them. Answers stay the same. Before the first promise the policy is idle.
State    Counts, and how much has come since the last sweep over stored rows.
Limits   Where all references are equal in one key, a sweep costs what came in and the chains of newly closed keys
         (`chains.py`); elsewhere about what the group has stored. With `purge = auto` the policy sweeps when half as
         many rows have come as were stored after the last sweep. With `eager` it sweeps after every epoch with a
         punctuation, with a number after that number of punctuations. At the end of a bounded run it sweeps in any
         case.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eddyline.model.triggers import SinceLastRun, is_due, purge_triggers
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.group import JoinConfig, JoinGroup
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.policy import Came, Fresh, JoinPolicy, PolicyFigures
from eddyline.operators.join.port import NewRows
from eddyline.operators.join.punctuations.alive import AliveEvaluation, JoinShape
from eddyline.operators.join.punctuations.chains import KeyChains
from eddyline.operators.join.punctuations.dropping import Dropping
from eddyline.operators.promises.closings import Closings
from eddyline.state.columns import Ints
from eddyline.tuning import PunctuationTuning

if TYPE_CHECKING:
    from eddyline.operators.join.join_slice import JoinSlice
    from eddyline.operators.join.node import JoinNode


@dataclass(frozen=True, slots=True)
class _Rules:
    """What decides which rows of a group leave; made with the first promise."""

    shape: JoinShape
    chains: KeyChains
    drops: Dropping


class Punctuations(JoinPolicy):
    """Purges one group. What is promised lies in `Closings`, which all groups of a timeline share."""

    def __init__(self, closings: Closings, purge: str, tuning: PunctuationTuning) -> None:
        self.closings = closings
        self.tuning = tuning
        self.triggers = {"purge": self._run_when}
        self._run_when(purge)
        #: Rows that have left the group, sweeps, and stored rows that sweeps have judged.
        self.purged = self.sweeps = self.visited = 0
        #: New rows that were not joined, and those of them that are still stored, by reference.
        self.dropped = 0
        self._dropping: dict[int, list[Ints]] = {}
        #: `purge = auto` waits this many times as long: longer after every sweep that found next to nothing.
        self._patience = 1
        self._group: JoinGroup | None = None
        self._made: _Rules | None = None
        #: At the last sweep: punctuations that counted, rows that had come, rows that it left.
        self._seen = self._swept = self._left = 0
        #: How many rows had come at the last sweep over all rows.
        self._whole_at = 0

    @property
    def is_idle(self) -> bool:
        return not self.closings.is_promised

    # -- new rows

    def admit(self, node: JoinNode, fresh: Fresh, join_slice: JoinSlice) -> Fresh:
        if self._group is None:
            return fresh
        rules = self._rules(self._group)
        found = list(fresh)
        for at, (one, rows) in enumerate(zip(node.inputs, fresh, strict=True)):
            if rows is not None and len(rows) and isinstance(one, StreamInput):
                rules.chains.see(one.port.position, rows)
                found[at] = self._possible(rules.drops, one.port.position, rows)
        return found

    def _possible(self, drops: Dropping, position: int, rows: Combinations) -> Combinations:
        impossible = drops.impossible(position, rows.ids[position])
        if impossible is None or not impossible.any():
            return rows
        lost = rows.ids[position][impossible]
        self.dropped += len(lost)
        self._dropping.setdefault(position, []).append(lost)
        return rows.take(~impossible)

    def _refused(self, position: int, new: NewRows, wanted: npt.NDArray[np.bool_] | None) -> Ints | None:
        """Positions of the wanted rows that are not stored: they are in no result, and no query reads them."""
        group = self._group
        if group is None or group.watched:
            return None
        port = group.bases[position].port
        if port.lingers is not None or port.judge is not None:
            return None
        judged = np.arange(len(new.ts)) if wanted is None else np.flatnonzero(wanted)
        refused = self._rules(group).drops.refused(position, new, judged)
        if refused is None:
            return None
        self.dropped += int(refused.sum())
        return judged[refused]

    def _rules(self, group: JoinGroup) -> _Rules:
        if self._made is None:
            shape = JoinShape(group, self.closings)
            self._made = _Rules(shape, KeyChains(group, shape, self.closings), Dropping(shape))
        return self._made

    def slice_ended(self, group: JoinGroup, frontier: int) -> None:
        """The rows that were not joined leave their stores."""
        _release(group, {position: np.concatenate(ids) for position, ids in self._dropping.items()})
        self._dropping = {}
        if self._made is not None:
            self._made.drops.end_slice()

    # -- a group

    def changed(self, group: JoinGroup, is_replanted: bool) -> None:
        if self._group is None:
            self._group = group
            if self.closings.is_promised:
                self._begin()
        if not self.closings.is_promised:
            (self.closings.on_first.add if group.members else self.closings.on_first.discard)(self._begin)
        if self._made is not None:
            self._made.shape.reload()
            self._made.chains.reload()
        # Earlier promises can close rows that the new query wants: the next sweep takes all of them.
        self._seen = min(self._seen, max(self.closings.count - 1, 0))

    def _begin(self) -> None:
        """The first promise has come."""
        assert self._group is not None
        for position, base in self._group.bases.items():
            base.port.refuses = partial(self._refused, position)
        self._group.poll()

    def _run_when(self, purge: str) -> None:
        """Sweep by this `purge` from now on."""
        self._triggers = purge_triggers(purge, self.tuning.least_rows)

    def figures(self) -> PolicyFigures:
        return PolicyFigures(counts={"purged_rows": self.purged, "dropped_rows": self.dropped})

    def epoch_ended(self, group: JoinGroup, frontier: int, came: Came, is_closing: bool, is_resting: bool) -> None:
        """All punctuations below the frontier count."""
        since = self.closings.count - self._seen
        if since <= 0 and self._made is None:
            return
        rules = self._rules(group)
        rules.chains.close()
        come = sum(base.end for base in _streams(group))
        seen = SinceLastRun(
            punctuations=since,
            new=(come - self._swept) // self._patience,
            kept=self._left,
            asked=is_closing,
            idle=is_resting,
        )
        if since > 0 and group.members and is_due(self._triggers, seen):
            self._sweep(group, rules, frontier, came, come)

    def _sweep(self, group: JoinGroup, rules: _Rules, frontier: int, came: Came, come: int) -> None:
        """Release the rows that are in no result to come; `come` rows have come so far."""
        chains = rules.chains
        is_short = self._is_short(chains, come - self._swept, _live(group))
        if come - self._whole_at >= self.tuning.whole_sweep * self._left or is_short:
            chains.whole = True
        keys = chains.concerned()
        if keys is None:
            self._whole_at = come
        if is_short and any(trigger.event == "half as many rows" for trigger in self._triggers):
            # The next sweep comes when as many rows have come again: it is short too, and needs no list of their keys.
            chains.whole = True
        dead, visited = _dead(group, rules, came, keys, frontier)
        _release(group, dead)
        purged = sum(map(len, dead.values()))
        self.purged += purged
        self.visited += visited
        self.sweeps += 1
        is_fruitful = self.tuning.fruitful * purged >= visited and (purged > 0 or not chains.windowed)
        most = self.tuning.windowed_patience if chains.windowed else self.tuning.most_patience
        self._patience = 1 if is_fruitful else min(2 * self._patience, most)
        self._seen, self._swept, self._left = self.closings.count, come, _live(group)

    def _is_short(self, chains: KeyChains, new: int, stored: int) -> bool:
        """Whether a sweep over all rows costs what came in: no more are stored than a few for each new row."""
        return chains.one_key.serves and chains.one_key.is_pair and stored <= self.tuning.short * new


def _streams(group: JoinGroup) -> list[StreamInput]:
    return [base for base in group.bases.values() if not base.stream.is_table]


def _live(group: JoinGroup) -> int:
    return sum(base.store.live for base in _streams(group))


def _release(group: JoinGroup, rows: Mapping[int, Ints]) -> None:
    for position, ids in rows.items():
        base = group.bases[position]
        base.stream.release(base.port, ids)


def _dead(group: JoinGroup, rules: _Rules, came: Came, keys: Ints | None, frontier: int) -> tuple[dict[int, Ints], int]:
    """The rows with these keys (None: all) that are in no result to come, by reference, and how many were judged. All
    are judged before one leaves: the judgement of a row reads the rows that were stored before the sweep."""
    if rules.chains.one_key.serves:
        return rules.chains.one_key.dead(keys, came, frontier)
    evaluation = AliveEvaluation(rules.shape, came, None if keys is None else rules.chains.rows(keys))
    judged = {base.port.position: evaluation.rows_alive(base.port.position) for base in _streams(group)}
    dead = {position: over for position, (ids, alive) in judged.items() if len(over := ids[alive < frontier])}
    return dead, sum(len(ids) for ids, _ in judged.values())


def punctuations(config: JoinConfig, commons: Commons) -> JoinPolicy | None:
    if config.settings.punctuations == "off" or len(config.seats) < 2:
        return None
    return Punctuations(commons.one(Closings), config.settings.purge, config.settings.tuning.punctuations)
