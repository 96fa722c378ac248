"""Samples of the stores of a join group, for the planner.

Answer   `Sample` takes some of the new rows of a reference, and some of the rows in its window. `sampled_edge` counts the
         pairs of two samples that satisfy the join. `differs` compares rates and selectivities with earlier ones.
State    None.
Limits   The number of sampled rows is bounded (`PlanningTuning`), so the cost does not depend on the size of the stores.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eddyline.model.expressions.expression import Ref
from eddyline.operators.expressions.evaluate import compile_predicate
from eddyline.operators.join.combination import any_bit
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.stream.keys import combined
from eddyline.plan.lower import Lowered
from eddyline.plan.tree.statistics import EdgeSeen, GroupStatistics, Pair, residuals_between
from eddyline.state.columns import Ints
from eddyline.tuning import PlanningTuning


class Sample:
    """Some of the new rows of a reference and some of the rows in its window. Rows that no query wants are left out."""

    def __init__(
        self, base: StreamInput, last: int | None, frontier: int, released: Mapping[str, int], tuning: PlanningTuning
    ) -> None:
        store, port = base.store, base.port
        self.base = base
        is_table, came = base.stream.is_table, released.get(port.source, 0)
        first = store.first if is_table else port.first_needed(store, frontier, came)
        live = _spread(first, base.end, tuning.live_rows)
        kept = self._wanted(live)
        #: Estimates of rows that a query wants: in the window, and (`wanted`) new since the last sample.
        self.rows = (base.end - first) * (len(kept) / len(live) if len(live) else 0.0)
        self.live = kept
        new = _spread(max(store.first, last), base.end, tuning.new_rows) if last is not None else live[:0]
        self.new = self._wanted(new)
        count = base.end - last if last is not None else 0
        self.wanted = count * (len(self.new) / len(new) if len(new) else float(count > 0))

    def _wanted(self, ids: Ints) -> Ints:
        ids = ids[self.base.store.holds(ids)] if self.base.store.dropped else ids
        lineage = self.base.lineage(ids)
        return ids if lineage is None else ids[any_bit(lineage)]

    def keys(self, ids: Ints, names: list[str]) -> Ints:
        return combined([self.base.store.at(name, ids) for name in names])


def sampled_edge(lowered: Lowered, pair: Pair, samples: Mapping[int, Sample], most: int) -> EdgeSeen:
    """How many pairs of a new row and a row in the other's window satisfy the join.

    `most` pairs are tested where a condition is no equality.
    """
    left, right = samples[pair[0]], samples[pair[1]]
    pairs = float(len(left.new) * len(right.live) + len(left.live) * len(right.new))
    matched = pairs
    keys = [(e.left_key, e.right_key) for e in lowered.equalities if (e.left, e.right) == pair]
    keys += [(e.right_key, e.left_key) for e in lowered.equalities if (e.right, e.left) == pair]
    if keys:
        left_keys, right_keys = [key for key, _ in keys], [key for _, key in keys]
        matched = _equal(left.keys(left.new, left_keys), right.keys(right.live, right_keys))
        matched += _equal(right.keys(right.new, right_keys), left.keys(left.live, left_keys))
    for condition in residuals_between(lowered, pair):
        if len(left.live) and len(right.live):
            some: dict[Ref, tuple[Sample, Ints]] = {
                pair[0]: (left, _stepped(left.live, most, 1)),
                pair[1]: (right, _stepped(right.live, most, 7919)),
            }
            predicate = compile_predicate(condition)
            columns = {at: some[at[0]][0].base.store.gather(at[1], some[at[0]][1]) for at in predicate.columns}
            matched *= float(np.mean(predicate(columns, most)))
    return EdgeSeen(matched, pairs)


def _equal(new: Ints, live: Ints) -> float:
    # Sorting `new`, too, more than halves the time: searches of ascending values stay in the cache.
    live, new = np.sort(live), np.sort(new)
    return float(np.sum(live.searchsorted(new, side="right") - live.searchsorted(new, side="left")))


def _spread(first: int, end: int, most: int) -> Ints:
    """At most `most` ids, evenly spread from `first` to `end`."""
    count = max(end - first, 0)
    return np.arange(first, end) if count <= most else first + (np.arange(most) * count) // most


def _stepped(ids: Ints, most: int, stride: int) -> Ints:
    """`most` of the ids in steps of `stride`, from the first again after the last. Two references with different strides
    give many different pairs."""
    return ids[(np.arange(most) * stride) % len(ids)]


def differs(now: GroupStatistics, then: GroupStatistics, factor: float) -> bool:
    """Whether a rate or a selectivity has moved by a factor since the last search."""
    for new, old in zip(now.references, then.references, strict=True):
        if _apart(new.wanted / max(now.seconds, 1e-9), old.wanted / max(then.seconds, 1e-9), factor):
            return True
    for pair, edge in now.edges.items():
        earlier = then.edges.get(pair, EdgeSeen())
        if edge.pairs and earlier.pairs:
            share, before = max(edge.matched, 0.5) / edge.pairs, max(earlier.matched, 0.5) / earlier.pairs
            if _apart(share, before, factor):
                return True
    return False


def _apart(one: float, other: float, factor: float) -> bool:
    low, high = sorted((one, other))
    return high > factor * low
