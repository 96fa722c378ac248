"""Hybrid: RGreedy with both rankings, the better result of the two.

Answer   `hybrid` runs OWL, then PCL. A set of attributes that both rankings reach is priced once.
State    None.
Limits   Not optimal either: with patterns A .75, B .65, AC .95, BC .85 and 4 bits both rankings end at <2,1,1>, the
         optimum is <2,2,0>.
Reading  docs/operators/index.md#searching
"""

from __future__ import annotations

from eddyline.plan.index_choice.cost import TIE, Best, IndexCostModel
from eddyline.plan.index_choice.rgreedy import Steps, ranking, rgreedy


def hybrid(model: IndexCostModel) -> Best:
    steps = Steps(model)
    best = rgreedy(model, "owl", steps)
    if list(ranking(model, "owl")) != list(ranking(model, "pcl")):
        other = rgreedy(model, "pcl", steps)
        if other.price < best.price * (1 - TIE):
            best = other
    best.offered = steps.offered
    return best
