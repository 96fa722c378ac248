"""The reports of a job that a dashboard reads: the newest one, one from a few seconds before, and whether the job runs.

Answer   `refresh` reads the newest report, from the job's folder or directly from a job in this process. `rate` is the
         growth of a figure per second. `want` writes into the folder which queries pages show: the job then puts their
         plans and rows into its reports.
State    The newest report, those of the seconds before, and the descriptions of queries.
Limits   One file is written: `wanted/<random name>.json`, which the job ignores fifteen seconds after its last renewal.
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
#: Seconds over which rates are means, and seconds after which the file in `wanted` is written anew.
_RATE_SECONDS, _RENEW_SECONDS = 5.0, 5.0


class Feed:
    def __init__(self, folder: str, latest: Callable[[], Document | None] | None = None) -> None:
        self.places = ReportPlaces(folder)
        self.document: Document | None = None
        #: The newest description of each query: its SQL, start, stop, lease and streams.
        self.described: dict[str, dict[str, Any]] = {}
        #: Gives the newest report of a job in this process.
        self._latest = latest
        self._earlier: deque[Document] = deque(maxlen=64)
        #: The versions of the two files that were read last.
        self._report_version: tuple[int, int] | None = None
        self._queries_version: tuple[int, int] | None = None
        #: The names in the file below `wanted`, and when it was written.
        self._wanted: tuple[list[str], float] = ([], 0.0)
        #: Whether the job ran, and when that was checked.
        self._running = (False, 0.0)
        self._wanted_path = os.path.join(self.places.wanted, f"{uuid4().hex}.json")

    # -- reading

    def refresh(self) -> bool:
        """Read the newest report; returns whether it is a new one."""
        found = (self._latest() if self._latest is not None else None) or self._from_file()
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
        version = _version(self.places.report)
        if version is None or version == self._report_version:
            return None
        self._report_version = version
        found = read_json(self.places.report)
        return found if isinstance(found, dict) and "stats" in found else None

    def _describe(self) -> None:
        version = _version(self.places.queries)
        if version is not None and version != self._queries_version:
            found = read_json(self.places.queries)
            if isinstance(found, dict):
                self._queries_version, self.described = version, found

    @property
    def earlier(self) -> Document | None:
        """The report of some seconds ago, of the same run."""
        return self._earlier[0] if self._earlier else None

    @property
    def is_running(self) -> bool:
        """Whether a process runs the job; checked at most once a second."""
        now = WALL.now()
        if now - self._running[1] >= 1.0:
            self._running = (self.places.is_running(), now)
        return self._running[0]

    @property
    def job_runs(self) -> bool:
        """Whether a process runs the job and has not written its last report."""
        return self.document is not None and self.document["state_of_job"] == "running" and self.is_running

    def rate(self, figure: Callable[[Document], float | None]) -> float | None:
        """The growth of a figure per second; None: there is no earlier report of the run."""
        if self.document is None or self.earlier is None:
            return None
        seconds = self.document["written"] - self.earlier["written"]
        now, then = figure(self.document), figure(self.earlier)
        return None if now is None or then is None or seconds <= 0 else max(0.0, (now - then) / seconds)

    # -- queries that pages show

    def want(self, names: Iterable[str]) -> None:
        """Have the job put plans and rows of these queries into its reports; called before each refresh for pages."""
        wanted, at = sorted(set(names)), WALL.now()
        known, renewed = self._wanted
        if wanted == known and at - renewed < _RENEW_SECONDS:
            return
        self._wanted = (wanted, at)
        with contextlib.suppress(OSError):
            replace_file(self._wanted_path, json.dumps(wanted).encode())

    def want_nothing(self) -> None:
        """Remove the file below `wanted`: no page is open."""
        self._wanted = ([], 0.0)
        with contextlib.suppress(OSError):
            os.unlink(self._wanted_path)


def _version(path: str) -> tuple[int, int] | None:
    """Time and inode of a file: both change when it is replaced."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _name(document: Document) -> tuple[float, int]:
    return document["started"], document["sequence"]
