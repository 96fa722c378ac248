"""Rows of a table that come at its end and stay.

Answer   `append` takes rows, `take` gives the rows at some places.
State    Few tables, each at most half as long as the one before: a row is copied as often as the logarithm of their
         number.
Limits   All rows have the same columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
        self.parts.append(table.select(self.parts[0].column_names) if self.parts else table)
        self._count += len(table)
        while len(self.parts) > 1 and 2 * len(self.parts[-1]) > len(self.parts[-2]):
            self.parts[-2:] = [pa.concat_tables(self.parts[-2:]).combine_chunks()]

    def take(self, places: Ints, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows at some places, in any order; the table has at least one row. `columns`: some of them."""
        first, parts = 0, []
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        for part in self.parts:
            begin, end = np.searchsorted(ordered, [first, first + len(part)])
            if begin < end or part is self.parts[-1]:
                here = part if columns is None else part.select(columns)
                parts.append(here.take(pa.array(ordered[begin:end] - first)))
            first += len(part)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).take(pa.array(back))

    # -- columns

    def missing(self, names: Iterable[str]) -> list[tuple[str, pa.DataType]]:
        """The columns that are not among these."""
        known = set(names)
        return [(field.name, field.type) for part in self.parts[:1] for field in part.schema if field.name not in known]

    def widen(self, columns: Mapping[str, pa.DataType]) -> bool:
        """The rows have these columns, null in new ones; returns whether there are new ones."""
        new = {n: kind for n, kind in columns.items() if self.parts and n not in self.parts[0].column_names}
        for at, part in enumerate(self.parts):
            for name, kind in new.items():
                part = part.append_column(name, pa.nulls(len(part), kind))
            self.parts[at] = part
        return bool(new)
