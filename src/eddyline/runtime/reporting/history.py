"""The last hours of a job in bounded files.

Answer   `HistoryJournal` appends JSON lines to a file. When the file reaches half of the allowed size, it becomes the older
         half and a new file begins. `QueryLines` writes a line for all queries every ten seconds. `read_overview` and
         `read_query` return lines, evenly thinned to a number of points.

             overview.jsonl.1  older half ─► overview.jsonl  newer half ─► next line

State    Files only, all together at most 50 MB. With more than 2,000 queries lines are rarer, so that an hour still fits.
Limits   Readers skip a line that a crash cut off. Nothing is synced: a power cut may remove the last lines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Bytes.
_MIB = 1 << 20
#: Bytes of both halves of each history.
OVERVIEW_BYTES, QUERY_BYTES, DECISION_BYTES = 8 * _MIB, 38 * _MIB, 2 * _MIB
#: Seconds between two lines of all queries, for up to this number of queries.
QUERY_SECONDS, QUERIES_AT_PACE = 10.0, 2_000


class HistoryJournal:
    def __init__(self, path: str, room: int) -> None:
        self.path = path
        self._half = room // 2
        self._size = os.path.getsize(path) if os.path.exists(path) else 0

    def append(self, line: Mapping[str, Any], head: Mapping[str, Any] | None = None, with_head: bool = False) -> None:
        """Write a line. The head, to which later lines refer, is written before the first line of a file, and if
        `with_head` is set."""
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
    """A history with results, seconds and response times of all queries in each line."""

    def __init__(self, path: str, room: int = QUERY_BYTES) -> None:
        self._journal = HistoryJournal(path, room)
        self._names: list[str] | None = None
        #: Between these instants of the wall clock no line is due. If the clock is set back, a line is due at once.
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
    """The lines of an overview from an instant on: at most about `points`, evenly spread, with the newest one."""
    return _thinned([line for line in read_lines(path) if line.get("t", 0.0) >= since], points)


def read_query(path: str, name: str, since: float, points: int) -> list[dict[str, Any]]:
    """The lines of one query from an instant on."""
    found: list[dict[str, Any]] = []
    place: int | None = None
    for line in read_lines(path):
        if "names" in line:
            place = line["names"].index(name) if name in line["names"] else None
        elif place is not None and line.get("t", 0.0) >= since:
            found.append({"t": line["t"], **{key: line[key][place] for key in ("results", "seconds", "p95")}})
    return _thinned(found, points)


def _thinned(lines: list[dict[str, Any]], points: int) -> list[dict[str, Any]]:
    step = max(1, -(-len(lines) // max(points, 1)))
    return lines[(len(lines) - 1) % step :: step]
