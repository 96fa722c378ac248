"""EPrune: leave out attributes that cannot pay for their hashing, then price every configuration of the others.

Answer   `eprune` finds the cheapest configuration. `pruned` says which attributes it leaves out. `enumerate_all` prices
         everything.
State    None.
Limits   An attribute is left out only if every configuration with it has a cheaper one without it, which uses as many
         bits. The bits go to the other attributes of the configuration, so these must be able to take them: where their
         values are too few, an attribute that does not pay for itself can still be the best place for the bits, and is
         kept.
Reading  docs/operators/index.md#searching
"""

from __future__ import annotations

import numpy as np

from eddyline.plan.index_choice.candidates import batches
from eddyline.plan.index_choice.cost import Best, IndexCostModel


def enumerate_all(model: IndexCostModel) -> Best:
    """Price every configuration of the model's bits, and the one without an index."""
    return _search(model, list(range(len(model.workload.attributes))))


def eprune(model: IndexCostModel) -> Best:
    """The cheapest configuration, looked for without the attributes of `pruned`."""
    gone = pruned(model)
    return _search(model, [place for place in range(len(model.workload.attributes)) if place not in gone])


def _search(model: IndexCostModel, kept: list[int]) -> Best:
    best, width = Best(), len(model.workload.attributes)
    nothing = np.array([model.unindexed], np.int64)
    best.consider(nothing, model.prices(nothing))
    for batch in batches([model.workload.caps[place] for place in kept], model.bits):
        configurations = np.zeros((len(batch), width), np.int64)
        configurations[:, kept] = batch
        best.offer(configurations, model.prices(configurations))
    return best


def pruned(model: IndexCostModel) -> set[int]:
    """The attributes that no cheapest configuration indexes."""
    kept = set(range(len(model.workload.attributes)))
    for place in sorted(kept, key=lambda place: gain(model, place)):
        if gain(model, place) < model.hashing and not _needed(model, place, kept - {place}):
            kept.discard(place)
    return set(range(len(model.workload.attributes))) - kept


def gain(model: IndexCostModel, place: int) -> float:
    """The most that bits for this attribute can save: looking at rows and beginning runs, of all patterns that fix
    it."""
    most = min(model.workload.caps[place], model.bits)
    asking = (model.masks >> place & 1).astype(bool)
    rows = float(model.visits[asking].sum()) * (1 - float(model.shares[place, most]))
    return rows + float(model.runs[asking].sum()) * (2.0**model.bits) * (1 - 2.0**-most)


def _needed(model: IndexCostModel, place: int, others: set[int]) -> bool:
    """Whether some of the others hold all bits with this attribute and cannot without it."""
    caps = model.workload.caps
    sums = {0}
    for other in others:
        sums |= {total + caps[other] for total in sums if total + caps[other] < model.bits}
    return any(0 < total < model.bits <= total + caps[place] for total in sums)
