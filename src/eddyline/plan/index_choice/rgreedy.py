"""RGreedy: take attributes one by one, the most important first, as long as that pays.

Answer   `rgreedy(model, heuristic)` ranks the attributes by OWL (occurrence weight: how much is asked with it) or PCL
         (pattern coverage: how much is asked with it and with no attribute taken before). Each step prices all
         configurations that index every attribute taken so far. The search ends with the first step whose best
         configuration is not better than that of the steps before.
State    `Steps` remembers the best configuration of each set of attributes, for a second run with the other ranking.
Limits   Not optimal: OWL spends steps on attributes that come together with others, PCL passes by attributes that are
         covered already.
Reading  docs/operators/index.md#searching
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np

from eddyline.plan.index_choice.candidates import batches
from eddyline.plan.index_choice.cost import TIE, Best, IndexCostModel

HEURISTICS = ("owl", "pcl")


class Steps:
    """The best configuration of each set of attributes; every set is priced once."""

    def __init__(self, model: IndexCostModel) -> None:
        self.model = model
        self.offered = 0
        self._known: dict[frozenset[int], Best] = {}

    def best(self, taken: list[int]) -> Best:
        """The best configuration in which all these attributes have bits."""
        key = frozenset(taken)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Best()
            for batch in batches([self.model.workload.caps[place] for place in taken], self.model.bits, low=1):
                configurations = np.zeros((len(batch), len(self.model.workload.attributes)), np.int64)
                configurations[:, taken] = batch
                known.offer(configurations, self.model.prices(configurations))
            self.offered += known.offered
        return known


def rgreedy(model: IndexCostModel, heuristic: str, steps: Steps | None = None) -> Best:
    """The best configuration that the steps of one ranking find."""
    steps = steps or Steps(model)
    best, taken = Best(), list[int]()
    nothing = np.array([model.unindexed], np.int64)
    best.consider(nothing, model.prices(nothing))
    for place in ranking(model, heuristic):
        taken.append(place)
        step = steps.best(taken)
        if step.price == inf:
            # These attributes have too few values for all bits, so the step has no candidate.
            continue
        best.offered += step.offered
        if not step.price < best.price * (1 - TIE):
            break
        best.price, best.configuration = step.price, step.configuration
    return best


def ranking(model: IndexCostModel, heuristic: str) -> Iterator[int]:
    """Attributes, the most important first. One of no importance is given only if the bits do not fit into those before
    it."""
    caps, left, room = model.workload.caps, set(range(len(model.workload.attributes))), 0
    weights = {place: float(model.visits[(model.masks >> place & 1).astype(bool)].sum()) for place in left}
    covered = np.zeros(len(model.masks), bool)
    while left:
        importance = weights
        if heuristic == "pcl":
            importance = {
                place: float(model.visits[(model.masks >> place & 1).astype(bool) & ~covered].sum()) for place in left
            }
        # Sums of the same weights in another order differ in the last digits: they are equal.
        place = min(left, key=lambda place: (-round_off(importance[place]), -round_off(weights[place]), place))
        if importance[place] <= 0 and room >= model.bits:
            return
        left.discard(place)
        room += caps[place]
        covered |= (model.masks >> place & 1).astype(bool)
        if caps[place]:
            yield place


def round_off(number: float) -> float:
    """Twelve digits."""
    return float(f"{number:.12g}")
