"""When rows arrived: instants by rank, and how many results are of each.

Answer   `note_arrivals` writes the instant of every row of a stream at its rank. `count_kinds` counts stamps between
         the places at which the instant changes.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def note_arrivals(began, ranks, first, numbers, ends, instants):
    """Rows with numbers below `ends[i]`, and not below the one before it, arrived at `instants[i]`; the last instant
    has no end."""
    last = len(instants) - 1
    for i in range(len(ranks)):
        at = last
        while at > 0 and numbers[i] < ends[at - 1]:
            at -= 1
        began[ranks[i] - first] = instants[at]


@njit(cache=True, nogil=True)
def count_kinds(edges, stamps, changes, kinds, how_many):
    """Per part of the stamps, how many are of each kind. A part lies between two edges and ascends; stamps from
    `changes[i]` on are of `kinds[i]`."""
    out = np.zeros((len(edges) - 1, how_many), np.int64)
    for part in range(len(edges) - 1):
        i = edges[part]
        change = np.searchsorted(changes, stamps[i], side="right") - 1 if i < edges[part + 1] else 0
        while i < edges[part + 1]:
            end = edges[part + 1]
            if change + 1 < len(changes):
                end = i + np.searchsorted(stamps[i:end], changes[change + 1])
            out[part, kinds[max(change, 0)]] += end - i
            i = end
            change += 1
    return out
