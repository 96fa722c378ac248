"""Rows of a table that come at its end and stay.

Answer   `append` takes rows, `take` gives the rows at some places.
State    Few tables, each at most half as long as the one before: a row is copied as often as the logarithm of their
         number.
Limits   All rows have the same columns.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.state.columns import Ints


class GrowingTable:
    def __init__(self) -> None:
        self.parts: list[pa.Table] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def append(self, table: pa.Table) -> None:
        if not len(table):
            return
        self.parts.append(table)
        self._count += len(table)
        while len(self.parts) > 1 and 2 * len(self.parts[-1]) > len(self.parts[-2]):
            self.parts[-2:] = [pa.concat_tables(self.parts[-2:]).combine_chunks()]

    def take(self, places: Ints) -> pa.Table:
        """The rows at some places, in any order; the table has at least one row."""
        first, parts = 0, []
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        for part in self.parts:
            begin, end = np.searchsorted(ordered, [first, first + len(part)])
            if begin < end or part is self.parts[-1]:
                parts.append(part.take(pa.array(ordered[begin:end] - first)))
            first += len(part)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).take(pa.array(back))
