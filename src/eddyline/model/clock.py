"""Clocks: the only module that reads the time of the machine."""

from __future__ import annotations

import time
from typing import Protocol, runtime_checkable


class Clock(Protocol):
    def now(self) -> float:
        """Seconds from an arbitrary beginning; never goes back."""

    def sleep(self, seconds: float) -> None: ...


@runtime_checkable
class Calendar(Protocol):
    """A clock that knows the date too."""

    def instant(self) -> int:
        """Microseconds from 1970, UTC; may go back."""


class WallClock:
    def now(self) -> float:
        return time.monotonic()

    def instant(self) -> int:
        return time.time_ns() // 1000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


#: The clock of everything that is given no other.
WALL = WallClock()


def instant_of(clock: Clock) -> int:
    """Microseconds from 1970 by a clock; by the wall clock where it does not know the date."""
    return clock.instant() if isinstance(clock, Calendar) else WALL.instant()
