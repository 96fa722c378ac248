"""A clock that the test moves.

Answer   `now()` gives seconds, as the real clock does; only `advance` and `sleep` move it.
State    The current time, behind a lock.
Limits   It starts in the year 2100: code that reads another clock gets times that a test can tell apart.
"""

from __future__ import annotations

import threading

#: Somewhere in the year 2100: no real clock and no event time of a test is near.
FAR_AWAY = 4_102_444_817.25


class MovedClock:
    """Processing time that a test controls, also from another thread.

    >>> clock = MovedClock(100.0)
    >>> clock.advance(30)
    >>> clock.now()
    130.0
    """

    def __init__(self, start: float = FAR_AWAY):
        self._now = start
        self._lock = threading.Lock()

    def now(self) -> float:
        return self._now

    def instant(self) -> int:
        """`now()` in microseconds since 1970."""
        return int(self._now * 1e6)

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds}")
        with self._lock:
            self._now += seconds

    def sleep(self, seconds: float) -> None:
        """Move the clock forward instead of waiting."""
        self.advance(seconds)
