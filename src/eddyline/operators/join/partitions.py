"""Windows of rows per partition: how many rows of each value of some columns have come, and which rows they have pushed
out.

Answer   `Partition.inside` says whether stored rows are among the last n of their partition at places of the total
         order. `sweep` releases those that are not, so that about n rows per value are stored.

             codes of a slice  ─►  a code per value, and its count of rows
             a stored row      ─►  its code, and its number among the rows of the code

State    The count per value; in the store two columns per row. A snapshot has the counts that have changed, and a block
         of rows beside each segment of the store.
Limits   All rows of the stream that the timeline takes are counted, whatever filters say. Null is a value like any
         other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.window import Now, PartitionedRows, Window
from eddyline.operators.aggregate.accumulators.encoding import ALL, ValueEncoder, grown
from eddyline.operators.aggregate.accumulators.groups import Dictionary
from eddyline.operators.aggregate.tables import TextBlocks
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.inputs import StreamInput
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints
from eddyline.state.segment import Segment

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
        self._texts = TextBlocks(self._encoder)
        self._codes = Dictionary(len(window.columns) + 1)
        self._counts: Ints = np.zeros(256, np.int64)
        #: Begins the names of all blocks.
        self._run = f"partition-{name}-{uuid4().hex[:8]}".replace(":", "-")
        #: Part of a segment -> the block with what its rows are to the partition.
        self._written: dict[str, str] = {}
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

    # -- snapshots

    def snapshot(self, segments: Sequence[Segment]) -> tuple[dict[str, Any], Blocks]:
        """`segments` are those of the store, which the snapshot has: per segment a block says what its rows are to the
        partition. It is written again when the timeline has reached more of the rows."""
        texts, blocks = self._texts.snapshot(f"{self._run}-bytes")
        values, more = self._codes.snapshot(f"{self._run}-values", lambda codes: {"count": self._counts[codes]})
        blocks |= more
        rows = {}
        for segment in segments:
            end = min(segment.end, self.base.end)
            if segment.first < end:
                part = f"{segment.token}-{end}"
                rows[part] = self._written.get(part, f"{self._run}-{part}")
                blocks[rows[part]] = partial(self._rows_of, segment.first, end)
        self._written = rows
        return {"run": self._run, "bytes": texts, "values": values, "rows": rows}, blocks

    def _rows_of(self, first: int, end: int) -> pa.Table:
        store = self.base.store
        ids = np.arange(max(first, store.first), end)
        ids = self.base.wanted(ids[store.holds(ids)])
        columns = {"arrival": "arrival", "code": self.code_column, "number": self.number_column}
        return pa.table({name: store.at(column, ids) for name, column in columns.items()})

    def restore(self, states: Sequence[Mapping[str, Any]], load: Load) -> None:
        """The rows are in the store again; those that were pushed out before may be there too, where another query wants
        them. Several states are of joins that have become one: they say the same of a row that they share."""
        store = self.base.store
        ids = self.base.ids()
        store.columns[self.number_column][ids - store.base] = _PUSHED_OUT
        arrival = store.at("arrival", ids)
        order = np.argsort(arrival, kind="stable")
        for at, saved in enumerate(states):
            codes, counts = self._values_of(saved, load, whole=not at)
            for name in saved["rows"].values():
                table = load(name)
                wanted, code, number = (np.asarray(table.column(part)) for part in ("arrival", "code", "number"))
                place = np.searchsorted(arrival[order], wanted)
                there = place < len(ids)
                there[there] = arrival[order[place[there]]] == wanted[there]
                rows, code = ids[order[place[there]]] - store.base, code[there]
                store.columns[self.code_column][rows] = codes[code]
                store.columns[self.number_column][rows] = number[there] - counts[code] + self._counts[codes[code]]

    def _values_of(self, saved: Mapping[str, Any], load: Load, *, whole: bool) -> tuple[Ints, Ints]:
        """By saved code of a value, its code here and its saved count. With `whole` both are taken over."""
        values, texts = (self._codes, self._texts) if whole else (Dictionary(self._codes.keys.shape[1]), None)
        encoder = self._encoder if texts is not None else ValueEncoder()
        (texts or TextBlocks(encoder)).restore(saved["bytes"], load)
        known, arrays = values.load(saved["values"], load)
        counts = np.zeros(values.capacity, np.int64)
        counts[known] = arrays["count"]
        if whole:
            self._written, self._counts = dict(saved["rows"]), grown(counts, 256)
            return np.arange(values.capacity), counts
        columns = []
        for at, kind in enumerate(self.kinds):
            nulls = (values.keys[known, -1] >> at) & 1 == 1
            columns.append(encoder.decode(values.keys[known, at], ~nulls if nulls.any() else ALL, kind))
        codes = np.zeros(values.capacity, np.int64)
        codes[known] = self._coded(columns)
        return codes, counts


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
