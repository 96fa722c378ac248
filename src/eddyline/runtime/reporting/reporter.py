"""The reports of a running job: made between two epochs, written below the job's folder.

Answer   The engine calls `beat` after each epoch. If a report is due, `beat` makes it, writes it as `report.json`, adds it
         to the histories, and compares it with the one before to find decisions. The report has plans and rows of the
         queries that pages show.

             engine thread   |= epoch =|beat|= epoch =|beat → report, histories|= epoch =| …

State    The last document; the tails of queries that pages show.
Limits   One report in `ReportTuning.seconds` at most. Reports that take long are rarer: they use at most one of
         `ReportTuning.parts` of the CPU time of the process. A full disk or an error in a report ends no job. `lock` lets
         one thread at a time make reports.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from eddyline.connectors.base import Sink
from eddyline.model.clock import WALL
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import drop_record
from eddyline.runtime.figures.report import Report
from eddyline.runtime.reporting.decisions import decisions
from eddyline.runtime.reporting.document import overview_line, query_figures, report_document
from eddyline.runtime.reporting.history import DECISION_BYTES, OVERVIEW_BYTES, HistoryJournal, QueryLines
from eddyline.runtime.reporting.places import ReportPlaces, read_json, replace_file
from eddyline.runtime.reporting.samples import DeadSamples, Tail
from eddyline.tuning import ReportTuning

log = logging.getLogger("eddyline.report")

#: Seconds after which a file in `wanted` is ignored, and how many queries have details in one report.
WANTED_SECONDS, _WANTED = 15.0, 12


class ReportedEngine(Protocol):
    """The methods of a job that a reporter calls, only between two epochs."""

    name: str

    def report(self) -> Report: ...

    def described(self) -> dict[str, dict[str, Any]]:
        """query -> sql, start, stop, lease (seconds or None); of all registered queries."""

    def leaving(self) -> frozenset[str]:
        """The dropped queries that still have results to deliver."""

    def detail(self, query: str) -> dict[str, Any] | None:
        """The plan of a query as text and shape, and the queries that share it; None: there is no such query."""

    def attach(self, query: str, sink: Sink) -> bool:
        """Send a query's results to one more sink from now on; returns whether there is such a query."""

    def detach(self, query: str, sink: Sink) -> None: ...


