"""Pushed rows as a source.

Answer   What is pushed comes out in the order in which it was pushed; values that do not fit the declared types come
         out as bad rows. A record that is pushed stands right after the newest row pushed before it, unless it is given
         another place.
State    Rows and records that were pushed and not yet read; the newest row that was read.
Limits   The position counts rows, not records. Rows that were given at the beginning are given again after a restart,
         and those before the position are passed over. A program that pushes continues after the position: its rows are
         all new.
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
        #: Event time and `sequence` of the newest row that was read; the first instant of all, where there is none.
        self._newest: tuple[int, Any] = (EARLIEST, None)
        #: Rows after it do not count as the newest.
        self._limit: int | None = None
        #: Rows read, over all runs.
        self._row = 0
        for rows in tables:
            self.push(rows)
        #: Tables that wait and were given at the beginning.
        self._given = len(self._waiting)
        #: Its rows were given at the beginning.
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
        """Add records that stand right after the newest row pushed so far; one line of the body each."""
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
        rows: list[pa.Table] = []
        bad: list[pa.Table] = []
        records: list[Records] = []
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
        whole = (
            rows[0]
            if len(rows) == 1
            else pa.concat_tables(rows)
            if rows
            else target_of(self.stream.schema).empty_table()
        )
        return Chunk(whole, pa.concat_tables(bad) if bad else None, tuple(records), early)

    def place_up_to(self, limit: int | None) -> None:
        """Rows of the next read with a later event time will be taken out: no record stands after them."""
        self._limit = limit

    def _note_newest(self, rows: pa.Table) -> None:
        if self._limit is not None:
            rows = rows.filter(pc.less_equal(rows.column(self.stream.time).cast(pa.int64()), self._limit))
        if self.stream.herald is not None:
            # A herald is no row.
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
            known = (
                last
                if newest > self._newest[0]
                else pa.chunked_array([*last.chunks, pa.array([self._newest[1]], last.type)])
            )
            # A null is the last of its time.
            sequence = None if known.null_count else pc.max(known).as_py()
        self._newest = (newest, sequence)

    def _placed(self, records: Records, rows: int) -> Records:
        """Right after the newest row that was read; `rows` rows of the chunk at hand stand before it."""
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
                # What was given at the beginning are rows.
                assert isinstance(table, pa.Table)
                skipped = min(table.num_rows, wanted - self._row)
                self._row += skipped
                if skipped < table.num_rows:
                    self._waiting.appendleft(table.slice(skipped))
                else:
                    self._given -= 1
            self._row = wanted

    def close(self) -> None:
        """Nothing is read any more. What waits stays: the session may go on."""
        self._is_closed = True

    def go_on(self) -> None:
        self.bounded, self._is_closed = self._ends, False
