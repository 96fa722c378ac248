"""Combinations of a shared join to the queries that want them, in one pass over their lineage words.

Answer   `split` gives the combinations query by query, each query's in the order in which they came, as one block with the cuts
         between the queries. A combination that several queries want is there once for each.
State    None.
Limits   Cost: words and matches, each once; the number of queries does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from eddyline.kernels.bitsets import rows_by_bit
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.port import bits_of
from eddyline.state.columns import Ints


def split(rows: Combinations, slots: Sequence[int], stops: Sequence[int | None]) -> tuple[Combinations, Ints]:
    """The combinations of `slots[i]` are `edges[i]` to `edges[i + 1] - 1`; nothing after `stops[i]` is among them."""
    if rows.words is None:
        order = np.tile(np.arange(len(rows)), len(slots))
        edges = np.arange(len(slots) + 1) * len(rows)
    else:
        starts, order = rows_by_bit(rows.words & bits_of(tuple(slots), rows.words.shape[1]))
        if all(a < b for a, b in pairwise(slots)):
            edges = np.concatenate((starts[list(slots)], starts[-1:]))
        else:
            order = np.concatenate([order[starts[slot] : starts[slot + 1]] for slot in slots])
            edges = np.concatenate(([0], np.cumsum([starts[slot + 1] - starts[slot] for slot in slots])))
    if any(stop is not None for stop in stops):
        limits = np.repeat([np.iinfo(np.int64).max if stop is None else stop for stop in stops], np.diff(edges))
        kept = rows.clock[order] <= limits
        order = order[kept]
        edges = np.concatenate(([0], np.cumsum(kept)))[edges]
    bare = Combinations(rows.ids, rows.stamp, rows.clock, None, None)
    return bare.take(order), edges
