"""Runs of rows: neighbours with equal values.

Answer   `run_begins` flags the first row of each run. `places_within` numbers the rows of each run from 0.
State    None.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def run_begins(*columns: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """True at the first row, and where a row differs from the row before it in one of the columns.

    >>> run_begins(np.array([7, 7, 8]), np.array([1, 2, 2])).tolist()
    [True, True, True]
    """
    begins = np.ones(len(columns[0]), np.bool_)
    if len(begins) > 1:
        begins[1:] = columns[0][1:] != columns[0][:-1]
        for column in columns[1:]:
            begins[1:] |= column[1:] != column[:-1]
    return begins


def places_within(sizes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The place of each row in its run, for runs of these sizes, one after the other.

    >>> places_within(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
