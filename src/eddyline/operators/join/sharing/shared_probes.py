"""Probes that several join groups would make alike, made once: different joins share them, and so do joins over
different sets of streams.

Answer   `SharedProbes.pairs` gives the rows of one stream's store that new rows of another meet by equal keys, older
         and within the largest window of all groups that have the same probe. Each group takes its part: its own rows,
         windows, lineage and conditions.

             A⋈B    ─┐
             A⋈B⋈C  ─┼─ new rows of a probe b once; each group goes on from there
             B⋈A⋈D  ─┘

State    The first probes of all groups; the pairs that have been found, while a group has still to come to their rows.
Limits   First probes of new rows, between two streams, by an index. Nothing is shared that only one group probes. Where
         the pairs are too many to be held, every group probes for itself and leaves out at once what it does not want.
         A group whose orders are drawn does not know its first probe beforehand and shares none. Nor does one whose
         timeline has passed stored rows without taking them, or is far behind.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eddyline.kernels.joins import probe as probe_kernels
from eddyline.kernels.joins.sharing import pairs_of
from eddyline.operators.join.combination import any_bit
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import JoinPolicy, overriding
from eddyline.operators.join.probing.modes import Modes, Pairs, Probe
from eddyline.operators.join.probing.steps import ProbeStep
from eddyline.operators.stream.keys import combined
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


@dataclass(slots=True, eq=False)
class Met:
    """Row `start + i` meets `rows[begin[i] : begin[i + 1]]`, the newest first; `rows` is None where they are too many
    to be held."""

    start: int
    stop: int
    begin: Ints
    rows: Ints | None
    #: The groups that the pairs were found for and that have still to come to these rows.
    users: set[JoinGroup]

    def pairs(self, ids: Ints, floors: Ints, partner: StreamInput) -> tuple[Ints, Ints]:
        """Positions in `ids`, which are rows of this stretch, and the rows that they meet, as far as the floors
        reach."""
        store = partner.store
        return pairs_of(
            ids - self.start, floors, self.begin, self.rows, store.columns[partner.death], store.base, store.first
        )


class SharedProbes:
    """The first probes of all groups of a pipeline."""

    def __init__(self) -> None:
        self._users: dict[FirstProbe, dict[JoinGroup, tuple[StreamInput, StreamInput]]] = {}
        #: Per probe what stretches of new rows meet.
        self._found: dict[FirstProbe, list[Met]] = {}

    def enrol(self, group: JoinGroup, probes: Mapping[FirstProbe, tuple[StreamInput, StreamInput]]) -> None:
        """The first probes of a group from now on; none: it leaves. Groups that begin or cease to share poll anew."""
        sharing = self._sharing()
        for probe in list(self._users):
            self._users[probe].pop(group, None)
            if not self._users[probe]:
                del self._users[probe]
        for probe, inputs in probes.items():
            self._users.setdefault(probe, {})[group] = inputs
        self.forget()
        for other in sharing ^ self._sharing():
            other.poll()

    def shares(self, group: JoinGroup) -> bool:
        """Whether another group has a first probe of this one."""
        return group in self._sharing()

    def _sharing(self) -> set[JoinGroup]:
        return {group for users in self._users.values() if len(users) > 1 for group in users}

    def forget(self) -> None:
        """Row ids have changed, or groups have."""
        self._found = {}

    def passed(self, timeline: str) -> None:
        """A slice of a timeline is over: its groups have come to the rows that they were given."""
        for probe, stretches in list(self._found.items()):
            users = self._users[probe]
            for met in stretches:
                met.users -= {group for group in met.users if _has_passed(users[group][0], timeline, met.stop)}
            self._found[probe] = [met for met in stretches if met.users]

    def shared(self) -> list[FirstProbe]:
        """The probes that several groups have."""
        return [probe for probe, users in self._users.items() if len(users) > 1]

    def met(
        self, probe: FirstProbe, group: JoinGroup, fresh: tuple[int, int], tuning: SharingTuning
    ) -> tuple[list[Met] | None, int, int]:
        """What a group's new rows meet, in stretches from the oldest rows to the newest, or None where that is not
        shared or too much. Then the rows that probed for it just now, and the rows that they visited."""
        users = self._users.get(probe, {})
        if len(users) < 2 or group not in users or not _takes_all(*users[group]):
            return None, 0, 0
        start, stop = fresh
        held = self._found.setdefault(probe, [])
        mine = sorted(
            (m for m in held if group in m.users and m.start < stop and start < m.stop), key=lambda m: m.start
        )
        edges = [start, *(edge for m in mine for edge in (m.start, m.stop)), stop]
        gaps = [(low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high]
        probes = visited = 0
        for gap in gaps:
            together = self._together(probe, group, gap, tuning)
            if len(together) < 2 and not mine:
                return None, 0, 0
            found, asked, seen = _probed(probe, users[group], list(together.values()), gap, tuning)
            found.users = set(together)
            mine.append(found)
            held.append(found)
            probes, visited = probes + asked, visited + seen
        while (
            len(held) > len(mine)
            and sum(len(m.begin if m.rows is None else m.rows) for m in held) > tuning.most_shared_pairs
        ):
            held.remove(next(m for m in held if m not in mine))
        too_much = any(m.rows is None for m in mine)
        return None if too_much else sorted(mine, key=lambda m: m.start), 0 if too_much else probes, visited

    def _together(
        self, probe: FirstProbe, group: JoinGroup, fresh: tuple[int, int], tuning: SharingTuning
    ) -> dict[JoinGroup, tuple[StreamInput, StreamInput]]:
        """The groups that have this probe for these rows, or will have it soon."""
        timeline = self._users[probe][group][0].port.reader.name
        found = {}
        for other, (mine, partner) in self._users[probe].items():
            reader = mine.port.reader
            comes = reader.name == timeline or (
                reader.given < fresh[1] and fresh[0] - reader.given <= tuning.most_rows_behind
            )
            if comes and _takes_all(mine, partner):
                found[other] = (mine, partner)
        return found


def _takes_all(mine: StreamInput, partner: StreamInput) -> bool:
    """Whether a group sees the stored rows that another sees that has come as far."""
    return mine.port.reader.has_taken_all and partner.port.reader.has_taken_all


def _has_passed(mine: StreamInput, timeline: str, row: int) -> bool:
    return mine.port.reader.name == timeline and mine.port.reader.given >= row


def _probed(
    probe: FirstProbe,
    group: tuple[StreamInput, StreamInput],
    users: list[tuple[StreamInput, StreamInput]],
    fresh: tuple[int, int],
    tuning: SharingTuning,
) -> tuple[Met, int, int]:
    """What new rows of a group meet within the largest window of all users, rows that probed for it and rows that they
    visited."""
    start, stop = fresh
    ids = _wanted([origin for origin, _ in users], np.arange(start, stop))
    mine, one = group
    origin, partner = mine.store, one.store
    hashes = combined([origin.at(key, ids) for key in probe.keys])
    floors = origin.at(mine.death, ids) - max(one.port.span for _, one in users)
    limits = origin.at(mine.order, ids)
    stored = partner.indexes[probe.index].chains(one.order, one.death, True)
    begin = np.zeros(stop - start + 1, np.int64)
    pieces, visited, made = [], 0, 0
    for low in range(0, len(ids), tuning.shared_rows_at_once):
        part = slice(low, low + tuning.shared_rows_at_once)
        left, right, seen = probe_kernels.probe_chains(
            probe_kernels.ProbeKeys(hashes[part], limits[part], floors[part]), stored
        )
        pieces.append((left + low, right))
        visited += seen
        made += len(left)
        if made > tuning.most_shared_pairs:
            return Met(start, stop, begin, None, set()), 0, visited
    left, right = (np.concatenate(columns) for columns in zip(*pieces, strict=True)) if pieces else (ids[:0], ids[:0])
    begin[ids - start + 1] = np.bincount(left, minlength=len(ids))
    return Met(start, stop, np.cumsum(begin), right, set()), len(ids), visited


def _wanted(origins: list[StreamInput], ids: Ints) -> Ints:
    """The new rows that some group wants."""
    wanted = np.zeros(len(ids), np.bool_)
    for origin in origins:
        lineage = origin.lineage(ids)
        if lineage is None:
            return ids
        wanted |= any_bit(lineage)
    return ids[wanted]


def shared_probes(config: JoinConfig, commons: Commons) -> JoinPolicy | None:
    return ShareFirstProbes(commons.one(SharedProbes), config.settings.tuning.sharing)


class ShareFirstProbes(JoinPolicy):
    def __init__(self, probes: SharedProbes, tuning: SharingTuning) -> None:
        self.probes = probes
        self.tuning = tuning
        self.group: JoinGroup | None = None

    @property
    def is_idle(self) -> bool:
        return self.group is None or not self.probes.shares(self.group)

    def changed(self, group: JoinGroup, is_replanted: bool) -> None:
        found: dict[FirstProbe, tuple[StreamInput, StreamInput]] = {}
        draws = bool(overriding(group.policies, "route"))
        for node, kept in () if draws or not group.members else group.nodes:
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
        self.group = group
        self.probes.enrol(group, found)

    def slice_ended(self, group: JoinGroup, frontier: int) -> None:
        self.probes.passed(next(base.port.reader.name for base in group.bases.values() if not base.stream.is_table))

    def renumber(self, old_to_new: Renumbering) -> None:
        self.probes.forget()

    def mode(self, node: JoinNode, probe: Probe) -> Modes | None:
        if probe.at or not probe.takes_pairs:
            return None
        first = _first_probe(node, probe.origin, probe.step)
        if first is None or self.group is None:
            return None
        met, probes, visited = self.probes.met(first, self.group, probe.join_slice.range_of(first.origin), self.tuning)
        if met is None:
            node.counters.visited += visited
            return None
        mine, partner = node.inputs[probe.origin], node.inputs[probe.step.input]
        assert isinstance(mine, StreamInput) and isinstance(partner, StreamInput)
        left, right = _pairs(met, probe.rows.ids[mine.port.position], probe.floors, partner)
        return Modes(found=Pairs(left, right, probes, visited, shared=len(probe.rows)))


def _pairs(stretches: list[Met], ids: Ints, floors: Ints, partner: StreamInput) -> tuple[Ints, Ints]:
    """Positions in `ids` and the rows that they meet."""
    pieces = []
    for met in stretches:
        low, high = np.searchsorted(ids, (met.start, met.stop)).tolist()
        left, right = met.pairs(ids[low:high], floors[low:high], partner)
        pieces.append((left + low, right))
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate([left for left, _ in pieces]), np.concatenate([right for _, right in pieces])


def _first_probe(node: JoinNode, origin: int, step: ProbeStep) -> FirstProbe | None:
    """What a first probe searches for, as a value that does not depend on the node;
    None: no other group can have it."""
    mine, other = node.inputs[origin], node.inputs[step.input]
    if node.loop or step.index is None or not isinstance(mine, StreamInput) or not isinstance(other, StreamInput):
        return None
    if other.stream.is_table or mine.stream is other.stream:
        return None
    return FirstProbe(mine.stream.name, tuple(key for _, key in step.probe_keys), other.stream.name, step.index)
