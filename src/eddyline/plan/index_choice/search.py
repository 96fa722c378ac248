"""The choice of an index: from a workload, costs and a number of bits to one configuration.

Answer   `choose_index(workload, costs, bits, method)` gives an `IndexChoice`. Methods: `auto` (exact up to 10^8
         candidates, hybrid beyond), `exact`, `enumerate`, `eprune`, `rgreedy`, `hybrid`.
State    None.
Limits   The choice does not depend on the time that the search takes, which is only reported.
Reading  docs/operators/index.md#searching
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from eddyline.errors import PlanProblem
from eddyline.plan.index_choice.candidates import count
from eddyline.plan.index_choice.cost import Best, IndexCostModel
from eddyline.plan.index_choice.eprune import enumerate_all, eprune, pruned
from eddyline.plan.index_choice.exact import exact
from eddyline.plan.index_choice.hybrid import hybrid
from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.plan.index_choice.rgreedy import HEURISTICS, rgreedy
from eddyline.plan.index_choice.workload import MOST_BITS, Workload

METHODS = ("auto", "exact", "eprune", "rgreedy", "hybrid", "enumerate")
#: Searches that price every candidate refuse more than this.
MOST_CANDIDATES = 10**8


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """Bits per attribute, in the order of the workload; the price; how many candidates were priced."""

    bits: tuple[int, ...]
    cost: float
    candidates: int
    seconds: float


def choose_index(
    workload: Workload, costs: IndexCosts, bits: int, method: str = "auto", heuristic: str = "owl"
) -> IndexChoice:
    """Distribute `bits` address bits over the attributes of a workload.

    >>> from eddyline.plan.index_choice.workload import Attribute
    >>> patterns = [(["A"], 0.4, 16), (["A", "B"], 0.1, 16), (["B"], 0.3, 16), (["C"], 0.2, 16)]
    >>> workload = Workload.of([Attribute(name) for name in "ABC"], patterns, row_rate=1, request_rate=1)
    >>> choice = choose_index(workload, IndexCosts(hash=0, run=0, visit=1), 4)
    >>> choice.bits, round(choice.cost, 6), choice.candidates
    ((2, 1, 1), 5.8, 15)
    """
    started = perf_counter()
    if not 0 <= bits <= MOST_BITS:
        raise PlanProblem(f"an index cannot have {bits} bits", hint=f"0 to {MOST_BITS}")
    if method not in METHODS:
        raise PlanProblem(f"there is no search {method}", hint=f"searches are {', '.join(METHODS)}")
    if heuristic not in HEURISTICS:
        raise PlanProblem(f"there is no ranking {heuristic}", hint=f"rankings are {', '.join(HEURISTICS)}")
    model = IndexCostModel(workload, costs, bits)
    if method == "auto":
        method = "exact" if count(workload.caps, model.bits) <= MOST_CANDIDATES else "hybrid"
    best = _METHODS[method](model, heuristic)
    return IndexChoice(best.configuration, best.price, best.offered, perf_counter() - started)


def _complete(search: Callable[[IndexCostModel], Best]) -> Callable[[IndexCostModel, str], Best]:
    def within_reason(model: IndexCostModel, _heuristic: str) -> Best:
        gone = pruned(model) if search is eprune else set()
        found = count([cap for place, cap in enumerate(model.workload.caps) if place not in gone], model.bits)
        if found > MOST_CANDIDATES:
            raise PlanProblem(
                f"the search would price {found:,} configurations",
                detail=f"at most {MOST_CANDIDATES:,}",
                hint="--search hybrid, or fewer bits",
            )
        return search(model)

    return within_reason


_METHODS: dict[str, Callable[[IndexCostModel, str], Best]] = {
    "exact": _complete(exact),
    "enumerate": _complete(enumerate_all),
    "eprune": _complete(eprune),
    "rgreedy": rgreedy,
    "hybrid": lambda model, _heuristic: hybrid(model),
}
