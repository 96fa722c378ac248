"""The order of the fields of an address, and how many runs of rows a request reads under it.

Answer   `run_bits(bits, orders, fixed)` is the logarithm of the runs that a request reads in a block: one per
         combination of the open bits above the lowest field that it fixes. Open fields below make runs longer, not
         more. `orders(columns)` are all orders of fields, from the lowest to the highest. Where these are too many,
         `by_weight` is one that serves frequent requests well.
State    None.
Limits   Orders of up to four fields are all tried.
Reading  docs/operators/index.md
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

import numpy as np

from eddyline.plan.index_choice.candidates import Bits, batches, count

#: The most fields whose orders are all tried: 24 orders.
MOST_FIELDS = 4


@lru_cache(maxsize=16)
def orders(columns: int) -> Bits:
    """All orders of fields, one per line, from the lowest field to the highest."""
    return np.array(list(permutations(range(columns))), np.int64).reshape(-1, columns)


def by_weight(weights: Sequence[tuple[int, float]], columns: int) -> Bits:
    """One order: the columns that are fixed most often lie highest; `weights` are patterns, as bits of columns, with
    their weights."""
    fixed = [sum(weight for pattern, weight in weights if pattern >> c & 1) for c in range(columns)]
    return np.array([sorted(range(columns), key=lambda c: (fixed[c], -c))], np.int64)


@lru_cache(maxsize=64)
def arranged(caps: tuple[int, ...], bits: int, most: int) -> tuple[Bits, Bits] | None:
    """Every configuration of up to `bits` bits in every order of its fields; None: these are more than `most`."""
    columns = len(caps)
    if columns > MOST_FIELDS:
        return None
    lines = orders(columns)
    if sum(count(caps, total) for total in range(min(bits, sum(caps)) + 1)) * len(lines) > most:
        return None
    found = np.concatenate([part for total in range(min(bits, sum(caps)) + 1) for part in batches(caps, total)])
    return np.repeat(found, len(lines), axis=0), np.tile(lines, (len(found), 1))


def run_bits(bits: Bits, order: Bits, fixed: Sequence[int]) -> Bits:
    """Per configuration (one line of `bits` and of `order` each): the open bits above the lowest field of the columns
    `fixed`."""
    lines = np.arange(len(bits))
    total = bits.sum(axis=1)
    lowest, taken, below = total.copy(), np.zeros(len(bits), np.int64), np.zeros(len(bits), np.int64)
    for place in range(bits.shape[1]):
        column = order[:, place]
        own = bits[lines, column]
        is_fixed = np.isin(column, fixed) & (own > 0)
        lowest = np.where(is_fixed, np.minimum(lowest, below), lowest)
        taken += np.where(is_fixed, own, 0)
        below = below + own
    return total - taken - lowest
