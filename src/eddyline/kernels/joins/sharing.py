"""From a shared join to its queries: a walk along hash chains tests lineage and windows, and writes pairs per query.

Answer   `expand_chains` walks hash chains and writes one *share* (place of the query, probing row, stored row) for
         every query that wants the pair. `expand_lineage` writes the shares of combinations that a join has made.
         `order_shares` orders shares by query, and within a query by the rank of the newest row, in linear time.
         `pairs_of` selects the pairs of one group among pairs that were found for several groups.
State    None. A walk that runs out of room stops before the row that did not fit; the caller makes room and goes on.
Limits   Stored rows lie in time order along a chain: a row that is out of every window of the probing row ends the
         walk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from eddyline.kernels.bitsets import DE_BRUIJN, PLACES
from eddyline.kernels.hashing import mix
from eddyline.kernels.joins.probe import _by_bucket

#: Up to this number of words of lineage are written without testing whether a bit is set.
_FEW_WORDS = 4
_LEAST = np.iinfo(np.int64).min


class ShareArrays(NamedTuple):
    """Where shares are written: the place of the query, the probing row, the stored row's position."""

    place: Any
    left: Any
    right: Any


class Probing(NamedTuple):
    """The rows that probe. `lineage` is their lineage; own = 0: its one line holds for all of them."""

    #: Key hashes; below which order stored rows are older; event times; rows seen, where windows count rows.
    hashes: Any
    limit: Any
    clock: Any
    seen: Any
    lineage: Any
    own: int
    #: Whether the limits ascend.
    ordered: bool


class Chained(NamedTuple):
    """The rows of a store with a hash index. `lineage` is their lineage; theirs = 0: its one line holds for all of
    them."""

    heads: Any
    back: Any
    keys: Any
    order: Any
    ts: Any
    num: Any
    lineage: Any
    theirs: int
    base: int
    first: int


class Windows(NamedTuple):
    """How far the queries' windows reach, by time and by rows, and the place of each query."""

    #: Line i of the table has the queries whose windows reach an age of sizes[i]; the window by bit.
    sizes: Any
    table: Any
    span_of: Any
    #: The same by rows.
    counts: Any
    count_table: Any
    rows_of: Any
    #: From a query's bit to its place; the table has no bits but those of queries with a place.
    place_of: Any


@njit(cache=True, nogil=True)
def by_bucket(hashes, heads):
    """The order in which probing rows are worked on: those of one chain together, the newest first."""
    return _by_bucket(hashes, np.uint64(len(heads) - 1))[::-1].copy()


@njit(cache=True, nogil=True)
def _farthest(mine, active, used, table):
    """The last line of the table that has any of these queries."""
    for i in range(len(table) - 1, 0, -1):
        for j in range(used):
            if mine[j] & table[i, active[j]]:
                return i
    return 0


@njit(cache=True, nogil=True)
def expand_chains(shares, n, offset, at, sequence, probing, chained, windows):
    """Shares of the probing rows `sequence[at:]`, written from `n` on; probing row o is written as `offset + o`, a
    stored row as its position.

    Returns:
        shares so far, the next position in `sequence`, pairs that a query wants, stored rows visited.
    """
    place, left, right = shares
    hashes, limit, clock, seen, lineage, own, ordered = probing
    heads, back, keys, order, ts, num, stored, theirs, base, first = chained
    sizes, table, span_of, counts, count_table, rows_of, place_of = windows
    mask = np.uint64(len(heads) - 1)
    width = lineage.shape[1]
    room = len(place)
    counted = len(counts) > 0
    active = np.empty(width, np.int64)
    mine = np.empty(width, np.uint64)
    used = 0
    ages = -1
    farthest = 0
    pairs = 0
    visited = 0
    chain = np.uint64(0)
    start = np.int64(-2)
    while at < len(sequence):
        o = sequence[at]
        key, bound, now, count = hashes[o], limit[o], clock[o], seen[o]
        bucket = mix(key) & mask
        if bucket != chain or start < -1 or not ordered:
            chain = bucket
            start = heads[bucket]
        # Probing rows of one chain come from the newest to the oldest: a stored row that is too new for one of them is
        # too new for the next.
        while start >= first and order[start - base] >= bound:
            visited += 1
            step = back[start - base]
            start = start - step if step else np.int64(-1)
        if own or ages < 0:
            # Which words of the lineage have a bit, and how far back the windows of its queries reach.
            used = 0
            for w in range(width):
                wanted = lineage[o * own, w] & table[0, w] & count_table[0, w]
                if wanted:
                    active[used] = w
                    mine[used] = wanted
                    used += 1
            ages = _farthest(mine, active, used, table)
            farthest = _farthest(mine, active, used, count_table)
        before = n
        pairs_before = pairs
        age_class = 0
        count_class = 0
        row = start if used else np.int64(-1)
        least = now - sizes[ages] if ages < len(sizes) else _LEAST
        least_number = count - counts[farthest] if farthest < len(counts) else _LEAST
        while row >= first:
            p = row - base
            visited += 1
            if ts[p] < least or (counted and num[p] < least_number):
                break
            if keys[p] == key:
                found = n
                if n + used > room:
                    return before, at, pairs_before, visited
                age = now - ts[p]
                for j in range(used):
                    w = active[j]
                    wanted = mine[j] & stored[p * theirs, w]
                    if wanted & (wanted - np.uint64(1)):
                        # Several queries: one line of the table tests the windows of all of them.
                        while age_class < len(sizes) and age > sizes[age_class]:
                            age_class += 1
                        wanted &= table[age_class, w]
                        if counted:
                            while count_class < len(counts) and count - num[p] > counts[count_class]:
                                count_class += 1
                            wanted &= count_table[count_class, w]
                    elif used > _FEW_WORDS and not wanted:
                        continue
                    # Write unconditionally and advance `n` only for wanted pairs: this branch is unpredictable.
                    lone = wanted & (~wanted + np.uint64(1))
                    bit = (w << 6) + PLACES[np.int64((lone * DE_BRUIJN) >> np.uint64(58))]
                    place[n] = place_of[bit]
                    left[n] = offset + o
                    right[n] = p
                    inside = (wanted != 0) & (age <= span_of[bit])
                    if counted:
                        inside &= count - num[p] <= rows_of[bit]
                    n += inside
                    wanted ^= lone
                    while wanted:
                        if n + used > room:
                            return before, at, pairs_before, visited
                        lone = wanted & (~wanted + np.uint64(1))
                        place[n] = place_of[(w << 6) + PLACES[np.int64((lone * DE_BRUIJN) >> np.uint64(58))]]
                        left[n] = offset + o
                        right[n] = p
                        n += 1
                        wanted ^= lone
                pairs += n > found
            step = back[p]
            if step == 0:
                break
            row -= step
        at += 1
    return n, at, pairs, visited


