"""Hash chains and scans to matching index pairs.

Answer   For each probing row o: the stored rows c with an equal key, `order[c] < limit[o]` (older) and
         `dead[c] >= floor[o]` (still in its window). Pairs come grouped by o, in the order of o.
State    A chain links rows of one bucket from the newest to the oldest by distances: `heads[bucket]` is the id of the
         newest, `back[position]` the distance to the one before (0: none). Row ids only grow; a row leaves by falling
         below `first`, which ends every chain that reaches it, so forgetting costs nothing. A row that leaves from the
         middle is unlinked, so that a walk never meets it.

              heads ─► 97 ──2──► 95 ──5──► 90 ──8──► 82   first = 85: the walk ends here

Limits   Keys are 64-bit integers: exact for single integer-like columns, to be verified for others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from eddyline.kernels.hashing import mix
from eddyline.kernels.raw import put

#: Chains do not reach further back than a 32-bit distance; rows that far apart are never in one memory.
_FAR = 2**31 - 1
#: Entries of the cache in `unmet`, a power of two.
_KNOWN = 1024
#: What that cache has in place of a death: the key has no row; the entry is empty.
_NOWHERE = np.iinfo(np.int64).min + 1
_UNKNOWN = np.iinfo(np.int64).min
#: More pairs than this are never made.
_ALL = np.iinfo(np.int64).max


class ProbeKeys(NamedTuple):
    """Probing rows: the key of each, the order that partners are below, and the death that partners are not below."""

    hashes: Any
    limit: Any
    floor: Any


class ChainedRows(NamedTuple):
    """Stored rows with their chains. `in_time_order`: `dead` falls along a chain, so that the first dead row ends the
    walk."""

    heads: Any
    back: Any
    keys: Any
    order: Any
    dead: Any
    base: int
    first: int
    in_time_order: bool


class StoredStretch(NamedTuple):
    """Stored rows without chains: those with ids first … end-1."""

    keys: Any
    order: Any
    dead: Any
    base: int
    first: int
    end: int


@njit(cache=True, nogil=True)
def link(heads, back, keys, base, start, stop, dropped):
    """Put the rows with ids start … stop-1, without those that are flagged as dropped, at the head of their chains.

    Args:
        dropped: a flag per position; empty where no row is dropped.
    """
    mask = np.uint64(len(heads) - 1)
    for row in range(start, stop):
        if len(dropped) and dropped[row - base]:
            continue
        bucket = mix(keys[row - base]) & mask
        head = heads[bucket]
        back[row - base] = row - head if head >= 0 and row - head < _FAR else 0
        heads[bucket] = row


@njit(cache=True, nogil=True)
def unlink(heads, back, keys, base, first, positions, dropped):
    """Take the rows at these positions, which are flagged as dropped, out of their chains; each chain is walked
    once."""
    mask = np.uint64(len(heads) - 1)
    buckets = np.empty(len(positions), np.int64)
    for i in range(len(positions)):
        buckets[i] = np.int64(mix(keys[positions[i]]) & mask)
    buckets.sort()
    for i in range(len(buckets)):
        if i > 0 and buckets[i] == buckets[i - 1]:
            continue
        newer = np.int64(-1)
        row = heads[buckets[i]]
        while row >= first:
            step = back[row - base]
            if not dropped[row - base]:
                if newer < 0:
                    heads[buckets[i]] = row
                else:
                    back[newer - base] = newer - row
                newer = row
            row = row - step if step else np.int64(-1)
        if newer < 0:
            heads[buckets[i]] = -1
        else:
            back[newer - base] = 0


@njit(cache=True, nogil=True)
def _by_bucket(hashes, mask):
    """Positions of the probing rows, those of one bucket together: a chain is then walked while it is in the cache."""
    shift = np.uint64(0)
    while (mask >> shift) > np.uint64(4 * len(hashes)):
        shift += np.uint64(1)
    counts = np.zeros(np.int64(mask >> shift) + 2, np.int64)
    buckets = np.empty(len(hashes), np.int64)
    for o in range(len(hashes)):
        bucket = np.int64((mix(hashes[o]) & mask) >> shift)
        buckets[o] = bucket
        counts[bucket + 1] += 1
    for b in range(len(counts) - 1):
        counts[b + 1] += counts[b]
    out = np.empty(len(hashes), np.int64)
    for o in range(len(hashes)):
        out[counts[buckets[o]]] = o
        counts[buckets[o]] += 1
    return out


@njit(cache=True, inline="always")
def is_held(key, least, heads, back, keys, dead, base, first):
    """Whether a chain has a row with this key that is not dead before `least`."""
    row = heads[mix(key) & np.uint64(len(heads) - 1)]
    while row >= first:
        p = row - base
        if keys[p] == key and dead[p] >= least:
            return True
        step = back[p]
        if step == 0:
            return False
        row -= step
    return False


@njit(cache=True, nogil=True)
def held(wanted, least, stored):
    """Whether the chain of each key has a row with it that is not dead before `least`."""
    heads, back, keys, _, dead, base, first, in_time_order = stored
    mask = np.uint64(len(heads) - 1)
    out = np.zeros(len(wanted), np.bool_)
    for o in range(len(wanted)):
        row = heads[mix(wanted[o]) & mask]
        while row >= first:
            p = row - base
            lives = dead[p] >= least[o]
            if in_time_order and not lives:
                break
            if keys[p] == wanted[o] and lives:
                out[o] = True
                break
            if back[p] == 0:
                break
            row -= back[p]
    return out


class ProbeColumns(NamedTuple):
    """Columns of probing rows: their keys, places and times, and the id of the first."""

    keys: Any
    order: Any
    times: Any
    base: int


class ClosedRanges(NamedTuple):
    """Keys of which no further row comes: two lists of intervals in order, and `places` of the keys from `first` on.

    Key `first + i` is closed for rows at `places[i]` and after it.
    """

    low: Any
    high: Any
    further_low: Any
    further_high: Any
    first: int
    places: Any


@njit(cache=True, nogil=True)
def _lies_in(key, low, high):
    """Whether a key lies in one of some intervals that are in order."""
    if len(low) == 0 or key < low[0] or key > high[-1]:
        return False
    if key <= high[0]:
        return True
    return key <= high[np.searchsorted(low, key, side="right") - 1]


@njit(cache=True, nogil=True)
def closed_rows(keys, left_out, ranges, never):
    """Positions of the keys that are closed at a place before `never`.

    Args:
        left_out: positions that are not wanted, as flags; empty: all are wanted.
    """
    low, high, further_low, further_high, begin, places = ranges
    out = np.empty(len(keys), np.int64)
    n = 0
    for i in range(len(keys)):
        key = keys[i]
        is_closed = begin <= key < begin + len(places) and places[key - begin] < never
        if (is_closed or _lies_in(key, low, high) or _lies_in(key, further_low, further_high)) and not (
            len(left_out) and left_out[i]
        ):
            out[n] = i
            n += 1
    return out[:n]


@njit(cache=True, nogil=True)
def unmet(ids, probing, span, ranges, stored):
    """Which probing rows have a key that is closed at their places and that no stored row in their windows has."""
    probing_keys, order, times, base = probing
    low, high, further_low, further_high, begin, places = ranges
    heads, back, keys, _, dead, stored_base, first, in_time_order = stored
    mask = np.uint64(len(heads) - 1)
    out = np.zeros(len(ids), np.bool_)
    # A cache, for rows of one key come close together. An entry has a key, the least death that was searched for, and
    # the death of the row that was found.
    known = np.empty(_KNOWN, np.int64)
    since = np.empty(_KNOWN, np.int64)
    found = np.full(_KNOWN, _UNKNOWN)
    for o in range(len(ids)):
        at = ids[o] - base
        key = probing_keys[at]
        is_closed = begin <= key < begin + len(places) and places[key - begin] <= order[at]
        if not is_closed and not _lies_in(key, low, high) and not _lies_in(key, further_low, further_high):
            continue
        least = times[at] - span
        slot = key & (_KNOWN - 1)
        if found[slot] != _UNKNOWN and known[slot] == key:
            if found[slot] != _NOWHERE and found[slot] >= least:
                continue
            if found[slot] == _NOWHERE and least >= since[slot]:
                out[o] = True
                continue
        row = heads[mix(key) & mask]
        known[slot], since[slot], found[slot] = key, least, _NOWHERE
        while row >= first:
            p = row - stored_base
            lives = dead[p] >= least
            if in_time_order and not lives:
                break
            if keys[p] == key and lives:
                found[slot] = dead[p]
                break
            if back[p] == 0:
                break
            row -= back[p]
        out[o] = found[slot] == _NOWHERE
    return out


@njit(cache=True, nogil=True)
def _walk_into(left, right, n, o, start, probing, stored):
    """Walk for probing rows from `o` on while their pairs fit. The first of them begins at the stored row `start`, or
    at the head of its chain (-1).

    Returns:
        Of the rows that are done: pairs written, the next row, rows visited. Of the next row: pairs written so far,
        rows visited, and where the walk stopped.
    """
    hashes, limit, floor = probing
    heads, back, keys, order, dead, base, first, in_time_order = stored
    mask = np.uint64(len(heads) - 1)
    visited = 0
    while o < len(hashes):
        key, bound, least = hashes[o], limit[o], floor[o]
        row = heads[mix(key) & mask] if start < 0 else start
        start = -1
        begun, seen = n, 0
        while row >= first:
            p = row - base
            seen += 1
            lives = dead[p] >= least
            if in_time_order and not lives:
                break
            if keys[p] == key and order[p] < bound and lives:
                if n == len(left):
                    return begun, o, visited, n, seen - 1, row
                left[n] = o
                right[n] = row
                n += 1
            step = back[p]
            if step == 0:
                break
            row -= step
        visited += seen
        o += 1
    return n, o, visited, n, 0, np.int64(-1)


@njit(cache=True, nogil=True)
def probe_portion(probing, stored, start, most):
    """Pairs (o, id) of the first probing rows, about `most` of them at the most. A row with more pairs than that is
    cut.

    Args:
        start: the stored row at which an earlier portion stopped the walk of the first row; -1: the walk begins.

    Returns:
        probing positions (rising), stored ids, rows visited, rows that are done, and where the next row goes on, or -1.
    """
    # One walk: it took half the time of a walk to count and one to write. The room grows outside the loop: a check
    # inside is cheap, an array that changes there is not.
    rows = len(probing.hashes)
    left = np.empty(min(1024 + 2 * rows, most), np.int64)
    right = np.empty(len(left), np.int64)
    whole, o, visited = np.int64(0), np.int64(0), np.int64(0)
    while True:
        # The walk stands in one place: each further one would be compiled by itself.
        whole, o, more, n, seen, at = _walk_into(left, right, whole, o, start if o == 0 else -1, probing, stored)
        visited += more
        if o == rows:
            return left[:whole], right[:whole], visited, o, np.int64(-1)
        if len(left) >= most:
            if whole:
                return left[:whole], right[:whole], visited, o, np.int64(-1)
            return left[:n], right[:n], visited + seen, o, at
        # As many pairs for each row that is left as for those before, and a quarter more.
        room = min(2 * len(left) + np.int64(1.25 * whole * (rows - o) / (o + 1)), most)
        wide_left = np.empty(room, np.int64)
        wide_right = np.empty(room, np.int64)
        put(wide_left, 0, left[:whole])
        put(wide_right, 0, right[:whole])
        left, right = wide_left, wide_right


@njit(cache=True, nogil=True)
def probe_chains(probing, stored):
    """Pairs (o, id) for all probing rows.

    Returns:
        probing positions (rising), stored ids, rows visited.
    """
    left, right, visited, _, _ = probe_portion(probing, stored, -1, _ALL)
    return left, right, visited


@njit(cache=True, nogil=True)
def _scan_into(left, right, n, o, probing, keyed, stored):
    """Scan for probing rows from `o` on while all stored rows would still fit; returns pairs written and the next
    row."""
    hashes, limit, floor = probing
    keys, order, dead, base, first, end = stored
    while o < len(limit) and n + end - first <= len(left):
        for p in range(first - base, end - base):
            if (not keyed or keys[p] == hashes[o]) and order[p] < limit[o] and dead[p] >= floor[o]:
                left[n] = o
                right[n] = p + base
                n += 1
        o += 1
    return n, o


@njit(cache=True, nogil=True)
def probe_scan(probing, keyed, stored):
    """The same pairs by a scan of all rows of a stretch; with `keyed` false every row matches (a cross product)."""
    limit = probing.limit
    rows = stored.end - stored.first
    left = np.empty(1024 + 2 * len(limit) + rows, np.int64)
    right = np.empty(len(left), np.int64)
    n, o = np.int64(0), np.int64(0)
    while True:
        n, o = _scan_into(left, right, n, o, probing, keyed, stored)
        if o == len(limit):
            return left[:n], right[:n], len(limit) * rows
        wide_left = np.empty(2 * len(left), np.int64)
        wide_right = np.empty(2 * len(left), np.int64)
        put(wide_left, 0, left[:n])
        put(wide_right, 0, right[:n])
        left, right = wide_left, wide_right
