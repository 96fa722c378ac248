"""The index part of `eddyline calibrate`: what addresses, runs and visited rows cost on this machine.

Answer   `measure_index` clusters random rows by address, reads them with requests that leave different numbers of bits open, and finds the
         seconds per run and per visited row that explain the times best.
State    None.
Limits   CPU time of this process; the fastest of several runs counts. Key columns of 64-bit words, one block of 65,536 rows.
Reading  docs/operators/index.md
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np

from eddyline.cli.least_squares import explained
from eddyline.kernels.clustered import addresses, cluster, read_runs
from eddyline.plan.index_costs import IndexCosts

#: Rows of a block.
_ROWS = 1 << 16
#: Bits of the two fields of an address. Fewer bits give longer runs.
_WIDTHS = ((6, 7), (7, 6), (3, 4), (4, 3), (9, 2), (2, 9))
#: How many requests are timed together.
_REQUESTS = 32


def measure_index(repeats: int = 5) -> IndexCosts:
    lots = np.random.default_rng(7)
    words = lots.integers(0, 2048, (2, _ROWS))
    hashing = _fastest(repeats, lambda: addresses(words, np.array(_WIDTHS[0]))) / words.size
    # Requests on the first column leave the second field open, and the other way round.
    counts, seconds = [], []
    for widths in _WIDTHS:
        fields = np.array(widths)
        address = addresses(words, fields)
        order, offsets = cluster(address, 1 << sum(widths))
        clustered = np.ascontiguousarray(words[:, order])
        for column, mask in ((0, (1 << widths[0]) - 1), (1, ((1 << widths[1]) - 1) << widths[0])):
            fixed, free = np.array([column]), ((1 << sum(widths)) - 1) & ~mask
            asked = lots.integers(0, _ROWS, _REQUESTS)
            keys = [(np.array([words[column, row]]), int(address[row]) & mask) for row in asked]
            ask = lambda offsets=offsets, clustered=clustered, fixed=fixed, keys=keys, free=free: [
                read_runs(offsets, clustered, fixed, key, at, free) for key, at in keys
            ]
            found = np.array(ask())
            counts.append([int(found[:, 1].sum()), int(found[:, 2].sum()), len(keys)])
            seconds.append(_fastest(repeats, ask))
    # The third cost is that of a call from Python, which the index does not have.
    run, visit, _call = explained(counts, seconds).tolist()
    return IndexCosts(*(float(f"{cost:.3g}") for cost in (hashing, run, visit)))


def _fastest(repeats: int, work: Callable[[], object]) -> float:
    """CPU seconds of one call; each timing lasts a few milliseconds."""
    work()
    best = float("inf")
    for _ in range(max(repeats, 1)):
        rounds, began = 0, process_time()
        while process_time() - began < 0.01:
            work()
            rounds += 1
        best = min(best, (process_time() - began) / rounds)
    return best
