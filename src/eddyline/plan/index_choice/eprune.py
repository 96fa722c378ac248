"""EPrune: leave out attributes that cannot pay for their hashing, then price every configuration of the others.

Answer   `eprune` finds the cheapest configuration. `pruned` says which attributes it leaves out. `enumerate_all` prices
         everything.
State    None.
Limits   An attribute is left out only if every configuration with it has a cheaper one without it that uses as many
         bits. The other attributes of the configuration have to take its bits. Where they have too few values for that,
         an attribute that does not pay for its hashing may still be the best place for the bits, and is kept.
Reading  docs/operators/index.md#searching
"""

from __future__ import annotations

from eddyline.plan.index_choice.cost import Best, IndexCostModel


def enumerate_all(model: IndexCostModel) -> Best:
    """Price every configuration of the model's bits, and the one without an index."""
    return _search(model, list(range(len(model.workload.attributes))))


def eprune(model: IndexCostModel) -> Best:
    """The cheapest configuration, found without the attributes of `pruned`."""
    gone = pruned(model)
    return _search(model, [place for place in range(len(model.workload.attributes)) if place not in gone])


def _search(model: IndexCostModel, kept: list[int]) -> Best:
    best = Best.unindexed(model)
    best.offer_all(model, kept)
    return best


def pruned(model: IndexCostModel) -> set[int]:
    """The attributes that no cheapest configuration indexes."""
    kept = set(range(len(model.workload.attributes)))
    for place in sorted(kept, key=lambda place: gain(model, place)):
        if gain(model, place) < model.hashing and not _needed(model, place, kept - {place}):
            kept.discard(place)
    return set(range(len(model.workload.attributes))) - kept


def gain(model: IndexCostModel, place: int) -> float:
    """The most that bits for this attribute can save: visits of rows and runs, of all patterns that fix it."""
    most = min(model.workload.caps[place], model.bits)
    fixing = model.fixing(place)
    rows = float(model.visits[fixing].sum()) * (1 - float(model.shares[place, most]))
    return rows + float(model.runs[fixing].sum()) * (2.0**model.bits) * (1 - 2.0**-most)


def _needed(model: IndexCostModel, place: int, others: set[int]) -> bool:
    """Whether some of the others hold all bits with this attribute and cannot without it."""
    caps = model.workload.caps
    sums = {0}
    for other in others:
        sums |= {total + caps[other] for total in sums if total + caps[other] < model.bits}
    return any(0 < total < model.bits <= total + caps[place] for total in sums)
