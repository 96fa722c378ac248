"""Rows that wait for an instant of EMIT EVERY.

Answer   `append` takes rows in the order of time, `until` gives those up to an instant, which wait no more. `snapshot`
         names the blocks of the rows that wait; rows of the last snapshot are not written again.
State    The rows in parts, in their order. Rows have consecutive numbers, the oldest the least.
Limits   Numbers begin anew, and the next snapshot writes all rows, when more rows have left than wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Generic, TypeVar

import numpy as np

from eddyline.operators.aggregate import tables
from eddyline.operators.aggregate.accumulators.encoding import ALL
from eddyline.operators.aggregate.contributions import EncodedRows
from eddyline.operators.row_blocks import ROW_NUMBER, RowBlocks
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Array, Ints

Rows = TypeVar("Rows", bound=EncodedRows)


class InstantQueue(Generic[Rows]):
    def __init__(self, kind: type[Rows]) -> None:
        self.kind = kind
        self.parts: deque[Rows] = deque()
        #: The number of the oldest row, and the one after the newest.
        self._first = self._end = 0
        self._blocks = RowBlocks()

    def append(self, rows: Rows) -> None:
        if len(rows):
            self.parts.append(rows)
            self._blocks.note(np.arange(self._end, self._end + len(rows)))
            self._end += len(rows)

    def up_to(self, final: int) -> list[Rows]:
        """The rows up to an instant."""
        found: list[Rows] = []
        for part in self.parts:
            cut = int(np.searchsorted(part.clock, final, side="right"))
            if cut:
                found.append(part.take(slice(cut)))
            if cut < len(part):
                break
        return found

    def until(self, final: int) -> list[Rows]:
        """The rows up to an instant; they wait no more."""
        taken = self.up_to(final)
        for part in taken:
            rows = self.parts.popleft()
            if len(part) < len(rows):
                self.parts.appendleft(rows.take(slice(len(part), None)))
        first = self._first + sum(map(len, taken))
        self._blocks.note(np.arange(self._first, first), gone=True)
        self._first = first
        if 2 * first > self._end:
            self._blocks.renew()
            self._first, self._end = 0, self._end - first
        return taken

    # -- snapshots

    def snapshot(self, name: str) -> tuple[dict[str, Any] | None, Blocks]:
        """`name` is a name that no other state has. None: no row waits."""
        if not self.parts:
            return None, {}
        # Few parts, each at most half as long as the one before: rows are then found fast.
        merged: deque[Rows] = deque()
        for part in self.parts:
            merged.append(part)
            while len(merged) > 1 and 2 * len(merged[-1]) > len(merged[-2]):
                last = merged.pop()
                merged.append(self.kind.joined([merged.pop(), last]))
        self.parts = merged
        lists = {field.name: len(column) for field, column in self._columns(self.parts[0]) if isinstance(column, list)}
        rows, blocks = self._blocks.snapshot(name, lambda: np.arange(self._first, self._end), self._content)
        return {"rows": rows, "lists": lists}, blocks

    def _columns(self, rows: Rows) -> list[tuple[Any, Any]]:
        return [(field, getattr(rows, field.name)) for field in fields(rows)]

    def _content(self, numbers: Ints) -> Any:
        """The columns of some rows, by their numbers, which ascend."""
        chosen, first = [self.parts[0].take(slice(0))], self._first
        for part in self.parts:
            begin, end = np.searchsorted(numbers, [first, first + len(part)])
            if begin < end:
                chosen.append(part.take(numbers[begin:end] - first))
            first += len(part)
        rows = self.kind.joined(chosen)
        arrays: dict[str, Array] = {}
        for field, column in self._columns(rows):
            if isinstance(column, list):
                arrays |= {f"{field.name}-{at}": _whole(values, len(rows)) for at, values in enumerate(column)}
            else:
                arrays[field.name] = column
        return tables.as_table(arrays)

    def restore(self, saved: Mapping[str, Any] | None, load: Load) -> None:
        if saved is None:
            return
        arrays = tables.arrays_of(self._blocks.restore(saved["rows"], load))
        numbers = arrays[ROW_NUMBER]
        self._first, self._end = int(numbers[0]), int(numbers[-1]) + 1
        columns: dict[str, Any] = {}
        for field in fields(self.kind):
            if field.name in saved["lists"]:
                values = [arrays[f"{field.name}-{at}"] for at in range(saved["lists"][field.name])]
                columns[field.name] = [ALL if v.dtype == np.bool_ and v.all() else v for v in values]
            else:
                # A table has no trace of a matrix without columns.
                columns[field.name] = arrays.get(field.name, np.zeros((len(numbers), 0), np.int64))
        self.parts = deque([self.kind(**columns)])


def _whole(values: Array, rows: int) -> Array:
    return values if len(values) == rows else np.ones(rows, np.bool_)
