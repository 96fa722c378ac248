"""Pairs that kernels write into buffers, and exact counts of the rows and runs that they read.

Answer   `Visits` counts for all access paths of a template. `read_all` calls a kernel until all probes are read.
State    The counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eddyline.state.columns import Ints, joined_pairs

#: Goes on at a place and fills buffers of probes and rows. Returns the next place and the number of pairs; many kernels
#: also return the runs that they began, and last the rows that they read.
PairKernel = Callable[[int, Ints, Ints], tuple[int, ...]]


@dataclass(slots=True)
class Visits:
    rows: int = 0
    runs: int = 0


def read_all(kernel: PairKernel, end: int, room: int, visits: Visits | None = None) -> tuple[Ints, Ints]:
    """All pairs (probe, row) that a kernel writes from place 0 to `end`; `room` is the size of the first buffers."""
    made: list[tuple[Ints, Ints]] = []
    begin = 0
    while begin < end:
        out_probe, out_row = np.empty(room, np.int64), np.empty(room, np.int64)
        begin, count, *read = kernel(begin, out_probe, out_row)
        if visits is not None and read:
            visits.rows += read[-1]
            visits.runs += sum(read[:-1])
        made.append((out_probe[:count], out_row[:count]))
        room *= 2
    return joined_pairs(made)
