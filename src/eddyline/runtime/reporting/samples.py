"""Rows for displays: the newest results of a query, and some of the dead letters.

Answer   `Tail` is a sink that keeps the newest rows of one query. `DeadSamples` keeps the newest dead letters of each
         stream and kind of reason, their number, and when the newest came. Both convert values to JSON.
State    At most 200 rows per query that a page shows; at most 5 rows for each of 8 kinds of reason per stream.
Limits   A value is cut after 200 characters. A table is reduced to its last rows when it is written.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.connectors.results.sinks import PassingSink
from eddyline.model.clock import WALL
from eddyline.runtime.reporting.dead_kinds import instants_of, kinds_of

#: Rows of a query, rows per kind of reason, kinds per stream.
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
        #: Per stream and kind, when the newest row came, in seconds since 1970.
        self._newest: dict[str, dict[str, float]] = {}

    def take(self, dead: Mapping[str, list[pa.Table]]) -> None:
        now = WALL.instant() / 1e6
        for stream, tables in dead.items():
            for table in tables:
                if len(table):
                    self._take(stream, table, now)

    def _take(self, stream: str, table: pa.Table, now: float) -> None:
        self._columns[stream] = [name for name in table.column_names if name != "_reason"]
        reasons = table.column("_reason").combine_chunks()
        kinds = kinds_of(reasons)
        counts, rows = self._counts.setdefault(stream, {}), self._rows.setdefault(stream, {})
        newest = self._newest.setdefault(stream, {})
        coded = kinds.dictionary_encode()
        names = shown_kinds(coded.dictionary.to_pylist(), counts)
        found, codes = np.unique(np.array(names)[coded.indices.to_numpy()], return_inverse=True)
        for code, kind in enumerate(found.tolist()):
            # The newest few rows of each kind: a rare reason is not hidden by a frequent one.
            places = np.flatnonzero(codes == code)
            counts[kind] = counts.get(kind, 0) + len(places)
            newest[kind] = now
            last = table.take(pa.array(places[-SAMPLES:]))
            texts = last.column("_reason").combine_chunks()
            heads = zip(texts.to_pylist(), instants_of(texts).to_pylist(), strict=True)
            values = shown_rows(last.drop_columns(["_reason"]))
            rows.setdefault(kind, deque(maxlen=SAMPLES)).extend(
                [shown(reason), instant, *row] for (reason, instant), row in zip(heads, values, strict=True)
            )

    def as_json(self) -> dict[str, Any]:
        return {
            stream: {
                "columns": ["_reason", "_instant", *self._columns[stream]],
                "reasons": {
                    kind: {
                        "count": count,
                        "newest": self._newest[stream][kind],
                        "samples": list(self._rows[stream].get(kind, ())),
                    }
                    for kind, count in counts.items()
                },
            }
            for stream, counts in self._counts.items()
        }


def shown_kinds(kinds: Iterable[str], known: Iterable[str]) -> list[str]:
    """Kinds as they are shown: those that come after the first few are one.

    >>> shown_kinds(["late", "h"], "abcdefg")
    ['late', 'other']
    """
    taken = set(known)
    found = []
    for kind in kinds:
        cut = kind if len(kind) <= _LONGEST else kind[:_LONGEST] + "…"
        found.append(cut if cut in taken or len(taken) < REASONS else "other")
        taken.add(found[-1])
    return found