class Reporter:
    def __init__(self, engine: ReportedEngine, folder: str, tuning: ReportTuning) -> None:
        self.engine = engine
        self.tuning = tuning
        self.places = ReportPlaces(folder)
        self.control = ControlFolder(folder)
        self.lock = threading.RLock()
        self.dead = DeadSamples()
        self.latest: dict[str, Any] | None = None
        #: CPU seconds that reports have taken so far.
        self.spent = 0.0
        self._due = 0.0
        self._started = time.time()
        self._sequence = 0
        self._tails: dict[str, Tail] = {}
        #: Whether the last report has been written.
        self._is_over = False
        #: Instants of the wall clock and of the CPU clock of the process at the last report.
        self._clocks = (WALL.now(), time.process_time())
        #: Time and inode of the state file of control records when it was read last, and its refused records.
        self._refused_at: tuple[int, int] | None = None
        self._refused_records: Any = {}
        #: Tried queries whose lease has ended and that the job has not removed yet.
        self._ended: set[str] = set()
        #: Per tried query the time of its lease file, and when that time was read first: the file's clock may jump.
        self._renewed: dict[str, tuple[float | None, float]] = {}
        #: The names of all queries and of leaving ones at the time of `_described`.
        self._known: tuple[object, ...] = ()
        self._described: dict[str, dict[str, Any]] = {}
        #: When each query was described first.
        self._since: dict[str, float] = {}
        #: Whether an error of a report is in the log already.
        self._has_warned = False
        self.places.make()
        self._overview = HistoryJournal(self.places.overview, OVERVIEW_BYTES)
        self._decisions = HistoryJournal(self.places.decisions, DECISION_BYTES)
        self._lines = QueryLines(self.places.lines)
        found = read_json(self.places.report)
        self._before: dict[str, Any] | None = found if isinstance(found, dict) and "stats" in found else None
        self._since.update(_known_since(read_json(self.places.queries)))

    # -- between epochs

    @property
    def is_due(self) -> bool:
        return not self._is_over and WALL.now() >= self._due

    def beat(self) -> None:
        """Make a report if one is due and no other thread is making one."""
        if not self.is_due or not self.lock.acquire(blocking=False):
            return
        try:
            self._publish("running")
        finally:
            self.lock.release()

    def go_on(self) -> None:
        """Make reports again: the job runs again after `end`."""
        with self.lock:
            self._is_over = False

    def end(self, problem: BaseException | None = None) -> None:
        """Write the last report: the job has ended or failed."""
        with self.lock:
            if self._is_over:
                return
            self._publish("ended" if problem is None else "failed", None if problem is None else str(problem))
            self._is_over = True

    def _publish(self, state: str, error: str | None = None) -> None:
        began = time.thread_time()
        try:
            self._write(state, error)
        except Exception as problem:  # an error of a report must not end the job
            if not self._has_warned:
                self._has_warned = True
                log.warning("reports of the job are not written: %s: %s", type(problem).__name__, problem)
        spent, tuning = time.thread_time() - began, self.tuning
        self.spent += spent
        self._due = WALL.now() + max(tuning.seconds, min(tuning.parts * spent / self._busy(), tuning.most_seconds))

    def _busy(self) -> float:
        """How many cores the process has used since the last report, at least `least_busy`."""
        now, used = WALL.now(), time.process_time()
        before, used_before = self._clocks
        self._clocks = (now, used)
        return max((used - used_before) / max(now - before, 1e-3), self.tuning.least_busy)

    def _refused(self) -> Any:
        """The control records that the job refused; their file is read if it has changed."""
        try:
            found = os.stat(self.control.state_path)
            stamp = (found.st_mtime_ns, found.st_ino)
        except OSError:
            stamp = None
        if stamp is None or stamp != self._refused_at:
            self._refused_at, self._refused_records = stamp, self.control.state()["refused"]
        return self._refused_records

    def _write(self, state: str, error: str | None) -> None:
        now = time.time()
        document = report_document(self.engine.report())
        self._sequence += 1
        document |= {
            "sequence": self._sequence, "written": now, "started": self._started, "state_of_job": state, "error": error,
            "engine": self.engine.name, "pid": os.getpid(), "dead": self.dead.as_json(),
            "control": {"refused": self._refused()},
        }  # fmt: skip
        described = self._describe(document["names"], now)
        wanted = self._wanted(now, described)
        document["details"] = {name: found for name in wanted if (found := self.engine.detail(name)) is not None}
        document["tails"] = {name: tail.as_json() for name, tail in self._tails.items()}
        for event in decisions(self._before, document):
            self._decisions.append({"t": round(now, 2), **event})
        replace_file(self.places.report, json.dumps(document, separators=(",", ":")).encode())
        self._overview.append(overview_line(document))
        if self._lines.is_due(now):
            self._lines.note(now, query_figures(document))
        self._before = self.latest = document
        self._end_leases(described)

    def _describe(self, names: list[str], now: float) -> Mapping[str, Mapping[str, Any]]:
        """The description of each query. The file is written anew if queries were added, dropped or removed."""
        known = (names, self.engine.leaving())
        if known == self._known:
            return self._described
        described = self.engine.described()
        for name, one in described.items():
            one["since"] = self._since.setdefault(name, now)
        self._since = {name: since for name, since in self._since.items() if name in described}
        self._known, self._described = known, described
        replace_file(self.places.queries, json.dumps(described, separators=(",", ":")).encode())
        return described

    # -- queries that pages show

    def _wanted(self, now: float, described: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """The queries that pages show. From now on the newest results of these, and of tried queries, are kept."""
        names: dict[str, None] = {}
        with os.scandir(self.places.wanted) as entries:
            for entry in entries:
                if now - entry.stat().st_mtime > WANTED_SECONDS:
                    os.unlink(entry.path)
                    continue
                found = read_json(entry.path)
                if isinstance(found, list):
                    names |= {name: None for name in found if isinstance(name, str) and name in described}
        chosen = list(names)[:_WANTED]
        self._keep_tails([*chosen, *(name for name, one in described.items() if one.get("lease") is not None)])
        return chosen

    def tail(self, name: str) -> Tail:
        """The sink of a tried query. The engine opens it together with the query, so that it gets the first rows, too."""
        return self._tails.setdefault(name, Tail())

    def _keep_tails(self, names: Iterable[str]) -> None:
        wanted = dict.fromkeys(names)
        for name in self._tails.keys() - wanted.keys():
            self.engine.detach(name, self._tails.pop(name))
        for name in wanted:
            if name not in self._tails and self.engine.attach(name, tail := Tail()):
                self._tails[name] = tail

    def _end_leases(self, described: Mapping[str, Mapping[str, Any]]) -> None:
        """Drop the tried queries whose lease no page has renewed. Time during which the job did not run does not count."""
        ended, tried = [], {}
        for name, one in described.items():
            if one.get("lease") is None or one["stop"] is not None:
                continue
            try:
                stamp: float | None = os.stat(self.places.lease(name)).st_mtime
            except OSError:
                stamp = None
            known = self._renewed.get(name, ())
            tried[name] = known if known and known[0] == stamp else (stamp, WALL.now())
            if WALL.now() - tried[name][1] > one["lease"] and name not in self._ended:
                ended.append(name)
        self._renewed = tried
        if ended:
            self.control.append(drop_record(ended))
            self._ended |= set(ended)
        self._ended &= described.keys()


def _known_since(found: Any) -> dict[str, float]:
    described = found.items() if isinstance(found, dict) else ()
    return {n: one["since"] for n, one in described if isinstance(one, dict) and isinstance(one.get("since"), float)}
