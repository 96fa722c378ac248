"""Which stretches of keys meet ranges, before single keys are looked up.

Answer   `met_stretches` says of stretches of keys, which are of one size, whether some range meets them.
State    None.
Limits   Ranges come by their low ends; `reach` has the highest high end so far.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_LEAST = np.int64(-(2**63))
_MOST = np.int64(2**63 - 1)


@njit(cache=True, nogil=True)
def met_stretches(keys, size, lows, reach):
    """Of every `size` keys, whether their least and greatest meet a range."""
    met = np.empty((len(keys) + size - 1) // size, np.bool_)
    for i in range(len(met)):
        least, most = _MOST, _LEAST
        for row in range(i * size, min(len(keys), (i + 1) * size)):
            least = min(least, keys[row])
            most = max(most, keys[row])
        # Of the ranges that begin early enough, the one that reaches furthest decides.
        at = np.searchsorted(lows, most, side="right")
        met[i] = at > 0 and reach[at - 1] >= least
    return met
