"""Rows clustered by the address of an index, and requests that read runs of them.

Answer   `addresses` puts the fields of several key columns into one address per row. `cluster` sorts row numbers by address, with the
         offset of each address. `read_runs` looks at all rows behind the addresses that a request's fixed fields leave open, and counts
         those with its keys.
Limits   A field is the lowest bits of the mixed key word. Fields stand side by side, the first column's lowest.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.hashing import mix


@njit(cache=True, nogil=True)
def addresses(words, bits):
    """The address of each row. `words` has one row per key column, `bits` the width of each column's field."""
    columns, rows = words.shape
    out = np.zeros(rows, np.int64)
    shift = 0
    for column in range(columns):
        if bits[column] == 0:
            continue
        field = (np.uint64(1) << np.uint64(bits[column])) - np.uint64(1)
        for row in range(rows):
            out[row] |= np.int64(mix(words[column, row]) & field) << shift
        shift += bits[column]
    return out


@njit(cache=True, nogil=True)
def cluster(address, count):
    """Row numbers by address (stable), and for each address where its rows begin; one offset more than addresses."""
    offsets = np.zeros(count + 1, np.int64)
    for row in range(len(address)):
        offsets[address[row] + 1] += 1
    for place in range(count):
        offsets[place + 1] += offsets[place]
    order = np.empty(len(address), np.int64)
    free = offsets[:-1].copy()
    for row in range(len(address)):
        order[free[address[row]]] = row
        free[address[row]] += 1
    return order, offsets


@njit(cache=True, nogil=True)
def read_runs(offsets, words, fixed, keys, address, free_mask):
    """Rows with `keys[c]` in every column c of `fixed`, among those whose address equals `address` outside `free_mask`.

    `words` are the key columns in clustered order. Returns the matches, the runs begun and the rows looked at.
    """
    matches, runs, visited = 0, 0, 0
    part = 0
    while True:
        place = address | part
        runs += 1
        for row in range(offsets[place], offsets[place + 1]):
            visited += 1
            same = True
            for c in range(len(fixed)):
                same &= words[fixed[c], row] == keys[c]
            matches += same
        # The next subset of the free bits.
        part = (part - free_mask) & free_mask
        if part == 0:
            break
    return matches, runs, visited
