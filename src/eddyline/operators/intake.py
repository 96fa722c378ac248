"""Intake of one stream: what is late, what must wait, and in which order rows are processed.

Answer   `take` sorts out late rows and keeps the others; `release` hands out the rows below the frontier in total order,
         with their places among all rows of the stream where ROWS windows need them.

             ───────────────┬───────────────────┬──────────► event time
               answered     │ frontier          │ horizon = newest - lateness
               (late here)  │ rows wait here …  │ … and here

State    The newest event time, sorted chunks of rows that wait, counts.
Limits   `newest` and `census` come from the driver where this pipeline sees only a part of the stream.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import DataProblem
from eddyline.kernels.order import ascends
from eddyline.model.schema import Stream
from eddyline.state.columns import Ints

#: Waiting chunks are merged when there are more: release looks at each of them.
_MOST_CHUNKS = 32
_ALL_ROUTES = np.uint64(np.iinfo(np.uint64).max)


def _token() -> str:
    return os.urandom(8).hex()


@dataclass(slots=True)
class Waiting:
    """Rows in (ts, sequence, arrival) order. `number` is each row's place of arrival among all readable rows."""

    table: pa.Table
    ts: Ints
    number: Ints
    routes: npt.NDArray[np.uint64] | None
    #: No row of it arrived before this number.
    first: int = 0
    #: Names the chunk in snapshots: the same rows under the same token, in whichever run; other rows have another one.
    token: str = field(default_factory=_token)

    def __len__(self) -> int:
        return len(self.ts)

    def slice(self, start: int, stop: int) -> Waiting:
        if stop - start == len(self):
            return self
        routes = None if self.routes is None else self.routes[start:stop]
        table = self.table.slice(start, stop - start)
        return Waiting(table, self.ts[start:stop], self.number[start:stop], routes, self.first)


@dataclass(slots=True)
class Released:
    """Rows below the frontier, in order. `place[i]` is row i's place among `times`, all released rows of the stream."""

    table: pa.Table
    ts: Ints
    routes: npt.NDArray[np.uint64] | None
    times: Ints
    place: Ints | None
    #: Each row's place of arrival, as in `Waiting`.
    number: Ints


