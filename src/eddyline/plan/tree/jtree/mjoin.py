"""Probe orders of one join node: for rows new on each input, in which order the other inputs are met.

Answer   For origin i an order of the other children that keeps the sum of the partial results' sizes small. Partial
         results are counted by the rows their set of children holds (`docs/design/0002-cost-model.md` shows why the
         origin is only a factor), so all origins of a node share one table of subsets.
State    None.
Limits   Exact up to `EXACT_CHILDREN` children (2^k subsets, all at once); a beam of fixed width beyond, so polynomial.
         A batch of nodes of equal arity is done in one go.
Reading  docs/design/0002-cost-model.md#probe-orders
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

#: Bounds of work: all orders up to this number of children; beyond, so many orders are kept per step.
EXACT_CHILDREN = 8
BEAM_WIDTH = 6
#: Larger exponents would overflow; a plan of that size is out of every budget anyway.
LARGEST_EXPONENT = 690.0


def chain_sums(log_rows: Floats, log_cross: Floats, width: int = BEAM_WIDTH) -> Floats:
    """Least sum of partial sizes per origin, for a batch of nodes.

    Args:
        log_rows: (nodes, k) logarithm of the rows that each child holds.
        log_cross: (nodes, k, k) logarithm of the selectivity between two children.
        width: how many partial orders the beam keeps where the exact table would be too large.
    """
    children = log_rows.shape[1]
    if children <= 2:
        return np.zeros(log_rows.shape)
    if children <= EXACT_CHILDREN:
        table = _table(log_rows, log_cross)[0]
        return table[:, [1 << child for child in range(children)]]
    return _greedy(log_rows, log_cross) if width == 1 else _beam(log_rows, log_cross, width)[0]


def chains(log_rows: Floats, log_cross: Floats) -> tuple[Floats, list[tuple[int, ...]]]:
    """For one node: the sum per origin, and the order in which each origin meets the others."""
    children = len(log_rows)
    if children == 1:
        return np.zeros(1), [()]
    if children == 2:
        return np.zeros(2), [(1,), (0,)]
    if children > EXACT_CHILDREN:
        sums, orders = _beam(log_rows[None], log_cross[None], BEAM_WIDTH)
        return sums[0], [tuple(int(child) for child in order) for order in orders[0]]
    rest, sizes = (array[0] for array in _table(log_rows[None], log_cross[None]))
    return rest[[1 << child for child in range(children)]], [
        _follow(rest, sizes, child, children) for child in range(children)
    ]


def _follow(rest: Floats, sizes: Floats, origin: int, children: int) -> tuple[int, ...]:
    """The order that has the least sum of the table."""
    done = 1 << origin
    order: list[int] = []
    full = (1 << children) - 1
    while done != full:
        # The least sum still to be made; of equal ones the smaller next size decides, then the first child.
        options = []
        for child in range(children):
            grown = done | 1 << child
            if grown != done:
                size = float(sizes[grown]) if grown != full else 0.0
                options.append((size + float(rest[grown]), size, child))
        best = min(options)[2]
        order.append(best)
        done |= 1 << best
    return tuple(order)


@lru_cache(maxsize=16)
def _subsets(children: int) -> tuple[Floats, Floats, list[tuple[Whole, Whole]]]:
    """Membership of each subset, of each pair in it, and per number of members the subsets with their successors."""
    masks = np.arange(1 << children)
    member = (masks[:, None] >> np.arange(children) & 1).astype(np.float64)
    left, right = np.triu_indices(children, 1)
    pairs = member[:, left] * member[:, right]
    levels = []
    for count in range(children - 2, 0, -1):
        level = masks[member.sum(axis=1) == count]
        successors = np.array(
            [[mask | 1 << child for child in range(children) if not mask >> child & 1] for mask in level.tolist()]
        )
        levels.append((level, successors))
    return member, pairs, levels


def _table(log_rows: Floats, log_cross: Floats) -> tuple[Floats, Floats]:
    """Per node and subset: the least sum of sizes still to be made from there to the whole, and the subset's size."""
    children = log_rows.shape[1]
    member, pairs, _ = _subsets(children)
    left, right = np.triu_indices(children, 1)
    sizes = np.exp(np.minimum(log_rows @ member.T + log_cross[:, left, right] @ pairs.T, LARGEST_EXPONENT))
    return rest_sums(sizes), sizes


