"""How long epochs took, in bounded space.

Answer   `count`, `sum` and `max` are those of all epochs; the median and the 99th percentile are those of the newest
         ones.
State    The seconds of the newest 1,000 epochs, three numbers, and a histogram of all epochs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from eddyline.runtime.figures.histogram import SecondsHistogram

#: How many epochs the percentiles are of.
NEWEST = 1_000


class EpochTimes:
    """
    >>> times = EpochTimes([0.1, 0.3, 0.2])
    >>> times.count, times.summary()["max"], times.summary()["median"]
    (3, 0.3, 0.2)
    """

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        self.newest: deque[float] = deque(maxlen=NEWEST)
        self.count = 0
        self.sum = 0.0
        self.max = 0.0
        self.histogram = SecondsHistogram()
        for one in seconds:
            self.add(one)

    def add(self, seconds: float) -> None:
        self.newest.append(seconds)
        self.count += 1
        self.sum += seconds
        self.max = max(self.max, seconds)
        self.histogram.add((seconds,), (1,))

    def summary(self) -> dict[str, float]:
        """The figures as `--stats` shows them."""
        median, late = np.percentile(list(self.newest), [50, 99]).tolist() if self.newest else (0.0, 0.0)
        return {"count": self.count, "sum": self.sum, "max": self.max, "median": median, "p99": late}
