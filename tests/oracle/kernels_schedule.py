"""Slow twins of `kernels/joins/schedule.py`: the queue with the highest priority, one (batch, window) at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eddyline.operators.join.scheduling.schedulers import Scheduler

Matrix = Sequence[Sequence[float]]


def next_level(done: Sequence[int], priority: Matrix, onward: Matrix, hand: int) -> int:
    """The waiting queue of the highest priority; of equal ones the larger window. -1: no batch waits."""
    waiting = [level for level in range(len(done) - 1) if done[level + 1] < done[level]]

    def value(level: int) -> tuple[float, int]:
        above = min((other for other in waiting if other > level), default=len(done) - 1)
        return float((onward if level == hand else priority)[level][above]), level

    return max(waiting, key=value, default=-1)


def drained(scheduler: Scheduler, batches: int) -> Iterator[tuple[int, int]]:
    """All work as (batch, window), one decision after every window of a batch."""
    done = [batches, *(0 for _ in scheduler.priority)]
    while (level := next_level(done, scheduler.priority.tolist(), scheduler.onward.tolist(), -1)) >= 0:
        yield done[level + 1], level
        done[level + 1] += 1
