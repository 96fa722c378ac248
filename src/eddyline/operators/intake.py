"""Intake of one stream: what its rows are counted as, how far the stream has come, and which rows are late for all queries.

Answer   `take` sorts out the rows below the stream's horizon and gives the others as one sorted chunk, numbered by arrival.
State    The newest event time, counts. No row is kept: those that wait are in the queues of the queries' timelines (`waiting.py`).
Limits   `newest` and `census` come from the driver where this pipeline sees only a part of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.kernels.order import ascends
from eddyline.model.schema import Stream
from eddyline.operators.waiting import Waiting, in_time_order
from eddyline.state.columns import Ints


@dataclass(frozen=True, slots=True)
class Taken:
    """What an epoch brought of one stream."""

    #: Rows at or above the horizon, in order; None: there are none.
    chunk: Waiting | None
    #: Event times and arrival numbers of all such rows of the stream, where they are counted.
    census: tuple[Ints, Ints] | None
    #: Rows below the horizon, and their event times.
    late: pa.Table | None
    late_times: Ints


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
        #: No row at or before this instant comes any more: a record has said so.
        self.promised: int | None = None

    @property
    def horizon(self) -> int | None:
        said = None if self.promised is None else self.promised + 1
        if self.newest is None:
            return said
        seen = self.newest - self.stream.lateness
        return seen if said is None else max(seen, said)

    def promise(self, instant: int | None) -> None:
        """No row at or before an instant comes any more."""
        if instant is not None:
            self.promised = instant if self.promised is None else max(self.promised, instant)

    def take(
        self,
        rows: pa.Table,
        *,
        newest: int | None = None,
        routes: npt.NDArray[np.uint64] | None = None,
        total: int | None = None,
        places: Ints | None = None,
        census: Ints | None = None,
    ) -> Taken:
        """Rows of an epoch in source order.

        Where they are a part of the stream, `total` says how many came in all and `places` where each stands among them.
        """
        ts = event_times(rows, self.stream.time)
        self.rows_in += len(ts)
        bound, first = self.horizon, self.arrived
        number = first + (np.arange(len(ts)) if places is None else places)
        self.arrived += len(ts) if total is None else total
        late, late_times = None, ts[:0]
        is_ordered = ascends(ts)
        if bound is not None and len(ts) and (ts[0] if is_ordered else ts.min()) < bound:
            below = ts < bound
            late, late_times = rows.filter(pa.array(below)), ts[below]
            chosen = np.flatnonzero(~below)
            rows, ts, number = rows.take(pa.array(chosen)), ts[chosen], number[chosen]
            routes = None if routes is None else routes[chosen]
        counted = None
        if census is not None:
            kept = slice(None) if bound is None else census >= bound
            counted = (census[kept], (first + np.arange(len(census)))[kept])
        found = int(ts[-1] if is_ordered else ts.max()) if newest is None and len(ts) else newest
        if found is not None:
            self._came_to(found)
        chunk = in_time_order(Waiting(rows, ts, number, routes, first), self.stream) if len(ts) else None
        return Taken(chunk, counted, late, late_times)

    def _came_to(self, newest: int) -> None:
        """The stream has brought a row of this time."""
        self.newest = newest if self.newest is None else max(self.newest, newest)


class DerivedIntake(Intake):
    """The intake of a derived stream: it has come as far as the queries that make it."""

    @property
    def horizon(self) -> int | None:
        """The frontier of the queries that make it: its rows below are final."""
        return None if self.newest is None else self.newest + 1

    def _came_to(self, newest: int) -> None:
        """Results do not move the stream on: those of a slower maker may still come from before them."""

    def move(self, frontier: int) -> None:
        """All rows below the frontier have been taken."""
        super()._came_to(frontier - 1)


def event_times(table: pa.Table, column: str) -> Ints:
    """The event times in microseconds; there are no nulls."""
    values = table.column(column)
    if values.num_chunks == 0:
        return np.empty(0, np.int64)
    whole = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole)]
