"""The scheduling queues of a shared window join: which batch has finished which window.

Answer   `units` are the stretches of work in the order in which the scheduler wants them: some batches, next to each
         other, through some windows, one after the other.
State    One number per window: how many batches have finished it. Batches finish every window in total order, so queue
         i is the range between two of these numbers, and its head is the oldest batch in it.
Limits   All batches are here from the start: an epoch is known as a whole.
Reading  docs/operators/scheduling.md
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.kernels.joins.schedule import next_unit
from eddyline.operators.join.scheduling.schedulers import Scheduler
from eddyline.state.columns import Ints


@dataclass(frozen=True, slots=True)
class ScheduledWork:
    """The batches first … stop-1 go through the windows low … high-1."""

    first: int
    stop: int
    low: int
    high: int


class SchedulingQueues:
    """
    >>> from eddyline.operators.join.scheduling.schedulers import scheduler
    >>> queues = SchedulingQueues(scheduler("mqt", [2, 3, 6], [1, 1, 1]), 2)
    >>> [(unit.first, unit.low, unit.high) for unit in queues.units(np.array([0, 9, 18]), np.zeros((3, 4)))]
    [(0, 0, 2), (1, 0, 2), (0, 2, 3), (1, 2, 3)]
    """

    def __init__(self, scheduler: Scheduler, batches: int) -> None:
        self.scheduler = scheduler
        self.done = np.zeros(len(scheduler.priority) + 1, np.int64)
        self.done[0] = batches

    def units(self, bounds: Ints, need: npt.NDArray[np.float64]) -> Iterator[ScheduledWork]:
        """The work in the order of the priorities: a batch goes on as long as it is its turn anyway. The batches behind
        it that go the same way next come along until there are `need[low, high]` rows. `bounds` are the places where
        the rows of each batch begin."""
        while True:
            unit = ScheduledWork(*next_unit(self.done, self.scheduler.priority, self.scheduler.onward, bounds, need))
            if unit.low < 0:
                return
            yield unit
