"""Whether a key is there: by a hash chain, or by a Bloom filter over the keys of a store.

Answer   `held` says of each key whether a stored row has it that begins by `ceiling`, is alive at `floor` and has an id below
         `before`. `fill` makes a blocked Bloom
         filter of some keys, `may_hold` asks it: never wrong about a key that is there, rarely about one that is not.
State    A filter is an array of 64-bit words; a key sets four bits of one word, so that a question touches one cache line.
Limits   The number of words is a power of two. Keys cannot be taken out: the owner makes a new filter.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.hashing import mix

#: Words per key: 16 bits each, about one false positive in three hundred.
_KEYS_PER_WORD = 4


def filter_for(keys: int) -> np.ndarray:
    """An empty filter of the right size for so many keys."""
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
def held(hashes, floors, ceilings, heads, back, keys, begins, dead, base, first, before):
    mask = np.uint64(len(heads) - 1)
    found = np.zeros(len(hashes), np.bool_)
    for o in range(len(hashes)):
        key = hashes[o]
        row = heads[mix(key) & mask]
        while row >= first:
            p = row - base
            if keys[p] == key and row < before and dead[p] >= floors[o] and begins[p] <= ceilings[o]:
                found[o] = True
                break
            step = back[p]
            if step == 0:
                break
            row -= step
    return found
