"""Probes that several join groups would make alike, made once: different joins over the same streams share them.

Answer   `SharedProbes.pairs` gives the rows of one stream's store that new rows of another meet by equal keys, older and within the
         largest window of all groups that have the same probe. Each group takes its part: its own rows, windows, lineage and conditions.

             A⋈B    ─┐
             A⋈B⋈C  ─┼─ new rows of a probe b once; each group goes on from there
             B⋈A⋈D  ─┘

State    The first probes of all groups; within one slice, the pairs that have been found.
Limits   First probes of new rows, between two streams, by an index. Nothing is shared that only one group probes. Where the pairs are
         too many to be held, every group probes for itself and leaves out at once what it does not want. A group whose orders are
         drawn does not know its first probe beforehand and shares none.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eddyline.kernels import probe as probe_kernels
from eddyline.kernels.sharing import pairs_of
from eddyline.operators.join.combination import any_bit
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.modes import Modes, Pairs, Probe
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import JoinPolicy
from eddyline.operators.join.steps import Step
from eddyline.operators.keys import combined
from eddyline.state.columns import Ints
from eddyline.state.renumbering import Renumbering
from eddyline.tuning import SharingTuning

if TYPE_CHECKING:
    from eddyline.operators.join.group import JoinConfig, JoinGroup


@dataclass(frozen=True, slots=True)
class FirstProbe:
    """New rows of `origin` by these keys into the index of `partner`."""

    origin: str
    keys: tuple[str, ...]
    partner: str
    index: str


@dataclass(frozen=True, slots=True)
class Met:
    """Row `start + i` meets `rows[begin[i] : begin[i + 1]]`, the newest first."""

    start: int
    stop: int
    begin: Ints
    rows: Ints

    def pairs(self, ids: Ints, floors: Ints, partner: StreamInput) -> tuple[Ints, Ints]:
        """Positions in `ids` and the rows that they meet, as far as the floors reach."""
        found: tuple[Ints, Ints] = pairs_of(
            ids - self.start, floors, self.begin, self.rows, partner.store.marks[partner.death], partner.store.base
        )
        return found


class SharedProbes:
    """The first probes of all groups of a pipeline."""

    def __init__(self) -> None:
        self._users: dict[FirstProbe, dict[object, tuple[StreamInput, StreamInput]]] = {}
        #: Per probe the slice of new rows that it was made for, and what these meet; None: too much.
        self._found: dict[FirstProbe, tuple[tuple[int, int], Met | None]] = {}

    def enrol(self, group: object, probes: Mapping[FirstProbe, tuple[StreamInput, StreamInput]]) -> None:
        """The first probes of a group from now on; none: it leaves."""
        for probe in list(self._users):
            self._users[probe].pop(group, None)
            if not self._users[probe]:
                del self._users[probe]
        for probe, inputs in probes.items():
            self._users.setdefault(probe, {})[group] = inputs
        self.forget()

    def forget(self) -> None:
        """A slice is over: its pairs are not needed any more."""
        self._found = {}

    def shared(self) -> list[FirstProbe]:
        """The probes that several groups have."""
        return [probe for probe, users in self._users.items() if len(users) > 1]

    def is_shared(self, probe: FirstProbe) -> bool:
        return len(self._users.get(probe, ())) > 1

    def pairs(self, probe: FirstProbe, fresh: tuple[int, int], tuning: SharingTuning) -> tuple[Met | None, int, int]:
        """What the new rows meet, or None where that is too much; rows that probed for it just now and rows that they visited."""
        if probe in self._found and self._found[probe][0] == fresh:
            return self._found[probe][1], 0, 0
        self._found[probe] = (fresh, None)
        users = list(self._users[probe].values())
        start, stop = fresh
        ids = _wanted([origin for origin, _ in users], np.arange(start, stop))
        mine, one = users[0]
        origin, partner = mine.store, one.store
        hashes = combined([origin.at(key, ids) for key in probe.keys])
        floors = origin.at(mine.death, ids) - max(one.port.span for _, one in users)
        limits = origin.at(mine.order, ids)
        index = partner.indexes[probe.index]
        pieces, visited, made = [], 0, 0
        for low in range(0, len(ids), tuning.shared_rows_at_once):
            part = slice(low, low + tuning.shared_rows_at_once)
            left, right, seen = probe_kernels.probe_chains(
                hashes[part], limits[part], floors[part], index.heads, index.back, index.keys, partner.marks[one.order],
                partner.marks[one.death], partner.base, partner.first, True,
            )  # fmt: skip
            pieces.append((left + low, right))
            visited += seen
            made += len(left)
            if made > tuning.most_shared_pairs:
                return None, 0, visited
        left, right = (np.concatenate(columns) for columns in zip(*pieces, strict=True)) if pieces else (ids[:0], ids[:0])
        begin = np.zeros(stop - start + 1, np.int64)
        begin[ids - start + 1] = np.bincount(left, minlength=len(ids))
        met = Met(start, stop, np.cumsum(begin), right)
        self._found[probe] = (fresh, met)
        return met, len(ids), visited


def _wanted(origins: list[StreamInput], ids: Ints) -> Ints:
    """The new rows that some group wants."""
    wanted = np.zeros(len(ids), np.bool_)
    for origin in origins:
        words = origin.words(ids)
        if words is None:
            return ids
        wanted |= any_bit(words)
    return ids[wanted]


def shared_probes(config: JoinConfig, commons: Commons) -> JoinPolicy | None:
    return ShareFirstProbes(commons.one(SharedProbes), config.settings.tuning.sharing)


class ShareFirstProbes(JoinPolicy):
    def __init__(self, probes: SharedProbes, tuning: SharingTuning) -> None:
        self.probes = probes
        self.tuning = tuning
        #: The first probes of this group: those of other groups may reach less far back and leave its rows out.
        self._mine: frozenset[FirstProbe] = frozenset()

    def enrolled(self, group: JoinGroup) -> None:
        found: dict[FirstProbe, tuple[StreamInput, StreamInput]] = {}
        draws = any(policy.draws_orders for policy in group.policies)
        for node, kept in () if draws else group.nodes:
            for origin, one in enumerate(node.inputs):
                if not isinstance(one, StreamInput) or one.stream.is_table:
                    continue
                steps = node.steps(origin, node.orders[origin])
                if kept is None and len(steps) == 1 and len(group.members) >= self.tuning.many_queries:
                    # The last probe for many queries filters by lineage itself, so shared pairs would not help.
                    continue
                probe, partner = _first_probe(node, origin, steps[0]), node.inputs[steps[0].input]
                if probe is not None and isinstance(partner, StreamInput):
                    found[probe] = (one, partner)
        self._mine = frozenset(found)
        self.probes.enrol(group, found)

    def closed(self, group: JoinGroup) -> None:
        self.probes.enrol(group, {})

    def purge(self, group: JoinGroup, frontier: int) -> None:
        self.probes.forget()

    def renumber(self, old_to_new: Renumbering) -> None:
        self.probes.forget()

    def mode(self, node: JoinNode, probe: Probe) -> Modes | None:
        if probe.at or not probe.takes_pairs:
            return None
        first = _first_probe(node, probe.origin, probe.step)
        if first is None or first not in self._mine or not self.probes.is_shared(first):
            return None
        met, probes, visited = self.probes.pairs(first, probe.moment.range_of(first.origin), self.tuning)
        if met is None:
            node.counters.visited += visited
            return None
        mine, partner = node.inputs[probe.origin], node.inputs[probe.step.input]
        assert isinstance(mine, StreamInput) and isinstance(partner, StreamInput)
        left, right = met.pairs(probe.rows.ids[mine.port.position], probe.floors, partner)
        return Modes(found=Pairs(left, right, probes, visited, shared=len(probe.rows)))


def _first_probe(node: JoinNode, origin: int, step: Step) -> FirstProbe | None:
    """What a first probe looks for, in words that do not depend on the node; None: no other group can have it."""
    mine, other = node.inputs[origin], node.inputs[step.input]
    if node.loop or step.index is None or not isinstance(mine, StreamInput) or not isinstance(other, StreamInput):
        return None
    if other.stream.is_table or mine.stream is other.stream:
        return None
    return FirstProbe(mine.stream.name, tuple(key for _, key in step.probe_keys), other.stream.name, step.index)
