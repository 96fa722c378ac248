"""Rows that may still find a partner, in the order of their stream.

Answer   `append` takes new rows, `meet` notes that rows have met a partner. `take` removes the oldest rows when no
         partner of theirs can come, `remove` removes any rows.
State    Per row: event time, place in the total order, number in the stream, number of arrival, whether it has met a
         partner, its slot; and the payload columns that a query reads.
Limits   A snapshot has the rows that have met no partner; rows that were in the last one are not written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.operators.row_blocks import ROW_NUMBER, RowBlocks
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints

_FIELDS = ("ts", "rank", "number", "arrival", "met", "slot")


@dataclass(frozen=True, slots=True)
class Left:
    """Rows that have left, without those that have met a partner. `table` is None where no column is read."""

    table: pa.Table | None
    ts: Ints
    number: Ints


class PendingRows:
    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self._held: Ints = np.zeros((256, len(_FIELDS)), np.int64)
        self._first = self._end = 0
        self._payload: list[pa.Table] = []
        #: A stack of slots without a row.
        self._free: Ints = np.empty(0, np.int64)
        self._free_count = 0
        #: The place in the total order by slot.
        self._ranks: Ints = np.empty(0, np.int64)
        self._blocks = RowBlocks()

    def __len__(self) -> int:
        return self._end - self._first

    def _field(self, name: str) -> Ints:
        return self._held[self._first : self._end, _FIELDS.index(name)]

    @property
    def ts(self) -> Ints:
        return self._field("ts")

    @property
    def number(self) -> Ints:
        return self._field("number")

    @property
    def arrival(self) -> Ints:
        return self._field("arrival")

    @property
    def alone(self) -> int:
        """How many rows have met no partner."""
        return int((self._field("met") == 0).sum())

    def append(self, table: pa.Table, ts: Ints, rank: Ints, number: Ints, arrival: Ints) -> None:
        if 2 * self._first > len(self._held):
            live = len(self)
            self._held[:live] = self._held[self._first : self._end].copy()
            self._first, self._end = 0, live
        stop = self._end + len(ts)
        self._held = grown(self._held, stop)
        slots = self._slots(len(ts))
        self._held[self._end : stop] = np.stack((ts, rank, number, arrival, np.zeros_like(slots), slots), axis=1)
        self._end = stop
        self._ranks[slots] = rank
        self._blocks.note(slots)
        if self.columns and len(ts):
            self._payload.append(table.select(self.columns))

    def meet(self, ranks: Ints) -> npt.NDArray[np.bool_]:
        """Rows at these places have met a partner; returns per place whether its row is here and had met none
        before."""
        known = self._field("rank")
        if not len(known) or not len(ranks):
            return np.zeros(len(ranks), np.bool_)
        at = np.minimum(np.searchsorted(known, ranks), len(known) - 1)
        met = self._field("met")
        new: npt.NDArray[np.bool_] = (known[at] == ranks) & (met[at] == 0)
        met[at[new]] = 1
        self._blocks.note(self._field("slot")[at[new]], gone=True)
        return new

    def take(self, count: int) -> Left:
        """The oldest rows leave."""
        alone = np.flatnonzero(self._field("met")[:count] == 0)
        left = Left(self._taken(count, alone), self.ts[:count][alone], self.number[:count][alone])
        self._let_go(np.arange(count), alone)
        self._first += count
        return left

    def payload(self, first: int) -> pa.Table | None:
        """The payload of the rows from a place on."""
        if not self._payload:
            return None
        whole = pa.concat_tables(self._payload).combine_chunks()
        self._payload = [whole]
        return whole.slice(first)

    def remove(self, places: Ints) -> tuple[Left, Ints]:
        """Rows at these places, ascending, leave; returns also which of the places those without a partner had."""
        alone = places[self._field("met")[places] == 0]
        whole = self.payload(0)
        table = whole.take(pa.array(alone)) if self.columns and whole is not None else None
        left = Left(table, self.ts[alone], self.number[alone])
        self._let_go(places, alone)
        kept = np.ones(len(self), np.bool_)
        kept[places] = False
        held = self._held[self._first : self._end][kept]
        self._first, self._end = 0, len(held)
        self._held[: self._end] = held
        if whole is not None:
            self._payload = [whole.filter(pa.array(kept))] if len(held) else []
        return left, alone

    def _taken(self, count: int, chosen: Ints) -> pa.Table | None:
        if not self.columns:
            return None
        taken, rest = [], count
        while rest:
            part = self._payload[0]
            taken.append(part.slice(0, rest))
            if len(part) > rest:
                self._payload[0] = part.slice(rest)
            else:
                self._payload.pop(0)
            rest -= len(taken[-1])
        return pa.concat_tables(taken).take(pa.array(chosen)) if taken else None

    # -- slots

    def _slots(self, count: int) -> Ints:
        if count > self._free_count:
            size, more = len(self._ranks), max(256, len(self._ranks), count)
            fresh = np.arange(size + more - 1, size - 1, -1)
            self._free = np.concatenate([fresh, self._free[: self._free_count]])
            self._free_count += more
            self._free, self._ranks = grown(self._free, size + more), grown(self._ranks, size + more)
        self._free_count -= count
        return self._free[self._free_count : self._free_count + count].copy()

    def _let_go(self, places: Ints, alone: Ints) -> None:
        """Rows at these places leave, of which those at `alone` have met no partner."""
        slots = self._field("slot")
        self._free[self._free_count : self._free_count + len(places)] = slots[places]
        self._free_count += len(places)
        self._blocks.note(slots[alone], gone=True)

    # -- snapshots

    def snapshot(self, name: str) -> tuple[list[list[Any]], Blocks]:
        """`name` is a name that no other state has."""
        # Few tables, each at most half as long as the one before: rows are then found fast.
        tables: list[pa.Table] = []
        for table in self._payload:
            tables.append(table)
            while len(tables) > 1 and 2 * len(tables[-1]) > len(tables[-2]):
                tables[-2:] = [pa.concat_tables(tables[-2:]).combine_chunks()]
        self._payload = tables
        return self._blocks.snapshot(name, self._alone, self._content)

    def _alone(self) -> Ints:
        """The slots of rows that have met no partner."""
        return self._field("slot")[self._field("met") == 0]

    def _content(self, slots: Ints) -> pa.Table:
        places = np.searchsorted(self._field("rank"), self._ranks[slots])
        held = {f"_{name}": pa.array(self._field(name)[places]) for name in _FIELDS[:4]}
        found = pa.table(held)
        if not self.columns or not self._payload:
            return found
        ends = np.cumsum([len(table) for table in self._payload])
        order = np.argsort(places, kind="stable")
        cuts = np.searchsorted(places[order], ends).tolist()
        parts = [
            table.take(pa.array(places[order[first:end]] - (stop - len(table))))
            for table, stop, first, end in zip(self._payload, ends.tolist(), [0, *cuts], cuts, strict=False)
            if first < end or table is self._payload[0]
        ]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        whole = pa.concat_tables(parts).take(pa.array(back))
        for name in whole.column_names:
            found = found.append_column(name, whole.column(name))
        return found

    def restore(self, saved: Sequence[Sequence[Any]], load: Load) -> None:
        table = self._blocks.restore(saved, load)
        table = table.take(pc.sort_indices(table, [("_rank", "ascending")]))
        slots = np.array(table.column(ROW_NUMBER))
        self._slots(int(slots.max(initial=-1)) + 1)
        self._free_count = len(self._ranks) - len(slots)
        self._free[: self._free_count] = np.setdiff1d(np.arange(len(self._ranks)), slots)[::-1]
        fields = [np.asarray(table.column(f"_{name}")) for name in _FIELDS[:4]]
        self._held = grown(np.zeros((256, len(_FIELDS)), np.int64), len(slots))
        self._first, self._end = 0, len(slots)
        self._held[: self._end] = np.stack((*fields, np.zeros_like(slots), slots), axis=1)
        self._ranks[slots] = fields[1]
        self._payload = [table.select(self.columns)] if self.columns and len(slots) else []
