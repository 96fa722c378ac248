"""Key columns to 64-bit hashes.

Answer   `mix` scatters one 64-bit key; `fold` adds a further key to a hash, `combine` a further key column;
         `hash_strings` hashes the values of an Arrow string array from its buffers.
Limits   Hashes of strings and of several columns may collide: a join on them verifies the values.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.raw import word_at

_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_GOLD = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, inline="always")
def mix(key):
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    x = np.uint64(key)
    x = (x ^ (x >> np.uint64(30))) * _M1
    x = (x ^ (x >> np.uint64(27))) * _M2
    return x ^ (x >> np.uint64(31))


@njit(cache=True, inline="always")
def fold(key, following):
    """The hash of a hash or key and a further key: order matters."""
    return mix(np.uint64(key) * _GOLD + mix(following))


@njit(cache=True, nogil=True)
def mix_all(keys):
    out = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        out[i] = np.int64(mix(keys[i]))
    return out


@njit(cache=True, nogil=True)
def combine(hashes, keys):
    """`fold` for whole columns."""
    out = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        out[i] = np.int64(fold(hashes[i], keys[i]))
    return out


@njit(cache=True, nogil=True, inline="always")
def _last_word(data, start, stop):
    """Fewer than eight bytes as one word."""
    if start + 8 <= len(data):
        return word_at(data, start) & ((np.uint64(1) << np.uint64(8 * (stop - start))) - np.uint64(1))
    word = np.uint64(0)
    for at in range(start, stop):
        word |= np.uint64(data[at]) << np.uint64(8 * (at - start))
    return word


@njit(cache=True, nogil=True)
def hash_strings(offsets, data):
    """Hashes of the strings data[offsets[i]:offsets[i+1]], eight bytes at a time."""
    n = len(offsets) - 1
    out = np.empty(n, np.int64)
    for i in range(n):
        start, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        h = mix(np.uint64(stop - start) + _GOLD)
        while start + 8 <= stop:
            h = mix(h * _GOLD + word_at(data, start))
            start += 8
        if start < stop:
            h = mix(h * _GOLD + _last_word(data, start, stop))
        out[i] = np.int64(h)
    return out
