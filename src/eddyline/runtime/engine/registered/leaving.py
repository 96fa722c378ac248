"""Registered queries whose combinations count until they leave their windows.

Answer   `leaving` gives the ends of combinations, `limits` what has left at an instant, `due` the one of several
         instants at which each leaves.
State    None beside that of a registered query.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from eddyline.model.expressions.expression import ColumnKey, ColumnRef, Expression
from eddyline.model.window import Now, PartitionedRows, Range, Rows
from eddyline.operators.aggregate.expiry import Limit
from eddyline.operators.aggregate.instants import DueInstants
from eddyline.operators.aggregate.pushed import PushedOut
from eddyline.operators.expressions.evaluate import Compiled, Issues, compile_expression
from eddyline.operators.join.combination import Combinations
from eddyline.runtime.engine.registered.query import RegisteredQuery, Released
from eddyline.runtime.engine.unit import Slice
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints

#: One instant, or many.
Instants = TypeVar("Instants", int, Ints)


class LeavingQuery(RegisteredQuery):
    #: Positions whose windows end a combination: all RANGE and NOW together by time, each ROWS by row number, and each
    #: ROWS of a partition by the names of rows that were pushed out.
    ranges: list[int]
    counted: list[int]
    pushed: dict[int, PushedOut]

    def begin_leaving(self, lasting: bool) -> None:
        """With `lasting` no combination leaves."""
        windows = self.lowered.windows
        self.ranges = [] if lasting else [p for p, w in enumerate(windows) if isinstance(w, Range | Now)]
        self.counted = [] if lasting else [p for p, w in enumerate(windows) if isinstance(w, Rows)]
        self.pushed = {}
        for position, window in enumerate(windows):
            if isinstance(window, PartitionedRows) and not lasting:
                types = self.group.bases[position].stream.types
                self.pushed[position] = PushedOut(
                    window.columns, [types[name] for name in window.columns], window.count
                )
        if self.pushed:
            self.watch = self._see

    def _see(self, part: Slice) -> None:
        for position, pushed in self.pushed.items():
            source = self.lowered.seats[position].source
            if source in part.tables:
                pushed.add(part.tables[source], part.ts[source], part.arrival[source])

    @property
    def queues(self) -> int:
        return bool(self.ranges) + len(self.counted) + len(self.pushed)

    @property
    def named(self) -> int:
        """How many of the queues get the names of what leaves."""
        return len(self.pushed)

    def limits(self, now: int, released: Released) -> list[Limit]:
        """Per queue: combinations with a key below, or with these names, have left at an instant."""
        limits: list[Limit] = [now] if self.ranges else []
        for position in self.counted:
            before, times = released(self.lowered.seats[position].source)
            limits.append(before + int(np.searchsorted(times, now, side="right")))
        for pushed in self.pushed.values():
            limits.append(pushed.out(now)[0])
            pushed.forget(now)
        return limits

    def leaving(self, rows: Combinations) -> list[Ints]:
        """Per queue: the last instant, or the number of the first row after, at which the combination is live."""
        leaving = []
        if self.ranges:
            ends = []
            for position in self.ranges:
                window = self.lowered.windows[position]
                span = window.micros if isinstance(window, Range) else 0
                ends.append(self.group.bases[position].store.at("ts", rows.ids[position]) + span)
            leaving.append(ends[0] if len(ends) == 1 else np.minimum.reduce(ends))
        for position in self.counted:
            window = self.lowered.windows[position]
            assert isinstance(window, Rows)
            base = self.group.bases[position]
            leaving.append(base.store.at(base.port.reader.numbers, rows.ids[position]) + window.count)
        leaving += [self.group.bases[position].store.at("arrival", rows.ids[position]) for position in self.pushed]
        return leaving

    def due(self, first: int, final: int, period: int, released: Released) -> DueInstants:
        """What leaves up to the instant `final`, and at which instant from `first` on each does."""
        due = DueInstants([], [])
        if self.ranges:
            due.limits.append(final)
            due.instants.append(lambda keys: np.maximum(at_or_after(keys + 1, period), first))
        for position in self.counted:
            before, times = released(self.lowered.seats[position].source)
            due.limits.append(before + int(np.searchsorted(times, final, side="right")))
            due.instants.append(partial(_pushed_out, before=before, times=times, period=period, first=first))
        for pushed in self.pushed.values():
            names, times = pushed.out(final)
            due.limits.append(names)
            due.instants.append(partial(_named, names=names, when=np.maximum(at_or_after(times, period), first)))
        return due

    def forget_pushed(self, final: int) -> None:
        """Rows that were pushed out up to an instant have left everything."""
        for pushed in self.pushed.values():
            pushed.forget(final)

    def saved_pushed(self, name: str) -> tuple[dict[str, Any], Blocks]:
        """What partitions hold, for a snapshot."""
        found = {str(at): pushed.snapshot(f"{name}-pushed-{at}") for at, pushed in self.pushed.items()}
        blocks = {name: block for _, made in found.values() for name, block in made.items()}
        return {at: state for at, (state, _) in found.items()}, blocks

    def restore_pushed(self, saved: Mapping[str, Any], load: Load) -> None:
        for at, pushed in self.pushed.items():
            pushed.restore(saved[str(at)], load)

    def first_row(self, released: Released) -> int | None:
        """When the first row of any of the query's streams came."""
        found = []
        for position in self.lowered.moving:
            _, times = released(self.lowered.seats[position].source)
            after = int(np.searchsorted(times, self.start, side="right"))
            if after < len(times):
                found.append(int(times[after]))
        return min(found, default=None)


def compiled_of(e: Expression) -> Compiled | None:
    return None if isinstance(e, ColumnRef) else compile_expression(e)


def computed(
    e: Expression, compiled: Compiled | None, values: Mapping[ColumnKey, pa.Array], rows: int, issues: Issues
) -> pa.Array:
    if compiled is None:
        assert isinstance(e, ColumnRef)
        return values[e.ref, e.column]
    return compiled(values, rows, issues)


def at_or_after(instant: Instants, period: int) -> Instants:
    return -(-instant // period) * period


def _named(keys: Ints, names: Ints, when: Ints) -> Ints:
    """When rows of these names leave."""
    return when[np.searchsorted(names, keys)]


def _pushed_out(keys: Ints, before: int, times: Ints, period: int, first: int) -> Ints:
    """When rows push others out, by their numbers: a row below `before` came in an earlier epoch, after the last
    instant of then."""
    found = np.full(len(keys), first, np.int64)
    here = keys >= before
    found[here] = np.maximum(at_or_after(times[keys[here] - before], period), first)
    return found
