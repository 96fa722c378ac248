"""A shared window join under a virtual clock: exact response times for given costs, without running the join.

Answer   `work` finds what each new row of two streams has to do in each strip of the other's window; `play` runs it
         under a scheduler and gives, per window, results and their mean, p95 and largest response time (from the
         arrival of the newest row to the release), and the largest scheduling and output buffers.

             strip i of a row: the rows of the other stream with an age in (window i-1, window i]

State    None. The same input gives the same figures on every machine.
Limits   One server; a decision after every (row, strip). p95 is exact to one part in a thousand, everything else to
         rounding.
Reading  docs/operators/scheduling.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.simulation import kernels
from eddyline.operators.join.scheduling.schedulers import scheduler
from eddyline.state.columns import Ints

#: Strips are looked at twice rather than their results kept, where there is no room, up to windows of this part of the
#: largest.
LOOK_AGAIN = 0.1

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """Seconds per unit of work (its start), per row looked at, per result made."""

    per_unit: float = 0.0
    per_row: float = 1e-6
    per_result: float = 0.0


@dataclass(frozen=True)
class Work:
    arrival: Floats
    cost: Floats
    starts: Ints
    ready: Floats
    windows: tuple[float, ...]

    @property
    def load(self) -> float:
        """Busy time over the time in which the rows arrive."""
        return float(self.cost.sum() / (self.arrival[-1] - self.arrival[0]))


@dataclass(frozen=True)
class Played:
    """Per window, ascending; buffers in rows and results."""

    results: Ints
    mean: Floats
    p95: Floats
    worst: Floats
    scheduling_buffer: int
    #: Rows with an entry in the output buffer: rows with results that some window has not released yet. The entry holds
    #: the results so far.
    output_rows: int
    output_buffer: int
    #: (row, strip) in the order of work.
    units: npt.NDArray[np.int32]
    ended: float

    def overall(self, queries: Sequence[int]) -> float:
        """The mean over queries of their mean response times."""
        seen = self.results > 0
        return float(np.average(self.mean[seen], weights=np.asarray(queries)[seen]))


def work(
    side: npt.NDArray[np.int64],
    ts: Floats,
    key: Ints,
    windows: Sequence[float],
    *,
    first: int = 0,
    counted: bool = False,
    buckets: int = 1,
    costs: Costs | None = None,
) -> Work:
    """What rows in total order have to do; those before `first` are there already.

    Args:
        side: which of the two streams each row belongs to.
        windows: ascending, in seconds; with `counted`, in rows.
        buckets: of the hash table; 1 is a nested loop.
    """
    costs = costs or Costs()
    if counted:
        number = np.where(side == 0, np.cumsum(side == 0), np.cumsum(side == 1)) - 1
        seen = np.where(side == 0, np.cumsum(side == 1), np.cumsum(side == 0))
        outer, inner = seen.astype(np.float64), number.astype(np.float64)
    else:
        outer = inner = ts
    sizes = np.asarray(windows, np.float64)
    cost, starts, ready = kernels.unit_work(
        side,
        key % buckets,
        key,
        outer,
        inner,
        buckets,
        sizes,
        first,
        float(costs.per_unit),
        costs.per_row,
        costs.per_result,
    )
    return Work(np.ascontiguousarray(ts[first:]), cost, starts, ready, tuple(windows))


def play(
    job: Work, name: str, queries: Sequence[int] | None = None, *, early: bool | None = None, room: int | None = None
) -> Played:
    """The work under a scheduler.

    Args:
        queries: the queries per window; default: one each.
        early: changes the scheduler's release rule.
        room: the most results that the output buffer holds. A row whose results do not fit keeps none and looks at its
        strips again
            later, while these are small; otherwise the oldest row goes on first. Without early release it has to be
            enough for the results of one row.
    """
    chosen = scheduler(name, job.windows, queries or [1] * len(job.windows))
    release = chosen.early if early is None else early
    most = np.iinfo(np.int64).max if room is None else room
    if room is not None and not release:
        # A row that goes on because nothing else fits holds its own results then.
        most -= int(np.diff(job.starts[:: len(job.windows)]).max())
    again = np.array(job.windows) <= LOOK_AGAIN * job.windows[-1]
    counts, sums, worst, spread, units, rows, entries, held, ended = kernels.simulate(
        job.arrival, job.cost, job.starts, job.ready, chosen.priority, release, most, again
    )
    mean = sums / np.maximum(counts, 1)
    p95 = np.array([_quantile(line, count, 0.95) for line, count in zip(spread, counts, strict=True)])
    return Played(counts, mean, np.minimum(p95, worst), worst, int(rows), int(entries), int(held), units, float(ended))


def _quantile(spread: Ints, count: int, share: float) -> float:
    if not count:
        return 0.0
    place = int(np.searchsorted(np.cumsum(spread), share * count))
    return float(kernels.LEAST * np.exp(place * kernels.STEP))
