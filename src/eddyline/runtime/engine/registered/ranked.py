"""Registered queries that answer with the first rows of partitions: of combinations, or of groups.

Answer   `RankedQuery` ranks the live combinations of a join; `RankedAggregate` ranks the groups of an aggregate, whose
         changes it takes. Both emit by EMIT: what has changed since the last instant, or a partition once its
         window is over.
State    The ranked rows; for EVERY also combinations that are newer than the last instant.
Limits   Nothing is emitted at or before the query's start, or after its stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import STRING, TIMESTAMP
from eddyline.model.expressions.expression import columns_of
from eddyline.model.query import OutputColumn
from eddyline.model.window import FOREVER
from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.operators.aggregate.accumulators.groups import Dictionary
from eddyline.operators.aggregate.aggregation import merged_parts
from eddyline.operators.aggregate.config import AggregateConfig
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.combination import Combinations
from eddyline.operators.project import gather
from eddyline.operators.ranking.ranked import ArrivingRows, RankSpec, first_rows
from eddyline.plan.lower import Lowered
from eddyline.runtime.engine.registered.aggregate import AggregateQuery, bucket_of
from eddyline.runtime.engine.registered.leaving import LeavingQuery, at_or_after, compiled_of, computed
from eddyline.runtime.engine.registered.query import Registration, Released
from eddyline.runtime.engine.registered.ranked_state import RankedState
from eddyline.runtime.engine.unit import Merging
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints


def _spec(
    lowered: Lowered, queues: int, times: Mapping[str, str], *, pruned: bool, closing: bool, named: int = 0
) -> RankSpec:
    ranking = lowered.ranking
    assert ranking is not None
    fields = [(o.name, o.type.arrow) for o in lowered.outputs] + [("_op", STRING.arrow), ("_ts", TIMESTAMP.arrow)]
    places = {}
    if closing and (window := lowered.query.group_window) is not None:
        # The place of the window among the grouping expressions decides when it is over.
        places = {lowered.group_by[at]: at for at in (window.start, window.end) if at is not None}
    found = (
        [(at, bucket_of(places.get(e, -1), e, lowered, times)) for at, e in enumerate(ranking.partition)]
        if closing
        else []
    )
    return RankSpec(
        schema=pa.schema(fields),
        kinds=tuple(o.type for o in lowered.outputs) + tuple(o.expression.type for o in ranking.order),
        partition=tuple(e.type for e in ranking.partition),
        order=tuple((len(lowered.outputs) + at, o.descending, o.nulls_first) for at, o in enumerate(ranking.order)),
        most=ranking.most,
        numbers=ranking.numbers,
        queues=queues,
        named=named,
        buckets=tuple(replace(bucket, at=at) for at, bucket in found if bucket is not None),
        pruned=pruned,
    )


class RankedQuery(LeavingQuery):
    """The first combinations of a partition."""

    #: Those of one newest row are put into an order.
    takes_parts = False

    def __init__(self, given: Registration) -> None:
        super().__init__(given)
        query, lowered, times = given.query, given.lowered, given.times
        closing = query.emit.kind == "close"
        self.begin_leaving(closing)
        ranking = lowered.ranking
        assert ranking is not None
        spec = _spec(lowered, self.queues, times, pruned=not self.queues, closing=closing, named=self.named)
        self.state = RankedState(query.name, spec)
        self.partition = [(e, compiled_of(e)) for e in ranking.partition]
        self.values = [
            (e, compiled_of(e))
            for e in (*(o.expression for o in lowered.outputs), *(o.expression for o in ranking.order))
        ]
        self.columns = frozenset().union(*(columns_of(e) for e, _ in (*self.partition, *self.values)))
        for ref, name in self.columns:
            self.bases[ref].stream.need_column(name)
        self._serial = 0
        #: EVERY: all instants up to here have been emitted; None: no row has come yet.
        self._emitted_until: int | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.state.ranked.spec.schema

    @property
    def left_open(self) -> int:
        return self.state.ranked.partitions.held if self.query.emit.kind == "close" else 0

    @property
    def unseen(self) -> int:
        return self.state.ranked.unseen

    def accept(self, rows: Combinations, issues: Issues) -> list[pa.Table]:
        began = perf_counter()
        rows = self.mine(rows)
        self.rows_in += len(rows)
        if len(rows):
            found = self._rows(rows, issues)
            if self.query.emit.kind == "every":
                self.state.waiting.append(found)
            else:
                self.state.ranked.add(found)
        self.seconds += perf_counter() - began
        return []

    def _rows(self, rows: Combinations, issues: Issues) -> ArrivingRows:
        if len(rows.ids) > 1:
            # Combinations of one newest row: older rows first.
            rows = rows.take(
                np.lexsort((*(rows.ids[position] for position in sorted(rows.ids, reverse=True)), rows.stamp))
            )
        values = gather(self.columns, rows, self.bases)
        encoder = self.state.ranked.encoder
        keys = [computed(e, c, values, len(rows), issues) for e, c in self.partition]
        partition = encoder.encode_rows(keys, [e.type for e, _ in self.partition], len(rows))
        columns = [computed(e, c, values, len(rows), issues) for e, c in self.values]
        encoded = encoder.encode_columns(columns, [e.type for e, _ in self.values])
        serial = np.arange(self._serial, self._serial + len(rows))
        self._serial += len(rows)
        return ArrivingRows(rows.clock, partition, *encoded, self.leaving(rows), serial)

    def advance(self, frontier: int, closing: bool, issues: Issues, released: Released) -> list[pa.Table]:
        began = perf_counter()
        last = frontier - 1 if self.stop is None else min(frontier - 1, self.stop)
        ranked = self.state.ranked
        found: list[pa.Table | None] = []
        if self.query.emit.kind == "close":
            ranked.prune()
            found = [ranked.closed(frontier, self.stop)]
        elif last > self.start and self.query.emit.kind == "change":
            found = [self._changes(last, released)]
        elif last > self.start:
            found = self._every(last, released)
        return self._finished(found, began)

    def end(self, now: int, issues: Issues, released: Released) -> list[pa.Table]:
        began = perf_counter()
        ranked = self.state.ranked
        last = at_or_after(now, self.query.emit.period) if self.query.emit.period else now
        last = last if self.stop is None else min(last, self.stop)
        found: list[pa.Table | None] = []
        if self.query.emit.kind == "close":
            ranked.prune()
            found = [ranked.closed(FOREVER, self.stop)]
        elif self.query.emit.kind == "every" and last > self.start:
            found = self._every(last, released)
        return self._finished(found, began)

    def _finished(self, found: Sequence[pa.Table | None], began: float) -> list[pa.Table]:
        """The results of an instant, counted; it was computed since `began`."""
        made = [table for table in found if table is not None]
        self.results += sum(len(table) for table in made)
        self.state.moved()
        self.seconds += perf_counter() - began
        return made

    def _changes(self, now: int, released: Released) -> pa.Table | None:
        self.state.ranked.expire(self.limits(now, released))
        return self.state.ranked.changes(now)

    def _every(self, last: int, released: Released) -> list[pa.Table | None]:
        period = self.query.emit.period
        if self._emitted_until is None:
            first_row = self.first_row(released)
            if first_row is None:
                return []
            self._emitted_until = at_or_after(first_row, period) - 1
        first, final = at_or_after(self._emitted_until + 1, period), last // period * period
        self._emitted_until = max(self._emitted_until, last)
        if final < first:
            return []
        batches = self.state.waiting.until(final)
        due = self.due(first, final, period, released)
        when = [np.maximum(at_or_after(rows.clock, period), first) for rows in batches]
        instants = list(when)
        for at, queue in enumerate(self.state.ranked.rows.queues):
            keys, limit = np.concatenate([queue.pairs()[0], *(rows.leaving[at] for rows in batches)]), due.limits[at]
            instants.append(due.instants[at](keys[keys < limit if isinstance(limit, int) else np.isin(keys, limit)]))
        found = []
        for instant in np.unique(np.concatenate(instants)).tolist() if instants else []:
            for rows, due_at in zip(batches, when, strict=True):
                begin, stop = np.searchsorted(due_at, instant), np.searchsorted(due_at, instant, side="right")
                if begin < stop:
                    self.state.ranked.add(rows.take(slice(begin, stop)))
            found.append(self._changes(instant, released))
        self.forget_pushed(final)
        return found

    def snapshot(self) -> tuple[object, Blocks]:
        state, blocks = self.state.snapshot()
        pushed, more = self.saved_pushed(self.state.name)
        return {**state, "serial": self._serial, "until": self._emitted_until, "pushed": pushed}, blocks | more

    def restore(self, state: object, load: Load) -> None:
        saved: dict[str, Any] = dict(state)  # type: ignore[call-overload]
        self._serial, self._emitted_until = saved["serial"], saved["until"]
        self.state.restore(saved, load)
        self.restore_pushed(saved["pushed"], load)


class RankedAggregate(AggregateQuery):
    """The first groups of a partition."""

    def __init__(self, given: Registration) -> None:
        query, lowered, times = given.query, given.lowered, given.times
        ranking = lowered.ranking
        assert ranking is not None
        hidden = [OutputColumn(f"_order{at}", o.expression) for at, o in enumerate(ranking.order)]
        hidden += [OutputColumn(f"_partition{at}", e) for at, e in enumerate(ranking.partition)]
        whole = replace(lowered, outputs=(*lowered.outputs, *hidden))
        super().__init__(replace(given, lowered=whole))
        self.spec = _spec(
            lowered, 0, times, pruned=False, closing=query.group_window is not None and query.emit.kind != "close"
        )
        #: None: groups are final when they come.
        self.state = None if query.emit.kind == "close" else RankedState(query.name, self.spec)
        self.groups = Dictionary(len(lowered.group_by) + 1)
        #: By group, its slot among the ranked rows; -1: none.
        self.slots: Ints = np.full(0, -1, np.int64)
        self._serial = 0

    @property
    def schema(self) -> pa.Schema:
        return self.spec.schema

    @property
    def merging(self) -> Merging | None:
        return Merging(partial(ranked_parts, self.aggregation.config, self.spec)) if self.parts else None

    def advance(self, frontier: int, closing: bool, issues: Issues, released: Released) -> list[pa.Table]:
        before = self.results
        return self._ranked(super().advance(frontier, closing, issues, released), before, frontier - 1)

    def end(self, now: int, issues: Issues, released: Released) -> list[pa.Table]:
        before, period = self.results, self.query.emit.period
        return self._ranked(super().end(now, issues, released), before, at_or_after(now, period) if period else now)

    def _ranked(self, found: list[pa.Table], before: int, last: int) -> list[pa.Table]:
        """The first groups, up to the instant `last`, of what the aggregate has given beside `before` results."""
        if self.parts:
            return found
        began = perf_counter()
        if self.state is None:
            made = [
                table for given in found if len(table := first_rows(self.spec, given, _partition(self.spec, given)))
            ]
        else:
            made = [table for given in found for table in self._changes(given)]
            last = last if self.stop is None else min(last, self.stop)
            if last > self.start:
                period = self.query.emit.period
                self._release(self.state.ranked.forget(last // period * period if period else last))
            self.state.moved()
        self.results = before + sum(len(table) for table in made)
        self.seconds += perf_counter() - began
        return made

    def _changes(self, table: pa.Table) -> Iterable[pa.Table]:
        """The changelog of the first groups from that of all."""
        assert self.state is not None
        stamps = np.asarray(table.column("_ts").combine_chunks().cast(pa.int64()))
        ends = [*np.flatnonzero(stamps[1:] != stamps[:-1]) + 1, len(stamps)]
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            made = self._change(table.slice(begin, end - begin).combine_chunks(), int(stamps[begin]))
            if made is not None:
                yield made

    def _change(self, table: pa.Table, now: int) -> pa.Table | None:
        assert self.state is not None
        ranked, spec = self.state.ranked, self.spec
        gone = np.asarray(pc.equal(table.column("_op"), "-").combine_chunks().cast(pa.uint8())).view(np.bool_)
        count = len(self.lowered.group_by)
        shown, order = spec.shown, len(spec.order)
        # The grouping expressions end the order.
        keys = [table.column(shown + order - count + at).combine_chunks() for at in range(count)]
        codes = self.groups.codes(ranked.encoder.encode_rows(keys, spec.kinds[-count:]))
        self.slots = grown(self.slots, self.groups.capacity, -1)
        held = self.slots[codes]
        ranked.leave(held[held >= 0])
        self.slots[codes] = -1
        fresh = table.filter(pa.array(~gone)) if gone.any() else table
        if len(fresh):
            mine = codes[~gone]
            partition = ranked.encoder.encode_rows(_partition(spec, fresh), spec.partition, len(fresh))
            encoded = ranked.encoder.encode_columns((c.combine_chunks() for c in fresh.columns), spec.kinds)
            stamps = np.full(len(mine), now, np.int64)
            serial = np.arange(self._serial, self._serial + len(mine))
            self._serial += len(mine)
            self.slots[mine] = ranked.add(ArrivingRows(stamps, partition, *encoded, [], serial), mine)
        made = ranked.changes(now)
        self.groups.release(codes[gone])
        return made

    def _release(self, slots: Ints) -> None:
        """Groups whose rows were forgotten."""
        if len(slots) and self.state is not None:
            codes = self.state.ranked.owner[slots]
            self.slots[codes] = -1
            self.groups.release(codes)

    def snapshot(self) -> tuple[object, Blocks]:
        state, blocks = super().snapshot()
        if self.state is None:
            return state, blocks
        ranked, more = self.state.snapshot()
        assert isinstance(state, dict)
        return {**state, "ranked": ranked, "serial": self._serial}, {**blocks, **more}

    def restore(self, state: object, load: Load) -> None:
        super().restore(state, load)
        if self.state is None:
            return
        saved: dict[str, Any] = dict(state)  # type: ignore[call-overload]
        self._serial = saved["serial"]
        self.state.restore(saved["ranked"], load)
        rows = self.state.ranked.rows
        live = rows.live()
        codes, count = self.state.ranked.owner[live], len(self.lowered.group_by)
        keys = np.zeros((len(live), count + 1), np.int64)
        for at in range(count):
            column = len(self.spec.kinds) - count + at
            keys[:, at] = rows.encoded[column][live]
            valid = rows.valid_at(column, live)
            if len(valid):
                keys[:, -1] |= (~valid).astype(np.int64) << at
        self.groups.restore(codes, keys)
        self.slots = grown(self.slots, self.groups.capacity, -1)
        self.slots[codes] = live


def _partition(spec: RankSpec, table: pa.Table) -> list[pa.Array]:
    """The columns of the partition: those after the order."""
    first = spec.shown + len(spec.order)
    return [table.column(first + at).combine_chunks() for at in range(len(spec.partition))]


def ranked_parts(config: AggregateConfig, spec: RankSpec, parts: Iterable[pa.Table], issues: Issues) -> pa.Table:
    """The first groups of every partition, from the parts of groups that shards have."""
    whole = merged_parts(config, parts, issues)
    return first_rows(spec, whole, _partition(spec, whole))
