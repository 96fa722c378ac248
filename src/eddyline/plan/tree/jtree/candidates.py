"""The trees that a search has priced, compared with the budgets.

Answer   `Budgets.fits` and `Budgets.excess` compare a price with the budgets; `Candidates` keeps every priced tree once.
State    The priced trees of one search.
Reading  docs/design/0002-cost-model.md#searching
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from eddyline.plan.tree.cost import CostModel, Price, Shape

#: Two ways of summing the same costs may differ in the last digits; a budget is not broken by them.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Budgets:
    """What a plan may use; None means that this resource does not limit it."""

    cpu: float | None = None
    memory: float | None = None

    @property
    def cpu_limit(self) -> float:
        return inf if self.cpu is None else self.cpu * (1 + TOLERANCE)

    @property
    def memory_limit(self) -> float:
        return inf if self.memory is None else self.memory * (1 + TOLERANCE)

    def fits(self, price: Price) -> bool:
        return price.cpu <= self.cpu_limit and price.memory <= self.memory_limit

    def ratios(self, price: Price) -> tuple[float, float]:
        """CPU and memory as multiples of their budgets; 0 where there is none."""
        return _ratio(price.cpu, self.cpu), _ratio(price.memory, self.memory)

    def excess(self, price: Price) -> float:
        """The worse of the two multiples: above 1 the plan is not qualified."""
        return max(self.ratios(price))

    def broken(self, price: Price) -> str | None:
        """The budget that is exceeded more, if any."""
        if self.fits(price):
            return None
        cpu, memory = self.ratios(price)
        return "cpu" if cpu >= memory else "memory"


def _ratio(value: float, budget: float | None) -> float:
    if budget is None:
        return 0.0
    return value / budget if budget > 0 else (inf if value > 0 else 0.0)


@dataclass(frozen=True, slots=True)
class Candidate:
    shape: Shape
    price: Price


@dataclass
class Candidates:
    """Every priced tree, once. Its key is the set of its join nodes, which no other tree has."""

    model: CostModel
    budgets: Budgets
    seen: dict[frozenset[int], Candidate] = field(default_factory=dict)

    def add(self, shape: Shape) -> Candidate:
        """Price a tree and keep it."""
        key = frozenset(shape)
        if key not in self.seen:
            self.seen[key] = Candidate(dict(shape), self.model.price_shape(shape))
        return self.seen[key]

    def add_mjoin(self) -> Candidate:
        """Price the tree with one node over all inputs."""
        model = self.model
        return self.add({model.everything: tuple(1 << at for at in range(model.count))} if model.count > 1 else {})

    def fits(self, candidate: Candidate) -> bool:
        return self.budgets.fits(candidate.price)

    def ranked(self) -> list[Candidate]:
        """Qualified trees by CPU, then the others by how far they exceed."""

        def rank(candidate: Candidate) -> tuple[bool, float, float, float]:
            price = candidate.price
            fits = self.budgets.fits(price)
            return (not fits, price.cpu if fits else self.budgets.excess(price), price.memory, price.cpu)

        return sorted(self.seen.values(), key=rank)
