"""Groups of requests' rows, and plain aggregates of whole numbers over them.

Answer   `group_rows` numbers the groups of rows by (request, keys), `group_requests` by request alone. `sum_groups`
         gives per group the number of values, their sum, the least and the greatest.
State    None.
Limits   Keys of texts are hashes: the caller verifies that the rows of a group have equal values. Sums wrap:
         `sum_groups` returns how large the values are that were added.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.hashing import fold, mix

_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def group_rows(request, at, keys, nulls, columns, mask):
    """The group of each row, and the first row of each group; groups are numbered as they come.

    Args:
        request: per row; at: its place in `keys` and `nulls`, which have one line per column of the template.
        columns: the columns that rows are grouped by; mask: the same as bits. The key of a null is not read.
    """
    rows = len(request)
    size = 16
    while size < 2 * rows:
        size *= 2
    heads = np.full(size, -1, np.int64)
    codes, firsts = np.empty(rows, np.int64), np.empty(rows, np.int64)
    count = 0
    for row in range(rows):
        here = at[row]
        missing = nulls[here] & mask
        h = fold(mix(request[row]), missing)
        for c in range(len(columns)):
            if not missing >> columns[c] & 1:
                h = fold(h, keys[columns[c], here])
        place = np.int64(h & np.uint64(size - 1))
        while True:
            group = heads[place]
            if group < 0:
                heads[place] = count
                firsts[count] = row
                codes[row] = count
                count += 1
                break
            other = at[firsts[group]]
            same = request[firsts[group]] == request[row] and nulls[other] & mask == missing
            for c in range(len(columns)):
                same &= keys[columns[c], other] == keys[columns[c], here] or missing >> columns[c] & 1 == 1
            if same:
                codes[row] = group
                break
            place = (place + 1) & (size - 1)
    return codes, firsts[:count]


@njit(cache=True, nogil=True)
def group_requests(request, requests):
    """As `group_rows` where rows are grouped by their request alone; `requests` is the number after the last
    request."""
    number = np.full(requests, -1, np.int64)
    codes, firsts = np.empty(len(request), np.int64), np.empty(requests, np.int64)
    count = 0
    for row in range(len(request)):
        if number[request[row]] < 0:
            number[request[row]] = count
            firsts[count] = row
            count += 1
        codes[row] = number[request[row]]
    return codes, firsts[:count]


@njit(cache=True, nogil=True)
def sum_groups(codes, at, values, valid, found):
    """Write per group how many values it has, their sum, the least and the greatest: four lines of `found`.

    Args:
        at: per row its place in `values` and `valid`; `valid` is empty where all are.

    Returns:
        the largest sum of absolute values, as a float.
    """
    counts, sums, least, greatest = found[0], found[1], found[2], found[3]
    counts[:], sums[:], least[:], greatest[:] = 0, 0, _GREATEST, _LEAST
    sizes = np.zeros(len(counts), np.float64)
    for row in range(len(codes)):
        if len(valid) and not valid[at[row]]:
            continue
        g, value = codes[row], np.int64(values[at[row]])
        counts[g] += 1
        sums[g] += value
        sizes[g] += abs(np.float64(value))
        least[g], greatest[g] = min(least[g], value), max(greatest[g], value)
    largest = 0.0
    for g in range(len(sizes)):
        largest = max(largest, sizes[g])
    return largest
