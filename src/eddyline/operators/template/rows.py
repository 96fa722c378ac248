"""The stored rows of a template, as its access paths see them.

Answer   `ranges` turns instants and windows of requests into ranges of row ids; `key_lines`, `null_bits` and `wanted`
         give keys, null bits and membership of a stretch of ids as views; `values` gathers payload.
State    None: the rows lie in the stream's shared store, their keys in `keys.py`.
Limits   Ids in time order. A ROWS template stores every row of its stream, so that row numbers give how many rows came
         up to an instant.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.operators.stream.reading import ReadPosition
from eddyline.operators.template.keys import TemplateKeys
from eddyline.operators.template.probes import Requests, columns_in
from eddyline.state.columns import FixedColumn, Ints
from eddyline.state.store import Store
from eddyline.tuning import TemplateTuning

_EVERY: npt.NDArray[np.bool_] = np.empty(0, np.bool_)


@dataclass(slots=True)
class TemplateRows:
    reader: ReadPosition
    #: Keys of the grouping columns; a ROWS template also knows where its condition holds, others store only such rows.
    keys: TemplateKeys
    #: The number of grouping columns.
    columns: int
    #: Whether it is a ROWS template, which counts rows.
    counted: bool = False
    #: The column with lineage and the bit of the template in it; None: every stored row is the template's.
    lineage: tuple[str, int] | None = None
    tuning: TemplateTuning = field(default_factory=TemplateTuning)

    @property
    def store(self) -> Store:
        return self.reader.store

    @property
    def end(self) -> int:
        """The first id of the rows that the template's timeline has not reached."""
        return self.reader.position

    def view(self, column: str, first: int, end: int) -> npt.NDArray[np.generic]:
        base = self.store.base
        return self.store.columns[column][first - base : end - base]

    def catch_up(self) -> None:
        """Compute the keys of all rows that the template's timeline has reached."""
        self.keys.catch_up(self.end)

    def column(self, column: int, first: int, end: int) -> Ints:
        """The keys of one column; a view."""
        return self.keys.column(column, first, end)

    def key_lines(self, columns: list[int], first: int, end: int) -> Ints:
        """One line per column; a view where there is one column."""
        if len(columns) == 1:
            return self.column(columns[0], first, end).reshape(1, -1)
        return np.stack([self.column(c, first, end) for c in columns])

    def null_bits(self, first: int, end: int) -> Ints:
        return self.keys.nulls_of(first, end)

    def wanted(self, first: int, end: int) -> npt.NDArray[np.bool_]:
        """Rows of the template; empty where all are."""
        here = _EVERY
        if self.lineage is not None:
            column, slot = self.lineage
            keys = self.view(column, first, end).reshape(end - first, -1)
            here = (keys[:, slot // 64].astype(np.uint64) >> np.uint64(slot % 64)) & np.uint64(1) == 1
        if self.keys.holds is not None:
            holds = self.keys.holds[first - self.keys.base : end - self.keys.base]
            here = holds if not len(here) else here & holds
        return here

    def ranges(self, requests: Requests) -> tuple[Ints, Ints]:
        """Per request the ids from the first row in its window to the last row at its instant, the end excluded."""
        first, end = self.store.first, self.end
        ts = self.view("ts", first, end)
        high = np.searchsorted(ts, requests.instant, side="right")
        if not self.counted:
            low = np.searchsorted(ts, requests.instant - requests.size, side="left")
        else:
            number: Ints = self.view(self.reader.numbers, first, end)  # type: ignore[assignment]
            seen = number[np.maximum(high - 1, 0)] + 1 if len(number) else np.zeros(len(high), np.int64)
            low = np.searchsorted(number, seen - requests.size, side="left")
        low = np.minimum(low, high)
        return low + first, high + first

    def within(self, requests: Requests, ranged: int, probe: Ints, ids: Ints) -> tuple[Ints, Ints]:
        """The pairs whose rows lie in the ranges of their probes."""
        for column in columns_in(ranged):
            at = ids - self.keys.base
            keys = self.keys.keys[column].take(at)
            here = (keys >= requests.lows[column][probe]) & (keys <= requests.highs[column][probe])
            here &= self.keys.nulls.take(at) >> column & 1 == 0
            probe, ids = probe[here], ids[here]
        return probe, ids

    def plain(self, column: str) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.bool_]]:
        """A payload column of fixed width and where it has values (empty: everywhere), both from the store's base on;
        views."""
        found = self.store.payload[column]
        assert isinstance(found, FixedColumn)
        return found.values, _EVERY if found.valid is None else found.valid

    def values(self, column: str, ids: Ints) -> pa.Array:
        return self.store.gather(column, ids)
