"""Whether a store has a key: by its hash chains, or by a Bloom filter over its keys.

Answer   `holders` gives for each key the newest stored row with it that begins by `ceiling`, is alive at `floor` and
         has an id below `before`; -1: there is none. `fill` makes a blocked Bloom filter of some keys. `may_hold` looks
         keys up in it: it always finds a key that is there, and rarely one that is not. `probe_wanted` probes like
         `probe_chains` and writes only the pairs whose key another store holds.
State    A filter is an array of 64-bit words. A key sets four bits of one word, so that a lookup touches one cache
         line.
Limits   The number of words is a power of two. Keys cannot be taken out: the owner makes a new filter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from eddyline.kernels.hashing import fold, mix
from eddyline.kernels.joins.probe import ChainedRows, ProbeKeys, _by_bucket, is_held

#: Words per key: 16 bits each, about one false positive in three hundred.
_KEYS_PER_WORD = 4


class PairKey(NamedTuple):
    """The key of a pair: one or two columns of the probing row and of the stored row, and which of the two sides comes
    first."""

    own_a: Any
    own_b: Any
    own_width: int
    other_a: Any
    other_b: Any
    other_width: int
    own_first: bool


def filter_for(keys: int) -> np.ndarray:
    """An empty filter of the right size for `keys` keys."""
    words = 64
    while words * _KEYS_PER_WORD < keys:
        words *= 2
    return np.zeros(words, np.uint64)


@njit(cache=True, nogil=True)
def _bits(key):
    spread = mix(key) >> np.uint64(32)
    bits = np.uint64(0)
    for _ in range(4):
        bits |= np.uint64(1) << (spread & np.uint64(63))
        spread >>= np.uint64(6)
    return bits


@njit(cache=True, nogil=True)
def fill(words, keys):
    mask = np.uint64(len(words) - 1)
    for i in range(len(keys)):
        words[mix(keys[i]) & mask] |= _bits(keys[i])


@njit(cache=True, nogil=True)
def may_hold(words, keys):
    mask = np.uint64(len(words) - 1)
    found = np.empty(len(keys), np.bool_)
    for i in range(len(keys)):
        bits = _bits(keys[i])
        found[i] = words[mix(keys[i]) & mask] & bits == bits
    return found


@njit(cache=True, nogil=True)
def holders(hashes, floors, ceilings, stored, before):
    """For each key the newest stored row that is alive for it and has an id below `before`; -1: there is none.

    Args:
        stored: `ChainedRows`, whose `order` is when the life of each row begins.
    """
    heads, back, keys, begins, dead, base, first, _ = stored
    mask = np.uint64(len(heads) - 1)
    found = np.full(len(hashes), -1, np.int64)
    for o in range(len(hashes)):
        key = hashes[o]
        row = heads[mix(key) & mask]
        while row >= first:
            p = row - base
            if keys[p] == key and row < before and dead[p] >= floors[o] and begins[p] <= ceilings[o]:
                found[o] = row
                break
            step = back[p]
            if step == 0:
                break
            row -= step
    return found


@njit(cache=True, nogil=True)
def _count(key, bound, least, row, stored):
    """How many rows of a chain match, and how many were visited.

    `probe_chains` has this walk in its own loop: as a call it made that a fifth slower.
    """
    _, back, keys, order, dead, base, first, in_time_order = stored
    n = 0
    visited = 0
    while row >= first:
        p = row - base
        visited += 1
        if in_time_order and dead[p] < least:
            break
        if keys[p] == key and order[p] < bound and dead[p] >= least:
            n += 1
        step = back[p]
        if step == 0:
            break
        row -= step
    return n, visited


@njit(cache=True, nogil=True)
def _wanted_into(found, begin, count, n, at, sequence, probing, stored, sides, tested_floor, tested):
    """Go on from place `at` of the sequence while the matches of a row fit; returns pairs written, the next place,
    visited, refused."""
    hashes, limit, floor = probing
    heads, back, keys, order, dead, base, _, _ = stored
    own_a, own_b, own_width, other_a, other_b, other_width, own_first = sides
    there, links, known, _, ends, origin, oldest, _ = tested
    mask = np.uint64(len(heads) - 1)
    visited = 0
    refused = 0
    while at < len(sequence):
        o = sequence[at]
        key, bound, least = hashes[o], limit[o], floor[o]
        row = heads[mix(key) & mask]
        matching, looked = _count(key, bound, least, row, stored)
        if n + matching > len(found):
            break
        visited += looked
        begin[o] = n
        left = matching
        while left > 0:
            p = row - base
            if keys[p] == key and order[p] < bound and dead[p] >= least:
                left -= 1
                pair_key = mix(own_a[o]) if own_first else mix(other_a[p])
                if own_first:
                    if own_width > 1:
                        pair_key = fold(pair_key, own_b[o])
                    pair_key = fold(pair_key, other_a[p])
                    if other_width > 1:
                        pair_key = fold(pair_key, other_b[p])
                else:
                    if other_width > 1:
                        pair_key = fold(pair_key, other_b[p])
                    pair_key = fold(pair_key, own_a[o])
                    if own_width > 1:
                        pair_key = fold(pair_key, own_b[o])
                if is_held(np.int64(pair_key), tested_floor[o], there, links, known, ends, origin, oldest):
                    found[n] = row
                    n += 1
                else:
                    refused += 1
            row -= back[p]
        count[o] = n - begin[o]
        at += 1
    return n, at, visited, refused


@njit(cache=True, nogil=True)
def _pairs(found, begin, count, n):
    left = np.empty(n, np.int64)
    right = np.empty(n, np.int64)
    at = 0
    for o in range(len(begin)):
        for i in range(begin[o], begin[o] + count[o]):
            left[at] = o
            right[at] = found[i]
            at += 1
    return left, right


def probe_wanted(
    probing: ProbeKeys, stored: ChainedRows, sides: PairKey, tested_floor: Any, tested: ChainedRows
) -> tuple[Any, Any, int, int]:
    """Pairs (o, id) as `probe_chains` finds them, without those whose key the tested store does not hold.

    Args:
        tested_floor: per probing row, the death that the rows of the tested store are not below.

    Returns:
        probing positions (rising), stored ids, rows visited, pairs refused.
    """
    hashes = probing.hashes
    sequence = _by_bucket(hashes, np.uint64(len(stored.heads) - 1))
    begin, count = np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.int64)
    found = np.empty(65_536 + len(hashes), np.int64)
    n = at = visited = refused = 0
    while True:
        n, at, looked, dropped = _wanted_into(
            found, begin, count, n, at, sequence, probing, stored, sides, tested_floor, tested
        )
        visited += looked
        refused += dropped
        if at == len(sequence):
            break
        # The buffer grows outside of the kernel: an array that changes inside a loop slows the loop down.
        found = np.concatenate([found, np.empty(max(len(found), len(stored.keys)), np.int64)])
    left, right = _pairs(found, begin, count, n)
    return left, right, visited, refused
