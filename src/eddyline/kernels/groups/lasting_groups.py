"""Groups of keys that are kept from call to call: rows enter them and leave them.

Answer   `enter_groups` finds or makes the groups of rows and adds their values. `leave_groups` subtracts the values of
         rows. `merge_groups` adds up groups by a coarser number.
State    In the caller's arrays: chains of groups by hash, and per group keys, rows, values and sums.
Limits   Keys of texts are hashes: the caller verifies the values. Arrays have room for as many groups as rows may
         bring.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from eddyline.kernels.hashing import fold, mix


class Groups(NamedTuple):
    """`heads` and `following` are chains of groups; `keys` has one line per grouping column; `counts`, `sums` one per
    summed column."""

    heads: npt.NDArray[np.int64]
    following: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.int64]
    #: Rows in the group, and the id of the newest.
    rows: npt.NDArray[np.int64]
    newest: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    sums: npt.NDArray[np.int64]


@njit(cache=True, inline="always")
def _bucket(keys, nulls, at, mask):
    h = mix(nulls[at])
    for c in range(len(keys)):
        if not nulls[at] >> c & 1:
            h = fold(h, keys[c, at])
    return h & mask


@njit(cache=True, nogil=True)
def chain_groups(groups, count):
    """Chain all groups; the chains are empty."""
    mask = np.uint64(len(groups.heads) - 1)
    for g in range(count):
        bucket = _bucket(groups.keys, groups.nulls, g, mask)
        groups.following[g] = groups.heads[bucket]
        groups.heads[bucket] = g


@njit(cache=True, nogil=True)
def enter_groups(groups, count, keys, nulls, ids, values, valid, codes):
    """Rows enter their groups, which are written to `codes`; returns the number of groups.

    Args:
        count: groups so far.
        keys, nulls: of the rows, one line per grouping column; values, valid: one line per summed column.
    """
    mask = np.uint64(len(groups.heads) - 1)
    for row in range(len(ids)):
        missing = nulls[row]
        bucket = _bucket(keys, nulls, row, mask)
        g = groups.heads[bucket]
        while g >= 0:
            same = groups.nulls[g] == missing
            for c in range(len(keys)):
                same &= groups.keys[c, g] == keys[c, row] or missing >> c & 1 == 1
            if same:
                break
            g = groups.following[g]
        if g < 0:
            g = count
            count += 1
            groups.following[g] = groups.heads[bucket]
            groups.heads[bucket] = g
            groups.nulls[g] = missing
            for c in range(len(keys)):
                groups.keys[c, g] = keys[c, row]
        codes[row] = g
        groups.rows[g] += 1
        groups.newest[g] = ids[row]
        for c in range(len(values)):
            if valid[c, row]:
                groups.counts[c, g] += 1
                groups.sums[c, g] += values[c, row]
    return count


@njit(cache=True, nogil=True)
def leave_groups(groups, codes, values, valid):
    """Rows leave their groups; a row with the code -1 is in none."""
    for row in range(len(codes)):
        g = codes[row]
        if g < 0:
            continue
        groups.rows[g] -= 1
        for c in range(len(values)):
            if valid[c, row]:
                groups.counts[c, g] -= 1
                groups.sums[c, g] -= values[c, row]


@njit(cache=True, nogil=True)
def merge_groups(groups, chosen, codes, total):
    """Groups `chosen` added up by their numbers in `codes`: rows, and per summed column values and sums."""
    columns = len(groups.sums)
    rows = np.zeros(total, np.int64)
    counts, sums = np.zeros((columns, total), np.int64), np.zeros((columns, total), np.int64)
    for at in range(len(chosen)):
        g, into = chosen[at], codes[at]
        rows[into] += groups.rows[g]
        for c in range(columns):
            counts[c, into] += groups.counts[c, g]
            sums[c, into] += groups.sums[c, g]
    return rows, counts, sums
