"""RGreedy: take attributes one by one, the most important first, as long as that pays.

Answer   `rgreedy(model, heuristic)` ranks the attributes by OWL (occurrence weight: the visits of requests that fix it)
         or PCL (pattern coverage: those of requests that fix it and no attribute taken before). Each step prices all
         configurations that index every attribute taken so far. The search ends with the first step whose best
         configuration is not better than that of the steps before.
State    `Steps` keeps the best configuration of each set of attributes, for a second run with the other ranking.
Limits   Not optimal: OWL may take attributes that requests fix together with others, PCL may leave out attributes that
         are covered already.
Reading  docs/operators/index.md#searching
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np

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
            known.offer_all(self.model, taken, low=1)
            self.offered += known.offered
        return known


def rgreedy(model: IndexCostModel, heuristic: str, steps: Steps | None = None) -> Best:
    """The best configuration that the steps of one ranking find."""
    steps = steps or Steps(model)
    best, taken = Best.unindexed(model), list[int]()
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
    """Attributes, the most important first. One without importance follows only if those before it cannot take all
    bits."""
    caps, left, room = model.workload.caps, set(range(len(model.workload.attributes))), 0
    weights = {place: float(model.visits[model.fixing(place)].sum()) for place in left}
    covered = np.zeros(len(model.masks), bool)
    while left:
        importance = weights
        if heuristic == "pcl":
            importance = {place: float(model.visits[model.fixing(place) & ~covered].sum()) for place in left}
        # Sums of the same weights in another order differ in the last digits: they are equal.
        place = min(left, key=lambda place: (-round_off(importance[place]), -round_off(weights[place]), place))
        if importance[place] <= 0 and room >= model.bits:
            return
        left.discard(place)
        room += caps[place]
        covered |= model.fixing(place)
        if caps[place]:
            yield place


def round_off(number: float) -> float:
    """Twelve digits."""
    return float(f"{number:.12g}")
