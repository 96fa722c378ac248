"""The gate of one stream: its rows and records wait here for the stream's own frontier, then checkers see them in
order.

Answer   `release` lets through what the gate's frontier has passed. Each checker sees the rows with the records among
         them and may take rows out; the others go on to the queues of the timelines, where ROWS numbers are given. What
         a checker decides is decided once per stream, whatever reads it.

             intake ─► gate: rows and records wait ─► checkers ─► queues of timelines
                                                         └► dead letters ("violation …")

State    Rows and records that wait, the frontier, what the checkers keep; counts.
Limits   Only streams that records speak of have a gate. Rows of a stream that was idle and speaks again may come below
         the frontier, while some queries still take them: they are checked apart (`straggling`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.records.records import BEFORE_ALL, Flags, Records
from eddyline.model.schema import Stream
from eddyline.operators.stream.record_queue import RecordQueue, rows_before
from eddyline.operators.stream.waiting import Released, Waiting, WaitingRows, no_rows
from eddyline.state.columns import Ints

Census = tuple[Ints, Ints]
Load = Callable[[str], pa.Table]


@dataclass(frozen=True, slots=True)
class PlacedRecords:
    """Records of one kind in a stretch, in order of place."""

    records: Records
    #: How many rows of the stretch come before each: of those that are here, and of all.
    before: Ints
    before_total: Ints


@dataclass(frozen=True, slots=True)
class GateStretch:
    """A stretch of the stream's total order, and the records among its rows."""

    #: Rows in order, with their event times and numbers of arrival.
    table: pa.Table
    ts: Ints
    number: Ints
    #: Per row a bit for each route that sent it here; None: every route did.
    routes: npt.NDArray[np.uint64] | None
    #: Where the stream is counted and a part of it is here: the place of each row among all rows of the stretch. None:
    #: all are here.
    place: Ints | None
    #: All rows of the stretch; all rows that passed before it.
    rows_total: int
    rows_before: int
    records: list[PlacedRecords]
    #: Everything below it has passed now.
    frontier: int
    #: These rows lie below the frontier of earlier stretches.
    straggling: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The rows that a checker takes out, and one text for each of them; it begins with `violation`."""

    dead: Flags
    reasons: pa.Array


class Checker(Protocol):
    """Checks the rows of one stream against the records of one kind."""

    def check(self, passing: GateStretch, dead: Flags) -> Verdict | None:
        """Which rows are taken out; `dead` are those that checkers before this one have taken out. None: none are."""

    def snapshot(self) -> tuple[object, Mapping[str, Callable[[], pa.Table]]]:
        """What it keeps: a JSON value, and named blocks."""

    def restore(self, state: object, load: Load) -> None: ...


@dataclass(slots=True)
class Passed:
    """What the gate lets through."""

    chunk: Waiting | None
    census: Census | None
    records: list[Records]
    #: Rows that were taken out, with `_reason`, and the routes that sent them.
    dead: pa.Table | None = None
    dead_routes: npt.NDArray[np.uint64] | None = None


@dataclass(slots=True)
class Counts:
    #: kind -> records that came; those of them whose place the gate had passed.
    came: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)

    def add(self, records: Records, late: Flags | None = None) -> None:
        counts = self.came if late is None else self.late
        home = np.ones(len(records), bool) if records.home is None else records.home
        counts[records.kind] = counts.get(records.kind, 0) + int((home if late is None else home & late).sum())


class Gate:
    def __init__(self, stream: Stream, checkers: Mapping[str, Checker]) -> None:
        self.stream = stream
        #: By kind, in the order in which they check a row.
        self.checkers = dict(checkers)
        #: Everything below it has passed.
        self.frontier: int | None = None
        self.queue = WaitingRows(stream)
        self.records = RecordQueue(stream)
        self.counts = Counts()
        self._serial = 0
        self._stragglers: list[tuple[Waiting | None, Census | None]] = []

    # -- what comes

    def receive(self, chunk: Waiting | None, census: Census | None) -> None:
        """Rows of an epoch that are not below the stream's horizon."""
        bound = self.frontier
        if bound is not None:
            cut = 0 if chunk is None else int(np.searchsorted(chunk.ts, bound))
            early = None if census is None else (census[0][census[0] < bound], census[1][census[0] < bound])
            if cut or (early is not None and len(early[0])):
                self._stragglers.append((chunk.slice(0, cut) if chunk is not None and cut else None, early))
        self.queue.receive(chunk, census, bound)

    def announce(self, records: Records, ignored: bool) -> None:
        """Records with numbers of arrival; those whose place has passed are counted, and `ignored` or moved to the
        frontier."""
        self.counts.add(records)
        records = replace(records, serial=self._serial + np.arange(len(records)))
        self._serial += len(records)
        if self.frontier is not None:
            passed = records.ts < self.frontier
            if passed.any():
                self.counts.add(records, passed)
                if ignored:
                    records = records.take(~passed)
                else:
                    moved = np.where(passed, self.frontier, records.ts), np.where(passed, BEFORE_ALL, records.number)
                    records = replace(records, ts=moved[0], number=moved[1])
        self.records.receive(records)

    # -- what passes

    def release(self, frontier: int | None) -> list[Passed]:
        """What has come below the new frontier, checked; a frontier never moves back."""
        found = [self._straggled(*straggler) for straggler in self._stragglers]
        self._stragglers = []
        if frontier is None or (self.frontier is not None and frontier <= self.frontier):
            return found
        self.frontier = frontier
        before = self.queue.released
        released, records = self.queue.release(frontier), self.records.release(frontier)
        if released is None and not records:
            return found
        if released is None:
            none = no_rows(self.stream)
            released = Released(none.table, none.ts, None, none.ts, None, none.number)
        found.append(self._checked(released, before, records, False))
        return found

    def _straggled(self, chunk: Waiting | None, census: Census | None) -> Passed:
        before = self.queue.released
        self.queue.released += len(census[0]) if census is not None else 0 if chunk is None else len(chunk)
        if chunk is None:
            return Passed(None, census, [])
        released = Released(chunk.table, chunk.ts, chunk.routes, chunk.ts, None, chunk.number)
        passed = self._checked(released, before, [], True)
        dead = np.setdiff1d(chunk.number, passed.chunk.number if passed.chunk is not None else chunk.number[:0])
        return replace(passed, census=None if census is None else _without(census, dead))

    def _checked(self, rows: Released, before: int, records: list[Records], straggling: bool) -> Passed:
        placed = [self._placed(rows, batch) for batch in records]
        passing = GateStretch(
            rows.table, rows.ts, rows.number, rows.routes, rows.place,
            len(rows.times), before, placed, self.frontier or 0, straggling,
        )  # fmt: skip
        dead = np.zeros(len(rows.ts), bool)
        reasons: npt.NDArray[Any] | None = None
        for checker in self.checkers.values():
            verdict = checker.check(passing, dead)
            if verdict is not None:
                # The first checker that takes a row out gives the reason.
                fresh = verdict.dead & ~dead
                reasons = np.full(len(rows.ts), None, object) if reasons is None else reasons
                reasons[fresh] = np.array(verdict.reasons.to_pylist(), object)[fresh[verdict.dead]]
                dead = dead | verdict.dead
        return self._apart(rows, records, dead, reasons)

    def _apart(self, rows: Released, records: list[Records], dead: Flags, reasons: npt.NDArray[Any] | None) -> Passed:
        census = None if rows.numbers is None else (rows.times, rows.numbers)
        chunk = Waiting(rows.table, rows.ts, rows.number, rows.routes)
        if reasons is None or not dead.any():
            return Passed(_begun(chunk), census, records)
        lost = rows.table.filter(pa.array(dead)).append_column("_reason", pa.array(reasons[dead], pa.string()))
        census = None if census is None else _without(census, rows.number[dead])
        routes = None if rows.routes is None else rows.routes[dead]
        return Passed(_begun(chunk.take(np.flatnonzero(~dead))), census, records, lost, routes)

    def _placed(self, rows: Released, records: Records) -> PlacedRecords:
        sequence = None if self.stream.sequence is None else rows.table.column(self.stream.sequence)
        before = rows_before(records, rows.ts, rows.number, sequence)
        total = before if rows.numbers is None else rows_before(records, rows.times, rows.numbers)
        return PlacedRecords(records, before, total)

    # -- snapshots

    def saved(self) -> dict[str, Any]:
        """What is small: the header of a snapshot holds it."""
        return {
            "frontier": self.frontier,
            "released": self.queue.released,
            "serial": self._serial,
            "came": self.counts.came,
            "late": self.counts.late,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.frontier, self.queue.released, self._serial = saved["frontier"], saved["released"], saved["serial"]
        self.counts = Counts(dict(saved["came"]), dict(saved["late"]))


def _begun(chunk: Waiting) -> Waiting | None:
    """The chunk with the number of its first row; None: it has no row."""
    return replace(chunk, first=int(chunk.number.min())) if len(chunk) else None


def _without(census: Census, numbers: Ints) -> Census:
    kept = ~np.isin(census[1], numbers)
    return census[0][kept], census[1][kept]
