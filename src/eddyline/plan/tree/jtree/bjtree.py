"""Binary join trees: the order of binary joins that makes the fewest intermediate rows.

Answer   `best_bjtree(model, by)`: the binary tree with the least CPU (`by="cpu"`) or the least state (`by="memory"`).
State    None.
Limits   Exact up to `EXACT_INPUTS` inputs (all splits of all subsets); beyond, a beam over pairs to merge next, which
         is polynomial and may miss the best tree.
Reading  docs/design/0002-cost-model.md#searching
"""

from __future__ import annotations

from collections.abc import Callable

from eddyline.plan.tree.cost import CostModel, Shape

#: Bounds of work: all splits of nine inputs take milliseconds; beyond, so many plans are kept per step.
EXACT_INPUTS = 9
BEAM_WIDTH = 6

#: A forest that is being merged: its roots, what has been paid, and the nodes made.
_Forest = tuple[float, tuple[int, ...], tuple[tuple[int, int], ...]]


def best_bjtree(model: CostModel, by: str = "cpu") -> Shape:
    """The best binary tree found; for one input the empty shape."""
    if model.count == 1:
        return {}
    weight = _weight(model, by)
    return _exact(model, weight) if model.count <= EXACT_INPUTS else _merged(model, weight)


def _weight(model: CostModel, by: str) -> Callable[[int], float]:
    """What it costs to have an intermediate store over a set: in a binary tree the sum of these is all that varies."""
    if by == "memory":
        return model.memory
    unit = model.costs.keep + model.costs.join + model.costs.probe
    return lambda mask: model.rate(mask) * unit


def _exact(model: CostModel, weight: Callable[[int], float]) -> Shape:
    """Dynamic programming over subsets in increasing order, every subset split in two in every way."""
    best = [0.0] * (model.everything + 1)
    split = [0] * (model.everything + 1)
    for mask in range(3, model.everything + 1):
        low = mask & -mask
        if mask == low:
            continue
        rest = mask ^ low
        # The half with the lowest input is enumerated, so that no split is seen twice.
        part = (rest - 1) & rest
        least, choice = best[low] + best[rest], low
        while part:
            cost = best[low | part] + best[rest ^ part]
            if cost < least:
                least, choice = cost, low | part
            part = (part - 1) & rest
        best[mask] = least + (weight(mask) if mask != model.everything else 0.0)
        split[mask] = choice
    shape: Shape = {}
    stack = [model.everything]
    while stack:
        mask = stack.pop()
        if mask & (mask - 1):
            shape[mask] = (split[mask], mask ^ split[mask])
            stack.extend(shape[mask])
    return shape


def _merged(model: CostModel, weight: Callable[[int], float]) -> Shape:
    """Merge two roots at a time; keep the forests that have paid least."""
    beam: list[_Forest] = [(0.0, tuple(1 << place for place in range(model.count)), ())]
    for _step in range(model.count - 1):
        promised: list[tuple[float, int, int, int, int]] = []
        beam_now = beam
        for forest, (paid, roots, _) in enumerate(beam_now):
            for place, left in enumerate(roots):
                for right in roots[place + 1 :]:
                    total = paid + (weight(left | right) if left | right != model.everything else 0.0)
                    promised.append((total, len(promised), forest, left, right))
        beam = []
        seen: set[tuple[int, ...]] = set()
        for total, _, forest, left, right in sorted(promised):
            roots = tuple(sorted(root for root in (*beam_now[forest][1], left | right) if root not in (left, right)))
            if roots not in seen:
                seen.add(roots)
                beam.append((total, roots, (*beam_now[forest][2], (left, right))))
            if len(beam) == BEAM_WIDTH:
                break
    return {left | right: (left, right) for left, right in beam[0][2]}
