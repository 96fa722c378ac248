"""The slow, obvious price of a join tree, and every tree: what the planner's searches are compared with.

Trees are nested tuples of stream numbers. A node's partial results are counted origin by origin and probe by probe,
over all orders; nothing is shared with the code under test.
"""

from __future__ import annotations

import random
from itertools import permutations, product
from math import prod

Tree = int | tuple["Tree", ...]


def leaves(tree: Tree) -> tuple[int, ...]:
    return (tree,) if isinstance(tree, int) else tuple(leaf for child in tree for leaf in leaves(child))


def crossing(selectivity: list[list[float]], left: tuple[int, ...], right: tuple[int, ...]) -> float:
    return prod(selectivity[one][two] for one in left for two in right)


def alive(rows: list[float], selectivity: list[list[float]], streams: tuple[int, ...]) -> float:
    """Combinations of these streams within their windows at one moment."""
    inside = prod(selectivity[one][two] for place, one in enumerate(streams) for two in streams[place + 1 :])
    return prod(rows[stream] for stream in streams) * inside


def born(rates: list[float], rows: list[float], selectivity: list[list[float]], streams: tuple[int, ...]) -> float:
    """Combinations per second: each is made by its newest row, which meets what the other windows hold."""
    inside = prod(selectivity[one][two] for place, one in enumerate(streams) for two in streams[place + 1 :])
    return sum(rates[newest] * prod(rows[other] for other in streams if other != newest) for newest in streams) * inside


def price(
    tree: Tree, rates, rows, selectivity, insert, delete, join, probe=0.0, link=0.0, is_root=True
) -> tuple[float, float]:
    """(CPU, memory) of a tree, with the best probe order of every origin of every node."""
    if isinstance(tree, int):
        return rates[tree] * (insert + delete), rows[tree]
    cpu = memory = 0.0
    for child in tree:
        below = price(child, rates, rows, selectivity, insert, delete, join, probe, link, False)
        cpu, memory = cpu + below[0], memory + below[1]
    for origin in tree:
        others = [child for child in tree if child is not origin]
        cpu += min(_chain(origin, order, rates, rows, selectivity, join, probe) for order in permutations(others))
        # A child that several others are joined to is looked up by each of them.
        askers = sum(crossing(selectivity, leaves(other), leaves(origin)) != 1.0 for other in others)
        cpu += link * born(rates, rows, selectivity, leaves(origin)) * max(askers - 1, 0)
    if not is_root:
        cpu += born(rates, rows, selectivity, leaves(tree)) * (insert + delete)
        memory += alive(rows, selectivity, leaves(tree))
    return cpu, memory


def _chain(origin: Tree, order: tuple[Tree, ...], rates, rows, selectivity, join: float, probe: float) -> float:
    met = leaves(origin)
    partial, cpu = born(rates, rows, selectivity, met), 0.0
    for child in order:
        cpu += partial * probe
        partial *= alive(rows, selectivity, leaves(child)) * crossing(selectivity, met, leaves(child))
        cpu += partial * join
        met += leaves(child)
    return cpu


def every_tree(streams: tuple[int, ...]) -> list[Tree]:
    if len(streams) == 1:
        return [streams[0]]
    found: list[Tree] = []
    for blocks in _partitions(list(streams)):
        if len(blocks) > 1:
            found.extend(product(*(every_tree(tuple(block)) for block in blocks)))
    return found


def _partitions(streams: list[int]) -> list[list[list[int]]]:
    if not streams:
        return [[]]
    first, rest = streams[0], _partitions(streams[1:])
    found = [[[first], *blocks] for blocks in rest]
    for blocks in rest:
        found.extend([*blocks[:place], [first, *block], *blocks[place + 1 :]] for place, block in enumerate(blocks))
    return found


def text(tree: Tree) -> str:
    return f"s{tree}" if isinstance(tree, int) else f"({' '.join(map(text, tree))})"


def random_setting(streams: int, seed: int) -> tuple[list[float], list[float], list[list[float]]]:
    """Rates, rows per window (windows differ) and a symmetric matrix of selectivities, some pairs without a join."""
    lots = random.Random(seed)
    rates = [lots.uniform(1, 100) for _ in range(streams)]
    rows = [rate * lots.uniform(0.1, 2.0) for rate in rates]
    selectivity = [[1.0] * streams for _ in range(streams)]
    for one in range(streams):
        for two in range(one):
            if lots.random() < 0.7:
                selectivity[one][two] = selectivity[two][one] = lots.uniform(0.001, 1)
    return rates, rows, selectivity
