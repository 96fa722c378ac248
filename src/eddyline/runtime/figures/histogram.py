"""How many of some times were at most so long: the buckets of a Prometheus histogram.

Answer   `SecondsHistogram.add` counts times; `as_json` gives the counts by bucket and the sum of all times. A time lies
         in the first bucket whose bound is at least as large.
State    One count per bucket and one sum, since the run began.
Limits   The bounds are fixed: figures of several runs and jobs add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

#: Upper bounds of the buckets, in seconds; a last bucket has no bound. From a small epoch to a window's wait.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # fmt: skip
_ENDS = np.array(BOUNDS)


class SecondsHistogram:
    """
    >>> histogram = SecondsHistogram()
    >>> histogram.add([0.001, 0.3, 900.0], [1, 2, 4])
    >>> histogram.as_json()["counts"][0], histogram.as_json()["counts"][-1], histogram.as_json()["sum"]
    (1, 4, 3600.601)
    """

    def __init__(self) -> None:
        self._counts: npt.NDArray[np.int64] = np.zeros(len(BOUNDS) + 1, np.int64)
        self._sum = 0.0

    def add(
        self, seconds: Iterable[float] | npt.NDArray[np.float64], counts: Iterable[int] | npt.NDArray[np.int64]
    ) -> None:
        """Count times; `counts` says how often each of them was."""
        times, often = np.asarray(seconds, np.float64), np.asarray(counts, np.int64)
        np.add.at(self._counts, np.searchsorted(_ENDS, times, side="left"), often)
        self._sum += float(times @ often)

    def as_json(self) -> dict[str, Any]:
        return {"counts": self._counts.tolist(), "sum": self._sum}
