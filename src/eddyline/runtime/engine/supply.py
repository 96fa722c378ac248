"""The supply of one stream's store: one store per stream, which all timelines read that have a port on the stream.

Answer   Rows wait here until the first of these timelines reaches them; then they are stored, once for all. `take`
         gives a timeline the ids of the rows that it has reached. A row that comes when the store already holds newer
         rows is put in its place: it is late for the timelines that have passed it and in time for the others.

             arrivals ─► queue ─► pending ─► store ─┬─► timeline {a}        each with its read position
                           │ reach: the foremost    └─► timeline {a, b}
                           │ frontier

State    The store with its segments, how far it reaches, and the rows that wait, if several timelines read the store.
         They are in the queues of the timelines too, as the same chunks of rows: snapshots take them from there. The
         rows of a timeline that reads alone wait in its own queue only.
Limits   The store holds the rows of the stream below `reach` that a query wants, in the order of the stream.
Reading  docs/semantics.md, "The frontier"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from eddyline.model.schema import Stream
from eddyline.operators.stream.reading import ReadPosition
from eddyline.operators.stream.stream import StreamState
from eddyline.operators.stream.waiting import Released, Waiting, WaitingRows
from eddyline.state.columns import Ints
from eddyline.state.renumbering import Renumbering
from eddyline.state.segment import SegmentList
from eddyline.tuning import ZoneTuning


class Supply:
    def __init__(self, stream: Stream, zones: ZoneTuning) -> None:
        self.stream = stream
        self.state = StreamState(stream.name, {c.name: c.type for c in stream.schema.columns}, zones=zones)
        self.segments = SegmentList(self.state.store)
        self.queue = WaitingRows(stream)
        #: Whether the queue holds what waits: several timelines read the store.
        self._queues = False
        #: Rows below have been stored, as far as a query wants them; None: none have.
        self.reach: int | None = None
        #: The reach before the epoch at hand.
        self._reached: int | None = None
        #: Rows of the epoch at hand that no timeline has reached yet: those from `_next` on.
        self._pending: Released | None = None
        self._next = 0
        if stream.sequence is not None:
            # Rows of equal time that come later are put in their place by it.
            self.state.need_column(stream.sequence)

    def receive(self, chunk: Waiting | None, fronts: Mapping[str, int | None]) -> Renumbering | None:
        """Rows that arrived, with the frontiers of the timelines by name; returns the map to new ids if rows were put
        between others."""
        moved = None
        if not self.state.ports:
            self.queue.chunks, self._queues, self.reach = [], False, None
        elif chunk is not None:
            if self.reach is not None and int(chunk.ts[0]) < self.reach:
                known = [front for name, front in fronts.items() if name in self.state.readers]
                begin = (
                    0
                    if None in known
                    else int(np.searchsorted(chunk.ts, min(front for front in known if front is not None)))
                )
                cut = int(np.searchsorted(chunk.ts, self.reach))
                if begin < cut:
                    late = chunk.slice(begin, cut)
                    moved = self.state.insert(
                        late.table, late.ts, late.number, late.routes, fronts, self.stream.sequence
                    )
                chunk = chunk.slice(cut, len(chunk))
            if self._queues:
                self.queue.receive(chunk, None, None)
        return moved

    def begin(self, fronts: Mapping[str, int | None], queues: Callable[[str], Iterable[WaitingRows]]) -> None:
        """Timelines have moved to these frontiers, by name: the rows that the foremost of them reaches are ready to be
        stored.

        `queues` gives the queues of a stream's readers, whose rows are those that wait.
        """
        readers = self.state.readers
        shared = len(readers) > 1
        if shared is not self._queues:
            self._queues, self.queue.chunks = shared, []
            if shared:
                self._fill(queues(self.stream.name))
        self._pending, self._next, self._reached = None, 0, self.reach
        foremost = max((front for name in readers if (front := fronts.get(name)) is not None), default=None)
        if foremost is not None and (self.reach is None or foremost > self.reach):
            self.reach = foremost
            if shared:
                self._pending = self.queue.release(self.reach)

    def offer(self, rows: Released | None) -> None:
        """The rows that a timeline works on in this epoch: they are those to be stored if it reads alone."""
        if rows is not None and not self._queues:
            self._pending = rows
            self._next = 0 if self._reached is None else int(rows.ts.searchsorted(self._reached))

    def take(self, reader: ReadPosition, ts: Ints, arrival: Ints, ranks: Ints, numbers: Ints) -> tuple[int, int]:
        """A timeline has reached these rows; returns the ids of new rows, the first and the one after the last."""
        last = int(ts[-1])
        if self._pending is not None:
            upto, pending = self._next + len(arrival), self._pending.number
            # The timeline mostly takes the next rows, all of them. A number is that of one row.
            if upto > len(pending) or pending[upto - 1] != arrival[-1]:
                upto = self._upto(last, int(arrival[-1]))
            # Where a timeline reads alone, it mostly takes the rows that are stored: they have their places already.
            same = not self._queues and upto - self._next == len(arrival) and pending[self._next] == arrival[0]
            self._store(upto, ranks if same else None)
        return self.state.take(reader, last, arrival, ranks, numbers)

    def _upto(self, last: int, number: int) -> int:
        """The end of the pending rows up to (time, number). A row that is not pending counts as the first of its
        time."""
        assert self._pending is not None
        ready, end = self._pending.ts.searchsorted((last, last + 1)).tolist()
        same = (self._pending.number[ready:end] == number).nonzero()[0]
        return ready + int(same[0]) + 1 if len(same) else ready

    def pass_to(self, reader: ReadPosition, frontier: int) -> None:
        """A timeline has taken all that it takes of the rows below its frontier."""
        if self._pending is not None and self._next < len(self._pending.ts):
            self._store(int(self._pending.ts.searchsorted(frontier)))
        self.state.pass_to(reader, frontier)

    def _store(self, upto: int, ranks: Ints | None = None) -> None:
        rows, first = self._pending, self._next
        if rows is not None and upto > first:
            routes = None if rows.routes is None else rows.routes[first:upto]
            table = rows.table if upto - first == len(rows.ts) else rows.table.slice(first, upto - first)
            self.state.admit(table, rows.ts[first:upto], rows.number[first:upto], routes, ranks)
            self._next = upto

    def _fill(self, queues: Iterable[WaitingRows]) -> None:
        """Take over what waits in the queues of all timelines."""
        found = [chunk for queue in queues for chunk in queue.chunks]
        if found:
            whole = self.queue.merged(found)
            order = np.sort(np.unique(whole.number, return_index=True)[1])
            first = 0 if self.reach is None else int(np.searchsorted(whole.ts, self.reach))
            rows = whole.take(order[order >= first])
            self.queue.chunks = [rows] if len(rows) else []
