"""The reports of a job as a dashboard sees them: the newest one, one from a few seconds ago, and whether the job runs.

Answer   `look` takes the newest report, from the job's folder or straight from a job in this process; `rate` says how
         fast a figure grows. `want` says in the folder which queries pages look at, so that the job puts their plans
         and rows into its reports.
State    Two documents, and what each query is.
Limits   Reads files, and writes one: `wanted/<process>.json`, which a job ignores fifteen seconds after its last
         renewal.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

from eddyline.model.clock import WALL
from eddyline.runtime.reporting.places import ReportPlaces, read_json, replace_file

Document = dict[str, Any]
#: Rates are averages over about the first number of seconds; the file in `wanted` is written anew after the second.
_RATE_SECONDS, _RENEW_SECONDS = 5.0, 5.0


class Feed:
    def __init__(self, folder: str, latest: Callable[[], Document | None] | None = None) -> None:
        self.places = ReportPlaces(folder)
        self.document: Document | None = None
        #: The queries as they were described last.
        self.described: dict[str, dict[str, Any]] = {}
        self._latest = latest
        self._earlier: deque[Document] = deque(maxlen=64)
        self._seen: tuple[int, int] | None = None
        self._described_at: tuple[int, int] | None = None
        self._wanted: tuple[list[str], float] = ([], 0.0)
        self._running = (False, 0.0)
        self._mine = os.path.join(self.places.wanted, f"{uuid4().hex}.json")

    # -- reading

    def look(self) -> bool:
        """Take the newest report; returns whether there is a new one."""
        found = self._latest() if self._latest is not None else None
        if found is None:
            found = self._from_file()
        if found is None or (self.document is not None and _name(found) == _name(self.document)):
            return False
        if self.document is not None and self.document["started"] == found["started"]:
            self._earlier.append(self.document)
            while len(self._earlier) > 1 and self._earlier[1]["written"] <= found["written"] - _RATE_SECONDS:
                self._earlier.popleft()
        else:
            self._earlier.clear()
        self.document = found
        self._describe()
        return True

    def _from_file(self) -> Document | None:
        now = _stamp(self.places.report)
        if now is None or now == self._seen:
            return None
        self._seen = now
        found = read_json(self.places.report)
        return found if isinstance(found, dict) and "stats" in found else None

    def _describe(self) -> None:
        now = _stamp(self.places.queries)
        if now is not None and now != self._described_at:
            found = read_json(self.places.queries)
            if isinstance(found, dict):
                self._described_at, self.described = now, found

    @property
    def earlier(self) -> Document | None:
        """The report of some seconds ago, of the same run."""
        return self._earlier[0] if self._earlier else None

    @property
    def is_running(self) -> bool:
        """Whether the job runs; looked at once a second at most."""
        running, at = self._running
        now = WALL.now()
        if now - at >= 1.0:
            running = self.places.is_running()
            self._running = (running, now)
        return running

    def rate(self, figure: Callable[[Document], float | None]) -> float | None:
        """By how much a figure grows per second; None: that is not known yet."""
        if self.document is None or self.earlier is None:
            return None
        seconds = self.document["written"] - self.earlier["written"]
        now, then = figure(self.document), figure(self.earlier)
        return None if now is None or then is None or seconds <= 0 else max(0.0, (now - then) / seconds)

    # -- what pages look at

    def want(self, names: Iterable[str]) -> None:
        """Pages look at these queries; called whenever something is sent to pages."""
        wanted, at = sorted(set(names)), WALL.now()
        known, renewed = self._wanted
        if wanted == known and at - renewed < _RENEW_SECONDS:
            return
        self._wanted = (wanted, at)
        with contextlib.suppress(OSError):
            replace_file(self._mine, json.dumps(wanted).encode())

    def rest(self) -> None:
        """No page is open any more."""
        self._wanted = ([], 0.0)
        with contextlib.suppress(OSError):
            os.unlink(self._mine)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _name(document: Document) -> tuple[float, int]:
    return document["started"], document["sequence"]
