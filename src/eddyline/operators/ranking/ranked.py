"""The first rows of every partition, while rows come and leave.

Answer   `add` takes rows as encoded values, with their partition. `leave` notes rows that leave with the next changes.
         `changes` ranks the partitions with rows that came or leave. It gives the rows that are no longer among the
         first ones of their partition, and those that are now.
         `closed` gives the first rows of partitions whose bucket of time is over; `forget` drops such partitions
         without results.

             rows ─► codes of partitions ─► order within touched partitions ─► first n ─► compared with the last answer

State    All live rows, or, where none leaves before its partition does (`pruned`), the first ones of each partition,
         with a chain of rows per partition. The number of each row in the last answer.
Limits   A touched partition is sorted whole; the others are not visited. Rows of equal order are ranked by their serial
         numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import BIGINT, DataType
from eddyline.operators.aggregate.accumulators.encoding import ALL, ValueEncoder, grown, is_text
from eddyline.operators.aggregate.accumulators.groups import Dictionary, Touched
from eddyline.operators.aggregate.accumulators.partition_rows import PartitionRows
from eddyline.operators.aggregate.buckets import Bucket, Buckets
from eddyline.operators.aggregate.changelog import change_table
from eddyline.operators.aggregate.contributions import Batch, Contributions
from eddyline.operators.aggregate.expiry import Limit
from eddyline.state.columns import Ints
from eddyline.state.runs import run_begins

_NONE: Ints = np.empty(0, np.int64)
#: 2^64 divided by the golden ratio: multiplication with it spreads keys over all bits.
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class RankSpec:
    """What is ranked: the columns of results first, then those of the order that are not among them."""

    schema: pa.Schema
    kinds: tuple[DataType, ...]
    partition: tuple[DataType, ...]
    #: Column, whether descending, whether nulls come first.
    order: tuple[tuple[int, bool, bool], ...]
    most: int
    #: Columns of results that are the number of the row.
    numbers: tuple[int, ...]
    queues: int = 0
    #: From how many of the queues, the last ones, rows leave by name.
    named: int = 0
    buckets: tuple[Bucket, ...] = ()
    #: Whether a row that is not among the first ones now is never among them later.
    pruned: bool = False

    @property
    def shown(self) -> int:
        """Columns of results."""
        return len(self.schema) - 2


@dataclass(slots=True)
class ArrivingRows(Batch):
    """Rows that are to be added; their groups are the partitions."""

    serial: Ints


class RankedRows:
    def __init__(self, spec: RankSpec) -> None:
        self.spec = spec
        self.encoder = ValueEncoder()
        self.partitions = Dictionary(len(spec.partition) + 1)
        #: The last column is the serial number.
        self.rows = Contributions(len(spec.kinds) + 1, spec.queues, spec.named)
        #: The slots of each partition.
        self.members = PartitionRows()
        #: By slot, the number of the row in the last answer; 0: it was not in it.
        self.number: Ints = np.zeros(0, np.int64)
        #: By slot, a number that the caller gives to the row.
        self.owner: Ints = np.zeros(0, np.int64)
        self.touched = Touched()
        self.buckets = Buckets(spec.buckets) if spec.buckets else None
        self._gone: list[Ints] = []
        #: Rows that came and went between two outputs; the serial of the newest row, and what it was at the last output
        #: (None: no row has come in this run).
        self.unseen = 0
        self._newest = -1
        self._output: int | None = None

    def add(self, rows: ArrivingRows, owners: Ints | int = 0) -> Ints:
        """The slots of the rows."""
        codes = self.partitions.codes(rows.groups)
        if len(rows.serial):
            self._output = int(rows.serial[0]) - 1 if self._output is None else self._output
            self._newest = int(rows.serial[-1])
        slots = self.rows.add(codes, [*rows.encoded, rows.serial], [*rows.valid, ALL], rows.leaving)
        self.enter(slots)
        self.number[slots], self.owner[slots] = 0, owners
        self.touched.note(codes, self.partitions.capacity)
        if self.buckets is not None:
            self.buckets.enter(codes, self.partitions.keys, rows.clock)
        return slots

    def enter(self, slots: Ints) -> None:
        """Rows that have been added belong to their partitions, and there is room for what is known of them."""
        self.number, self.owner = grown(self.number, self.rows.capacity), grown(self.owner, self.rows.capacity)
        self.members.reserve(self.partitions.capacity, self.rows.capacity)
        self.members.add(self.rows.codes[slots], slots)

    def leave(self, slots: Ints) -> None:
        """Rows that leave with the next changes."""
        if len(slots):
            self.touched.note(self.rows.codes[slots], self.partitions.capacity)
            self._gone.append(slots)

    def expire(self, limits: Sequence[Limit]) -> None:
        """Rows whose windows have passed leave with the next changes."""
        if self.spec.queues:
            self.leave(self.rows.leaving(limits))

    # -- order

    def ranked(self, slots: Ints) -> tuple[Ints, Ints]:
        """The slots in the order of their partitions and within them, and the number of each in its partition."""
        keys = [self.rows.encoded[-1][slots]]
        for at, descending, nulls_first in reversed(self.spec.order):
            values = self._comparable(at, slots)
            keys.append(~values if descending else values)
            valid = self.rows.valid_at(at, slots)
            if len(valid):
                keys.append((valid if nulls_first else ~valid).astype(np.int64))
        codes = self.rows.codes[slots]
        order = np.lexsort((*keys, codes))
        slots, codes = slots[order], codes[order]
        places = np.arange(len(slots))
        return slots, places - np.maximum.accumulate(np.where(run_begins(codes), places, 0)) + 1

    def _comparable(self, at: int, slots: Ints) -> Ints:
        """Numbers that lie in the order of a column's values."""
        encoded, kind = self.rows.encoded[at][slots], self.spec.kinds[at]
        if not is_text(kind):
            return encoded
        ids, where = np.unique(encoded, return_inverse=True)
        order = pc.sort_indices(self.encoder.decode(ids, ids != 0, kind)).to_numpy()
        place = np.empty(len(ids), np.int64)
        place[order] = np.arange(len(ids))
        return place[where.reshape(-1)]

    # -- changes

    def changes(self, now: int) -> pa.Table | None:
        """The changelog of `now`: rows that leave the answer, then rows that enter it."""
        codes = self.touched.take()
        gone = np.concatenate(self._gone) if self._gone else _NONE
        self._gone = []
        if self._output is not None:
            self.unseen += int((self.rows.encoded[-1][gone] > self._output).sum())
            self._output = self._newest
        if not len(codes):
            return None
        slots = self.members.of(codes)
        slots, numbers = self.ranked(slots[~np.isin(slots, gone)] if len(gone) else slots)
        numbers = np.where(numbers <= self.spec.most, numbers, 0)
        before = self.number[slots]
        changed = before != numbers if self.spec.numbers else (before > 0) != (numbers > 0)
        lost = changed & (before > 0)
        left = gone[self.number[gone] > 0]
        minus, minus_numbers = np.concatenate([left, slots[lost]]), np.concatenate([self.number[left], before[lost]])
        came = changed & (numbers > 0)
        made = self._table(minus, minus_numbers, slots[came], numbers[came], now)
        self.number[slots] = numbers
        self.rows.blocks.note(slots[before != numbers])
        if self.spec.pruned:
            gone = np.concatenate([gone, slots[numbers == 0]])
        self.drop(gone, codes)
        return made

    def _table(self, minus: Ints, minus_numbers: Ints, plus: Ints, plus_numbers: Ints, now: int) -> pa.Table | None:
        """The rows to emit, without pairs of a `-` and a `+` row with equal values."""
        slots, numbers = np.concatenate([minus, plus]), np.concatenate([minus_numbers, plus_numbers])
        signs = np.arange(len(slots)) < len(minus)
        if len(minus) and len(plus):
            kept = self._unpaired(slots, numbers, len(minus))
            slots, numbers, signs = slots[kept], numbers[kept], signs[kept]
        if not len(slots):
            return None
        return change_table(self.spec.schema, self.columns(slots, numbers), signs, np.full(len(slots), now, np.int64))

    def _unpaired(self, slots: Ints, numbers: Ints, minus: int) -> Ints:
        """The places of rows that no row of the other sign equals."""
        columns = [numbers] if self.spec.numbers else []
        for at in range(self.spec.shown):
            columns.append(self.rows.encoded[at][slots])
            valid = self.rows.valid_at(at, slots)
            if len(valid):
                columns.append(valid.astype(np.int64))
        mixed = np.zeros(len(slots), np.uint64)
        for column in columns:
            mixed = (mixed ^ column.view(np.uint64)) * _MIX
            mixed ^= mixed >> np.uint64(29)
        if not np.isin(mixed[:minus], mixed[minus:]).any():
            # The usual case: all rows differ, which their hashes show.
            return np.arange(len(slots))
        _, same = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        same = same.reshape(-1)
        most = int(same.max()) + 1
        pairs = np.minimum(np.bincount(same[:minus], minlength=most), np.bincount(same[minus:], minlength=most))
        if not pairs.any():
            return np.arange(len(slots))
        kept = np.ones(len(slots), np.bool_)
        for part in (np.arange(minus), np.arange(minus, len(slots))):
            order = part[np.argsort(same[part], kind="stable")]
            sorted_same = same[order]
            first = np.searchsorted(sorted_same, sorted_same)
            kept[order[np.arange(len(order)) - first < pairs[sorted_same]]] = False
        return np.flatnonzero(kept)

    def columns(self, slots: Ints, numbers: Ints) -> list[pa.Array]:
        """The columns of results."""
        return [
            pa.array(numbers, BIGINT.arrow)
            if at in self.spec.numbers
            else self.encoder.decode(self.rows.encoded[at][slots], self.rows.valid_at(at, slots), self.spec.kinds[at])
            for at in range(self.spec.shown)
        ]

    def drop(self, slots: Ints, codes: Ints) -> None:
        """Rows are gone; of the partitions those that are empty now are forgotten."""
        if len(slots):
            self.number[slots] = 0
            self._remove(slots)
        empty = codes[self.members.is_without(codes)]
        if self.buckets is not None:
            # A partition that is in the queue of buckets is released when it leaves that queue.
            empty = empty[~self.buckets.open[empty]]
        self.partitions.release(empty)

    def _remove(self, slots: Ints) -> None:
        self.members.remove(self.rows.codes, slots)
        self.rows.drop(slots)

    # -- partitions that are over

    def prune(self) -> None:
        """Keep only the first rows of the partitions with new rows."""
        codes = self.touched.take()
        if self.spec.pruned and len(codes):
            slots, numbers = self.ranked(self.members.of(codes))
            self._remove(slots[numbers > self.spec.most])

    def closed(self, frontier: int, stop: int | None) -> pa.Table | None:
        """The first rows of the partitions whose bucket lies below the frontier, in order; they are forgotten."""
        assert self.buckets is not None
        codes, due = self.buckets.closed(frontier)
        if not len(codes):
            return None
        slots, numbers = self.ranked(self.members.of(codes))
        order = np.argsort(codes)
        stamps = (due - 1)[order[np.searchsorted(codes[order], self.rows.codes[slots])]]
        chosen = numbers <= self.spec.most
        if stop is not None:
            chosen &= stamps <= stop
        places = np.flatnonzero(chosen)
        places = places[np.argsort(stamps[places], kind="stable")]
        made = None
        if len(places):
            columns = self.columns(slots[places], numbers[places])
            made = change_table(self.spec.schema, columns, np.zeros(len(places), np.bool_), stamps[places])
        self.drop(slots, codes)
        return made

    def forget(self, now: int) -> Ints:
        """Drops the rows of partitions whose bucket is over after `now`; returns their slots. Their last results stay
        valid."""
        if self.buckets is None:
            return _NONE
        codes, _ = self.buckets.closed(now + 1)
        self.partitions.note(codes)
        slots = self.members.of(codes) if len(codes) else _NONE
        if len(codes):
            self.drop(slots, codes)
        return slots

    # -- texts that are still in use

    def sweep(self, waiting: Collection[ArrivingRows]) -> None:
        if not self.encoder.is_full:
            return
        live = self.rows.live()
        texts = [at for at, kind in enumerate(self.spec.kinds) if is_text(kind)]
        used = [self.rows.encoded[at][live] for at in texts]
        used += [rows.encoded[at] for rows in waiting for at in texts]
        for at, kind in enumerate(self.spec.partition):
            if is_text(kind):
                used.append(self.partitions.keys[self.partitions.live(), at])
                used += [rows.groups[:, at] for rows in waiting]
        self.encoder.sweep(used)


def first_rows(spec: RankSpec, table: pa.Table, partition: Sequence[pa.Array]) -> pa.Table:
    """The first rows of every partition of a table with the columns of `spec` and `_ts`; in the order of `_ts`,
    partition and rank."""
    ranked = RankedRows(spec)
    rows = np.arange(len(table))
    keys = ranked.encoder.encode_rows(partition, spec.partition, len(rows))
    encoded = ranked.encoder.encode_columns((c.combine_chunks() for c in table.columns), spec.kinds)
    slots = ranked.add(ArrivingRows(rows, keys, *encoded, [], rows))
    row_of = np.zeros(ranked.rows.capacity, np.int64)
    row_of[slots] = rows
    ordered, numbers = ranked.ranked(slots)
    chosen = numbers <= spec.most
    ordered, numbers = ordered[chosen], numbers[chosen]
    stamps = np.asarray(table.column("_ts").combine_chunks().cast(pa.int64()))[row_of[ordered]]
    order = np.argsort(stamps, kind="stable")
    columns = ranked.columns(ordered[order], numbers[order])
    return change_table(spec.schema, columns, np.zeros(len(order), np.bool_), stamps[order])
