"""State removal: from a binary tree, remove intermediate stores until the memory suffices.

Answer   The first qualified tree on the way, or None. Each step merges one node into its parent, the one that costs the
         least additional CPU per unit of memory freed; the merged node is an mjoin with new probe orders.
State    None; `Candidates` keeps every tree on the way.
Limits   Greedy and polynomial: at most n - 2 steps of at most n - 2 mergers.
Reading  Algorithm 4 of the qualified-plans paper; docs/design/0002-cost-model.md#searching
"""

from __future__ import annotations

from eddyline.plan.tree.cost import CostModel, Shape
from eddyline.plan.tree.jtree.candidates import Candidate, Candidates


def state_removal(candidates: Candidates, start: Shape) -> Candidate | None:
    """Walk from `start` towards the single mjoin."""
    model = candidates.model
    shape = dict(start)
    while True:
        here = candidates.add(shape)
        if candidates.fits(here):
            return here
        options = [(_quality(model, shape, mask), mask) for mask in shape if mask != model.everything]
        if not options:
            return None
        shape = without(shape, min(options)[1])


def without(shape: Shape, mask: int) -> Shape:
    """The tree in which a node's children belong to its parent."""
    parent = parent_of(shape, mask)
    smaller = {node: children for node, children in shape.items() if node != mask}
    smaller[parent] = tuple(child for child in shape[parent] if child != mask) + shape[mask]
    return smaller


def parent_of(shape: Shape, mask: int) -> int:
    return next(node for node, children in shape.items() if mask in children)


def _quality(model: CostModel, shape: Shape, mask: int) -> float:
    """Additional CPU per unit of memory freed; negative where keeping the store costs more than making its rows
    again."""
    parent = parent_of(shape, mask)
    children = tuple(child for child in shape[parent] if child != mask)
    before = model.node_work(shape[parent]) + model.node_work(shape[mask]) + model.stored_cpu(mask)
    return (model.node_work(children + shape[mask]) - before) / max(model.memory(mask), 1e-30)
