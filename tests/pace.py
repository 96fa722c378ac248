"""The pace of this machine: a bound on CPU time is a number of seconds on the machine where it was chosen, and more on
a slower one."""

from __future__ import annotations

import time

import numpy as np

#: CPU seconds of `_round` on two cores that had other work too: the least of twenty rounds was 0.0071.
_THERE = 0.0075


def slowness() -> float:
    """By how much this machine is slower now; at least 1: a bound holds on every faster machine as it stands."""
    return max(1.0, min(_round() for _ in range(3)) / _THERE)


def crowding() -> float:
    """The seconds that pass while this process gets one second of a processor: more than 1 where others have their turns
    too. A bound on seconds is multiplied by it and by `slowness`."""
    began, worked = time.monotonic(), time.process_time()
    while time.process_time() - worked < 0.1:
        pass
    return max(1.0, (time.monotonic() - began) / 0.1)


def _round() -> float:
    """The CPU time of a fixed piece of work: some of it in Python, some of it in memory."""
    began = time.thread_time()
    sum({number: str(number) for number in range(40_000)})
    np.sort(np.random.default_rng(1).random(100_000))
    return time.thread_time() - began
