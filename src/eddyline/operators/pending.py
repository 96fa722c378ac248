"""Rows that may still find a partner, in the order of their stream.

Answer   `append` takes new rows, `meet` notes that rows have met a partner. `take` removes the oldest rows when no
         partner of theirs can come, `remove` removes any rows.
State    Per row: event time, place in the total order, number in the stream, number of arrival, whether it has met a
         partner; and the payload columns that a query reads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.state.columns import Ints

_FIELDS = ("ts", "rank", "number", "arrival", "met")


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

    def append(self, table: pa.Table, ts: Ints, rank: Ints, number: Ints, arrival: Ints) -> None:
        if 2 * self._first > len(self._held):
            live = len(self)
            self._held[:live] = self._held[self._first : self._end].copy()
            self._first, self._end = 0, live
        stop = self._end + len(ts)
        self._held = grown(self._held, stop)
        self._held[self._end : stop] = np.stack((ts, rank, number, arrival, np.zeros(len(ts), np.int64)), axis=1)
        self._end = stop
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
        return new

    def take(self, count: int) -> Left:
        """The oldest rows leave."""
        alone = np.flatnonzero(self._field("met")[:count] == 0)
        left = Left(self._taken(count, alone), self.ts[:count][alone], self.number[:count][alone])
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

    def saved(self) -> pa.Table:
        """All rows, as a table."""
        held = {f"_{name}": pa.array(self._field(name)) for name in _FIELDS}
        whole = self.payload(0)
        return pa.table(
            {**({} if whole is None else dict(zip(whole.column_names, whole.columns, strict=True))), **held}
        )

    def restore(self, saved: pa.Table) -> None:
        fields = [np.asarray(saved.column(f"_{name}")) for name in _FIELDS]
        self._held = grown(np.zeros((256, len(_FIELDS)), np.int64), len(saved))
        self._first, self._end = 0, len(saved)
        self._held[: self._end] = np.stack(fields, axis=1) if len(saved) else np.zeros((0, len(_FIELDS)), np.int64)
        self._payload = [saved.select(self.columns)] if self.columns and len(saved) else []
