"""The reports of a running job: made between two epochs, written below the job's folder.

Answer   `beat` is called between epochs as often as they come. When a report is due it is made, written as
         `report.json`, added to the histories, compared with the one before it for decisions, and what pages want to
         see of single queries is put into it.

             engine thread   |= epoch =|beat|= epoch =|beat → report, histories|= epoch =| …

State    The last document; the tails of queries that are looked at.
Limits   At most one report a second, two where pages are open; fewer where making one takes long: never more than a
         fiftieth of the time. A disk that is full or a figure that fails costs a report, never the job. One thread at a
         time: `lock` sees to that.
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
    """What a reporter asks of a job; only between two epochs."""

    name: str

    def report(self) -> Report: ...

    def described(self) -> dict[str, dict[str, Any]]:
        """query -> sql, start, stop, lease (seconds or None); of all registered queries."""

    def leaving(self) -> frozenset[str]:
        """The queries that have been dropped and still have results to give."""

    def detail(self, query: str) -> dict[str, Any] | None:
        """The plan of a query as text and shape, and the queries that share it; None: there is no such query."""

    def attach(self, query: str, sink: Sink) -> bool:
        """Send a query's results to one more sink from now on; whether there is such a query."""

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
        #: The last report has been written.
        self._is_over = False
        #: Instants of the wall clock and of the CPU clock of the process at the last report.
        self._clocks = (WALL.now(), time.process_time())
        #: The file of control records as it was when it was read last, and the refused records in it.
        self._refused_at: tuple[int, int] | None = None
        self._refused_records: Any = {}
        #: Tried queries whose lease has ended, until they have gone.
        self._ended: set[str] = set()
        #: Per tried query the time of its file as it was seen, and when it was first seen so: the wall clock may jump.
        self._renewed: dict[str, tuple[float | None, float]] = {}
        #: The queries and those that leave, as they were described, and how.
        self._known: tuple[object, ...] = ()
        self._described: dict[str, dict[str, Any]] = {}
        self._since: dict[str, float] = {}
        self._complained = False
        self.places.make()
        self._overview = HistoryJournal(self.places.overview, OVERVIEW_BYTES)
        self._decisions = HistoryJournal(self.places.decisions, DECISION_BYTES)
        self._lines = QueryLines(self.places.lines)
        found = read_json(self.places.report)
        self._before: dict[str, Any] | None = found if isinstance(found, dict) and "stats" in found else None
        self._since.update(_known_since(read_json(self.places.queries)))

    # -- as epochs come

    @property
    def is_due(self) -> bool:
        return not self._is_over and WALL.now() >= self._due

    def beat(self) -> None:
        """Publish a report if one is due, and nothing else is being published."""
        if not self.is_due or not self.lock.acquire(blocking=False):
            return
        try:
            self._publish("running")
        finally:
            self.lock.release()

    def go_on(self) -> None:
        """After `end`: the job runs again."""
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
        except Exception as problem:  # a report is never worth a job
            if not self._complained:
                self._complained = True
                log.warning("reports of the job are not written: %s: %s", type(problem).__name__, problem)
        spent = time.thread_time() - began
        self.spent += spent
        tuning = self.tuning
        self._due = WALL.now() + max(tuning.seconds, min(tuning.parts * spent / self._busy(), tuning.most_seconds))

    def _busy(self) -> float:
        """How many cores the process has used since the last report; a job that does little counts as one that uses a
        tenth of a core."""
        now, used = WALL.now(), time.process_time()
        before, used_before = self._clocks
        self._clocks = (now, used)
        return max((used - used_before) / max(now - before, 1e-3), self.tuning.least_busy)

    def _refused(self) -> Any:
        """The control records that were refused; the file is read when it has changed."""
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
        """What each query is, written anew when queries have come, gone or been stopped."""
        now_known = (names, self.engine.leaving())
        if now_known == self._known:
            return self._described
        described = self.engine.described()
        for name, one in described.items():
            one["since"] = self._since.setdefault(name, now)
        self._since = {name: since for name, since in self._since.items() if name in described}
        self._known, self._described = now_known, described
        replace_file(self.places.queries, json.dumps(described, separators=(",", ":")).encode())
        return described

    # -- what pages look at

    def _wanted(self, now: float, described: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """The queries whose plans pages look at; their results, and those of tried queries, are kept from now on."""
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
        """The sink of a query that is tried, for the engine to open with the query: its first rows are seen too."""
        return self._tails.setdefault(name, Tail())

    def _keep_tails(self, names: Iterable[str]) -> None:
        wanted = dict.fromkeys(names)
        for name in [name for name in self._tails if name not in wanted]:
            self.engine.detach(name, self._tails.pop(name))
        for name in wanted:
            if name not in self._tails:
                tail = Tail()
                if self.engine.attach(name, tail):
                    self._tails[name] = tail

    def _end_leases(self, described: Mapping[str, Mapping[str, Any]]) -> None:
        """Drop the tried queries whose lease no page renews. The time during which the job did not run does not
        count."""
        ended, tried = [], {}
        for name, one in described.items():
            if one.get("lease") is None or one["stop"] is not None:
                continue
            try:
                stamp: float | None = os.stat(self.places.lease(name)).st_mtime
            except OSError:
                stamp = None
            known = self._renewed.get(name)
            tried[name] = known if known is not None and known[0] == stamp else (stamp, WALL.now())
            if WALL.now() - tried[name][1] > one["lease"] and name not in self._ended:
                ended.append(name)
        self._renewed = tried
        if ended:
            self.control.append(drop_record(ended))
            self._ended |= set(ended)
        self._ended &= described.keys()


def _known_since(found: Any) -> dict[str, float]:
    if not isinstance(found, dict):
        return {}
    return {
        name: one["since"]
        for name, one in found.items()
        if isinstance(one, dict) and isinstance(one.get("since"), float)
    }
