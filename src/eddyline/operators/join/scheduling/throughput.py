"""Query throughput: how many queries a stretch of a window serves per unit of scanning.

Answer   `max_throughput(windows, queries)[i, j]` is the best of (queries served by going from window i to window k) /
         (size of that stretch), for i < k <= j. It is MaxQT of a row that has finished window i behind one that has
         finished window j. Window 0 has size 0; column N is also for "no row is ahead".
State    None. The matrix changes only when a query comes or goes.

             windows 2, 3, 6, a query each     j = 1     2     3
                                       i = 0     1/2   2/3   2/3
                                           1           1     1
                                           2                 1/3

Limits   Sizes rise strictly. The time to scan a stretch is taken to be proportional to its size; where it costs
         something to take a row up again, so much is added to every stretch.
Reading  docs/operators/scheduling.md
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]

#: A stretch that costs nothing counts as this much: small, and any number of queries divided by it is finite.
_LEAST = 1e-200


def max_throughput(windows: Sequence[float], queries: Sequence[int], again: float = 0.0) -> Matrix:
    """The matrix for windows of ascending size and the number of queries of each; `again` is added to the size of every
    stretch.

    >>> max_throughput([2, 3, 6], [1, 1, 1])[1].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    sizes = np.concatenate([[0.0], np.asarray(windows, np.float64)])
    served = np.concatenate([[0], np.cumsum(queries)]).astype(np.float64)
    best = np.zeros((len(windows), len(sizes)))
    for i in range(len(windows)):
        rates = (served[i + 1 :] - served[i]) / np.maximum(sizes[i + 1 :] - sizes[i] + again, _LEAST)
        best[i, i + 1 :] = np.maximum.accumulate(rates)
    return best
