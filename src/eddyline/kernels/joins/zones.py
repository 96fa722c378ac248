"""Least and greatest keys of stretches of rows, and scans that leave stretches out.

Answer   `stretch_ranges` gives, per stretch, the least and greatest key and whether a value is missing.
         `zone_starts` gives the places at which the zones of a store begin.
         `text_prefixes` makes keys of the first 8 bytes of texts.
         `probe_stretches` pairs probing rows with the stored rows of the stretches that a grid does not skip.
         `settled_stretches` adds the pairs of stretches that need no test to pairs that have been tested.
         `within_stretches` does the same and tests the other pairs itself, where conditions are bounds of keys.
State    None.
Limits   Pairs come in the order of a scan of everything: by probing row, then by stored row. A stretch without values
         has a least key above its greatest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from eddyline.kernels.raw import put

_LEAST = np.int64(-(2**63))
_MOST = np.int64(2**63 - 1)
#: Up to this number of keys of a sorted zone are put in order of place one by one. In nanoseconds per pair, 8 keys take
#: 1.9 against 2.3 of a scan, 12 keys take 2.9 against 2.4 (`python -m bench.micro.thresholds zone_sort`).
_FEW = 8
#: From this number of probing rows on a zone is sorted. In nanoseconds per pair, 8 rows take 2.3 to 2.8 against 1.9 of
#: a scan, 16 rows 1.4 to 2.1 against 1.9 to 2.4, 32 rows 1.3 against 1.9 to 2.3. Some of the rows skip the zone.
_MANY = 32


class Laid(NamedTuple):
    """Stored rows. `keyed`: keys must be equal. `in_time_order`: `order` and `dead` rise along the store, so that the
    rows that a probing row may meet are one stretch."""

    keyed: bool
    keys: Any
    order: Any
    dead: Any
    base: int
    in_time_order: bool


class Within(NamedTuple):
    """Conditions as bounds of stored keys, a line per column. `keys` and `valid` begin at the first stretch; without
    `has_nulls` all keys are there."""

    keys: Any
    valid: Any
    has_nulls: bool
    least: Any
    most: Any


class ZoneCells(NamedTuple):
    """Stretches of probing rows against stretches of stored rows: where both are cut, and the kind of each cell."""

    row_cuts: Any
    cuts: Any
    kinds: Any


@njit(cache=True, nogil=True)
def stretch_ranges(keys, valid, has_nulls, cuts, low, high, nulls):
    """Fill low, high and nulls for the stretches cuts[i] … cuts[i + 1] - 1; without `has_nulls` all values are
    there."""
    for i in range(len(cuts) - 1):
        least, most, missing = _MOST, _LEAST, False
        if has_nulls:
            for row in range(cuts[i], cuts[i + 1]):
                if valid[row]:
                    least = min(least, keys[row])
                    most = max(most, keys[row])
                else:
                    missing = True
        else:
            for row in range(cuts[i], cuts[i + 1]):
                least = min(least, keys[row])
                most = max(most, keys[row])
        low[i], high[i], nulls[i] = least, most, missing


@njit(cache=True, nogil=True)
def zone_starts(begin, end, heralds, most, least):
    """Where the zones of the rows begin … end-1 begin: after `most` rows, and at a herald if the zone before it has at
    least `least` rows. A smaller zone goes on behind the herald. Heralds rise, and lie between the ends."""
    starts = np.empty((end - begin) // most + 2 + len(heralds), np.int64)
    starts[0] = begin
    n = 1
    for row in heralds:
        while row - starts[n - 1] > most:
            starts[n] = starts[n - 1] + most
            n += 1
        if row - starts[n - 1] >= least:
            starts[n] = row
            n += 1
    while end - starts[n - 1] > most:
        starts[n] = starts[n - 1] + most
        n += 1
    return starts[:n]


@njit(cache=True, nogil=True)
def text_prefixes(offsets, data, shift, positions, keys):
    """The first 8 bytes of each text as a number that ascends as bytes do; shorter texts are filled up with zeros."""
    for i in range(len(positions)):
        begin = offsets[positions[i]] - shift
        size = min(offsets[positions[i] + 1] - shift - begin, 8)
        word = np.uint64(0)
        for at in range(size):
            word |= np.uint64(data[begin + at]) << np.uint64(56 - 8 * at)
        keys[i] = np.int64(word ^ np.uint64(0x8000000000000000))


@njit(cache=True, nogil=True)
def _first_not_below(values, bound, first, end):
    """The first of the positions first … end-1, at which values rise, with a value not below the bound; `end`: there is
    none."""
    while first < end:
        middle = (first + end) >> 1
        if values[middle] < bound:
            first = middle + 1
        else:
            end = middle
    return first


@njit(cache=True, nogil=True)
def _stretch_of(cuts, row):
    """The number of the last stretch that begins at or before a row."""
    return max(_first_not_below(cuts, row + 1, 0, len(cuts)) - 1, 0)


@njit(cache=True, nogil=True)
def _met_positions(limit, floor, stored, cuts):
    """Per probing row, between which positions the stored rows lie that it may meet: the first, and the one after the
    last. All rows, where the store is not in time order."""
    _, _, order, dead, base, in_time_order = stored
    low = np.full(len(limit), cuts[0] - base)
    high = np.full(len(limit), cuts[-1] - base)
    if in_time_order:
        for o in range(len(limit)):
            low[o] = _first_not_below(dead, floor[o], low[o], high[o])
            high[o] = _first_not_below(order, limit[o], low[o], high[o])
    return low, high


@njit(cache=True, nogil=True)
def _counted_pairs(low, high, base, grid, chosen):
    """How many pairs some cells have at the most, and how many rows a walk over these cells visits.

    Args:
        chosen: by kind of cell from 0 on; empty: all of them.
    """
    row_cuts, cuts, kinds = grid
    room = 0
    visited = 0
    for line in range(len(row_cuts) - 1):
        for j in range(len(cuts) - 1):
            if kinds[line, j] >= 0 and (len(chosen) == 0 or chosen[kinds[line, j]]):
                first, end = cuts[j] - base, cuts[j + 1] - base
                visited += (end - first) * (row_cuts[line + 1] - row_cuts[line])
                for o in range(row_cuts[line], row_cuts[line + 1]):
                    room += max(0, min(end, high[o]) - max(first, low[o]))
    return room, visited


@njit(cache=True, nogil=True)
def probe_stretches(probing, stored, grid, wants_kinds):
    """Pairs (o, id) of the cells that are not skipped (kind below 0), with the kind of their cell; last, how many rows
    were looked at.

    Args:
        wants_kinds: without it no kinds are written down.
    """
    hashes, limit, floor = probing
    keyed, keys, order, dead, base, in_time_order = stored
    row_cuts, cuts, kinds = grid
    low, high = _met_positions(limit, floor, stored, cuts)
    # One walk to count and one to write: memory that is never touched costs nothing.
    room, visited = _counted_pairs(low, high, base, grid, np.empty(0, np.bool_))
    left = np.empty(room, np.int64)
    right = np.empty(room, np.int64)
    cells = np.empty(room if wants_kinds else 0, np.int16)
    n = 0
    for line in range(len(row_cuts) - 1):
        for o in range(row_cuts[line], row_cuts[line + 1]):
            for j in range(_stretch_of(cuts, low[o] + base), len(cuts) - 1):
                kind = kinds[line, j]
                if cuts[j] - base >= high[o]:
                    break
                if kind < 0:
                    continue
                first, end = max(cuts[j] - base, low[o]), min(cuts[j + 1] - base, high[o])
                before = n
                if in_time_order and not keyed:
                    for p in range(first, end):
                        left[n] = o
                        right[n] = p + base
                        n += 1
                else:
                    for p in range(first, end):
                        if (not keyed or keys[p] == hashes[o]) and order[p] < limit[o] and dead[p] >= floor[o]:
                            left[n] = o
                            right[n] = p + base
                            n += 1
                if wants_kinds:
                    cells[before:n] = kind
    return left[:n], right[:n], cells[:n], visited


@njit(cache=True, nogil=True)
def settled_stretches(probing, stored, grid, settled, left, right):
    """Per probing row how many pairs it has, their stored ids, and how many rows were visited.

    Cells whose kind is settled give all their pairs. The pairs of the other cells are those of (left, right), in the
    order of a scan.

    Args:
        settled: by kind of cell from 0 on.
    """
    _, limit, floor = probing
    _, _, order, dead, base, in_time_order = stored
    row_cuts, cuts, kinds = grid
    counts = np.zeros(len(limit), np.int64)
    low, high = _met_positions(limit, floor, stored, cuts)
    room, visited = _counted_pairs(low, high, base, grid, settled)
    found = np.empty(room + len(left), np.int64)
    n = 0
    s = 0
    for line in range(len(row_cuts) - 1):
        for o in range(row_cuts[line], row_cuts[line + 1]):
            before = n
            for j in range(_stretch_of(cuts, low[o] + base), len(cuts) - 1):
                kind = kinds[line, j]
                if cuts[j] - base >= high[o]:
                    break
                if kind < 0:
                    continue
                if not settled[kind]:
                    while s < len(left) and left[s] == o and right[s] < cuts[j + 1]:
                        found[n] = right[s]
                        n += 1
                        s += 1
                    continue
                first, end = max(cuts[j] - base, low[o]), min(cuts[j + 1] - base, high[o])
                if in_time_order:
                    for p in range(first, end):
                        found[n] = p + base
                        n += 1
                else:
                    for p in range(first, end):
                        if order[p] < limit[o] and dead[p] >= floor[o]:
                            found[n] = p + base
                            n += 1
            counts[o] = n - before
    return counts, found[:n], visited


@njit(cache=True, nogil=True)
def within_stretches(probing, stored, grid, settled, within):
    """The same where conditions are bounds of stored keys: this kernel tests the pairs of cells that are not settled.
    Last, how many pairs of settled cells there are."""
    _, limit, floor = probing
    _, _, order, dead, base, in_time_order = stored
    row_cuts, cuts, kinds = grid
    keys, valid, has_nulls, least, most = within
    counts = np.zeros(len(limit), np.int64)
    low, high = _met_positions(limit, floor, stored, cuts)
    start = cuts[0] - base
    by_key = len(keys) == 1 and in_time_order and not has_nulls
    # With many probing rows a zone is sorted when the first of them reads it.
    sorts = by_key and len(limit) >= _MANY
    ordered = np.empty(keys.shape[1] if sorts else 0, np.int64)
    places = np.empty_like(ordered)
    is_sorted = np.zeros(len(cuts), np.bool_)
    visited = 0
    untested = 0
    found = np.empty(1024, np.int64)
    n = 0
    for line in range(len(row_cuts) - 1):
        for j in range(len(cuts) - 1):
            if kinds[line, j] >= 0:
                visited += (cuts[j + 1] - cuts[j]) * (row_cuts[line + 1] - row_cuts[line])
        for o in range(row_cuts[line], row_cuts[line + 1]):
            before = n
            for j in range(_stretch_of(cuts, low[o] + base), len(cuts) - 1):
                kind = kinds[line, j]
                if cuts[j] - base >= high[o]:
                    break
                if kind < 0:
                    continue
                first, end = max(cuts[j] - base, low[o]), min(cuts[j + 1] - base, high[o])
                # Every pair is written; the next pair overwrites one that does not satisfy the conditions.
                if n + end - first >= len(found):
                    wide = np.empty(2 * (n + end - first), np.int64)
                    put(wide, 0, found[:n])
                    found = wide
                reached = n
                if settled[kind] and in_time_order:
                    for p in range(first, end):
                        found[n] = p + base
                        n += 1
                elif by_key and not settled[kind]:
                    below, above = least[0, o], most[0, o]
                    if sorts and first == cuts[j] - base and end == cuts[j + 1] - base:
                        a, b = first - start, end - start
                        if not is_sorted[j]:
                            put(places, a, a + np.argsort(keys[0, a:b]))
                            put(ordered, a, keys[0, places[a:b]])
                            is_sorted[j] = True
                        if below <= ordered[a] and ordered[b - 1] <= above:
                            for p in range(first, end):
                                found[n] = p + base
                                n += 1
                            continue
                        # Few keys of a narrow range are put in order of place; for many the scan below costs less.
                        a = _first_not_below(ordered, below, a, b)
                        if a == b or ordered[a] > above:
                            continue
                        if a + _FEW >= b or ordered[a + _FEW] > above:
                            while a < b and ordered[a] <= above:
                                row, at = places[a] + start + base, n
                                while at > reached and found[at - 1] > row:
                                    found[at] = found[at - 1]
                                    at -= 1
                                found[at] = row
                                n += 1
                                a += 1
                            continue
                    for p in range(first, end):
                        found[n] = p + base
                        key = keys[0, p - start]
                        n += (key >= below) & (key <= above)
                else:
                    for p in range(first, end):
                        good = in_time_order or (order[p] < limit[o] and dead[p] >= floor[o])
                        if good and not settled[kind]:
                            at = p - start
                            for c in range(len(keys)):
                                good &= (
                                    (not has_nulls or valid[c, at])
                                    and keys[c, at] >= least[c, o]
                                    and keys[c, at] <= most[c, o]
                                )
                        found[n] = p + base
                        n += good
                if settled[kind]:
                    untested += n - reached
            counts[o] = n - before
    return counts, found[:n], visited, untested
