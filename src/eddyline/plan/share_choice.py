"""The shares of a grid of shards: into how many slices each axis is cut.

Answer   `load` is the number of rows that one cell receives; `choose_shares` finds the shares with the smallest load.
Limits   Expected loads, not skew. All tuples of integers are tried: a grid has few axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eddyline.plan.axes import Axis


def load(axes: Sequence[Axis], rates: Mapping[str, float]) -> float:
    """Expected rows that one cell receives: a reference is divided by the shares of the axes that place it."""
    return sum(rate / math.prod(axis.share for axis in axes if alias in axis.keys) for alias, rate in rates.items())


def choose_shares(axes: Sequence[Axis], rates: Mapping[str, float], shards: int) -> tuple[int, ...]:
    """The shares with the smallest load; of equal ones, those with the fewest cells, hence the fewest rows sent.

    Exact: all tuples of integers whose product is at most `shards` are tried.
    """
    if not axes:
        return ()
    member = np.array([[alias in axis.keys for axis in axes] for alias in rates])
    rate = np.array(list(rates.values()))
    tried = np.array(list(_tuples(len(axes), shards)))
    divisor = np.where(member[None], tried[:, None, :], 1).prod(axis=2)
    loads = (rate / divisor).sum(axis=1)
    best = np.flatnonzero(loads <= loads.min() * (1 + 1e-9))
    return tuple(int(s) for s in min(tried[best], key=lambda t: (int(t.prod()), tuple(-t))))


def _tuples(length: int, most: int) -> Iterator[tuple[int, ...]]:
    """All tuples of integers from 1 up with a product of at most `most`."""
    if length == 0:
        yield ()
        return
    for head in range(1, most + 1):
        for tail in _tuples(length - 1, most // head):
            yield (head, *tail)
