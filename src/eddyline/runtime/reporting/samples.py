"""Rows for displays: the newest results of a query, and some of the dead letters.

Answer   `Tail` is a sink that keeps the newest rows of one query. `DeadSamples` keeps the newest dead letters of each
         stream and reason, and their number. Both convert values to JSON.
State    At most 200 rows per query that a page shows; at most 5 rows for each of 8 reasons per stream.
Limits   A value is cut after 200 characters. A table is reduced to its last rows when it is written.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from eddyline.connectors.results.sinks import PassingSink

#: Rows of a query, rows per reason, reasons per stream.
TAIL, SAMPLES, REASONS = 200, 5, 8
_LONGEST = 200
#: A browser rounds whole numbers beyond this one: they are sent as text.
_EXACT = 1 << 53


def shown(value: object) -> object:
    """A value as JSON: numbers, truth values and nulls as they are, everything else as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and math.isfinite(value) and abs(value) <= _EXACT:
        return value
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def shown_rows(table: pa.Table) -> list[list[object]]:
    columns = [[shown(value) for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


class Tail(PassingSink):
    """The newest results of one query. After a crash it begins empty, and has the results of repeated epochs twice."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.rows: deque[list[object]] = deque(maxlen=TAIL)

    def open(self, schema: pa.Schema) -> None:
        self.columns = list(schema.names)

    def write(self, epoch: int, table: pa.Table) -> None:
        self.rows.extend(shown_rows(table.slice(max(0, len(table) - TAIL))))

    def as_json(self) -> dict[str, Any]:
        return {"columns": self.columns, "rows": list(self.rows)}


class DeadSamples:
    def __init__(self) -> None:
        self._rows: dict[str, dict[str, deque[list[object]]]] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._columns: dict[str, list[str]] = {}

    def take(self, dead: Mapping[str, list[pa.Table]]) -> None:
        for stream, tables in dead.items():
            for table in tables:
                if len(table):
                    self._take(stream, table)

    def _take(self, stream: str, table: pa.Table) -> None:
        self._columns[stream] = [name for name in table.column_names if name != "_reason"]
        counts, rows = self._counts.setdefault(stream, {}), self._rows.setdefault(stream, {})
        for found in table.column("_reason").value_counts().to_pylist():
            kind = _kind(found["values"])
            if kind not in counts and len(counts) >= REASONS:
                kind = "other"
            counts[kind] = counts.get(kind, 0) + found["counts"]
        newest = table.slice(max(0, len(table) - SAMPLES))
        reasons = newest.column("_reason").to_pylist()
        for reason, row in zip(reasons, shown_rows(newest.drop_columns(["_reason"])), strict=True):
            kind = _kind(reason)
            rows.setdefault(kind if kind in counts else "other", deque(maxlen=SAMPLES)).append([shown(reason), *row])

    def as_json(self) -> dict[str, Any]:
        return {
            stream: {
                "columns": ["_reason", *self._columns[stream]],
                "reasons": {
                    kind: {"count": count, "samples": list(self._rows[stream].get(kind, ()))}
                    for kind, count in counts.items()
                },
            }
            for stream, counts in self._counts.items()
        }


def _kind(reason: str) -> str:
    """The kind of a reason: its text without queries, places and values.

    >>> _kind("late: event time lies before the frontier; missed by a, b"), _kind("bad: line 7: x is no number")
    ('late: event time lies before the frontier', 'bad')
    """
    return reason.split(";", 1)[0] if reason.startswith("late") else reason.split(":", 1)[0]
