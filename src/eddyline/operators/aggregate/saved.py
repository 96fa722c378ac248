"""The state of an aggregation in snapshots.

Answer   `AggregationBlocks.snapshot` names the blocks of interned bytes, groups with their sums and emitted results,
         contributions, and distinct values where nothing ever leaves: what has not changed since the last snapshot is
         not written again. `restore` brings a fresh aggregation of the same query to exactly that state.
State    Which interned bytes were written. The rest is with the groups and the contributions.
Limits   Heaps, and counts of distinct values that can leave, are not written: the contributions give them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.operators.aggregate import tables
from eddyline.operators.aggregate.accumulators.accumulators import Accumulator, Distinct, Extreme
from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.operators.aggregate.aggregation import Aggregation
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints


class AggregationBlocks:
    def __init__(self, aggregation: Aggregation) -> None:
        self.aggregation = aggregation
        self.texts = tables.TextBlocks(aggregation.encoder)
        #: The number of a distinct aggregate whose values never leave -> the aggregate.
        self.distinct = {
            str(at): kept
            for at, kept in enumerate(aggregation.accumulators)
            if isinstance(kept, Distinct) and kept.lasting
        }

    def snapshot(self, name: str, version: str) -> tuple[dict[str, Any], Blocks]:
        """`name` begins the names of blocks, `version` that of one state as a whole; no other state has them."""
        aggregation = self.aggregation
        state: dict[str, Any] = {"distinct": {}}
        state["bytes"], blocks = self.texts.snapshot(f"{name}-bytes")
        if aggregation.groups is None:
            state["groups"] = f"{version}-groups"
            blocks[state["groups"]] = lambda: tables.as_table(self._of_groups(np.zeros(1, np.int64)))
        else:
            state["groups"], more = aggregation.groups.snapshot(f"{name}-groups", self._of_groups)
            blocks |= more
        for at, kept in self.distinct.items():
            state["distinct"][at], more = kept.values.snapshot(f"{name}-distinct-{at}", kept.counts_of)
            blocks |= more
        if aggregation.contributions is not None:
            state["contributions"], more = aggregation.contributions.snapshot(f"{name}-rows")
            blocks |= more
        return state, blocks

    def restore(self, state: Mapping[str, Any], load: Load) -> None:
        aggregation = self.aggregation
        self.texts.restore(state["bytes"], load)
        if aggregation.groups is None:
            codes, arrays = np.zeros(1, np.int64), tables.arrays_of(load(state["groups"]))
        else:
            codes, arrays = aggregation.groups.load(state["groups"], load)
        self._take_groups(codes, arrays)
        for at, kept in self.distinct.items():
            values, arrays = kept.values.load(state["distinct"][at], load)
            kept.counts = grown(kept.counts, kept.values.capacity)
            kept.counts[values] = arrays["count"]
            kept.link(values)
        if aggregation.contributions is not None:
            self._take_contributions(*aggregation.contributions.load(state["contributions"], load))

    def _of_groups(self, codes: Ints) -> tables.Arrays:
        aggregation = self.aggregation
        arrays: tables.Arrays = {"total": aggregation.totals[codes]}
        if aggregation.buckets is not None:
            arrays["due"] = aggregation.buckets.due[codes] if len(codes) else codes
        if not aggregation.closes:
            arrays["touched"] = grown(aggregation.touched.flags, int(codes.max(initial=-1)) + 1)[codes]
        arrays |= {
            "present": aggregation.emitted.present[codes],
            "words": aggregation.emitted.encoded[codes],
            "valid": aggregation.emitted.valid[codes],
        }
        for at, kept in enumerate(aggregation.accumulators):
            inner = _inner(kept)
            arrays |= {f"state-{at}-{name}": getattr(inner, name)[codes] for name in inner.by_group}
        return arrays

    def _take_groups(self, codes: Ints, arrays: tables.Arrays) -> None:
        aggregation = self.aggregation
        aggregation.reserve()
        aggregation.totals[codes] = arrays["total"]
        aggregation.touched.take()
        if aggregation.buckets is not None and aggregation.groups is not None:
            gap = aggregation.buckets.gap
            clock = codes if gap is None else arrays["due"] - gap - 1
            aggregation.buckets.enter(codes, aggregation.groups.keys, clock)
        if not aggregation.closes:
            aggregation.touched.note(codes[arrays["touched"]], aggregation.capacity)
        emitted = aggregation.emitted
        emitted.present[codes] = arrays["present"]
        if emitted.encoded.shape[1]:
            emitted.encoded[codes], emitted.valid[codes] = arrays["words"], arrays["valid"]
        for at, kept in enumerate(aggregation.accumulators):
            inner = _inner(kept)
            for name in inner.by_group:
                getattr(inner, name)[codes] = arrays[f"state-{at}-{name}"]

    def _take_contributions(self, slots: Ints, arrays: tables.Arrays) -> None:
        aggregation = self.aggregation
        assert aggregation.contributions is not None
        encoded, valid = tables.encoded_columns(arrays)
        for family, kept in zip(aggregation.layout.families, aggregation.accumulators, strict=True):
            at = family.argument
            if isinstance(kept, Extreme):
                kept.add(arrays["code"], slots, encoded[at], valid[at], aggregation.contributions.encoded[at])
            elif isinstance(kept, Distinct):
                kept.recount(arrays["code"], encoded[at], valid[at])


def _inner(kept: Accumulator) -> Accumulator:
    return kept.inner if isinstance(kept, Distinct) else kept
