"""State selection: from the mjoin, add intermediate stores until the CPU suffices.

Answer   The first qualified tree on the way, or None. Each step merges two inputs of the root into a store of their
         own, trying pairs by how often the probe orders use them over how many rows the store would hold. The merged
         vertex is then optimised: it may absorb the nodes below it into one small mjoin.
State    None; `Candidates` keeps every accepted tree.
Limits   Greedy and polynomial. After a merge that would break the memory budget the next pair is tried. The printed
         Algorithm 3 ends there and misses qualified trees.
Reading  Algorithm 3 of the qualified-plans paper; docs/design/0002-cost-model.md#searching
"""

from __future__ import annotations

import numpy as np

from eddyline.plan.tree.cost import CostModel, Price, Shape
from eddyline.plan.tree.jtree.candidates import Candidate, Candidates

#: Pairs that are priced at once; most steps accept one of the first.
BATCH = 48


def state_selection(candidates: Candidates, least: bool = False) -> Candidate | None:
    """Walk from the single mjoin, one merged pair at a time; `least`: past the first qualified tree, while CPU
    falls."""
    here = candidates.add_mjoin()
    shape = here.shape
    while least or not candidates.fits(here):
        merged = _next_merge(candidates, shape, here.price)
        if merged is None:
            return here if candidates.fits(here) else None
        shape = merged
        here = candidates.add(shape)
    return here


def _next_merge(candidates: Candidates, shape: Shape, now: Price) -> Shape | None:
    """The first pair in the list whose merger saves CPU and stays within memory."""
    model = candidates.model
    roots = shape[model.everything]
    if len(roots) < 3:
        return None
    root_work = model.node_work(roots)
    pairs = _pairs_by_promise(model, roots)
    for first in range(0, len(pairs), BATCH):
        batch = pairs[first : first + BATCH]
        works = model.node_works([_merged_roots(roots, left, right) for left, right in batch])
        for (left, right), work in zip(batch, works.tolist(), strict=True):
            saved = root_work - work - model.stored_cpu(left | right)
            children = _optimize(candidates, shape, left, right, now, saved)
            if children is not None:
                return _with_merged(model, shape, left, right, children)
    return None


def _pairs_by_promise(model: CostModel, roots: tuple[int, ...]) -> list[tuple[int, int]]:
    """Pairs of the root's inputs by frequency over weight; pairs that no predicate connects come last."""
    frequency = np.zeros((len(roots), len(roots)))
    reaches = [[model.graph.connected(left, right) for right in roots] for left in roots]
    for origin, order in enumerate(model.orders(roots)):
        before = [origin]
        for child in order:
            for earlier in before:
                if reaches[earlier][child]:
                    frequency[min(earlier, child), max(earlier, child)] += 1
            before.append(child)
    ranked = []
    for one in range(len(roots)):
        for two in range(one + 1, len(roots)):
            weight = max(model.memory(roots[one] | roots[two]), 1e-30)
            ranked.append((-frequency[one, two] / weight, weight, roots[one], roots[two]))
    return [(left, right) for _, _, left, right in sorted(ranked)]


def _merged_roots(roots: tuple[int, ...], left: int, right: int) -> tuple[int, ...]:
    return tuple(root for root in roots if root not in (left, right)) + (left | right,)


def _optimize(
    candidates: Candidates, shape: Shape, left: int, right: int, now: Price, saved: float
) -> tuple[int, ...] | None:
    """How the merged vertex is made: a binary join, or an mjoin that absorbs one or both of its parts.

    Of the forms that save CPU over the present tree and fit the memory, the one with the least CPU; None if there is
    none.
    """
    model = candidates.model
    best: tuple[float, tuple[int, ...]] | None = None
    for absorb_left in (False, True) if left in shape else (False,):
        for absorb_right in (False, True) if right in shape else (False,):
            children = (shape[left] if absorb_left else (left,)) + (shape[right] if absorb_right else (right,))
            memory = now.memory + model.memory(left | right)
            gain = saved - model.node_work(children)
            for part, absorbed in ((left, absorb_left), (right, absorb_right)):
                if absorbed:
                    memory -= model.memory(part)
                    gain += model.node_work(shape[part]) + model.stored_cpu(part)
            if gain > 0 and memory <= candidates.budgets.memory_limit and (best is None or gain > best[0]):
                best = (gain, children)
    return None if best is None else best[1]


def _with_merged(model: CostModel, shape: Shape, left: int, right: int, children: tuple[int, ...]) -> Shape:
    larger = {node: below for node, below in shape.items() if node not in (left, right) or node in children}
    larger[model.everything] = _merged_roots(shape[model.everything], left, right)
    larger[left | right] = children
    return larger
