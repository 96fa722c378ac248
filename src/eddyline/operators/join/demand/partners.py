"""Zones for demand: stretches of rows whose keys no zone of an opposite store can have.

Answer   `PartnerZones.may_have` tests whether rows may have a partner in an opposite input. A stretch of rows
         whose keys miss the ranges of all zones there has none, and no row of it is searched for.

             keys of 64 rows            40 ── 47
             zones of the store   3 ── 9            55 ── 61          missed: none of the 64 rows has a partner

State    Per condition whether comparing zones has been worth it.
Limits   Keys are those that indexes have: whole numbers, dates and times are in order, others are hashes and never
         miss for long. Zones are wider than their rows: rows that they let pass are searched for.
Reading  docs/heralds.md, docs/operators/demand.md
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.model.expressions.differences import Flags, Ints
from eddyline.operators.join.counters import Counters
from eddyline.operators.join.inputs import Input, NodeInput, StreamInput
from eddyline.operators.worth import Worth
from eddyline.settings import Settings
from eddyline.state.zones import ZoneColumn, ranges_of
from eddyline.tuning import ZoneTuning


@dataclass(slots=True)
class PartnerZones:
    """The zones that the conditions of one group read."""

    is_open: bool
    tuning: ZoneTuning
    _epoch: int = 0

    @staticmethod
    def of(settings: Settings) -> PartnerZones | None:
        return None if settings.heralds == "off" else PartnerZones(settings.heralds == "auto", settings.tuning.zones)

    def next_epoch(self) -> None:
        self._epoch += 1

    def worth(self) -> Worth:
        """Whether a condition compares zones: every condition has its own."""
        return Worth(self.tuning, self.is_open)

    def may_have(
        self,
        opposite: Input,
        links: Sequence[tuple[int, str, int, str]],
        bases: Mapping[int, StreamInput],
        ids: Mapping[int, Ints],
        chosen: Ints | None,
        worth: Worth,
        counters: Counters,
    ) -> Flags | None:
        """Of rows (or of the chosen among them), whether the opposite input may have a partner; None: all may, or zones
        are not compared.

        Args:
            links: (reference, key) of the rows and of the opposite input, which must be equal.
        """
        count = len(next(iter(ids.values()))) if chosen is None else len(chosen)
        store, cost = opposite.store, self.tuning
        if not count or not store.live or not worth.is_worth(self._epoch):
            return None
        cuts = np.append(np.arange(0, count, cost.rows), count)
        misses: Flags = np.zeros(len(cuts) - 1, np.bool_)
        for reference, key, there, other in links:
            rows = ids[reference] if chosen is None else ids[reference][chosen]
            low, high, _ = ranges_of(bases[reference].store.at(key, rows), None, cuts)
            name: Hashable = (there, ZoneColumn(other)) if isinstance(opposite, NodeInput) else ZoneColumn(other)
            least, most, _ = store.zones.ranges(name, store.first, store.end)
            misses |= missed(low, high, least, most)
        found = int(np.count_nonzero(misses))
        refused = np.repeat(misses, np.diff(cuts))
        saved = float(np.count_nonzero(refused))
        counters.zone_pairs += len(misses)
        counters.zones_skipped += found
        counters.conditions_avoided += int(saved)
        worth.note(count * cost.probe, saved * cost.probe - count * len(links) * cost.key - cost.question)
        return None if not found else ~refused


def missed(low: Ints, high: Ints, least: Ints, most: Ints) -> Flags:
    """Which of the ranges low … high meet none of the ranges least … most, which come in any order."""
    order = np.argsort(least, kind="stable")
    # Of the ranges that begin early enough, the one that ends last decides.
    ends = np.maximum.accumulate(most[order])
    at = np.searchsorted(least[order], high, side="right")
    meets: Flags = (at > 0) & (ends[np.maximum(at, 1) - 1] >= low) if len(ends) else np.zeros(len(low), np.bool_)
    return ~meets
