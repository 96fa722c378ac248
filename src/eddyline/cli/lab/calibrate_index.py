"""The index part of `eddyline lab calibrate`: what addresses, runs and visited rows cost on this machine.

Answer   `measure_index` clusters random rows as templates do and reads the blocks with requests, which leave different
         numbers of address bits open. It finds the seconds per run and per visited row that explain the times best.
State    None.
Limits   CPU time of this process; the fastest of several runs counts. Two key columns of 2,048 values, eight blocks of
         65,536 rows: no cache of a core holds them.
Reading  docs/operators/index.md
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import process_time

import numpy as np

from eddyline.cli.lab.least_squares import explained
from eddyline.kernels.requests.request_blocks import Alone, read_blocks
from eddyline.operators.template.blocks import Fields, IndexBlock, clustered
from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.state.columns import Ints
from eddyline.tuning import TemplateTuning

#: Rows of a block, and how many blocks there are.
_ROWS, _BLOCKS = 1 << 16, 8
#: Values of a column.
_VALUES = 2048
#: Bits of the two fields of an address. Fewer bits give longer runs.
_WIDTHS = ((6, 7), (7, 6), (3, 4), (4, 3), (9, 2), (2, 9), (1, 5), (5, 1))
#: How many requests are timed together: too many for their rows to stay in the cache.
_REQUESTS = 200


def measure_index(repeats: int = 5) -> IndexCosts:
    rng = np.random.default_rng(7)
    key_columns = rng.integers(0, _VALUES, (2, _BLOCKS * _ROWS))
    requests = {column: rng.integers(0, _VALUES, (1, _REQUESTS)) for column in (0, 1)}
    room = np.empty(_BLOCKS * _ROWS, np.int64), np.empty(_BLOCKS * _ROWS, np.int64)
    counts, seconds = [], []
    for widths in _WIDTHS:
        # A request on the first column leaves the second field open, and the other way round.
        blocks = [_block(key_columns, number, widths) for number in range(_BLOCKS)]
        table = np.stack([block.line(2) for block in blocks])
        for column, keys in requests.items():
            every = np.zeros(_REQUESTS, np.int64), np.full(_REQUESTS, key_columns.shape[1])
            read = partial(read_blocks, table, Alone(np.array([column]), 1 << column, keys, *every), 0, *room)
            _, _, runs, visited = read()
            counts.append([runs, visited, _REQUESTS * _BLOCKS])
            seconds.append(_fastest(repeats, read))
    # The third cost is that of finding a block and of its matching rows, which every configuration has.
    run, visit, _block_cost = explained(counts, seconds).tolist()
    built = [_fastest(repeats, partial(_block, key_columns, 0, widths)) for widths in ((6, 6), (6, 0))]
    hashing = max(built[0] - built[1], 0.0) / _ROWS
    return IndexCosts(*(float(f"{cost:.3g}") for cost in (hashing, run, visit)))


def _block(key_columns: Ints, number: int, widths: tuple[int, int]) -> IndexBlock:
    first, stop = number * _ROWS, (number + 1) * _ROWS
    here = key_columns[:, first:stop]
    return clustered(Fields(widths), here, np.zeros(_ROWS, np.int64), np.arange(_ROWS), first, stop, TemplateTuning())


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
