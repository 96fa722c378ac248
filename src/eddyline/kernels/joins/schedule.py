"""Schedules of a shared window join: which batch goes through which windows next.

Answer   `next_level` gives the queue to serve next. `next_unit` gives the next work: several batches, through several
         windows.
State    Rows finish each window in total order, so the queues are ranges between N + 1 numbers: `done[i]` rows have
         finished window i, and those between `done[i + 1]` and `done[i]` wait in queue i.

              done[3]      done[2]        done[1]   done[0]
                 |  queue 2   |   queue 1    |  queue 0  |   not here yet

Limits   Priorities are given; the kernels only compare them.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def next_level(done, priority, onward, hand):
    """The queue with the highest priority, given the next fuller one above it; the larger window wins a tie. -1: all
    are empty.

    Args:
        hand: the queue whose head was served last: its priority is read from `onward`. -1: none.
    """
    windows = len(done) - 1
    above = windows
    best = -1
    value = -np.inf
    for level in range(windows - 1, -1, -1):
        if done[level + 1] < done[level]:
            here = onward[level, above] if level == hand else priority[level, above]
            if here > value:
                value = here
                best = level
            above = level
    return best


@njit(cache=True, nogil=True)
def next_unit(done, priority, onward, bounds, need):
    """The next work; moves `done`. The first batch goes on to larger windows until another queue has a higher priority.

    Batches behind it that need the same strip are added, until there are `need[low, high]` rows. The last batches are
    added too where fewer than half as many rows would be left.

    Args:
        bounds: where the rows of each batch begin, and the end.

    Returns:
        the batches first … stop-1 and the windows low … high-1; low is -1 when there is nothing left.
    """
    windows = len(done) - 1
    low = next_level(done, priority, onward, -1)
    if low < 0:
        return 0, 0, -1, -1
    first = done[low + 1]
    high = low
    while (
        high < windows and done[high + 1] == first and (high == low or next_level(done, priority, onward, high) == high)
    ):
        done[high + 1] += 1
        high += 1
    stop = first + 1
    least, end = need[low, high], bounds[len(bounds) - 1]
    while bounds[stop] < end and (bounds[stop] - bounds[first] < least or end - bounds[stop] < 0.5 * least):
        level = low
        while (
            level < windows
            and done[level + 1] == stop
            and next_level(done, priority, onward, level if level > low else -1) == level
        ):
            done[level + 1] += 1
            level += 1
        if level != high:
            for back in range(low, level):
                done[back + 1] -= 1
            break
        stop += 1
    return first, stop, low, high
