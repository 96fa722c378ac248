"""The price of an index configuration: CPU seconds per second.

Answer   `IndexCostModel.prices(configurations)` for many configurations at once (one per row, one column per
         attribute):

             row_rate · N_A · hash  +  request_rate · Σ_p F_p (2^(B − B_p) · run  +  rows_p · visit · ∏_{a in p}
             share_a(b_a))

         N_A is the number of attributes with bits, B the sum of all bits, B_p the bits of the attributes that pattern p
         fixes. `Best` keeps the cheapest configuration; equal prices go to the one with fewer attributes.
State    `Best` holds one configuration.
Limits   Every pattern of the workload uses the index; the caller leaves out patterns that a scan answers better. Runs
         are counted as if open bits were never adjacent, which is an upper bound.
Reading  docs/operators/index.md
"""

from __future__ import annotations

from math import inf

import numpy as np
import numpy.typing as npt

from eddyline.plan.index_choice.candidates import Bits, batches
from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.plan.index_choice.workload import Floats, Workload

Flags = npt.NDArray[np.bool_]

#: Prices closer than this are equal: the order of summation must not decide.
TIE = 1e-12


class IndexCostModel:
    """A workload and costs, ready to price configurations of up to `bits` bits."""

    def __init__(self, workload: Workload, costs: IndexCosts, bits: int):
        self.workload = workload
        self.costs = costs
        #: The bits that every candidate uses.
        self.bits = workload.used_bits(bits)
        self.shares = workload.shares(self.bits)
        masks = sorted({pattern.mask for pattern in workload.patterns})
        place = {mask: index for index, mask in enumerate(masks)}
        self.masks = np.array(masks, np.int64)
        #: Per distinct set of attributes: seconds per second to visit the rows of whole windows, and to begin one run
        #: per request.
        self.visits, self.runs = np.zeros(len(masks)), np.zeros(len(masks))
        for pattern in workload.patterns:
            self.visits[place[pattern.mask]] += workload.request_rate * pattern.frequency * pattern.rows * costs.visit
            self.runs[place[pattern.mask]] += workload.request_rate * pattern.frequency * costs.run
        self.hashing = workload.row_rate * costs.hash

    def prices(self, configurations: Bits) -> Floats:
        """The price of each row of `configurations`."""
        count = len(configurations)
        share = self.shares[np.arange(configurations.shape[1]), configurations]
        halved = np.ldexp(1.0, -configurations)
        price = self.hashing * (configurations > 0).sum(axis=1).astype(np.float64)
        runs = np.zeros(count)
        for mask, visit, run in zip(self.masks.tolist(), self.visits.tolist(), self.runs.tolist(), strict=True):
            fixed = [place for place in range(configurations.shape[1]) if mask >> place & 1]
            price += visit * np.multiply.reduce(share[:, fixed], axis=1)
            if run:
                runs += run * np.multiply.reduce(halved[:, fixed], axis=1)
        return price + np.ldexp(runs, configurations.sum(axis=1))

    def price(self, configuration: tuple[int, ...]) -> float:
        return float(self.prices(np.array([configuration], np.int64))[0])

    def fixing(self, place: int) -> Flags:
        """Which of the distinct sets have the attribute at a place."""
        return (self.masks >> place & 1).astype(np.bool_)


class Best:
    """The cheapest configuration offered so far, and how many were offered."""

    def __init__(self) -> None:
        self.configuration: tuple[int, ...] = ()
        self.price = inf
        self.offered = 0

    @classmethod
    def unindexed(cls, model: IndexCostModel) -> Best:
        """Begin with the configuration that gives no attribute a bit: every request visits its whole window."""
        best, nothing = cls(), np.zeros((1, len(model.workload.attributes)), np.int64)
        best.consider(nothing, model.prices(nothing))
        return best

    def offer_all(self, model: IndexCostModel, places: list[int], low: int = 0) -> None:
        """Offer every configuration of the model's bits that gives bits to the attributes at these places, at least
        `low` each."""
        for batch in batches([model.workload.caps[place] for place in places], model.bits, low):
            configurations = np.zeros((len(batch), len(model.workload.attributes)), np.int64)
            configurations[:, places] = batch
            self.offer(configurations, model.prices(configurations))

    def offer(self, configurations: Bits, prices: Floats) -> None:
        self.offered += len(prices)
        self.consider(configurations, prices)

    def consider(self, configurations: Bits, prices: Floats) -> None:
        """As `offer`, for configurations that are not counted as candidates."""
        if not len(prices):
            return
        least = float(prices.min())
        if least > self.price * (1 + TIE):
            return
        if least < self.price * (1 - TIE):
            self.price, self.configuration = least, ()
        near = np.unique(configurations[prices <= self.price * (1 + TIE)], axis=0)
        rivals = [tuple(map(int, row)) for row in near]
        self.configuration = min(rivals + ([self.configuration] if self.configuration else []), key=_preference)


def _preference(configuration: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Fewer attributes first; then more bits for the attributes that are named first."""
    return sum(bits > 0 for bits in configuration), tuple(-bits for bits in configuration)
