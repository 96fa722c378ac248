"""Requests meet rows: pairs of a probe and a row with equal keys inside the probe's range of rows.

Answer   `table_of` hashes probes; `scan` lets every row of a stretch look its probes up; `read_addresses` lets every
         probe read the runs of a clustered block that its fixed fields leave open. Both write pairs into buffers that
         the caller gives, and stop where these are full: the caller makes them larger and goes on.
State    None.
Limits   Keys of texts are hashes: the caller verifies the values. A row whose `nulls` meet the fixed columns matches
         nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from eddyline.kernels.hashing import fold, mix

#: Places of a table per probe, and the most places up to which it has these: 256 kB. Where no row matches, a row takes
#: 3.8 to 4.4 ns with 10 to 2,000 probes, and 7.8 to 11.5 ns with two places per probe (`python -m bench.papers.run
#: templates --steps costs`).
SPARSE, MOST_SPARSE = 16, 1 << 15


class Clustered(NamedTuple):
    """Rows of one block in the order of their addresses."""

    #: Where the rows of each address begin; one more than there are addresses.
    offsets: npt.NDArray[np.int32]
    #: Row ids, as distances from `first`.
    rows: npt.NDArray[np.int32]
    #: Keys, one line per grouping column, and bits of the columns that are null.
    keys: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.int64]
    first: int


class RequestStretch(NamedTuple):
    """Rows of a stretch that begins with row id `first`."""

    #: Keys, one line per fixed column, and bits of the columns that are null.
    keys: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.int64]
    #: Empty where every row counts.
    wanted: npt.NDArray[np.bool_]
    first: int


class Probes(NamedTuple):
    """Keys of the probes, one line per fixed column, and the ids of each one's rows, `high` excluded."""

    keys: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]


class ProbePlaces(NamedTuple):
    """Where probes read in a block: the fixed fields of each address, and the probes whose values the block can hold.

    `free` has the bits that the probes leave open, without the lowest ones: these are `low_free` in number and form one
    run.
    """

    address: npt.NDArray[np.int64]
    alive: npt.NDArray[np.bool_]
    free: int
    low_free: int


@njit(cache=True, inline="always")
def _hash_at(keys, at):
    h = mix(keys[0, at])
    for c in range(1, keys.shape[0]):
        h = fold(h, keys[c, at])
    return h


@njit(cache=True, nogil=True)
def table_of(keys):
    """Chains of probes by the hash of their keys: `heads` and `following`."""
    count = keys.shape[1]
    # In a sparse table most rows find an empty place, which a processor predicts; a large one would not fit its cache.
    size = 16
    while size < 2 * count or size < min(SPARSE * count, MOST_SPARSE):
        size *= 2
    heads = np.full(size, -1, np.int64)
    following = np.full(count, -1, np.int64)
    for p in range(count):
        bucket = _hash_at(keys, p) & np.uint64(size - 1)
        following[p] = heads[bucket]
        heads[bucket] = p
    return heads, following


@njit(cache=True, nogil=True)
def scan(stretch, fixed, probed, heads, following, begin, out_probe, out_row):
    """Rows from place `begin` of the stretch on look up the probes that they match.

    Args:
        fixed: the bits of the fixed columns.
        heads, following: the chains of the probes, as `table_of` gives them.

    Returns:
        the place of the first row that was not finished, pairs written.
    """
    keys, nulls, wanted, first = stretch
    probes, low, high = probed
    mask = np.uint64(len(heads) - 1)
    n = 0
    for row in range(begin, keys.shape[1]):
        if nulls[row] & fixed or (len(wanted) and not wanted[row]):
            continue
        id = first + row
        before = n
        p = heads[_hash_at(keys, row) & mask]
        while p >= 0:
            if low[p] <= id < high[p]:
                same = True
                for c in range(keys.shape[0]):
                    same &= probes[c, p] == keys[c, row]
                if same:
                    if n == len(out_probe):
                        return row, before
                    out_probe[n] = p
                    out_row[n] = id
                    n += 1
            p = following[p]
    return keys.shape[1], n


@njit(cache=True, nogil=True)
def read_addresses(block, columns, fixed, probed, places, begin, out_probe, out_row):
    """Probes from `begin` on read the rows behind their addresses.

    Args:
        block: a `Clustered`. `columns`: the lines of its keys that the probes fix, as bits in `fixed`.

    Returns:
        the first probe that was not finished, pairs written, runs begun, rows visited.
    """
    probes, low, high = probed
    address, alive, free, low_free = places
    n, runs, visited = 0, 0, 0
    width = 1 << low_free
    offsets, rows, keys, nulls, first = block.offsets, block.rows, block.keys, block.nulls, block.first
    for p in range(begin, len(address)):
        if not alive[p]:
            continue
        before = n
        part = 0
        while True:
            place = address[p] | part
            runs += 1
            for at in range(offsets[place], offsets[place + width]):
                visited += 1
                id = first + rows[at]
                if id < low[p] or id >= high[p] or nulls[at] & fixed:
                    continue
                same = True
                for c in range(len(columns)):
                    same &= probes[c, p] == keys[columns[c], at]
                if same:
                    if n == len(out_probe):
                        return p, before, runs, visited
                    out_probe[n] = p
                    out_row[n] = id
                    n += 1
            # The next subset of the free bits.
            part = (part - free) & free
            if part == 0:
                break
    return len(address), n, runs, visited