@njit(cache=True, nogil=True)
def expand_lineage(place, left, n, offset, at, lineage, place_of):
    """Shares of combinations `at` and following, by their lineage; returns shares so far and the next
    combination."""
    room = len(place)
    while at < lineage.shape[0]:
        before = n
        for w in range(lineage.shape[1]):
            wanted = lineage[at, w]
            while wanted:
                lone = wanted & (~wanted + np.uint64(1))
                slot_place = place_of[(w << 6) + PLACES[np.int64((lone * DE_BRUIJN) >> np.uint64(58))]]
                wanted ^= lone
                if slot_place >= 0:
                    if n == room:
                        return before, at
                    place[n] = slot_place
                    left[n] = offset + at
                    n += 1
        at += 1
    return n, at


@njit(cache=True, nogil=True)
def order_shares(place, left, right, rank, places, lowest, span):
    """Shares by place, then by `rank[left]`: their probing and stored rows, and where each place begins (and the last
    ends)."""
    counts = np.zeros(span + 1, np.int64)
    edges = np.zeros(places + 1, np.int64)
    ranks = np.empty(len(place), np.int32)
    for i in range(len(place)):
        r = rank[left[i]] - lowest
        ranks[i] = r
        counts[r + 1] += 1
        edges[place[i] + 1] += 1
    for r in range(span):
        counts[r + 1] += counts[r]
    for p in range(places):
        edges[p + 1] += edges[p]
    by_rank = np.empty(len(place), np.int32)
    for i in range(len(place)):
        r = ranks[i]
        by_rank[counts[r]] = i
        counts[r] += 1
    next_at = edges[:-1].copy()
    lefts = np.empty(len(place), np.int32)
    rights = np.empty(len(place), np.int32)
    for share in by_rank:
        at = next_at[place[share]]
        next_at[place[share]] = at + 1
        lefts[at] = left[share]
        rights[at] = right[share]
    return lefts, rights, edges


@njit(cache=True, nogil=True)
def held_or(held, left, right, base):
    """`held[left]`, or the stored row at position `right` where that is -1."""
    out = np.empty(len(left), np.int64)
    for i in range(len(left)):
        row = held[left[i]]
        out[i] = row if row >= 0 else base + right[i]
    return out


@njit(cache=True, nogil=True)
def at(values, places):
    out = np.empty(len(places), values.dtype)
    for i in range(len(places)):
        out[i] = values[places[i]]
    return out


@njit(cache=True, nogil=True)
def pairs_of(chosen, floors, begin, rows, ts, base, first):
    """The pairs of the chosen probing rows whose stored rows are not older than the floors. Rows below `first` are
    older. Probing row i was paired with `rows[begin[i] : begin[i + 1]]`, the newest first."""
    most = 0
    for o in range(len(chosen)):
        most += begin[chosen[o] + 1] - begin[chosen[o]]
    left = np.empty(most, np.int64)
    right = np.empty(most, np.int64)
    n = 0
    for o in range(len(chosen)):
        for k in range(begin[chosen[o]], begin[chosen[o] + 1]):
            if rows[k] < first or ts[rows[k] - base] < floors[o]:
                break
            left[n] = o
            right[n] = rows[k]
            n += 1
    return left[:n], right[:n]
