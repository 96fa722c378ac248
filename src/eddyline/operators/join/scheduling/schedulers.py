"""LWO, SWF, MQT: whose window is served next in a shared join.

Answer   A scheduler is a matrix of priorities and a release rule. Queue i holds the rows (or batches of rows) that have
         finished window i; `priority[i, j]` is the worth of serving queue i when the next fuller queue above it is j (N:
         none). `onward[i, j]` is that worth for a row that is in hand and need not be taken up.

             LWO   the largest window only: the oldest row is finished before the next one starts
             SWF   the smallest window first: no row goes on while another waits for a smaller window
             MQT   the stretch that serves the most queries per unit of work (see throughput.py)

State    None: the matrix is made anew when a query comes or goes.
Limits   No row overtakes an older one in any window, so the order of each query's results never depends on the
         scheduler.
Reading  docs/operators/scheduling.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.errors import SettingProblem
from eddyline.operators.join.scheduling.throughput import Matrix, max_throughput


@dataclass(frozen=True)
class Scheduler:
    name: str
    priority: Matrix
    onward: Matrix
    #: Results of the oldest unfinished row go out as they are made; otherwise when the row has finished the window.
    early: bool


def largest_window_only(windows: Sequence[float], queries: Sequence[int], again: float) -> Matrix:
    levels = np.arange(len(windows), dtype=np.float64)
    return np.repeat(levels[:, None], len(windows) + 1, axis=1)


def smallest_window_first(windows: Sequence[float], queries: Sequence[int], again: float) -> Matrix:
    return -largest_window_only(windows, queries, again)


#: By the name that SET scheduler takes: the priorities, and whether results may go out early.
SCHEDULERS: dict[str, tuple[Callable[[Sequence[float], Sequence[int], float], Matrix], bool]] = {
    "lwo": (largest_window_only, True),
    "swf": (smallest_window_first, False),
    "mqt": (max_throughput, True),
}


def scheduler(name: str, windows: Sequence[float], queries: Sequence[int], again: float = 0.0) -> Scheduler:
    """The scheduler for windows of ascending size and the number of queries of each, where taking a row up costs
    `again`.

    >>> scheduler("swf", [1.0, 60.0], [1, 1]).priority[:, 2].tolist()
    [-0.0, -1.0]
    """
    if name not in SCHEDULERS:
        raise SettingProblem(f"there is no scheduler {name!r}", hint=f"one of {', '.join(SCHEDULERS)}")
    priority, early = SCHEDULERS[name]
    return Scheduler(name, priority(windows, queries, again), priority(windows, queries, 0.0), early)
