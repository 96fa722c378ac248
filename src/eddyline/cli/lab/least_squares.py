"""Costs per operation that explain measured times.

Answer   `explained(counts, seconds)`: one row of counts per run, one column per operation.
State    None.
Limits   An operation that the runs hardly do gets the cost 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def explained(counts: list[list[int]], seconds: list[float]) -> npt.NDArray[np.float64]:
    """Costs per operation, none below 0, with the least sum of squares of relative errors.

    >>> explained([[1, 0], [0, 10], [2, 10]], [3.0, 20.0, 26.0]).round(6).tolist()
    [3.0, 2.0]
    """
    shares = np.array(counts, np.float64) / np.array(seconds)[:, None]
    used = list(range(shares.shape[1]))
    while True:
        found = np.linalg.lstsq(shares[:, used], np.ones(len(shares)), rcond=None)[0]
        if (found >= 0).all():
            break
        # The fit gives a cost below 0 to an operation that the runs do too rarely to be measured: its cost is set to 0.
        used.pop(int(found.argmin()))
    costs = np.zeros(shares.shape[1])
    costs[used] = found
    return costs