class Intake:
    def __init__(self, stream: Stream, on_late: str = "dead-letter") -> None:
        self.stream = stream
        self.on_late = on_late
        self.newest: int | None = None
        self.closed = False
        self.rows_in = 0
        self.late = 0
        self.bad = 0
        #: Rows released so far, of the whole stream: the number of the next one.
        self.released = 0
        self.chunks: list[Waiting] = []
        #: With a census: (ts, arrival number) of all rows of the stream that wait, in order.
        self.census: tuple[Ints, Ints] | None = None
        self.arrived = 0

    @property
    def horizon(self) -> int | None:
        return None if self.newest is None else self.newest - self.stream.lateness

    @property
    def waiting(self) -> int:
        return sum(len(c) for c in self.chunks)

    # -- arrival

    def take(
        self,
        rows: pa.Table,
        frontier: int | None,
        *,
        newest: int | None = None,
        routes: npt.NDArray[np.uint64] | None = None,
        total: int | None = None,
        places: Ints | None = None,
        census: Ints | None = None,
    ) -> pa.Table | None:
        """Rows of an epoch in source order, with the frontier as it stood when the epoch began. Returns the late ones.

        Where they are a part of the stream, `total` says how many came in all and `places` where each stands among them.
        """
        ts = event_times(rows, self.stream.time)
        self.rows_in += len(ts)
        bound = max((b for b in (self.horizon, frontier) if b is not None), default=None)
        late_rows = None
        first = self.arrived
        number = first + (np.arange(len(ts)) if places is None else places)
        if bound is not None and len(ts) and ts.min() < bound:
            late = ts < bound
            late_rows = self._late(rows, ts, late, bound)
            chosen = np.flatnonzero(~late)
            rows, ts, number = rows.take(pa.array(chosen)), ts[chosen], number[chosen]
            routes = None if routes is None else routes[chosen]
        if census is not None:
            self._count(census, first + np.arange(len(census)), bound)
        elif self.census is not None and len(self.census[0]):
            # Nobody counts this stream any more. Rows that were counted still wait: those that are here are counted with them.
            self._count(ts, number, None)
        else:
            self.census = None
        self.arrived += total if total is not None else (0 if late_rows is None else len(late_rows)) + len(ts)
        if len(ts):
            self.chunks.append(self._sorted(Waiting(rows, ts, number, routes, first)))
        found = int(ts.max()) if newest is None and len(ts) else newest
        if found is not None:
            self.newest = found if self.newest is None else max(self.newest, found)
        return late_rows

    def _late(self, rows: pa.Table, ts: Ints, late: npt.NDArray[np.bool_], bound: int) -> pa.Table:
        self.late += int(late.sum())
        limit = np.datetime64(bound, "us")
        if self.on_late == "error":
            worst = np.datetime64(int(ts[late][0]), "us")
            raise DataProblem(
                f"a row of stream {self.stream.name} is late",
                detail=f"its event time {worst} lies before {limit}",
                hint="declare a larger lateness, or SET on_late = 'dead-letter'",
            )
        found = rows.filter(pa.array(late))
        reason = f"late: event time lies before {limit}, the newest seen minus lateness"
        return found.append_column("_reason", pa.array([reason] * len(found), pa.string()))

    def _count(self, census: Ints, number: Ints, bound: int | None) -> None:
        if bound is not None:
            kept = census >= bound
            census, number = census[kept], number[kept]
        if self.census is None and self.chunks:
            # Counting begins now: of the rows that came before, those that are here have to do. Who counts came after them.
            self.census = (np.concatenate([c.ts for c in self.chunks]), np.concatenate([c.number for c in self.chunks]))
        if self.census is not None:
            census, number = np.concatenate([self.census[0], census]), np.concatenate([self.census[1], number])
        by_time = np.argsort(census, kind="stable")
        self.census = (census[by_time], number[by_time])

    def _sorted(self, rows: Waiting) -> Waiting:
        if self.stream.sequence is not None:
            keys = pa.table({"t": rows.ts, "s": rows.table.column(self.stream.sequence)})
            chosen = np.asarray(pc.sort_indices(keys, sort_keys=[("t", "ascending"), ("s", "ascending")])).astype(np.int64)
        elif ascends(rows.ts):
            return rows
        else:
            chosen = np.argsort(rows.ts, kind="stable")
        routes = None if rows.routes is None else rows.routes[chosen]
        return Waiting(rows.table.take(pa.array(chosen)), rows.ts[chosen], rows.number[chosen], routes, rows.first)

    # -- release

    def release(self, frontier: int) -> Released | None:
        """The rows strictly below the frontier, in total order; they wait no longer. None: there are none anywhere."""
        ready: list[Waiting] = []
        rest: list[Waiting] = []
        for chunk in self.chunks:
            cut = int(np.searchsorted(chunk.ts, frontier))
            if cut:
                ready.append(chunk if cut == len(chunk) else chunk.slice(0, cut))
            if cut < len(chunk):
                rest.append(chunk.slice(cut, len(chunk)))
        self.chunks = [self._merged(rest)] if len(rest) > _MOST_CHUNKS else rest
        if not ready and self.census is None:
            return None
        rows = self._merged(ready) if ready else None
        times, place = (rows.ts if rows is not None else np.empty(0, np.int64)), None
        if self.census is not None:
            cut = int(np.searchsorted(self.census[0], frontier))
            times, numbers = self.census[0][:cut], self.census[1][:cut]
            self.census = (self.census[0][cut:], self.census[1][cut:])
            place = _positions(numbers, rows.number if rows is not None else np.empty(0, np.int64))
        self.released += len(times)
        if rows is None:
            empty = self.stream.schema.arrow.empty_table()
            return Released(empty, np.empty(0, np.int64), None, times, place, np.empty(0, np.int64)) if len(times) else None
        return Released(rows.table, rows.ts, rows.routes, times, place, rows.number)

    def _merged(self, chunks: list[Waiting]) -> Waiting:
        if len(chunks) == 1:
            return chunks[0]
        routes = None
        if any(c.routes is not None for c in chunks):
            # Rows without routes were sent by all there were.
            routes = np.concatenate([np.full(len(c), _ALL_ROUTES) if c.routes is None else c.routes for c in chunks])
        whole = Waiting(
            pa.concat_tables([c.table for c in chunks]),
            np.concatenate([c.ts for c in chunks]),
            np.concatenate([c.number for c in chunks]),
            routes,
            min(c.first for c in chunks),
        )
        return self._sorted(whole)


def _positions(numbers: Ints, wanted: Ints) -> Ints:
    """Where each wanted arrival number stands in `numbers` (all of them are there)."""
    by_number = np.argsort(numbers)
    found: Ints = by_number[np.searchsorted(numbers[by_number], wanted)]
    return found


def event_times(table: pa.Table, column: str) -> Ints:
    """The event times in microseconds; there are no nulls."""
    values = table.column(column)
    if values.num_chunks == 0:
        return np.empty(0, np.int64)
    whole = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole)]
