"""Schedules of a shared window join: whose turn it is, a strip of a window probed, and the whole join under a virtual clock.

Answer   `next_level` picks the queue to serve. `probe_strip` goes on along hash chains where the last strip ended.
         `unit_work` finds what every (row, strip) costs and yields; `simulate` plays a schedule over it and tells when each
         result would have been released.
State    Rows finish each window in total order, so the queues are ranges between N + 1 numbers: `done[i]` rows have
         finished window i, and those between `done[i + 1]` and `done[i]` wait in queue i.

              done[3]      done[2]        done[1]   done[0]
                 |  queue 2   |   queue 1    |  queue 0  |   not here yet

Limits   Times of the virtual clock are seconds; histograms resolve them to one part in a thousand.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.hashing import mix

#: Response times from a tenth of a microsecond up, in steps of a thousandth.
LEAST = 1e-7
STEP = 1e-3
BINS = 30_000


@njit(cache=True, nogil=True)
def next_level(done, priority):
    """The queue with the highest priority, given the next fuller one above it; the larger window wins a tie. -1: all are empty."""
    windows = len(done) - 1
    above = windows
    best = -1
    value = -np.inf
    for level in range(windows - 1, -1, -1):
        if done[level + 1] < done[level]:
            if priority[level, above] > value:
                value = priority[level, above]
                best = level
            above = level
    return best


@njit(cache=True, nogil=True)
def first_rows(hashes, heads):
    """Where the chain of each probing row begins."""
    mask = np.uint64(len(heads) - 1)
    out = np.empty(len(hashes), np.int64)
    for o in range(len(hashes)):
        out[o] = heads[mix(hashes[o]) & mask]
    return out


@njit(cache=True, nogil=True)
def probe_strip(hashes, limit, floor, cursor, back, keys, order, age, base, first):
    """Pairs (o, id) of one strip: from where `cursor` stands down to `age[c] >= floor[o]`. Moves the cursors.

    Returns:
        probing positions (rising), stored ids, rows visited.
    """
    begin = np.zeros(len(hashes) + 1, np.int64)
    visited = 0
    # Two walks, as in probe_chains: the first counts, the second writes and leaves the cursor behind.
    for o in range(len(hashes)):
        key, bound, least = hashes[o], limit[o], floor[o]
        n = 0
        row = cursor[o]
        while row >= first:
            p = row - base
            if age[p] < least:
                break
            visited += 1
            if keys[p] == key and order[p] < bound:
                n += 1
            step = back[p]
            row = row - step if step else -1
        begin[o + 1] = begin[o] + n
    left = np.empty(begin[-1], np.int64)
    right = np.empty(begin[-1], np.int64)
    for o in range(len(hashes)):
        key, bound, least = hashes[o], limit[o], floor[o]
        at = begin[o]
        row = cursor[o]
        while row >= first:
            p = row - base
            if age[p] < least:
                break
            if keys[p] == key and order[p] < bound:
                left[at] = o
                right[at] = row
                at += 1
            step = back[p]
            row = row - step if step else -1
        cursor[o] = row
    return left, right, visited


@njit(cache=True, nogil=True)
def scan_strip(hashes, limit, floor, cursor, keyed, keys, order, age, base, first):
    """The same answer by looking at every stored row of the strip; with `keyed` false every row matches."""
    begin = np.zeros(len(limit) + 1, np.int64)
    visited = 0
    for o in range(len(limit)):
        n = 0
        row = cursor[o]
        while row >= first and age[row - base] >= floor[o]:
            visited += 1
            if (not keyed or keys[row - base] == hashes[o]) and order[row - base] < limit[o]:
                n += 1
            row -= 1
        begin[o + 1] = begin[o] + n
    left = np.empty(begin[-1], np.int64)
    right = np.empty(begin[-1], np.int64)
    for o in range(len(limit)):
        at = begin[o]
        row = cursor[o]
        while row >= first and age[row - base] >= floor[o]:
            if (not keyed or keys[row - base] == hashes[o]) and order[row - base] < limit[o]:
                left[at] = o
                right[at] = row
                at += 1
            row -= 1
        cursor[o] = row
    return left, right, visited


@njit(cache=True, nogil=True)
def unit_work(side, bucket, key, outer_at, inner_at, buckets, sizes, first, per_unit, per_row, per_result):
    """What each row from `first` on has to do in each strip of the other side's window.

    Args:
        side: 0 or 1 per row, in total order. outer_at, inner_at: their difference is the age of an inner row.
        sizes: the windows, ascending; an age equal to a size is inside.

    Returns:
        cost per (row, strip); where the results of each (row, strip) begin in `ready`; `ready`: when, within the unit, a
        result is made.
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
def simulate(arrival, cost, starts, ready, priority, early):
    """Play a schedule: one server, rows in total order, a decision after every unit.

    Args:
        early: results of the oldest row that has not finished a window go out as they are made; otherwise when it has.

    Returns:
        per window: results, their summed and largest response, their histogram; the units in the order of work; the most
        rows in the queues, the most rows with results held back (begun and not finished), the most results held back, and
        when the last unit ended.
    """
    rows, windows = cost.shape
    done = np.zeros(windows + 1, np.int64)
    counts = np.zeros(windows, np.int64)
    sums = np.zeros(windows)
    worst = np.zeros(windows)
    spread = np.zeros((windows, BINS), np.int64)
    units = np.empty((rows * windows, 2), np.int32)
    held = 0
    most_held = 0
    most_rows = 0
    most_begun = 0
    now = 0.0
    at = 0
    while done[windows] < rows:
        while done[0] < rows and arrival[done[0]] <= now:
            done[0] += 1
        most_rows = max(most_rows, done[0] - done[windows])
        level = next_level(done, priority)
        if level < 0:
            now = arrival[done[0]]
            continue
        t = done[level + 1]
        units[at, 0] = t
        units[at, 1] = level
        at += 1
        a, b = starts[t * windows + level], starts[t * windows + level + 1]
        if early:
            reach = level
            while reach < windows and done[reach + 1] == t:
                reach += 1
            for k in range(a, b):
                response = now + ready[k] - arrival[t]
                place = _bin(response)
                for q in range(level, reach):
                    counts[q] += 1
                    sums[q] += response
                    worst[q] = max(worst[q], response)
                    spread[q, place] += 1
            if reach < windows:
                held += b - a
        else:
            held += b - a
        most_held = max(most_held, held)
        now += cost[t, level]
        done[level + 1] = t + 1
        most_begun = max(most_begun, done[1] - done[windows])
        freed = 0
        owner = t
        if early:
            # The next row is now the oldest for this window: what it has made so far need not wait any longer.
            owner = t + 1
            if owner < done[0]:
                for s in range(level + 1):
                    if done[s + 1] > owner:
                        freed += starts[owner * windows + s + 1] - starts[owner * windows + s]
        else:
            freed = starts[t * windows + level + 1] - starts[t * windows]
        if freed:
            response = now - arrival[owner]
            counts[level] += freed
            sums[level] += freed * response
            worst[level] = max(worst[level], response)
            spread[level, _bin(response)] += freed
            if level == windows - 1:
                held -= freed
    return counts, sums, worst, spread, units[:at], most_rows, most_begun, most_held, now
