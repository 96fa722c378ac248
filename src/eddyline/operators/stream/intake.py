"""Intake of one stream: what its rows are counted as, how far the stream has come, and which rows are late for all
queries.

Answer   `take` sorts out rows that break a heartbeat before them in the source, and those below the stream's horizon.
         It gives the others as one sorted chunk, numbered by arrival.
State    The newest event time, counts. No row is kept: those that wait are in the queues of the queries' timelines
         (`waiting.py`).
Limits   `newest` and `census` come from the driver where this pipeline sees only a part of the stream.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.kernels.order import ascends
from eddyline.model.records.records import BEFORE_ALL, Flags
from eddyline.model.schema import Stream
from eddyline.operators.stream.waiting import Waiting, in_time_order
from eddyline.state.columns import Ints


@dataclass(frozen=True, slots=True)
class Taken:
    """What an epoch brought of one stream."""

    #: Rows at or above the horizon, in order; None: there are none.
    chunk: Waiting | None
    #: Event times and arrival numbers of all such rows of the stream, where they are counted.
    census: tuple[Ints, Ints] | None
    #: Rows below the horizon, and rows that break a heartbeat; None: there are none.
    late: Waiting | None
    broken: Waiting | None = None


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Heartbeats among rows: a row after one in the source has a later instant."""

    #: Ascending: how many of the rows come before each.
    before: Ints
    instants: Ints

    def broken(self, ts: Ints, places: Ints) -> Flags:
        """Which rows, with these event times and places in the source, break one of them."""
        latest = np.maximum.accumulate(np.concatenate([[BEFORE_ALL], self.instants]))
        return ts <= latest[np.searchsorted(self.before, places, side="right")]


class Intake:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.newest: int | None = None
        self.closed = False
        self.rows_in = 0
        self.late = 0
        self.bad = 0
        #: Rows that checkers have taken out.
        self.violations = 0
        self.arrived = 0
        #: Row groups of this run that were skipped, and read for each reason.
        self.row_groups: Counter[str] = Counter()
        #: A record has promised that no row at or before this instant comes any more.
        self.promised: int | None = None
        #: The same of heartbeats in the source alone: a row at or before it breaks one of them.
        self.told: int | None = None

    @property
    def horizon(self) -> int | None:
        promised = None if self.promised is None else self.promised + 1
        if self.newest is None:
            return promised
        seen = self.newest - self.stream.lateness
        return seen if promised is None else max(seen, promised)

    @property
    def reached(self) -> int | None:
        """The last instant that the stream has come to: that of its newest row, or the one that records promise up
        to."""
        known = [instant for instant in (self.newest, self.promised) if instant is not None]
        return max(known, default=None)

    def refuse(self, bad: int) -> None:
        """Rows came that cannot be read."""
        self.bad += bad
        self.rows_in += bad

    def promise(self, instants: Ints, in_source: Flags) -> None:
        """No row at or before some instants comes any more; those with a flag are promised by heartbeats in the
        source."""
        self.promised = _latest(self.promised, instants)
        self.told = _latest(self.told, instants[in_source])

    def take(
        self,
        rows: pa.Table,
        *,
        newest: int | None = None,
        routes: npt.NDArray[np.uint64] | None = None,
        total: int | None = None,
        places: Ints | None = None,
        census: Ints | None = None,
        heartbeats: Heartbeats | None = None,
        skipped: int = 0,
    ) -> Taken:
        """Rows of an epoch in source order.

        Where they are a part of the stream, `total` is the number of all that came and `places` are their places among
        them; `skipped` of those were not read. `heartbeats` are those between the rows; those of earlier epochs are known.
        """
        ts = event_times(rows, self.stream.time)
        self.rows_in += len(ts) + skipped
        bound, first = self.horizon, self.arrived
        number = first + (np.arange(len(ts)) if places is None else places)
        self.arrived += len(ts) if total is None else total
        is_ordered = ascends(ts)
        chunk = Waiting(rows, ts, number, routes, first)
        if newest is None and len(ts):
            newest = int(ts[-1] if is_ordered else ts.max())
        lost = late = None
        broken = self._broken(ts, number - first, heartbeats)
        if broken is not None and broken.any():
            lost, chunk = chunk.take(np.flatnonzero(broken)), chunk.take(np.flatnonzero(~broken))
        ts = chunk.ts
        if bound is not None and len(ts) and (ts[0] if is_ordered else ts.min()) < bound:
            late, chunk = chunk.take(np.flatnonzero(ts < bound)), chunk.take(np.flatnonzero(ts >= bound))
        counted = None
        if census is not None:
            kept = np.ones(len(census), np.bool_) if bound is None else census >= bound
            if (missed := self._broken(census, np.arange(len(census)), heartbeats)) is not None:
                kept &= ~missed
            counted = (census[kept], (first + np.arange(len(census)))[kept])
        if newest is not None:
            self._came_to(newest)
        return Taken(in_time_order(chunk, self.stream) if len(chunk) else None, counted, late, lost)

    def _broken(self, ts: Ints, places: Ints, heartbeats: Heartbeats | None) -> Flags | None:
        """Which rows break a heartbeat of this epoch or of an earlier one; None: there is none."""
        if heartbeats is None:
            return None if self.told is None else ts <= self.told
        found = heartbeats.broken(ts, places)
        return found if self.told is None else found | (ts <= self.told)

    def _came_to(self, newest: int) -> None:
        """The stream has brought a row of this time."""
        self.newest = newest if self.newest is None else max(self.newest, newest)


class DerivedIntake(Intake):
    """The intake of a derived stream: it has come as far as the queries that make it."""

    @property
    def horizon(self) -> int | None:
        """The frontier of the queries that make it: its rows below are final."""
        return None if self.newest is None else self.newest + 1

    def promise(self, instants: Ints, in_source: Flags) -> None:
        """Heartbeats do not move the stream on."""

    def _came_to(self, newest: int) -> None:
        """Results do not move the stream on: those of a slower maker may still come from before them."""

    def move(self, frontier: int) -> None:
        """All rows below the frontier have been taken."""
        super()._came_to(frontier - 1)


def _latest(known: int | None, instants: Ints) -> int | None:
    found = [] if known is None else [known]
    return max([*found, int(instants.max())] if len(instants) else found, default=None)


def event_times(table: pa.Table, column: str) -> Ints:
    """The event times in microseconds; there are no nulls."""
    values = table.column(column)
    if values.num_chunks == 0:
        return np.empty(0, np.int64)
    whole = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole)]
