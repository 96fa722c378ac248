"""From new opposite rows to the pairs of two stores that they demand, without intermediate results.

Answer   For each opposite row: the pairs of a *near* and a *far* row that have its keys, have equal keys between each
         other, were alive at the same time, are not dead, and whose own key a third store holds.

                          ┌─► near chain ─► a small table by the key that near and far share
             opposite ────┤                            │
                          └─► far chain  ─────────────►┴─► alive together? ─► held by the third? ─► (near, far)

State    The table, made once for all opposite rows with one near key.
Limits   Both stores are in time order. Keys are given as columns of 64-bit integers and are compared as such, not by
         their hash. A pair that two rows demand comes twice.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.hashing import fold, mix
from eddyline.kernels.joins.probe import _by_bucket, is_held

_SLOTS = 1024


@njit(cache=True, inline="always")
def _key(a, i, b, j, from_a):
    """The key of a composite key whose parts lie in two matrices, as `keys.combined` makes it of whole columns."""
    first = a[i, 0] if from_a[0] else b[j, 0]
    if len(from_a) == 1:
        return first
    key = mix(first)
    for k in range(1, len(from_a)):
        key = fold(key, a[i, k] if from_a[k] else b[j, k])
    return np.int64(key)


@njit(cache=True, inline="always")
def _same(a, i, b, j):
    for k in range(a.shape[1]):
        if a[i, k] != b[j, k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _fill(slots, rows, links, key, parts, o, near):
    """Put the near rows with a key into the table; returns rows visited."""
    heads, back, keys, ts, base, first, floor, _, own, spread, _, _ = near
    slots[:] = -1
    mask = np.uint64(len(slots) - 1)
    held = 0
    visited = 0
    row = heads[mix(key) & np.uint64(len(heads) - 1)]
    while row >= first:
        p, i = row - base, row - first
        visited += 1
        if ts[p] < floor:
            break
        if keys[p] == key and _same(own, i, parts, o):
            slot = np.uint64(spread[i]) & mask
            rows[held] = row
            links[held] = slots[slot]
            slots[slot] = held
            held += 1
        step = back[p]
        if step == 0:
            break
        row -= step
    return visited


@njit(cache=True, nogil=True)
def _pairs_into(nears, fars, n, at, sequence, opposite, near, far, third, low, slots, rows, links):
    """Go on from place `at` of the sequence; stops before a row whose pairs do not fit, and discards those of its pairs
    that were written."""
    near_hashes, far_hashes, near_keys, far_keys = opposite
    _, _, _, near_ts, near_base, near_first, _, near_dead, _, _, near_joint, near_third = near
    heads, back, keys, far_ts, far_base, far_first, floor, far_dead, own, spread, far_joint, far_third = far
    is_tested, from_near, third_heads, third_back, third_keys, third_dead, third_base, third_first, third_span = third
    mask, bucket_mask = np.uint64(len(slots) - 1), np.uint64(len(heads) - 1)
    visited = 0
    tested = 0
    refused = 0
    filled = -1
    while at < len(sequence):
        o = sequence[at]
        began = n
        before = visited, tested, refused
        if filled < 0 or near_hashes[o] != near_hashes[filled] or not _same(near_keys, o, near_keys, filled):
            visited += _fill(slots, rows, links, near_hashes[o], near_keys, o, near)
            filled = o
        key = far_hashes[o]
        row = heads[mix(key) & bucket_mask]
        while row >= far_first:
            q, j = row - far_base, row - far_first
            visited += 1
            if far_ts[q] < floor:
                break
            if keys[q] == key:
                entry = slots[np.uint64(spread[j]) & mask]
                while entry >= 0:
                    i = rows[entry] - near_first
                    clock = max(near_ts[rows[entry] - near_base], far_ts[q])
                    if (
                        _same(near_joint, i, far_joint, j)
                        and _same(own, j, far_keys, o)
                        and min(near_dead[i], far_dead[j]) >= max(clock, low)
                    ):
                        good = True
                        if is_tested:
                            tested += 1
                            wanted = _key(near_third, i, far_third, j, from_near)
                            good = is_held(
                                wanted,
                                clock - third_span,
                                third_heads,
                                third_back,
                                third_keys,
                                third_dead,
                                third_base,
                                third_first,
                            )
                            refused += not good
                        if good:
                            if n == len(nears):
                                visited, tested, refused = before
                                return began, at, visited, tested, refused
                            nears[n] = rows[entry]
                            fars[n] = row
                            n += 1
                    entry = links[entry]
            step = back[q]
            if step == 0:
                break
            row -= step
        at += 1
    return n, at, visited, tested, refused


def demanded_pairs(opposite, near, far, third, low):
    """Pairs of ids (near, far) that new opposite rows demand.

    Args:
        opposite: hashes of the keys towards the near store and towards the far one; then these keys, a column per part.
        near: heads, back, keys, ts, base and first of the store, and the floor below which its rows are dead. Then by
            live row: its death, its keys towards the opposite rows, a hash of its keys towards the far store, these keys,
            and its keys towards the third store.
        far: the same of the other store.
        third: whether the third store is probed, and which parts of its key come from the near row. Then heads, back,
            keys, dead, base, first, and how long its rows live.
        low: pairs that are dead before this instant are not wanted.

    Returns:
        near ids, far ids, rows visited, pairs tested, pairs refused.
    """
    sequence = _by_bucket(opposite[0], np.uint64(len(near[0]) - 1))
    live = len(near[7])
    size = _SLOTS
    while 16 * size < live:
        size *= 2
    slots, rows, links = np.empty(size, np.int32), np.empty(live, np.int64), np.empty(live, np.int32)
    nears, fars = np.empty(4096, np.int64), np.empty(4096, np.int64)
    n = at = visited = tested = refused = 0
    while True:
        n, at, looked, questions, dropped = _pairs_into(
            nears, fars, n, at, sequence, opposite, near, far, third, low, slots, rows, links
        )
        visited, tested, refused = visited + looked, tested + questions, refused + dropped
        if at == len(sequence):
            return nears[:n], fars[:n], visited, tested, refused
        nears, fars = (np.concatenate([kept, np.empty(2 * len(kept), np.int64)]) for kept in (nears, fars))
