"""Each kernel's slow twin, in plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def matches(
    hashes: Sequence[int],
    limit: Sequence[int],
    floor: Sequence[int],
    keys: Sequence[int],
    order: Sequence[int],
    dead: Sequence[int],
    first: int,
    end: int,
    keyed: bool = True,
) -> list[tuple[int, int]]:
    """(probing row, stored id) for every stored row of equal key that is older and alive; ids are positions."""
    found = []
    for o in range(len(limit)):
        for row in range(first, end):
            if (not keyed or keys[row] == hashes[o]) and order[row] < limit[o] and dead[row] >= floor[o]:
                found.append((o, row))
    return found


def stable_order(ranks: Sequence[int]) -> list[int]:
    return sorted(range(len(ranks)), key=lambda i: ranks[i])


def never_falls(values: Sequence[int]) -> bool:
    return all(a <= b for a, b in pairwise(values))
