"""All configurations that distribute a number of bits: how many there are, and in batches.

Answer   `count(caps, bits)` says how many vectors with 0 <= b_i <= caps[i] sum up to `bits`; without caps that is C(N +
         B - 1, B). `batches(lows, caps, bits)` makes them, a few ten thousand at a time.
State    None.
Limits   Memory for one batch per attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.int64]

#: Rows of a batch.
BATCH = 1 << 15


def count(caps: Sequence[int], bits: int, low: int = 0) -> int:
    """How many vectors with low <= b_i <= caps[i] sum up to `bits`.

    >>> count([16] * 4, 16), count([16] * 8, 16), count([16] * 10, 16)
    (969, 245157, 2042975)
    """
    ways = [1] + [0] * bits
    for cap in caps:
        ways = [sum(ways[total - own] for own in range(low, min(cap, total) + 1)) for total in range(bits + 1)]
    return ways[bits]


def batches(caps: Sequence[int], bits: int, low: int = 0) -> Iterator[Bits]:
    """The vectors of `count`, one per row.

    >>> [rows.tolist() for rows in batches([1, 2], 2)]
    [[[1, 1], [0, 2]]]
    """
    start = np.zeros((1, 0), np.int64)
    yield from _extend(start, np.array([bits]), tuple(caps), low)


def _extend(prefixes: Bits, left: Bits, caps: tuple[int, ...], low: int) -> Iterator[Bits]:
    if not len(left):
        return
    if not caps:
        yield prefixes
        return
    after, least = sum(caps[1:]), low * (len(caps) - 1)
    grown, rest = [np.zeros((0, prefixes.shape[1] + 1), np.int64)], [left[:0]]
    for own in range(low, caps[0] + 1):
        # The attributes that follow have to take the bits that are left.
        fits = (left - own >= least) & (left - own <= after)
        grown.append(np.column_stack([prefixes[fits], np.full(int(fits.sum()), own, np.int64)]))
        rest.append(left[fits] - own)
    together, remaining = np.concatenate(grown), np.concatenate(rest)
    for first in range(0, len(remaining), BATCH):
        yield from _extend(together[first : first + BATCH], remaining[first : first + BATCH], caps[1:], low)
