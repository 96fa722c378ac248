"""Epochs from sources: the streams are read in step, so that none of them waits long for another.

Answer   `next_epoch` takes at most `epoch_rows` rows of all streams together: those that come first when the streams
         are merged by the newest event time each has brought so far. Within a stream the order is the source's,
         whatever its disorder. A row group that no query can use counts with its number of rows and its least event
         time, and is taken whole. So an epoch may have more rows than `epoch_rows`, none of which was read.
State    Per stream the rows read ahead, and where they began: a position from which they can be read again, with the
         limits that decided which rows were too far ahead of the wall clock.
Limits   A stream that has nothing at the moment is not waited for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.connectors.base import Chunk, Source, is_logged
from eddyline.connectors.files.files import FileSource
from eddyline.connectors.future_rows import FutureWatch, limit_at, within
from eddyline.connectors.memory import MemorySource
from eddyline.kernels.order import leading
from eddyline.model.clock import WALL, Clock, instant_of
from eddyline.model.records.records import Records
from eddyline.model.schema import Stream
from eddyline.operators.sharing.skipping import SKIPPED, Skipping, Stretch
from eddyline.operators.stream.intake import event_times
from eddyline.runtime.engine.epoch import Arrival
from eddyline.runtime.engine.records.kinds import Splitting
from eddyline.state.columns import Ints

#: Sources are read in pieces of at least this number of rows: small reads cost more than they save.
_READ_ROWS = 65_536


@dataclass(slots=True)
class _Piece:
    """What one read brought. The rows from `begin` on have not been handed out; all else is of these."""

    rows: pa.Table
    ts: Ints
    #: The newest event time of the stream up to each row.
    newest: Ints
    bad: pa.Table | None
    before: dict[str, Any]
    begin: int = 0
    good_taken: int = 0
    bad_taken: int = 0
    #: How many rows the read brought, bad ones included, and the limit of event times that it had.
    size: int = 0
    limit: int | None = None
    #: The records between its rows; their numbers count the rows that are left.
    records: list[Records] = field(default_factory=list)
    #: None of its rows was read. `reached` is the newest event time of the stream before it.
    skipped: Stretch | None = None
    reached: int = 0

    def take_records(self, rows: int) -> list[Records]:
        """Take the records before the row with this number; the numbers of the others count from there."""
        taken = [batch.take(batch.number <= rows) for batch in self.records]
        self.records = [batch.take(batch.number > rows).shifted(-rows) for batch in self.records]
        self.records = [batch for batch in self.records if len(batch)]
        return [batch for batch in taken if len(batch)]


class StreamReader:
    """One source, read ahead."""

    def __init__(
        self,
        stream: Stream,
        source: Source,
        splitting: Splitting | None = None,
        clock: Clock = WALL,
        skippable: Callable[[StreamReader], Skipping | None] = lambda reader: None,
    ) -> None:
        """
        Args:
            skippable: Gives what need not be read, as an epoch begins.
        """
        self.stream = stream
        self.source = source
        self._splitting = splitting or Splitting([stream])
        self._splitting.prepare(stream)
        self.pieces: deque[_Piece] = deque()
        self.buffered = 0
        self._newest = np.iinfo(np.int64).min
        self._skip = (0, 0)
        self._clock = clock
        self._watch = FutureWatch()
        #: Reads of an earlier run that are repeated: how many rows are left of each, and its limit.
        self._again: deque[tuple[int, int | None]] = deque()
        self._skippable = skippable
        self._skipping: Skipping | None = None

    @property
    def finished(self) -> bool:
        """Whether the source has ended and all that it gave has been taken. This reads nothing."""
        return self.source.finished and not self.pieces

    def has_rows(self) -> bool:
        """Read ahead where nothing is there; whether there are rows now."""
        self.skip()
        return self.fill(1) or bool(self.pieces)

    def skip(self) -> None:
        """Ask what may be skipped from now on. Rows that were skipped and not yet taken, and that may be needed now, are
        read after all, and what follows them once more."""
        skipping = self._skipping = self._skippable(self)
        for place, piece in enumerate(self.pieces):
            if piece.skipped is not None and (skipping is None or skipping.reason(piece.skipped)):
                self.source.seek(self.source.saved(piece.before) if is_logged(self.source) else piece.before)
                while len(self.pieces) > place:
                    self.buffered -= len(self.pieces.pop().ts)
                self._newest = piece.reached
                return

    def fill(self, rows: int) -> bool:
        """Read until `rows` rows are buffered or the source has no more; returns whether any row came."""
        came = False
        while self.buffered < rows and not self.source.finished:
            before, instant = self.source.position(), instant_of(self._clock)
            # The last event time that the rows of this read may have.
            limit = None if self.stream.most_ahead is None else limit_at(self.stream, instant)
            left = max(rows, _READ_ROWS)
            if self._again:
                left, limit = min(left, self._again[0][0]), self._again[0][1]
            if isinstance(self.source, FileSource):
                # Reads that are repeated have the rows that they had.
                self.source.skipping = None if self._again else self._skipping
            if isinstance(self.source, MemorySource):
                self.source.place_up_to(limit)
            chunk = self.source.read(left)
            if chunk is None:
                break
            came, size = True, len(chunk.rows) + (0 if chunk.bad is None else len(chunk.bad))
            if chunk.skipped is not None:
                self._pass_over(chunk.skipped, before)
                self._watch.warn_of_future(self.stream, self._newest, instant)
                continue
            if self._again:
                whole = self._again.popleft()[0]
                if size < whole:
                    self._again.appendleft((whole - size, limit))
            if chunk.early:
                self._watch.warn_of_early(self.stream)
            self._keep(chunk if limit is None else within(chunk, self.stream, limit), before, size, limit)
            if len(chunk.rows):
                self._watch.warn_of_future(self.stream, self._newest, instant)
        return came

    def _keep(self, chunk: Chunk, before: dict[str, Any], size: int, limit: int | None) -> None:
        """Buffer what one read brought, without the rows that an earlier process has taken."""
        good, bad = chunk.rows, chunk.bad
        skip_good, skip_bad = min(self._skip[0], len(good)), min(self._skip[1], 0 if bad is None else len(bad))
        self._skip = (self._skip[0] - skip_good, self._skip[1] - skip_bad)
        ts = event_times(good, self.stream.time)
        running = np.maximum.accumulate(np.maximum(ts, self._newest)) if len(ts) else ts
        if len(running):
            self._newest = int(running[-1])
        piece = _Piece(
            good, ts[skip_good:], running[skip_good:], None if bad is None else bad.slice(skip_bad), before, skip_good,
            skip_good, skip_bad, size, limit, [batch.shifted(-skip_good) for batch in chunk.records],
        )  # fmt: skip
        self.pieces.append(piece)
        self.buffered += len(piece.ts)

    def _pass_over(self, skipped: Stretch, before: dict[str, Any]) -> None:
        """Count rows that were not read."""
        reached, rows = self._newest, self.stream.schema.arrow.empty_table()
        newest = np.broadcast_to(np.int64(max(skipped.least, reached)), skipped.rows)
        ts = np.broadcast_to(np.int64(skipped.greatest), skipped.rows)
        self.pieces.append(_Piece(rows, ts, newest, None, before, size=skipped.rows, skipped=skipped, reached=reached))
        self.buffered += skipped.rows
        self._newest = max(reached, skipped.greatest)

    def running(self, rows: int) -> Ints:
        """The running newest event times of the first buffered rows."""
        parts: list[Ints] = []
        for piece in self.pieces:
            parts.append(piece.newest[: rows - sum(len(p) for p in parts)])
            if sum(len(p) for p in parts) >= rows:
                break
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, np.int64)

    def take(self, rows: int) -> Arrival | None:
        """The first buffered rows, and the bad ones and the records that were read with them."""
        good: list[pa.Table] = []
        bad: list[pa.Table] = []
        records: list[Records] = []
        skipped: list[Stretch] = []
        #: All rows so far, and the places of those that were read.
        seen, places = 0, [np.empty(0, np.int64)]
        while self.pieces:
            piece = self.pieces[0]
            if piece.skipped is not None:
                if rows <= 0:
                    break
                self.pieces.popleft()
                self.buffered -= piece.size
                rows, seen = rows - piece.size, seen + piece.size
                skipped.append(piece.skipped)
                if self._skipping is not None:
                    self._skipping.counts[SKIPPED] += 1
                continue
            if piece.bad is not None:
                if len(piece.bad):
                    bad.append(piece.bad)
                piece.bad_taken += len(piece.bad)
                piece.bad = None
            count = min(max(rows, 0), len(piece.ts))
            if piece.records:
                records += [batch.shifted(sum(len(part) for part in good)) for batch in piece.take_records(count)]
            if count:
                good.append(piece.rows.slice(piece.begin, count))
                places.append(np.arange(seen, seen + count))
                seen += count
                piece.ts, piece.newest = piece.ts[count:], piece.newest[count:]
                piece.begin += count
                piece.good_taken += count
                rows -= count
                self.buffered -= count
            if len(piece.ts):
                break
            self.pieces.popleft()
        if not good and not bad and not records and not skipped and not self.finished:
            return None
        table = (
            good[0] if len(good) == 1 else pa.concat_tables(good) if good else self.stream.schema.arrow.empty_table()
        )
        if records or self.stream.name not in self._splitting.plain:
            table, records, misread = self._splitting.split(self.stream, table, records)
            bad += [] if misread is None else [misread]
        unread = pa.concat_tables(bad) if bad else None
        arrival = Arrival(table, unread, closed=self.finished, records=tuple(records))
        if not skipped:
            return arrival
        newest = max(stretch.greatest for stretch in skipped)
        newest = int(event_times(table, self.stream.time).max(initial=newest))
        rows_skipped = sum(stretch.rows for stretch in skipped)
        return replace(arrival, newest=newest, total=seen, places=np.concatenate(places), skipped=rows_skipped)

    # -- positions

    def position(self) -> dict[str, Any]:
        """Where the rows that were not handed out begin, for a later process; what it rests on is on the disk when this
        returns."""
        first = self.pieces[0] if self.pieces else None
        before = self.source.position() if first is None else first.before
        place = self.source.saved(before) if is_logged(self.source) else before
        reads = [[piece.size, piece.limit] for piece in self.pieces if piece.size] + [[*read] for read in self._again]
        # What an earlier process has taken and this one has not come to yet is passed over by the next one too.
        good, bad = (
            sum(column) for column in zip(self._skip, *((p.good_taken, p.bad_taken) for p in self.pieces), strict=True)
        )
        return {"source": place, "good": good, "bad": bad, "reads": reads}

    def seek(self, position: Mapping[str, Any]) -> None:
        self.source.seek(position["source"])
        self.pieces.clear()
        self.buffered = 0
        self._skip = (int(position["good"]), int(position["bad"]))
        # A checkpoint of an earlier version: no row was too far ahead.
        self._again = deque((size, limit) for size, limit in position.get("reads", [[sum(self._skip), None]]) if size)


def next_epoch(readers: Mapping[str, StreamReader], rows: int) -> dict[str, Arrival]:
    """At most `rows` rows of all streams; empty when no source has a row."""
    for reader in readers.values():
        reader.skip()
        reader.fill(rows)
    shares = {name: reader.buffered for name, reader in readers.items()}
    if sum(shares.values()) > rows:
        running = {name: reader.running(rows) for name, reader in readers.items()}
        ends = np.array([*accumulate(len(r) for r in running.values())])
        counts = leading(np.concatenate(list(running.values())), ends, rows)
        shares = dict(zip(running, counts.tolist(), strict=True))
    arrivals = {name: reader.take(shares[name]) for name, reader in readers.items()}
    return {name: arrival for name, arrival in arrivals.items() if arrival is not None}