def rest_sums(sizes: Floats) -> Floats:
    """From the sizes of all subsets of a node's children, (nodes, 2^k): what is least still to be made from each
    subset."""
    children = sizes.shape[1].bit_length() - 1
    rest = np.zeros_like(sizes)
    onward = sizes.copy()
    # The whole set is the node's result, the same for every order: it is priced by the caller.
    onward[:, -1] = 0.0
    for level, successors in _subsets(children)[2]:
        rest[:, level] = onward[:, successors].min(axis=2)
        onward[:, level] += rest[:, level]
    return rest


def _greedy(log_rows: Floats, log_cross: Floats) -> Floats:
    """Sums when every origin always meets the child that leaves the fewest partial results: a beam of one, without
    orders."""
    nodes, children = log_rows.shape
    node, origin = np.divmod(np.arange(nodes * children), children)
    line = np.arange(nodes * children)
    size = log_rows.reshape(-1)
    # What each further child would multiply the partial results by; infinite once it has been met.
    factor = log_rows[node] + log_cross[node, origin]
    factor[line, origin] = np.inf
    total = np.zeros(nodes * children)
    for _ in range(children - 2):
        child = factor.argmin(axis=1)
        size = size + factor[line, child]
        total += np.exp(np.minimum(size, LARGEST_EXPONENT))
        factor += log_cross[node, child]
        factor[line, child] = np.inf
    return total.reshape(nodes, children)


def _beam(log_rows: Floats, log_cross: Floats, width: int) -> tuple[Floats, Whole]:
    """The same with the `width` cheapest partial orders of each origin; returns (nodes, k) sums and (nodes, k, k-1)
    orders."""
    nodes, children = log_rows.shape
    lines = nodes * children
    origin = np.tile(np.arange(children), nodes)
    cross = np.repeat(log_cross, children, axis=0)
    line = np.arange(lines)[:, None]
    # One slot per kept partial order: what has been spent, the present size, what each further child would multiply it
    # by.
    spent = np.zeros((lines, 1))
    size = np.repeat(log_rows, children, axis=0)[np.arange(lines), origin][:, None]
    factor = (np.repeat(log_rows, children, axis=0) + cross[np.arange(lines), origin])[:, None, :]
    used = (np.int64(1) << origin)[:, None]
    orders = np.zeros((lines, 1, 0), dtype=np.int64)
    bits = np.int64(1) << np.arange(children)
    for step in range(children - 1):
        grown = size[:, :, None] + factor
        cost = spent[:, :, None] + (np.exp(np.minimum(grown, LARGEST_EXPONENT)) if step < children - 2 else 0.0)
        cost = np.where(used[:, :, None] & bits, np.inf, cost).reshape(lines, -1)
        sets = (used[:, :, None] | bits).reshape(lines, -1)
        keep = _cheapest(cost, sets, width)
        slot, child = keep // children, keep % children
        spent, size = cost[line, keep], grown.reshape(lines, -1)[line, keep]
        factor = factor[line, slot] + cross[line, child]
        used = sets[line, keep]
        orders = np.concatenate([orders[line, slot], child[:, :, None]], axis=2)
    return spent[:, 0].reshape(nodes, children), orders[:, 0].reshape(nodes, children, children - 1)


def _cheapest(cost: Floats, sets: Whole, width: int) -> Whole:
    """Positions of the `width` cheapest entries per line, each set of children only once (its cheapest order)."""
    by_set = np.lexsort((cost, sets), axis=1)
    ordered = np.take_along_axis(sets, by_set, axis=1)
    repeated = np.zeros(cost.shape, dtype=bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    unique = cost.copy()
    np.put_along_axis(unique, by_set, np.where(repeated, np.inf, np.take_along_axis(cost, by_set, axis=1)), axis=1)
    return np.argsort(unique, axis=1, kind="stable")[:, :width]
