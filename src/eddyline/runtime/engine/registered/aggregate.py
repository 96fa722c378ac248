"""A registered aggregate: combinations come in, changes of groups go out at the instants that EMIT names.

Answer   `accept` takes the combinations of a slice out of the stores as encoded values, for the stores forget them;
         `advance` moves the aggregate to the end of the epoch and emits: once (ON CHANGE), at every multiple of the
         period at which something changes (EVERY), or the groups whose bucket is complete (ON CLOSE).
State    The aggregation; for EVERY also combinations that are newer than the last instant.
Limits   Nothing is emitted at or before the query's start, or after its stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from time import perf_counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline.model.expressions.arranged import IN_ORDER
from eddyline.model.expressions.expression import Expression, columns_of
from eddyline.model.expressions.monotone import trend_of
from eddyline.model.window import FOREVER, Now, Range
from eddyline.operators.aggregate.aggregation import Aggregation, merged_parts
from eddyline.operators.aggregate.buckets import Bucket
from eddyline.operators.aggregate.config import AggregateConfig
from eddyline.operators.aggregate.contributions import Batch
from eddyline.operators.aggregate.instant_queue import InstantQueue
from eddyline.operators.aggregate.instants import changes_at
from eddyline.operators.aggregate.saved import AggregationBlocks
from eddyline.operators.aggregate.windows import Sessions, several
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.expressions.functions_arranged import PLACE
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.port import LONG_AGO
from eddyline.operators.project import gather, result_schema
from eddyline.operators.promises.closings import Closings
from eddyline.plan.lower import Lowered
from eddyline.runtime.engine.registered.finished_groups import FinishedGroups
from eddyline.runtime.engine.registered.leaving import LeavingQuery, at_or_after, compiled_of, computed
from eddyline.runtime.engine.registered.query import Registration, Released, linger
from eddyline.runtime.engine.unit import EpochEnd, Merging
from eddyline.state.blocks import Blocks, Load

if TYPE_CHECKING:
    from eddyline.operators.join.punctuations.group_roots import GroupRoots


class AggregateQuery(LeavingQuery):
    def __init__(self, given: Registration) -> None:
        super().__init__(given)
        query, lowered, group, times, closings = given.query, given.lowered, given.group, given.times, given.closings
        self.begin_leaving(query.emit.kind == "close" or query.group_window is not None)
        keys = (
            tuple(o.expression for o in lowered.outputs)
            if query.distinct and not lowered.group_by
            else lowered.group_by
        )
        window = query.group_window
        closing = query.emit.kind == "close" or window is not None
        buckets = (
            tuple(b for at, e in enumerate(keys) if (b := bucket_of(at, e, lowered, times)) is not None)
            if closing
            else ()
        )
        queues = self.queues
        gap = window.span if window is not None and window.kind == "session" else None
        self.aggregation = Aggregation(
            AggregateConfig(lowered.outputs, keys, lowered.having, query.emit, queues, self.named, buckets, gap)
        )
        self.sessions = None if window is None or gap is None else Sessions(gap, window.start or 0, len(keys) + 1)
        self.keys = [(e, compiled_of(e)) for e in keys]
        self.arguments = [(e, compiled_of(e)) for e in self.aggregation.layout.arguments]
        self.columns = frozenset().union(*(columns_of(e) for e, _ in (*self.keys, *self.arguments)))
        for ref, name in self.columns:
            self.bases[ref].stream.need_column(name)
        #: Whether aggregates need the places of rows.
        self.in_order = any(f.aggregate.function in IN_ORDER for f in self.aggregation.layout.families)
        #: ON CLOSE: others have parts of the same groups, and results are what `merged_parts` makes of all of them.
        self.parts = given.parts
        self.waiting = InstantQueue(Batch)
        #: EVERY, and ON CHANGE without GROUP BY: all instants up to here have been emitted; None: no row has come yet.
        self._emitted_until: int | None = None
        #: EVERY: the instant at which the one group without GROUP BY is first emitted, until it is.
        self.opening: int | None = None
        #: ON CLOSE without a bucket that closes: groups end by what is promised of their streams.
        self.roots: GroupRoots | None = None
        if query.by_promises:
            from eddyline.operators.join.punctuations.group_roots import GroupRoots

            self.roots = GroupRoots(group, closings or Closings(), keys)
        #: Groups whose end was announced.
        self._finished_groups = 0
        if query.announces:
            self.aggregation.closed = []
        #: Up to where groups have been ended by promises.
        self._ended = LONG_AGO
        for base in group.bases.values() if query.by_promises else ():
            base.port.lingers = LONG_AGO, 0
        lasting = query.emit.kind == "change" and self.aggregation.config.lasting and query.group_window is None
        wanted = query.settings.punctuations == "on" and bool(keys) and closings is not None
        #: Forgets groups that are finished; None: windows end combinations, or nothing is promised.
        self.finished_groups: FinishedGroups | None = None
        if lasting and wanted and closings:
            least = query.settings.tuning.punctuations.least_groups
            self.finished_groups = FinishedGroups(group, closings, keys, self.aggregation, least)
        #: Results of the end of the streams, and the changes after it where some query met them.
        self.at_end: list[pa.Table] = []
        self._beyond: list[pa.Table] | None = None
        self._blocks = AggregationBlocks(self.aggregation)
        #: Begins the names of all blocks.
        self._name = f"aggregate-{blake2b(query.name.encode(), digest_size=5).hexdigest()}-{uuid4().hex[:8]}"
        self._version = 0

    @property
    def schema(self) -> pa.Schema:
        return self.aggregation.schema

    @property
    def left_open(self) -> int:
        groups = self.aggregation.groups if self.query.emit.kind == "close" else None
        return 0 if groups is None else groups.held

    @property
    def unseen(self) -> int:
        return self.aggregation.unseen

    @property
    def merging(self) -> Merging | None:
        return Merging(partial(merged_parts, self.aggregation.config), in_slices=True) if self.parts else None

    # -- combinations

    def accept(self, rows: Combinations, issues: Issues) -> list[pa.Table]:
        began = perf_counter()
        rows = self.mine(rows)
        self.rows_in += len(rows)
        if len(rows):
            batch = self._batch(rows, issues)
            if self.query.emit.kind == "every":
                self.waiting.append(batch)
            else:
                self.aggregation.enter(batch)
        self.seconds += perf_counter() - began
        return []

    def _batch(self, rows: Combinations, issues: Issues) -> Batch:
        values = gather(self.columns, rows, self.bases)
        if self.in_order:
            values[PLACE] = pa.array(rows.stamp)
        encoder = self.aggregation.encoder
        keys = [computed(e, c, values, len(rows), issues) for e, c in self.keys]
        groups = encoder.encode_rows(keys, [e.type for e, _ in self.keys], len(rows))
        columns = [computed(e, c, values, len(rows), issues) for e, c in self.arguments]
        encoded = encoder.encode_columns(columns, [e.type for e, _ in self.arguments])
        batch = Batch(rows.clock, groups, *encoded, self.leaving(rows))
        window = self.query.group_window
        if window is not None and window.kind in ("hop", "cumulate"):
            return several(batch, window)
        if self.sessions is not None:
            self.sessions.assign(batch)
        return batch

    # -- instants

    def advance(self, frontier: int, closing: bool, issues: Issues, released: Released) -> list[pa.Table]:
        began = perf_counter()
        last = frontier - 1 if self.stop is None else min(frontier - 1, self.stop)
        if self.query.emit.kind == "close":
            found = [self._closed(frontier, issues, released)]
        elif last <= self.start:
            found = []
        elif self.query.emit.kind == "change":
            found = [self._emitted(last, issues, released)]
            if self.finished_groups is not None and self.stop is None:
                self.finished_groups.forget(frontier, released)
        else:
            found = self._every(last, issues, released)
        if self.sessions is not None:
            self.sessions.forget(frontier)
        made = [table for table in found if table is not None]
        self.results += sum(len(table) for table in made)
        self.aggregation.sweep(self.held_batches, self.sessions)
        self._version += 1
        self.seconds += perf_counter() - began
        return made

    def end(self, now: int, issues: Issues, released: Released) -> list[pa.Table]:
        began = perf_counter()
        found: list[pa.Table | None] = []
        if self.query.emit.kind == "close":
            found = [self._closed_at_end(now, issues, released)]
        elif self.query.emit.kind == "every":
            found = self._every_until(at_or_after(now, self.query.emit.period), issues, released)
        self.at_end = [table for table in found if table is not None]
        self.results += sum(len(table) for table in self.at_end)
        self._version += 1
        self.seconds += perf_counter() - began
        return [*self.at_end, *self.beyond(issues, released)] if self.feeds_changes else self.at_end

    def _every_until(self, last: int, issues: Issues, released: Released) -> list[pa.Table | None]:
        last = last if self.stop is None else min(last, self.stop)
        return self._every(last, issues, released) if last > self.start else []

    @property
    def feeds_changes(self) -> bool:
        """Whether its changes are the table that other queries meet, at their times."""
        return self.query.feeds is not None and self.query.emit.kind == "every"

    def beyond(self, issues: Issues, released: Released) -> list[pa.Table]:
        """EVERY, after `end`: the changes at all later instants, at which rows leave their windows."""
        if self._beyond is None:
            self._beyond = [t for t in self._every_until(FOREVER, issues, released) if t is not None]
        return self._beyond

    def _closed_at_end(self, now: int, issues: Issues, released: Released) -> pa.Table | None:
        if self.roots is None:
            return self.aggregation.close(FOREVER, self.stop, issues, parts=self.parts)
        codes, values = self.aggregation.open_groups()
        until = np.maximum(self.roots.alive(values, len(codes), released), now)
        # A group that only rows of a stream without punctuations could end stays open.
        chosen = np.flatnonzero(until < FOREVER)
        chosen = chosen[np.argsort(until[chosen], kind="stable")]
        return self.aggregation.close_groups(codes[chosen], until[chosen] + 1, self.stop, issues, parts=self.parts)

    def _closed(self, frontier: int, issues: Issues, released: Released) -> pa.Table | None:
        if self.roots is None:
            return self.aggregation.close(frontier, self.stop, issues, parts=self.parts)
        ended, self._ended = self._ended, frontier
        linger(self.group, frontier, released)
        if not self.roots.is_due(self.group):
            return None
        codes, values = self.aggregation.open_groups()
        # A group that was open at the last check ends after it, whatever was promised before.
        until = np.maximum(self.roots.alive(values, len(codes), released), ended)
        chosen = np.flatnonzero(until < frontier)
        chosen = chosen[np.argsort(until[chosen], kind="stable")]
        return self.aggregation.close_groups(codes[chosen], until[chosen] + 1, self.stop, issues, parts=self.parts)

    @property
    def punctuations_out(self) -> int:  # type: ignore[override]
        return self._finished_groups

    def finished(self, end: EpochEnd) -> list[pa.Table] | None:
        if not self.query.announces:
            return None
        made, self.aggregation.closed = self.aggregation.closed or [], []
        outputs = self.lowered.outputs
        keys = {
            o.name: self.lowered.group_by.index(o.expression) for o in outputs if o.expression in self.lowered.group_by
        }
        tables = []
        for values, instants in made:
            rows = len(instants)
            columns = {
                o.name: values[keys[o.name]] if o.name in keys else pa.nulls(rows, o.type.arrow) for o in outputs
            }
            table = pa.table(
                {**columns, "_ts": pa.array(instants).cast(pa.timestamp("us"))}, schema=result_schema(outputs)
            )
            tables.append(table if self.stop is None else table.filter(pa.array(instants <= self.stop)))
        self._finished_groups += sum(len(table) for table in tables)
        return tables

    def _has_begun(self, now: int, released: Released) -> bool:
        """Whether there is a table at an instant of ON CHANGE, which is noted as emitted.

        The one group without GROUP BY has no rows to come from: it begins with the first row of the query's streams.
        """
        if not self.keys:
            first = self.first_row(released) if self._emitted_until is None else now
            if first is None or first > now:
                return False
            self._emitted_until = now
        return True

    def _emitted(self, now: int, issues: Issues, released: Released) -> pa.Table | None:
        if not self._has_begun(now, released):
            return None
        self.aggregation.leave(self.limits(now, released))
        made = self.aggregation.changes(now, issues)
        self.aggregation.forget(now)
        return made

    def _every(self, last: int, issues: Issues, released: Released) -> list[pa.Table | None]:
        period = self.query.emit.period
        if self._emitted_until is None:
            first = self.first_row(released)
            if first is None:
                return []
            self.opening = at_or_after(first, period)
            self._emitted_until = self.opening - 1
        first, final = at_or_after(self._emitted_until + 1, period), last // period * period
        opening = self.opening if self.opening is not None and self.opening <= final else None
        self._emitted_until = max(self._emitted_until, last)
        if final < first:
            return []
        if opening is not None:
            self.opening = None
        made = self._changes_until(first, final, opening, issues, released)
        self.aggregation.forget(final)
        self.forget_pushed(final)
        return [made]

    def _changes_until(
        self, first: int, final: int, opening: int | None, issues: Issues, released: Released
    ) -> pa.Table | None:
        """EVERY: the changes at the instants from `first` to `final`."""
        period = self.query.emit.period
        batch = self._until(final)
        when = np.maximum(at_or_after(batch.clock, period), first)
        return changes_at(self.aggregation, batch, when, self.due(first, final, period, released), opening, issues)

    def held_batches(self) -> list[Batch]:
        """What is held outside of the aggregation, in its encoded values."""
        return list(self.waiting.parts)

    def _until(self, final: int) -> Batch:
        """The combinations that wait for instants up to `final`; they wait no more."""
        taken = self.waiting.until(final)
        nothing = Batch.empty(len(self.keys), len(self.arguments), self.aggregation.config.queues)
        return Batch.joined(taken or [nothing])

    # -- snapshots

    def snapshot(self) -> tuple[object, Blocks]:
        version = f"{self._name}-v{self._version}"
        state, blocks = self._blocks.snapshot(self._name, version)
        state["waiting"], more = self.waiting.snapshot(f"{self._name}-waiting")
        state["pushed"], pushed = self.saved_pushed(self._name)
        blocks |= more | pushed
        if self.sessions is not None:
            state["sessions"], more = self.sessions.snapshot(f"{self._name}-sessions")
            blocks |= more
        told = {"told": self._emitted_until, "ended": self._ended, "opening": self.opening}
        return {**state, **told, "prefix": self._name}, blocks

    def restore(self, state: object, load: Load) -> None:
        saved: dict[str, Any] = dict(state)  # type: ignore[call-overload]
        self._emitted_until, self.opening, self._ended = saved["told"], saved["opening"], saved["ended"]
        self._blocks.restore(saved, load)
        self.waiting.restore(saved["waiting"], load)
        if self.sessions is not None:
            self.sessions.restore(saved["sessions"], load)
        self.restore_pushed(saved["pushed"], load)


def bucket_of(at: int, e: Expression, lowered: Lowered, times: Mapping[str, str]) -> Bucket | None:
    """A grouping expression as a bucket that closes; None where it is none, or a row of its reference can be met for
    ever."""
    trend = trend_of(e)
    if trend is None:
        return None
    position = trend.column.ref
    assert isinstance(position, int)
    seat, window = lowered.seats[position], lowered.windows[position]
    late = dict(lowered.query.delays).get(trend.column.column)
    if seat.is_table or (times[seat.source] != trend.column.column and late is None):
        return None
    length = None
    if (grouped := lowered.query.group_window) is not None and at in (grouped.start, grouped.end):
        if grouped.kind == "cumulate" and at == grouped.start:
            return None
        length = 0 if at == grouped.end else grouped.span
    if len(lowered.moving) == 1:
        return Bucket(at, e, late or 0, length)
    if isinstance(window, Now):
        return Bucket(at, e, 0, length)
    return Bucket(at, e, window.micros, length) if isinstance(window, Range) else None
