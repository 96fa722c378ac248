"""Compiled loops of the simulation: what every (row, strip) costs and yields, and a whole schedule under a virtual
clock.

Answer   `unit_work` finds what every (row, strip) costs and yields; `simulate` plays a schedule over it and gives the
         response times of all results.
State    As in `eddyline/kernels/joins/schedule.py`: `done[i]` rows have finished window i.
Limits   Times of the virtual clock are seconds; histograms resolve them to one part in a thousand.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.joins.schedule import next_level

#: Response times from a tenth of a microsecond up, in steps of a thousandth.
LEAST = 1e-7
STEP = 1e-3
BINS = 30_000


@njit(cache=True, nogil=True)
def unit_work(side, bucket, key, outer_at, inner_at, buckets, sizes, first, per_unit, per_row, per_result):
    """What each row from `first` on has to do in each strip of the other side's window.

    Args:
        side: 0 or 1 per row, in total order. outer_at, inner_at: their difference is the age of an inner row.
        sizes: the windows, ascending; an age equal to a size is inside.

    Returns:
        cost per (row, strip); where the results of each (row, strip) begin in `ready`; `ready`: when, within the unit,
        a result is made.
    """
    windows = len(sizes)
    rows = len(side) - first
    cost = np.full((rows, windows), per_unit)
    starts = np.zeros(rows * windows + 1, np.int64)
    ready = np.empty(1 << 16, np.float64)
    heads = np.full((2, buckets), -1, np.int64)
    before = np.empty(len(side), np.int64)
    n = 0
    for t in range(len(side)):
        if t >= first:
            o = t - first
            strip = 0
            c = heads[1 - side[t], bucket[t]]
            while c >= 0:
                age = outer_at[t] - inner_at[c]
                while strip < windows and age > sizes[strip]:
                    strip += 1
                    starts[o * windows + strip] = n
                if strip == windows:
                    break
                cost[o, strip] += per_row
                if key[c] == key[t]:
                    cost[o, strip] += per_result
                    if n == len(ready):
                        ready = np.concatenate((ready, np.empty(n, np.float64)))
                    ready[n] = cost[o, strip]
                    n += 1
                c = before[c]
            while strip < windows:
                strip += 1
                starts[o * windows + strip] = n
        before[t] = heads[side[t], bucket[t]]
        heads[side[t], bucket[t]] = t
    return cost, starts, ready[:n].copy()


@njit(cache=True, nogil=True)
def _bin(seconds):
    if seconds <= LEAST:
        return 0
    return min(np.int64(np.log(seconds / LEAST) / STEP) + 1, BINS - 1)


@njit(cache=True, nogil=True)
def _of_oldest(done):
    """The queue that the oldest row waits in which has not finished."""
    level = len(done) - 2
    while done[level + 1] == done[level]:
        level -= 1
    return level


@njit(cache=True, nogil=True)
def _made(starts, windows, row, level, lost):
    """Results that a row makes in a strip, or, if it has lost what it had, in all strips up to it."""
    return starts[row * windows + level + 1] - starts[row * windows + (0 if lost else level)]


@njit(cache=True, nogil=True)
def simulate(arrival, cost, starts, ready, priority, early, room, again):
    """Play a schedule: one server, rows in total order, a decision after every unit.

    Args:
        early: results of the oldest row that has not finished a window go out as they are made; otherwise when it has.
        room: the most results that the output buffer holds. Where those of a unit do not fit, the oldest row goes on
        instead, whose
            results wait for no other query (`early`; otherwise they come on top).
        again: per window, whether a row that has finished it may keep nothing instead, and look at its strips again
        later.

    Returns:
        per window: results, their summed and largest response, their histogram; the units in the order of work; the
        most rows in the queues; after any unit the most rows with results held back, and the most results; when the
        last unit ended.
    """
    rows, windows = cost.shape
    done = np.zeros(windows + 1, np.int64)
    counts = np.zeros(windows, np.int64)
    sums = np.zeros(windows)
    worst = np.zeros(windows)
    spread = np.zeros((windows, BINS), np.int64)
    units = np.empty((rows * windows, 2), np.int32)
    # Results of a row in the buffer; whether some did not fit; per strip, the windows below have had its results.
    kept = np.zeros(rows, np.int64)
    lost = np.zeros(rows, np.bool_)
    had = np.empty((rows, windows), np.int8)
    for s in range(windows):
        had[:, s] = s
    held = 0
    entries = 0
    most_held = 0
    most_rows = 0
    most_entries = 0
    now = 0.0
    at = 0
    while done[windows] < rows:
        while done[0] < rows and arrival[done[0]] <= now:
            done[0] += 1
        most_rows = max(most_rows, done[0] - done[windows])
        level = next_level(done, priority, priority, -1)
        if level < 0:
            now = arrival[done[0]]
            continue
        t = done[level + 1]
        made = _made(starts, windows, t, level, lost[t])
        if made and held + made > room and not again[level]:
            level = _of_oldest(done)
            t = done[level + 1]
            made = _made(starts, windows, t, level, lost[t])
        units[at, 0] = t
        units[at, 1] = level
        at += 1
        reach = level + 1
        while reach < windows and done[reach + 1] == t:
            reach += 1
        strip = 0 if lost[t] else level
        while strip <= level:
            if early:
                for k in range(starts[t * windows + strip], starts[t * windows + strip + 1]):
                    response = now + ready[k] - arrival[t]
                    place = _bin(response)
                    for q in range(max(level, had[t, strip]), reach):
                        counts[q] += 1
                        sums[q] += response
                        worst[q] = max(worst[q], response)
                        spread[q, place] += 1
                had[t, strip] = max(had[t, strip], reach)
            now += cost[t, strip]
            strip += 1
        done[level + 1] = t + 1
        lost[t] = False
        # Queries that wait for the results of this row: those of larger windows, unless they have had them as they were
        # made.
        if made and (reach < windows if early else level + 1 < windows):
            if held + made <= room or not again[level]:
                entries += kept[t] == 0
                kept[t] += made
                held += made
            else:
                entries -= kept[t] > 0
                held -= kept[t]
                kept[t] = 0
                lost[t] = True
        freed = 0
        owner = t
        if early:
            # The next row is now the oldest for this window: what it has made so far need not wait any longer.
            owner = t + 1
            if owner < done[0] and not lost[owner]:
                for s in range(level + 1):
                    if done[s + 1] > owner:
                        freed += starts[owner * windows + s + 1] - starts[owner * windows + s]
                        had[owner, s] = level + 1
        else:
            freed = starts[t * windows + level + 1] - starts[t * windows]
        if freed:
            response = now - arrival[owner]
            counts[level] += freed
            sums[level] += freed * response
            worst[level] = max(worst[level], response)
            spread[level, _bin(response)] += freed
        if level == windows - 1 and owner < rows and kept[owner]:
            held -= kept[owner]
            entries -= 1
            kept[owner] = 0
        most_held = max(most_held, held)
        most_entries = max(most_entries, entries)
    return counts, sums, worst, spread, units[:at], most_rows, most_entries, most_held, now
