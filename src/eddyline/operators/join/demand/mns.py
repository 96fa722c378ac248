"""Which part of a combination is not demanded: conditions over its components, tested exactly or through a Bloom filter.

Answer   A `DemandCondition` holds of a combination while the opposite input has a row with equal keys for all
         components of the condition. A condition over one component is level 1 of the lattice of
         sub-tuples, one over several a higher level; the empty one holds while the opposite input has any row.

                         abc
                    ab   ac   bc        ab has no partner although a and b have: ab is a minimal
                     a    b    c        non-demanded sub-tuple, and so is no ancestor of it
                          ∅             ∅: the opposite input is empty

State    An index of the opposite store; in `bloom` mode a filter over its keys, extended by new rows and made anew once
         half of what it was made of is gone.
Limits   Zones of the opposite store are compared first, where that is worth it: rows of stretches that they refuse
         are not searched for.
         Conditions compare 64-bit keys: a collision lets more pass. Which keys are new to a store is
         decided by the keys themselves.
Reading  docs/operators/demand.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from eddyline.kernels.joins import bloom
from eddyline.kernels.joins.probe import ProbeKeys
from eddyline.model.joining import Equality
from eddyline.model.window import FOREVER
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.counters import Counters
from eddyline.operators.join.demand.partners import PartnerZones
from eddyline.operators.join.inputs import Input, NodeInput, StreamInput
from eddyline.operators.join.probing.modes import Probe
from eddyline.operators.stream.keys import combined
from eddyline.state.columns import Ints

Flags = npt.NDArray[np.bool_]
#: The zones that conditions compare first, and what counts their answers.
AskedZones = tuple[PartnerZones, Counters]

#: Key columns per side that a probe can test on its way.
_MOST_KEYS = 2

#: (reference, key) of the combination, (reference, key) of the opposite input.
Link = tuple[int, str, int, str]


def links_between(equalities: Sequence[Equality], own: Sequence[int], opposite: Input) -> tuple[Link, ...]:
    here, there = frozenset(own), frozenset(opposite.references)
    return tuple(side for e in equalities if (side := e.sides(here, there)) is not None)


def alive_ids(one: Input, bases: Mapping[int, StreamInput]) -> Ints:
    """Ids of all rows whose components are still stored: no row to come meets the others."""
    ids = one.ids()
    if isinstance(one, NodeInput):
        ids = ids[np.logical_and.reduce([bases[r].store.holds(rows) for r, rows in one.expand(ids).items()])]
    return ids


def alive_components(one: Input, bases: Mapping[int, StreamInput]) -> dict[int, Ints]:
    return one.expand(alive_ids(one, bases))


class DemandCondition:
    """Some row of `opposite` agrees with a combination on all `links`."""

    def __init__(
        self,
        opposite: Input,
        links: tuple[Link, ...],
        bases: Mapping[int, StreamInput],
        bloomed: bool,
        zones: AskedZones | None = None,
    ) -> None:
        self.opposite = opposite
        self.links = links
        self.bases = bases
        self.bloomed = bloomed
        #: Zones of the opposite store, compared before its index; None: they are not.
        self.zones = zones
        self._worth = None if zones is None else zones[0].worth()
        self.index_column: str | None = None
        self.checked = 0
        self.rejected = 0
        self._filter = np.zeros(0, np.uint64)
        self._filled = 0
        self._first = 0
        self._held = 0

    @property
    def references(self) -> frozenset[int]:
        return frozenset(link[0] for link in self.links)

    @property
    def rate(self) -> float:
        return self.rejected / self.checked if self.checked else 0.0

    def prepare(self) -> None:
        """Have the index that tests use; called before the first test."""
        if self.links and self.index_column is None:
            self.index_column = self.opposite.need_index(tuple((there, key) for _, _, there, key in self.links))

    def passes(self, rows: Combinations, chosen: Ints | None = None) -> Flags:
        """Of combinations (or of the chosen among them), whether each has a partner now that lives while it lives."""
        assert self.index_column is not None
        if self.zones is not None and self._worth is not None:
            zones, counters = self.zones
            may = zones.may_have(self.opposite, self.links, self.bases, rows.ids, chosen, self._worth, counters)
            if may is not None:
                left = np.flatnonzero(may) if chosen is None else chosen[may]
                self.checked += len(may) - len(left)
                self.rejected += len(may) - len(left)
                may[may] = self._looked_up(rows, left)
                return may
        return self._looked_up(rows, chosen)

    def _looked_up(self, rows: Combinations, chosen: Ints | None) -> Flags:
        assert rows.dead is not None
        hashes = self.hashes(rows.ids, chosen)
        if self.bloomed:
            self._refresh()
            found = bloom.may_hold(self._filter, hashes)
        else:
            clocks, deaths = (rows.clock, rows.dead) if chosen is None else (rows.clock[chosen], rows.dead[chosen])
            found = self._partners(hashes, self.opposite.floors(clocks), deaths, self.opposite.end) >= 0
        self.checked += len(hashes)
        self.rejected += len(hashes) - int(np.count_nonzero(found))
        return found

    def sampled(self, ids: Mapping[int, Ints], chosen: Ints | None = None) -> Flags:
        """The same answer of a few combinations, whatever the ages, without making an index for it."""
        hashes = self.hashes(ids, chosen)
        if self.index_column is None and isinstance(self.opposite, StreamInput) and len(self.links) == 1:
            # Another reader of the store may have made the index.
            key = self.links[0][3]
            self.index_column = key if key in self.opposite.store.indexes else None
        if self.index_column is not None:
            ends = np.full(len(hashes), np.iinfo(np.int64).max)
            return self._partners(hashes, -ends, ends, self.opposite.end) >= 0
        distinct, places = np.unique(hashes, return_inverse=True)
        # A filter of these few hashes is cheaper than to look each opposite row up among them.
        sieve = bloom.filter_for(8 * len(distinct))
        bloom.fill(sieve, distinct)
        keys = self._opposite_keys()
        keys = keys[bloom.may_hold(sieve, keys)]
        at = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
        found: Flags = np.zeros(len(distinct), np.bool_)
        if len(distinct):
            found[at[distinct[at] == keys]] = True
        return found[places]

    def hashes(self, ids: Mapping[int, Ints], chosen: Ints | None = None) -> Ints:
        return combined(
            [self.bases[r].store.at(key, ids[r] if chosen is None else ids[r][chosen]) for r, key, _, _ in self.links]
        )

    def novel(self, start: int, stop: int, last: int) -> Ints:
        """Of the opposite rows start … stop-1, those that may turn the condition true for a combination from before
        `last`.

        That is not so where a row before `start` with the same keys is alive at `last`: the condition was true already.
        """
        store = self.opposite.store
        assert self.index_column is not None
        keys = np.ascontiguousarray(store.indexes[self.index_column].keys[start - store.base : stop - store.base])
        floors = self.opposite.floors(np.full(len(keys), last))
        ids = np.arange(start, stop)
        holders = self._partners(keys, floors, np.full(len(keys), FOREVER), start)
        known: Flags = holders >= 0
        if len(self.links) > 1:
            # Equal hashes of different keys: what the one demands is not made when the other comes.
            known[known] = self._same_keys(ids[known], holders[known])
        return ids[~known]

    def _same_keys(self, ones: Ints, others: Ints) -> Flags:
        """Whether pairs of opposite rows agree in every key; not of those whose components have been forgotten."""
        mine, theirs = self.opposite.expand(ones), self.opposite.expand(others)
        same: Flags = np.ones(len(ones), np.bool_)
        for _, _, there, key in self.links:
            base = self.bases[there].store
            same &= (mine[there] >= base.first) & (theirs[there] >= base.first)
            same &= base.at(key, np.maximum(mine[there], base.base)) == base.at(
                key, np.maximum(theirs[there], base.base)
            )
        return same

    def _partners(self, keys: Ints, floors: Ints, ceilings: Ints, before: int) -> Ints:
        store = self.opposite.store
        index = store.indexes[self.index_column or ""]
        begins = "ts" if isinstance(self.opposite, StreamInput) else "clock"
        if isinstance(self.opposite, StreamInput) and self.opposite.stream.is_table:
            ceilings = np.full(len(keys), np.iinfo(np.int64).max)
        stored = index.chains(begins, self.opposite.death, in_time_order=False)
        return bloom.holders(keys, floors, ceilings, stored, before)

    def _opposite_keys(self) -> Ints:
        held = alive_components(self.opposite, self.bases)
        return combined([self.bases[there].store.at(key, held[there]) for _, _, there, key in self.links])

    def _refresh(self) -> None:
        store = self.opposite.store
        keys = store.indexes[self.index_column or ""].keys
        gone = self._held - (store.live - (store.end - self._filled))
        if not len(self._filter) or 2 * gone > self._held or store.live > 8 * len(self._filter):
            self._filter = bloom.filter_for(2 * store.live)
            self._filled, self._held = store.first, 0
        if self._filled < store.end:
            start = max(self._filled, store.first)
            bloom.fill(self._filter, keys[start - store.base : store.end - store.base])
            self._held += store.end - start
            self._filled = store.end


def wanted_pairs(
    condition: DemandCondition, partner: StreamInput, origin: tuple[int, ...], index_column: str, probe: Probe
) -> tuple[Ints, Ints, int, int] | None:
    """Probe a stream for new rows and test the condition on every pair at once: (left, right, visited, refused).

    None where the condition is not about both, or about more columns than the kernel takes.
    """
    own = [link for link in condition.links if link[0] in origin]
    other = [link for link in condition.links if link[0] in partner.references]
    if (
        not 1 <= len(own) <= _MOST_KEYS
        or not 1 <= len(other) <= _MOST_KEYS
        or len(own) + len(other) < len(condition.links)
    ):
        return None
    store, tested = partner.store, condition.opposite.store
    tested_index = tested.indexes[condition.index_column or ""]
    mine = [condition.bases[r].store.at(key, probe.rows.ids[r]) for r, key, _, _ in own]
    theirs = [store.columns[key] for _, key, _, _ in other]
    # The links are sorted by input, so that the keys of one input come before those of the other.
    own_first = condition.links[0][0] in origin
    stored = store.indexes[index_column].chains(partner.order, partner.death, partner.in_time_order)
    sides = bloom.PairKey(mine[0], mine[-1], len(mine), theirs[0], theirs[-1], len(theirs), own_first)
    opposite = condition.opposite
    there = tested_index.chains(opposite.death, opposite.death, in_time_order=False)
    probed = ProbeKeys(probe.hashes, probe.limits, probe.floors)
    return bloom.probe_wanted(probed, stored, sides, opposite.floors(probe.rows.clock), there)
