"""The scheduling queues of a shared window join: which batch has finished which window.

Answer   `next` is the (batch, window) that the scheduler would work on now; `finish` notes that it is done.
State    One number per window: how many batches have finished it. Batches finish every window in total order, so queue i is
         the range between two of these numbers, and its head is the oldest batch in it.
Limits   All batches are here from the start: an epoch is known as a whole.
Reading  docs/operators/scheduling.md
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eddyline.kernels.schedule import next_level
from eddyline.operators.join.schedulers import Scheduler


class SchedulingQueues:
    """
    >>> from eddyline.operators.join.schedulers import scheduler
    >>> queues = SchedulingQueues(scheduler("mqt", [2, 3, 6], [1, 1, 1]), 2)
    >>> list(queues.drain())
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
    """

    def __init__(self, scheduler: Scheduler, batches: int) -> None:
        self.scheduler = scheduler
        self.done = np.zeros(len(scheduler.priority) + 1, np.int64)
        self.done[0] = batches

    @property
    def next(self) -> tuple[int, int] | None:
        level = int(next_level(self.done, self.scheduler.priority))
        return None if level < 0 else (int(self.done[level + 1]), level)

    def finish(self, level: int) -> None:
        self.done[level + 1] += 1

    def drain(self) -> Iterator[tuple[int, int]]:
        """All units in the order of work."""
        while (unit := self.next) is not None:
            yield unit
            self.finish(unit[1])
