"""Least and greatest keys of stretches of rows, and scans that leave stretches out.

Answer   `stretch_ranges` gives, per stretch, the least and greatest key and whether a value is missing. `text_prefixes` gives texts keys of
         their first 8 bytes. `probe_stretches` pairs probing rows with the stored rows of the stretches that a grid does not skip.
State    None.
Limits   Pairs come in the order of a scan of everything: by probing row, then by stored row. A stretch without values has a least key
         above its greatest.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_LEAST = np.int64(-(2**63))
_MOST = np.int64(2**63 - 1)


@njit(cache=True, nogil=True)
def stretch_ranges(keys, valid, has_nulls, cuts, low, high, nulls):
    """Fill low, high and nulls for the stretches cuts[i] … cuts[i + 1] - 1; without `has_nulls` all values are there."""
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
def _scan_row(left, right, cells, n, o, line, hashes, limit, floor, keyed, keys, order, dead, base, cuts, kinds):
    for j in range(len(cuts) - 1):
        kind = kinds[line, j]
        if kind < 0:
            continue
        for p in range(cuts[j] - base, cuts[j + 1] - base):
            if (not keyed or keys[p] == hashes[o]) and order[p] < limit[o] and dead[p] >= floor[o]:
                left[n] = o
                right[n] = p + base
                cells[n] = kind
                n += 1
    return n


@njit(cache=True, nogil=True)
def probe_stretches(hashes, limit, floor, keyed, keys, order, dead, base, row_cuts, cuts, kinds):
    """Pairs (o, id) of the cells that are not skipped (kind below 0), with the kind of their cell; last, how many rows were looked at."""
    room = 1024 + 2 * len(limit)
    left = np.empty(room, np.int64)
    right = np.empty(room, np.int64)
    cells = np.empty(room, np.int64)
    n = 0
    visited = 0
    for line in range(len(row_cuts) - 1):
        width = 0
        for j in range(len(cuts) - 1):
            if kinds[line, j] >= 0:
                width += cuts[j + 1] - cuts[j]
        if width == 0:
            continue
        for o in range(row_cuts[line], row_cuts[line + 1]):
            if n + width > len(left):
                room = max(2 * len(left), n + width)
                wide_left = np.empty(room, np.int64)
                wide_right = np.empty(room, np.int64)
                wide_cells = np.empty(room, np.int64)
                wide_left[:n] = left[:n]
                wide_right[:n] = right[:n]
                wide_cells[:n] = cells[:n]
                left, right, cells = wide_left, wide_right, wide_cells
            n = _scan_row(left, right, cells, n, o, line, hashes, limit, floor, keyed, keys, order, dead, base, cuts, kinds)
            visited += width
    return left[:n], right[:n], cells[:n], visited
