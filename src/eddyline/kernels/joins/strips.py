"""Strips of shared windows: a probe goes on where the smaller window's probe ended, and results are laid out per window.

Answer   `merged` puts the probing rows of both inputs into total order.
         `enter_chains` finds the stored row at which the walk of each probing row begins.
         `probe_strips` and `scan_strips` take probing rows through the next windows, along hash chains and by a scan.
         The stored rows that a probing row has found are its *run*, newest first. `ends` has per window the length of
         the part of the run that lies in the window.
         `lay_out` gives the combinations of one window in total order.

             room   |· run of row 0 ·|· run of row 2 ·|·· run of row 1 ··|  free      a run is copied
                     start, ends[0] < ends[1] < …                        at           when its row goes on

State    Per probing row its cursor (the next stored row to visit), and where its run lies. A walk that runs out of
         room stops before the row that did not fit; the caller makes room and goes on.
Limits   Stored rows lie in the order of age along the store and along every chain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from eddyline.kernels.hashing import mix
from eddyline.kernels.raw import put

#: No stored row, not even the end of a chain.
UNKNOWN = -2
#: Rows that a scan compares before it checks for room: the compiler compares several of them at a time.
_BLOCK = 64


class Walkers(NamedTuple):
    """Probing rows: key hashes, the value from which ages are measured, the next stored row, and the place of each in
    `RunPlaces`."""

    hashes: Any
    measure: Any
    cursor: Any
    place: Any


class RunPlaces(NamedTuple):
    """Where runs begin, and per row and window how many rows of the run lie in the window.

    Kernels write the columns of `ends` from `before` on; column `before - 1` has the length of the run so far.
    """

    start: Any
    ends: Any
    before: int


class Aged(NamedTuple):
    """Stored rows: keys, and the column from which windows compute their age."""

    keys: Any
    age: Any
    base: int
    first: int


@njit(cache=True, nogil=True)
def are_all(lineage, line):
    """Whether every line of the lineage is this one."""
    for i in range(len(lineage)):
        for j in range(len(line)):
            if lineage[i, j] != line[j]:
                return False
    return True


@njit(cache=True, nogil=True)
def merged(stamp, other_stamp, clock, other_clock, own, other_own):
    """Two ascending lists of rows as one, by stamp: which of the two each is from, stamps, clocks, own ids; and where
    the rows of each list stand in it."""
    rows = len(stamp) + len(other_stamp)
    of = np.empty(rows, np.int8)
    stamps = np.empty(rows, np.int64)
    clocks = np.empty(rows, np.int64)
    owns = np.empty(rows, np.int64)
    place = np.empty(len(stamp), np.int64)
    other_place = np.empty(len(other_stamp), np.int64)
    i = 0
    j = 0
    for r in range(rows):
        theirs = i == len(stamp) or (j < len(other_stamp) and other_stamp[j] < stamp[i])
        of[r] = theirs
        if theirs:
            stamps[r], clocks[r], owns[r], other_place[j] = other_stamp[j], other_clock[j], other_own[j], r
            j += 1
        else:
            stamps[r], clocks[r], owns[r], place[i] = stamp[i], clock[i], own[i], r
            i += 1
    return of, stamps, clocks, owns, place, other_place


@njit(cache=True, nogil=True)
def _carried(held, start, room, at):
    """Copy a run to the free part of the room; returns where the free part begins then, -1 if the run does not fit."""
    if at + held > len(room):
        return -1
    for k in range(held):
        room[at + k] = room[start + k]
    return at + held


@njit(cache=True, nogil=True)
def enter_chains(hashes, cursor, tops, heads, back, order, base, first):
    """Write into `cursor` the stored row at which each probing row enters its chain: the newest one that is older.

    Args:
        cursor: before the call, per probing row the order below which stored rows are older.
        tops: scratch, as long as `heads`: all `UNKNOWN` before and after the call.
    """
    mask = np.uint64(len(heads) - 1)
    buckets = np.empty(len(hashes), np.int64)
    for o in range(len(hashes)):
        buckets[o] = mix(hashes[o]) & mask
    # A stored row that is too new for a probing row is too new for all probing rows before it: each is passed once.
    for o in range(len(hashes) - 1, -1, -1):
        bucket, limit = buckets[o], cursor[o]
        row = tops[bucket]
        if row == UNKNOWN:
            row = heads[bucket]
        while row >= first and order[row - base] >= limit:
            step = back[row - base]
            row = row - step if step else -1
        tops[bucket] = row
        cursor[o] = row
    for o in range(len(hashes)):
        tops[buckets[o]] = UNKNOWN


@njit(cache=True, nogil=True)
def probe_strips(sequence, turn, walkers, sizes, runs, visited, room, at, back, stored):
    """The walkers `sequence[turn:]` through windows of these sizes, along their chains.

    Args:
        visited: per window, the number of rows visited; the kernel adds to it.

    Returns:
        where the room is free, the next turn.
    """
    hashes, measure, cursor, place = walkers
    start, ends, before = runs
    keys, age, base, first = stored
    seen = np.zeros(len(sizes), np.int64)
    while turn < len(sequence):
        o = sequence[turn]
        r = place[o]
        begin = at
        at = _carried(ends[r, before - 1] if before else 0, start[r], room, at)
        if at < 0:
            at = begin
            break
        key, row = hashes[o], cursor[o]
        fits = True
        for w in range(len(sizes)):
            seen[w] = 0
            least = measure[o] - sizes[w]
            while row >= first:
                p = row - base
                if age[p] < least:
                    break
                if keys[p] == key:
                    if at == len(room):
                        fits = False
                        break
                    room[at] = row
                    at += 1
                seen[w] += 1
                step = back[p]
                row = row - step if step else -1
            ends[r, before + w] = at - begin
        if not fits:
            at = begin
            break
        visited += seen
        cursor[o] = row
        start[r] = begin
        turn += 1
    return at, turn


@njit(cache=True, nogil=True)
def scan_strips(turn, walkers, sizes, runs, visited, room, at, keyed, stored):
    """The same by a scan of all stored rows, for the walkers from `turn` on; with `keyed` false every row matches."""
    hashes, measure, cursor, place = walkers
    start, ends, before = runs
    keys, age, base, first = stored
    seen = np.zeros(len(sizes), np.int64)
    while turn < len(measure):
        o = turn
        r = place[o]
        begin = at
        at = _carried(ends[r, before - 1] if before else 0, start[r], room, at)
        if at < 0:
            at = begin
            break
        row = cursor[o]
        fits = True
        for w in range(len(sizes)):
            seen[w] = 0
            # The strip is a range of the store: a binary search finds its end.
            low, high = max(first, base), row + 1
            least = measure[o] - sizes[w]
            while low < high:
                middle = (low + high) // 2
                if age[middle - base] < least:
                    low = middle + 1
                else:
                    high = middle
            while row >= low and fits:
                stop = max(low, row - _BLOCK + 1)
                if at + _BLOCK > len(room):
                    fits = False
                    break
                here = row - stop + 1
                if keyed:
                    here = 0
                    for p in range(stop - base, row + 1 - base):
                        here += keys[p] == hashes[o]
                if here:
                    for p in range(row - base, stop - 1 - base, -1):
                        if not keyed or keys[p] == hashes[o]:
                            room[at] = p + base
                            at += 1
                seen[w] += row - stop + 1
                row = stop - 1
            ends[r, before + w] = at - begin
        if not fits:
            at = begin
            break
        visited += seen
        cursor[o] = row
        start[r] = begin
        turn += 1
    return at, turn


@njit(cache=True, nogil=True)
def lay_out(of, level, own, start, ends, stamps, clocks, room):
    """The results of rows in total order for one window: row ids of both inputs, stamps, clocks.

    Args:
        of: per row, the input that it belongs to; `own` is its id there.
    """
    made = 0
    for r in range(len(of)):
        made += ends[r, level]
    first = np.empty(made, np.int64)
    second = np.empty(made, np.int64)
    stamp = np.empty(made, np.int64)
    clock = np.empty(made, np.int64)
    at = 0
    for r in range(len(of)):
        size = ends[r, level]
        if size == 0:
            continue
        begin = start[r]
        mine, found = (second, first) if of[r] else (first, second)
        mine[at : at + size] = own[r]
        put(found, at, room[begin : begin + size])
        stamp[at : at + size] = stamps[r]
        clock[at : at + size] = clocks[r]
        at += size
    return first, second, stamp, clock
