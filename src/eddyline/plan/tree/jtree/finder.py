"""JTree-Finder: every jtree, by dynamic programming over all subsets of the inputs and all their partitions.

Answer   All qualified trees that no other tree beats in both CPU and memory; with budgets open, the whole front.
State    Per subset of inputs the non-dominated sub-plans (`subplans.py`).
Limits   Exponential: the partitions of all subsets of n inputs number Bell(n + 1). Refuses more than `MOST_INPUTS`.
Reading  Algorithm 1 of the qualified-plans paper; docs/design/0002-cost-model.md#searching
"""

from __future__ import annotations

from eddyline.errors import PlanProblem
from eddyline.plan.tree.cost import CostModel, Shape
from eddyline.plan.tree.jtree.candidates import Budgets
from eddyline.plan.tree.jtree.subplans import SubPlans

#: A bound of work: more inputs are refused.
MOST_INPUTS = 10


def finder(model: CostModel, budgets: Budgets, arity: int | None = None) -> list[Shape]:
    """The qualified trees that are not dominated, by increasing CPU; empty if and only if no tree qualifies.

    `arity` bounds the children of a node: 2 looks at binary trees only.
    """
    if model.count > MOST_INPUTS:
        raise PlanProblem(
            f"the finder looks at every tree and takes at most {MOST_INPUTS} inputs",
            detail=f"this graph has {model.count}",
            hint="use the two-layer search",
        )
    if model.count == 1:
        return [{}] if model.leaf_cpu <= budgets.cpu_limit and model.least_memory <= budgets.memory_limit else []
    plans = SubPlans(model, budgets, arity=arity)
    for mask in sorted(range(3, model.everything + 1), key=int.bit_count):
        if mask & (mask - 1):
            plans.plan_exhaustively(mask)
    return plans.shapes()
