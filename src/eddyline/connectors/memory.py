"""Pushed rows as a source.

Answer   `read` returns rows in the order of the pushes; rows with values that do not fit the declared types are bad rows. A
         pushed record gets the place right after the newest row that was pushed before it.
State    Rows and records that were pushed and not yet read; the newest row that was read.
Limits   The position counts rows, not records. A program passes the rows of `tables` again after a restart: `seek` skips
         those before the position. Rows that a program pushes after a restart are new.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.connectors.base import Chunk, Position
from eddyline.connectors.formats.conform import EARLIEST, conform, target_of
from eddyline.connectors.formats.valid_text import with_valid_text
from eddyline.connectors.pushed_rows import Rows, as_tables
from eddyline.errors import CheckpointProblem
from eddyline.model.records.records import Records
from eddyline.model.schema import Stream


class MemorySource:
    """Rows that the program pushes. Pushing and reading may happen in different threads."""

    def __init__(self, stream: Stream, tables: Sequence[Rows] = ()):
        self.stream = stream
        self.bounded = False
        self._lock = threading.Lock()
        self._waiting: deque[pa.Table | Records] = deque()
        #: Event time and `sequence` of the newest row that was read; `EARLIEST` before the first one.
        self._newest: tuple[int, Any] = (EARLIEST, None)
        #: Rows with a later event time do not count as the newest.
        self._limit: int | None = None
        #: Rows read, over all runs.
        self._row = 0
        for rows in tables:
            self.push(rows)
        #: How many of `tables` wait.
        self._given = len(self._waiting)
        #: Whether the source ends after `tables`.
        self._ends = bool(tables)
        self._is_closed = False
        self.bounded = self._ends

    def push(self, rows: Rows) -> int:
        """Add rows, in any form that `as_tables` takes: all of them or, where one is refused, none; how many there
        were."""
        tables = as_tables(rows, self.stream.schema)
        with self._lock:
            self._waiting.extend(tables)
        return sum(table.num_rows for table in tables)

    def push_record(self, kind: str, body: Mapping[str, Any] | pa.Table) -> None:
        """Add records with the place right after the newest row pushed so far, one per line of the body."""
        table = body if isinstance(body, pa.Table) else pa.table({name: [value] for name, value in body.items()})
        unplaced = np.zeros(len(table), np.int64)
        with self._lock:
            self._waiting.append(Records(self.stream.name, kind, unplaced, unplaced, table))

    def end(self) -> None:
        """No more rows will come: the source is bounded from here on."""
        self.bounded = True

    @property
    def finished(self) -> bool:
        return self.bounded and not self._waiting

    @property
    def waiting_rows(self) -> int:
        with self._lock:
            return sum(t.num_rows if isinstance(t, pa.Table) else len(t) for t in self._waiting)

    def read(self, max_rows: int) -> Chunk | None:
        rows, bad, records = list[pa.Table](), list[pa.Table](), list[Records]()
        early = False
        left = max_rows
        while left > 0 and not self._is_closed:
            with self._lock:
                if not self._waiting:
                    break
                table = self._waiting.popleft()
                if isinstance(table, Records):
                    records.append(self._placed(table, sum(part.num_rows for part in rows)))
                    continue
                if table.num_rows > left:
                    self._waiting.appendleft(table.slice(left))
                    table = table.slice(0, left)
                else:
                    self._given = max(0, self._given - 1)
            chunk = conform(with_valid_text(table), self.stream, "pushed", self._row)
            self._row += table.num_rows
            left -= table.num_rows
            early = early or chunk.early
            rows.append(chunk.rows)
            self._note_newest(chunk.rows)
            if chunk.bad is not None:
                bad.append(chunk.bad)
        if left == max_rows and not records:
            return None
        whole = pa.concat_tables(rows or [target_of(self.stream.schema).empty_table()])
        return Chunk(whole, pa.concat_tables(bad) if bad else None, tuple(records), early)

    def place_up_to(self, limit: int | None) -> None:
        """Rows of the next read with an event time after `limit` will be removed: records get a place before them."""
        self._limit = limit

    def _note_newest(self, rows: pa.Table) -> None:
        if self._limit is not None:
            rows = rows.filter(pc.less_equal(rows.column(self.stream.time).cast(pa.int64()), self._limit))
        if self.stream.herald is not None:
            # Heralds among the rows do not count.
            rows = rows.filter(pc.is_null(rows.column(self.stream.herald)))
        if not rows.num_rows:
            return
        times = rows.column(self.stream.time).cast(pa.int64())
        newest = pc.max(times).as_py()
        if newest < self._newest[0]:
            return
        sequence = None
        if self.stream.sequence is not None:
            last = rows.filter(pc.equal(times, newest)).column(self.stream.sequence)
            before = [] if newest > self._newest[0] else [pa.array([self._newest[1]], last.type)]
            known = pa.chunked_array([*last.chunks, *before], last.type)
            # Rows without a sequence are the last ones of their time.
            sequence = None if known.null_count else pc.max(known).as_py()
        self._newest = (newest, sequence)

    def _placed(self, records: Records, rows: int) -> Records:
        """Records with the place right after the newest row that was read, behind the first `rows` rows of this chunk."""
        instant, sequence = self._newest
        places = np.full(len(records), instant, np.int64), np.full(len(records), rows, np.int64)
        values = None
        if self.stream.sequence is not None:
            kind = next(c.type.arrow for c in self.stream.schema.columns if c.name == self.stream.sequence)
            values = pa.array([sequence] * len(records), kind)
        return Records(records.stream, records.kind, *places, records.body, values)

    def position(self) -> dict[str, Any]:
        return {"row": self._row, "newest": self._newest[0]}

    def seek(self, position: Position) -> None:
        wanted = int(position["row"])
        self._newest = (max(self._newest[0], int(position.get("newest", EARLIEST))), None)
        if wanted < self._row:
            raise CheckpointProblem(
                f"stream {self.stream.name} cannot go back to row {wanted}",
                detail=f"{self._row} pushed rows were read and are not kept",
                hint="seek before pushing",
            )
        with self._lock:
            while self._given and self._row < wanted:
                table = self._waiting.popleft()
                # `tables` stand first, and no records are among them.
                assert isinstance(table, pa.Table)
                skipped = min(table.num_rows, wanted - self._row)
                self._row += skipped
                if skipped < table.num_rows:
                    self._waiting.appendleft(table.slice(skipped))
                else:
                    self._given -= 1
            self._row = wanted

    def close(self) -> None:
        """Read nothing more. Waiting rows stay: the session may go on."""
        self._is_closed = True

    def go_on(self) -> None:
        self.bounded, self._is_closed = self._ends, False
