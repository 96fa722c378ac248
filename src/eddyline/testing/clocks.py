"""A clock that the test moves.

Answer   `now()` gives seconds, as the real clock does; only `advance` and `sleep` move it.
Limits   It starts at an odd, far-away time, so that code that reads another clock gives itself away.
"""

from __future__ import annotations

import threading

#: Somewhere in the year 2100: no real clock and no event time of a test is near.
FAR_AWAY = 4_102_444_817.25


class MovedClock:
    """Processing time under a test's control; may be moved from another thread.

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
        """The same as microseconds from 1970."""
        return int(self._now * 1e6)

    def advance(self, seconds: float) -> None:
        """Moves the clock forward."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds}")
        with self._lock:
            self._now += seconds

    def sleep(self, seconds: float) -> None:
        """What code under test calls to wait: time has passed when it returns."""
        self.advance(seconds)
