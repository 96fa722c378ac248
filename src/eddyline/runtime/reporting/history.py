"""The last hours of a job in bounded files.

Answer   `HistoryJournal` appends JSON lines to a file; when the file has half of its room, it becomes the older half
         and a new one begins. `QueryLines` writes a line for all queries every ten seconds. `read_overview` and
         `read_query` give lines back, thinned out to so many points.

             overview.jsonl.1  older half ─► overview.jsonl  newer half ─► next line

State    Files only, all together at most 50 MB. Of many queries lines come less often, so that an hour still fits.
Limits   A line that a crash cut off is skipped. Nothing is synced: a power cut may take the last lines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Bytes.
_MIB = 1 << 20
#: Room for both halves of each history.
OVERVIEW_BYTES, QUERY_BYTES, DECISION_BYTES = 8 * _MIB, 38 * _MIB, 2 * _MIB
#: Seconds between two lines of all queries, for up to this number of queries.
QUERY_SECONDS, QUERIES_AT_PACE = 10.0, 2_000


class HistoryJournal:
    def __init__(self, path: str, room: int) -> None:
        self.path = path
        self._half = room // 2
        self._size = os.path.getsize(path) if os.path.exists(path) else 0

    def append(self, line: Mapping[str, Any], head: Mapping[str, Any] | None = None, with_head: bool = False) -> None:
        """Write a line; before the first one of a file, and where `with_head` is set, the head that later lines refer
        to."""
        data = _encoded(line)
        if self._size and self._size + len(data) > self._half:
            os.replace(self.path, f"{self.path}.1")
            self._size = 0
        if head is not None and (with_head or not self._size):
            data = _encoded(head) + data
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "ab") as opened:
            opened.write(data)
        self._size += len(data)


def _encoded(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


class QueryLines:
    """Results, seconds and response times of all queries, now and then."""

    def __init__(self, path: str, room: int = QUERY_BYTES) -> None:
        self._journal = HistoryJournal(path, room)
        self._names: list[str] | None = None
        #: From when to when on the wall clock no line is due: a clock that was set back does not end the history.
        self._written, self._due = 0.0, 0.0

    def is_due(self, now: float) -> bool:
        return not self._written <= now < self._due

    def note(self, now: float, figures: Mapping[str, Sequence[float | None]]) -> None:
        """`figures`: per query results, seconds, 95th percentile of the response time. A line is written if one is
        due."""
        if not self.is_due(now):
            return
        self._written, self._due = now, now + QUERY_SECONDS * max(1.0, len(figures) / QUERIES_AT_PACE)
        names = list(figures)
        results, seconds, slow = list(zip(*figures.values(), strict=True)) or [(), (), ()]
        line = {"t": round(now, 2), "results": results, "seconds": seconds, "p95": slow}
        self._journal.append(line, {"names": names}, with_head=names != self._names)
        self._names = names


def read_lines(path: str) -> Iterator[dict[str, Any]]:
    """The lines of both halves, oldest first."""
    for part in (f"{path}.1", path):
        if not os.path.exists(part):
            continue
        with open(part, "rb") as file:
            for line in file:
                try:
                    found = json.loads(line)
                except ValueError:
                    continue
                if isinstance(found, dict):
                    yield found


def read_overview(path: str, since: float, points: int) -> list[dict[str, Any]]:
    """The lines of an overview from an instant on, at most about `points`: evenly spread, the newest always among
    them."""
    found = [line for line in read_lines(path) if line.get("t", 0.0) >= since]
    step = max(1, -(-len(found) // max(points, 1)))
    return found[(len(found) - 1) % step :: step] if found else []


def read_query(path: str, name: str, since: float, points: int) -> list[dict[str, Any]]:
    """The lines of one query from an instant on."""
    found: list[dict[str, Any]] = []
    place: int | None = None
    for line in read_lines(path):
        if "names" in line:
            place = line["names"].index(name) if name in line["names"] else None
        elif place is not None and line.get("t", 0.0) >= since:
            found.append({"t": line["t"], **{key: line[key][place] for key in ("results", "seconds", "p95")}})
    step = max(1, -(-len(found) // max(points, 1)))
    return found[(len(found) - 1) % step :: step] if found else []
