"""Windows of rows per partition: how many rows of each value of some columns have come, and which rows they have pushed
out.

Answer   `Partition.inside` says whether stored rows are among the last n of their partition at places of the total
         order. `sweep` releases those that are not, so that about n rows per value are stored.

             codes of a slice  ─►  a code per value, and its count of rows
             a stored row      ─►  its code, and its number among the rows of the code

State    The count per value; in the store two columns per row. Both are worked out anew from what a snapshot has: how
         many rows of its value have come since each row.
Limits   All rows of the stream that the timeline takes are counted, whatever filters say. Null is a value like any
         other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.window import Now, PartitionedRows, Window
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder, grown
from eddyline.operators.aggregate.accumulators.groups import Dictionary
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.inputs import StreamInput
from eddyline.state.columns import Ints

#: A sweep is worth it when as many rows have come as this part of those that are stored.
_PART = 2
#: The number of a row that is in no window any more.
_PUSHED_OUT = -(1 << 60)


class Partition:
    def __init__(self, base: StreamInput, window: PartitionedRows, name: str) -> None:
        self.base = base
        self.window = window
        self.name = name
        self.code_column, self.number_column = f"partition:{name}", f"place:{name}"
        self.kinds = [base.stream.types[column] for column in window.columns]
        for column in window.columns:
            base.stream.need_column(column)
        for own in (self.code_column, self.number_column):
            base.store.add_column(own, np.int64, derived=True)
        self._encoder = ValueEncoder()
        self._codes = Dictionary(len(window.columns) + 1)
        self._counts: Ints = np.zeros(256, np.int64)
        self._since_sweep = 0
        #: Of the slice at hand: its first place, its length, and the places of its rows by code.
        self._first, self._span = 0, 1
        self._places: Ints = np.empty(0, np.int64)

    # -- a slice

    def see(self, table: pa.Table | None, ranks: Ints | None, span: range, fresh: tuple[int, int]) -> None:
        """The rows of a slice, which are in the store as far as queries want them."""
        self._first, self._span = span.start, max(len(span), 1)
        self._places = np.empty(0, np.int64)
        if table is None or ranks is None:
            return
        codes = self._coded([table.column(name).combine_chunks() for name in self.window.columns])
        order = np.argsort(codes, kind="stable")
        sorted_codes = codes[order]
        self._places = sorted_codes * self._span + (ranks[order] - self._first)
        begins = np.flatnonzero(np.diff(sorted_codes, prepend=-1))
        sizes = np.diff(np.append(begins, len(codes)))
        numbers = np.empty(len(codes), np.int64)
        numbers[order] = self._counts[sorted_codes] + np.arange(len(codes)) - np.repeat(begins, sizes)
        self._counts[sorted_codes[begins]] += sizes
        self._since_sweep += len(codes)
        self._note(ranks, codes, numbers, *fresh)

    def _note(self, ranks: Ints, codes: Ints, numbers: Ints, start: int, stop: int) -> None:
        """Write codes and numbers to the rows that are stored."""
        store = self.base.store
        orders = store.stretch(self.base.order, start, stop)
        at = np.minimum(np.searchsorted(ranks, orders), len(ranks) - 1)
        here = np.flatnonzero(ranks[at] == orders)
        for own, values in ((self.code_column, codes), (self.number_column, numbers)):
            store.columns[own][here + (start - store.base)] = values[at[here]]

    def _coded(self, values: Sequence[pa.Array]) -> Ints:
        codes = self._codes.codes(self._encoder.encode_rows(values, self.kinds))
        self._counts = grown(self._counts, self._codes.capacity)
        return codes

    def inside(self, ids: Ints, ranks: Ints) -> npt.NDArray[np.bool_]:
        """Whether stored rows are in the window at places of the total order; a place before the slice counts as its
        beginning."""
        store = self.base.store
        codes = store.at(self.code_column, ids)
        ends = np.searchsorted(self._places, (codes + 1) * self._span)
        upto = np.searchsorted(self._places, codes * self._span + np.maximum(ranks - self._first, -1), side="right")
        seen = self._counts[codes] - (ends - upto)
        return seen - store.at(self.number_column, ids) <= self.window.count

    # -- state

    def ages(self) -> tuple[Ints, Ints]:
        """The stored rows that the timeline has reached, and how many rows of their partition there are from each of
        them on."""
        store = self.base.store
        ids = self.base.wanted(self.base.ids())
        return ids, self._counts[store.at(self.code_column, ids)] - store.at(self.number_column, ids)

    def sweep(self) -> None:
        """Release the rows that have been pushed out, once they are worth the sweep."""
        if _PART * self._since_sweep < self.base.store.live:
            return
        self._since_sweep = 0
        ids, ages = self.ages()
        out = ids[ages > self.window.count]
        if len(out):
            self.base.stream.release(self.base.port, out)

    def close(self) -> None:
        for own in (self.code_column, self.number_column):
            self.base.store.columns.pop(own, None)

    def saved(self) -> pa.Table:
        ids, ages = self.ages()
        return pa.table({"arrival": self.base.store.at("arrival", ids), "age": ages})

    def restore(self, saved: pa.Table) -> None:
        """The rows are in the store again; those that were pushed out before may be there too, where another query
        wants them."""
        store = self.base.store
        ids = self.base.ids()
        store.columns[self.number_column][ids - store.base] = _PUSHED_OUT
        arrival = store.at("arrival", ids)
        order = np.argsort(arrival)
        wanted = np.asarray(saved.column("arrival"))
        at = (
            order[np.minimum(np.searchsorted(arrival[order], wanted), len(ids) - 1)]
            if len(ids)
            else np.empty(0, np.int64)
        )
        there = np.flatnonzero(arrival[at] == wanted) if len(ids) else at
        ids = ids[at[there]]
        if len(ids):
            codes = self._coded([store.gather(name, ids) for name in self.window.columns])
            store.columns[self.code_column][ids - store.base] = codes
            store.columns[self.number_column][ids - store.base] = -np.asarray(saved.column("age"))[there]


def judging(group: JoinGroup, windows: Sequence[Window | None]) -> list[Partition]:
    """Makes the ports of a new group judge their windows where neither ages nor counts of rows do; returns the
    partitions."""
    made = []
    for position, window in enumerate(windows):
        base = group.bases[position]
        if isinstance(window, Now):
            base.port.judge = partial(_is_newest, base)
        elif isinstance(window, PartitionedRows):
            partition = Partition(base, window, f"{group.config.name}:{position}")
            base.port.judge = partition.inside
            made.append(partition)
    return made


def _is_newest(base: StreamInput, ids: Ints, ranks: Ints) -> npt.NDArray[np.bool_]:
    """Whether rows are the newest of their combinations."""
    return base.store.at(base.order, ids) == ranks
