"""Stretches of a batch that no filter can want.

Answer   `Stretches.compared` compares the least and greatest keys of every 64 rows with the ranges of a column that all
         filters have conditions on. Rows of stretches that no range meets are left out before rows are sorted.

             rows of a batch   |3 ── 9|40 ─── 47|55 ── 61|          stretches
             ranges                 8 ── 12        50 ───── 70      the rows 40 ─── 47 are left out

State    None.
Limits   A column with a null leaves no stretch out, nor does a column on which some filter has no condition.
Reading  docs/heralds.md
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyline.model.records.records import Flags
from eddyline.operators.sharing.interval_index import IntervalIndex
from eddyline.state.columns import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """What is left of a batch."""

    #: The rows that are left; None: all of them.
    rows: Ints | None
    left_out: int = 0

    @staticmethod
    def compared(index: IntervalIndex, keys: np.ndarray, valid: np.ndarray, size: int) -> Stretches:
        """Compare the stretches of `size` rows of a batch (a line of keys per column) with the ranges of its
        columns."""
        count = keys.shape[1]
        is_open: Flags | None = None
        for column in index.named_by_all():
            if valid[column].all():
                met = index.met(column, keys[column], size)
                is_open = met if is_open is None else is_open & met
        if is_open is None or is_open.all():
            return Stretches(None)
        rows = np.flatnonzero(np.repeat(is_open, size)[:count])
        return Stretches(rows, count - len(rows))
