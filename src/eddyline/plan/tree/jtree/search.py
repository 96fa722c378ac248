"""The search for a join tree: from a graph and budgets to one choice.

Answer   `search(graph, costs, cpu_budget, memory_budget, method)` gives a `Choice`: the outcome (the shape of the tree,
         or none), the tree, its price, the budget that fails, the runner-up, and how long it took.
State    None.
Limits   The choice does not depend on the time that the search takes, which is only reported.
Reading  docs/design/0002-cost-model.md#searching
"""

from __future__ import annotations

from math import inf, isfinite
from time import perf_counter

from eddyline.errors import PlanProblem
from eddyline.plan.tree.cost import CostModel, UnitCosts
from eddyline.plan.tree.join_graph import JoinGraph
from eddyline.plan.tree.jtree.bjtree import EXACT_INPUTS, best_bjtree
from eddyline.plan.tree.jtree.candidates import Budgets, Candidate, Candidates
from eddyline.plan.tree.jtree.choice import Choice, PricedTree
from eddyline.plan.tree.jtree.finder import finder
from eddyline.plan.tree.jtree.two_layer import look_for_least_excess, stretched, two_layer

METHODS = ("two-layer", "finder", "mjoin", "bjtree")


def search(
    graph: JoinGraph,
    costs: UnitCosts | None = None,
    cpu_budget: float | None = None,
    memory_budget: float | None = None,
    method: str = "two-layer",
) -> Choice:
    """Find a join tree within both budgets.

    Args:
        graph: inputs and selectivities; its `unit` is the memory budget's.
        costs: seconds per operation; the shipped defaults if None.
        cpu_budget: CPU seconds per second. None: as little CPU as possible.
        memory_budget: rows (or bytes) of state. None: as much as it takes.
        method: two-layer | finder | mjoin | bjtree.

    >>> from eddyline.plan.tree.join_graph import JoinInput
    >>> inputs = [JoinInput.over_time(alias, 20, 5) for alias in "abc"]
    >>> choice = search(JoinGraph.of(inputs, [("a", "b", 0.05), ("b", "c", 0.5)]), cpu_budget=1, memory_budget=1000)
    >>> choice.outcome, str(choice.tree)
    ('mjoin', '(a b c)')
    """
    started = perf_counter()
    for name, budget in (("CPU", cpu_budget), ("memory", memory_budget)):
        if budget is not None and (not isfinite(budget) or budget < 0):
            raise PlanProblem(f"the {name} budget is {budget}", hint="a finite number, 0 or more")
    if method not in METHODS:
        raise PlanProblem(f"there is no search {method}", hint=f"searches are {', '.join(METHODS)}")
    model = CostModel(graph, costs or UnitCosts())
    candidates = Candidates(model, Budgets(cpu_budget, memory_budget))
    found = _METHODS[method](candidates)
    return _choice(candidates, found, started)


def _two_layer(candidates: Candidates) -> Candidate | None:
    found = two_layer(candidates)
    if found is None:
        look_for_least_excess(candidates)
    return found


def _finder(candidates: Candidates) -> Candidate | None:
    trees = finder(candidates.model, candidates.budgets)
    if not trees:
        # The tree that exceeds the budgets least exceeds them by no more than the mjoin does: with budgets stretched by
        # that much the finder finds it.
        nearest = candidates.add_mjoin()
        excess = candidates.budgets.excess(nearest.price)
        trees = finder(candidates.model, stretched(candidates.budgets, excess)) if excess < inf else []
    added = [candidates.add(tree) for tree in trees]
    return next((candidate for candidate in added if candidates.fits(candidate)), None)


def _mjoin(candidates: Candidates) -> Candidate | None:
    found = candidates.add_mjoin()
    return found if candidates.fits(found) else None


def _bjtree(candidates: Candidates) -> Candidate | None:
    model = candidates.model
    found = [candidates.add(best_bjtree(model, "cpu")), candidates.add(best_bjtree(model, "memory"))]
    if not any(map(candidates.fits, found)) and model.count <= EXACT_INPUTS:
        found = [candidates.add(shape) for shape in finder(model, candidates.budgets, arity=2)]
    return next((candidate for candidate in found if candidates.fits(candidate)), None)


_METHODS = {"two-layer": _two_layer, "finder": _finder, "mjoin": _mjoin, "bjtree": _bjtree}


def _choice(candidates: Candidates, found: Candidate | None, started: float) -> Choice:
    ranked = candidates.ranked()
    nearest = found or ranked[0]
    others = [candidate for candidate in ranked if candidate is not nearest]
    model, budgets = candidates.model, candidates.budgets

    def priced(candidate: Candidate) -> PricedTree:
        return PricedTree(model.tree(candidate.shape), candidate.price.cpu, candidate.price.memory)

    chosen = priced(nearest)
    return Choice(
        outcome=chosen.tree.shape if found else "none",
        tree=chosen.tree if found else None,
        cpu=chosen.cpu,
        memory=chosen.memory,
        bound=None if found else budgets.broken(nearest.price),
        runner_up=priced(others[0]) if others else None,
        nearest=chosen,
        excess=0.0 if found else max(budgets.excess(nearest.price) - 1.0, 0.0),
        seconds=perf_counter() - started,
        looked_at=tuple(priced(candidate) for candidate in ranked),
    )
