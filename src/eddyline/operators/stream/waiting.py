"""Rows of one stream that wait for the frontier of the queries that read it, in order.

Answer   `receive` takes what arrived, without the rows that the frontier has passed. `release` hands out the rows below
         the frontier in total order, with their places among all rows of the stream where ROWS windows need them.

             ───────────────┬───────────────────┬──────────► event time
               answered     │ frontier          │ horizon = newest - lateness
               (late here)  │ rows wait here …  │ … and here

State    Sorted chunks of rows; how many rows have been released. Several queues hold the same chunks, which never
         change.
Limits   A census comes from the driver where this pipeline sees only a part of the stream.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.kernels.order import ascends
from eddyline.model.schema import Stream
from eddyline.state.columns import Ints

#: Waiting chunks are merged when there are more: `release` goes through all of them.
_MOST_CHUNKS = 32
_ALL_ROUTES = np.uint64(np.iinfo(np.uint64).max)


@dataclass(slots=True)
class Waiting:
    """Rows in (ts, sequence, arrival) order. `number` is each row's place of arrival among all readable rows."""

    table: pa.Table
    ts: Ints
    number: Ints
    routes: npt.NDArray[np.uint64] | None
    #: No row of it arrived before this number.
    first: int = 0
    #: The value of `token`; empty until its first use.
    given: str = ""

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def token(self) -> str:
        """Names the chunk in snapshots: the same rows under the same token, in whichever run; other rows have another
        one."""
        self.given = self.given or os.urandom(8).hex()
        return self.given

    def slice(self, start: int, stop: int) -> Waiting:
        if stop - start == len(self):
            return self
        routes = None if self.routes is None else self.routes[start:stop]
        table = self.table.slice(start, stop - start)
        return Waiting(table, self.ts[start:stop], self.number[start:stop], routes, self.first)

    def take(self, chosen: Ints) -> Waiting:
        routes = None if self.routes is None else self.routes[chosen]
        return Waiting(self.table.take(pa.array(chosen)), self.ts[chosen], self.number[chosen], routes, self.first)


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
    #: With a census: the places of arrival of all released rows of the stream, in order.
    numbers: Ints | None = None


class WaitingRows:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        #: Rows released so far, of the whole stream: the number of the next one.
        self.released = 0
        self.chunks: list[Waiting] = []
        #: With a census: (ts, arrival number) of all rows of the stream that wait, in order.
        self.census: tuple[Ints, Ints] | None = None

    def __len__(self) -> int:
        return sum(len(c) for c in self.chunks)

    def from_on(self, instant: int) -> int:
        """How many rows wait that are not before an instant."""
        return sum(len(chunk) - int(chunk.ts.searchsorted(instant)) for chunk in self.chunks)

    def receive(self, chunk: Waiting | None, census: tuple[Ints, Ints] | None, frontier: int | None) -> None:
        """What arrived in an epoch, with the frontier at the beginning of the epoch: rows below it are left out."""
        if chunk is not None and frontier is not None:
            chunk = chunk.slice(int(chunk.ts.searchsorted(frontier)), len(chunk))
        if census is not None:
            times, numbers = census
            kept = slice(None) if frontier is None else times >= frontier
            self._count(times[kept], numbers[kept])
        elif self.census is not None and len(self.census[0]):
            # No ROWS window counts this stream any more. Rows that were counted still wait: those that are here are
            # counted with them.
            if chunk is not None:
                self._count(chunk.ts, chunk.number)
        else:
            self.census = None
        if chunk is not None and len(chunk):
            self.chunks.append(chunk)

    def _count(self, census: Ints, number: Ints) -> None:
        if self.census is None and self.chunks:
            # Counting begins now: of the rows that came before, those that are here have to do. The query that counts
            # came after them.
            self.census = (np.concatenate([c.ts for c in self.chunks]), np.concatenate([c.number for c in self.chunks]))
        if self.census is not None:
            census, number = np.concatenate([self.census[0], census]), np.concatenate([self.census[1], number])
        by_time = np.argsort(census, kind="stable")
        self.census = (census[by_time], number[by_time])

    def release(self, frontier: int) -> Released | None:
        """The rows strictly below the frontier, in total order; they wait no longer. None: there are none anywhere."""
        ready: list[Waiting] = []
        rest: list[Waiting] = []
        for chunk in self.chunks:
            cut = int(chunk.ts.searchsorted(frontier))
            if cut:
                ready.append(chunk if cut == len(chunk) else chunk.slice(0, cut))
            if cut < len(chunk):
                rest.append(chunk.slice(cut, len(chunk)))
        self.chunks = [self.merged(rest)] if len(rest) > _MOST_CHUNKS else rest
        if not ready and self.census is None:
            return None
        rows = self.merged(ready) if ready else no_rows(self.stream)
        times, place, numbers = rows.ts, None, None
        if self.census is not None:
            cut = int(np.searchsorted(self.census[0], frontier))
            times, numbers = self.census[0][:cut], self.census[1][:cut]
            self.census = (self.census[0][cut:], self.census[1][cut:])
            place = _positions(numbers, rows.number)
        self.released += len(times)
        return Released(rows.table, rows.ts, rows.routes, times, place, rows.number, numbers) if len(times) else None

    def take_back(self, bound: int | None) -> tuple[list[Waiting], tuple[Ints, Ints] | None]:
        """The rows, and the part of the census, at or above a bound: they wait elsewhere from now on."""
        given: list[Waiting] = []
        kept: list[Waiting] = []
        for chunk in self.chunks:
            cut = 0 if bound is None else int(np.searchsorted(chunk.ts, bound))
            kept += [chunk.slice(0, cut)] if cut else []
            given += [chunk.slice(cut, len(chunk))] if cut < len(chunk) else []
        self.chunks = kept
        if self.census is None:
            return given, None
        cut = 0 if bound is None else int(np.searchsorted(self.census[0], bound))
        times, numbers = self.census
        self.census = (times[:cut], numbers[:cut])
        return given, (times[cut:], numbers[cut:])

    def merged(self, chunks: list[Waiting]) -> Waiting:
        """Chunks as one, in order; rows of equal time as in the list."""
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
        return in_time_order(whole, self.stream)


def no_rows(stream: Stream) -> Waiting:
    none = np.empty(0, np.int64)
    return Waiting(stream.schema.arrow.empty_table(), none, none, None)


def _positions(numbers: Ints, wanted: Ints) -> Ints:
    """The place of each wanted arrival number in `numbers` (all of them are there)."""
    by_number = np.argsort(numbers)
    return by_number[np.searchsorted(numbers[by_number], wanted)]


def in_time_order(rows: Waiting, stream: Stream) -> Waiting:
    """The rows by event time, then by the stream's `sequence`, then as they came."""
    if stream.sequence is not None:
        keys = pa.table({"t": rows.ts, "s": rows.table.column(stream.sequence)})
        chosen = np.asarray(pc.sort_indices(keys, sort_keys=[("t", "ascending"), ("s", "ascending")])).astype(np.int64)
    elif ascends(rows.ts):
        return rows
    else:
        chosen = np.argsort(rows.ts, kind="stable")
    return rows.take(chosen)
