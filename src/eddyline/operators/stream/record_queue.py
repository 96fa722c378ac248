"""Records of one stream that wait for a frontier, and their places among its rows.

Answer   `receive` takes records; `release` hands out those below the frontier, one batch per kind, in order of place.
         `rows_before` counts the rows of a stretch before each record.
State    Batches of records, each with a token that names it in snapshots.
Limits   A record is below the frontier when its time is, as a row is. Order: time, then BEFORE_ALL, the `sequence` and
         the number of the place, AFTER_ALL, then the order of coming; a record comes before the row that has its
         number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.records.records import AFTER_ALL, BEFORE_ALL, Records, concatenated
from eddyline.model.schema import Stream
from eddyline.state.columns import Ints

#: Batches that wait are put together when there are more: `release` goes through all of them.
_MOST_BATCHES = 32


def _token() -> str:
    return os.urandom(8).hex()


@dataclass(frozen=True, slots=True)
class Held:
    """A batch that waits, under the name that snapshots know it by."""

    records: Records
    token: str = field(default_factory=_token)


class RecordQueue:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.held: list[Held] = []

    def __len__(self) -> int:
        return sum(len(held.records) for held in self.held)

    def receive(self, records: Records) -> None:
        if len(records):
            self.held.append(Held(records))
        if len(self.held) > _MOST_BATCHES:
            self.held = [Held(whole) for whole in concatenated([held.records for held in self.held])]

    def release(self, frontier: int) -> list[Records]:
        """The records strictly below the frontier, a batch per kind and form, each in order of place; they wait no
        longer."""
        if not self.held:
            return []
        ready: list[Records] = []
        rest: list[Held] = []
        for held in self.held:
            below = held.records.ts < frontier
            cut = int(below.sum())
            if cut == len(below):
                ready.append(held.records)
            elif not cut:
                rest.append(held)
            elif below[:cut].all():
                ready.append(held.records.slice(0, cut))
                rest.append(Held(held.records.slice(cut, len(below))))
            else:
                ready.append(held.records.take(below))
                rest.append(Held(held.records.take(~below)))
        self.held = rest
        return [self._in_order(batch) for batch in concatenated(ready)]

    def _in_order(self, records: Records) -> Records:
        serial = np.arange(len(records)) if records.serial is None else records.serial
        if self.stream.sequence is not None:
            keys = pa.table(
                {"t": records.ts, "e": _side(records.number), "s": _sequence(records), "n": records.number, "c": serial}
            )
            order = np.asarray(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in "tesnc"])).astype(
                np.int64
            )
        elif len(records) < 2 or bool((records.ts[1:] > records.ts[:-1]).all()):
            return records
        else:
            order = np.lexsort((serial, records.number, records.ts))
        return records.take(order)

    # -- snapshots

    def saved(self, blocks: dict[str, Callable[[], pa.Table]]) -> list[str]:
        """The names of its blocks, which are added to `blocks`."""
        names = []
        for held in self.held:
            names.append(f"{self.stream.name}-records-{held.token}")
            blocks[names[-1]] = held.records.table
        return names

    def restore(self, names: Iterable[str], load: Callable[[str], pa.Table]) -> None:
        self.held = [Held(Records.from_table(load(name)), name.rpartition("-")[2]) for name in names]


def rows_before(records: Records, ts: Ints, number: Ints, sequence: pa.ChunkedArray | None = None) -> Ints:
    """How many rows of a stretch, which is in order, come before each record.

    Args:
        records: Records of the stream.
        ts: Event times of the rows.
        number: Their numbers of arrival.
        sequence: Their values in the stream's `sequence`, where it has one.
    """
    low, high = np.searchsorted(ts, records.ts), np.searchsorted(ts, records.ts, side="right")
    among = (records.number != AFTER_ALL) & (records.number != BEFORE_ALL) & (high > low)
    found: Ints = np.where(records.number == AFTER_ALL, high, low)
    if not among.any():
        return found
    if sequence is None:
        # Mostly there is one row of that time.
        single = among & (high == low + 1)
        found[single] += number[low[single]] < records.number[single]
        among &= ~single
    chosen = np.flatnonzero(among)
    if len(chosen):
        # The rows of these times, and which of them come before each record.
        edges = np.zeros(len(ts) + 1, np.int64)
        np.add.at(edges, low[chosen], 1)
        np.add.at(edges, high[chosen], -1)
        rows = np.flatnonzero(np.cumsum(edges)[:-1] > 0)
        merged = _merged(records.take(chosen), rows, ts, number, sequence)
        before = np.empty(len(merged), np.int64)
        before[merged] = np.cumsum(merged >= len(chosen))
        found[chosen] = low[chosen] + before[: len(chosen)] - np.searchsorted(ts[rows], records.ts[chosen])
    return found


def _merged(records: Records, rows: Ints, ts: Ints, number: Ints, sequence: pa.ChunkedArray | None) -> Ints:
    """The order of records and rows together; the numbers of rows follow those of the records."""
    times, numbers = np.concatenate([records.ts, ts[rows]]), np.concatenate([records.number, number[rows]])
    is_row = np.concatenate([np.zeros(len(records), np.int8), np.ones(len(rows), np.int8)])
    if sequence is None:
        return np.lexsort((is_row, numbers, times))
    values = pa.chunked_array([_sequence(records).cast(sequence.type), *sequence.take(pa.array(rows)).chunks])
    keys = pa.table({"t": times, "s": values, "n": numbers, "r": is_row})
    return np.asarray(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in "tsnr"])).astype(np.int64)


def _side(number: Ints) -> Ints:
    return np.where(number == BEFORE_ALL, -1, np.where(number == AFTER_ALL, 1, 0))


def _sequence(records: Records) -> pa.Array:
    return pa.nulls(len(records)) if records.sequence is None else records.sequence
