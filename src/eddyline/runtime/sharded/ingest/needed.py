"""Which columns of a stream the queries of a layout need.

Answer   `NeededColumns.of` names the columns that tasks read and place; None: all of them. A column is needed if its
         name stands anywhere in a bound query or in a route. `latest_bounds` finds the event time from which on no row
         of a batch is late, for any query.
State    What was found, by stream.
Limits   A dead letter has all columns of its row. So all are read of streams whose rows may break a promise, contain
         records or lie too far ahead, and of rows below that time. In a batch with control records nothing is known of
         that time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from eddyline.connectors.formats.conform import wanted_columns
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.runtime.engine.records.kinds import Splitting, is_concerned
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.job.document import to_document
from eddyline.runtime.sharded.job.layout import JobLayout


class NeededColumns:
    def __init__(self, layout: JobLayout) -> None:
        self._layout = layout
        self._splitting = Splitting(layout.streams)
        self._found: dict[str, frozenset[str] | None] = {}
        self._text = ""

    def of(self, stream: Stream, batch: BatchDocument) -> frozenset[str] | None:
        """The columns that are read of a stream in a batch, for rows that are not late."""
        if batch.control or (batch.before and stream.name not in batch.late_below):
            return None
        if stream.name not in self._found:
            self._found[stream.name] = self._needed(stream)
        return self._found[stream.name]

    def _needed(self, stream: Stream) -> frozenset[str] | None:
        self._splitting.prepare(stream)
        parts = [part for query in self._layout.queries for part in (*getattr(query, "makers", ()), query)]
        if (
            stream.name not in self._splitting.plain
            or is_concerned(stream)
            or stream.constraints
            or stream.most_ahead is not None
            or any(not isinstance(part, BoundQuery) or part.pattern is not None for part in parts)
        ):
            return None
        if not self._text:
            queries = [to_document(query)["nodes"] for query in self._layout.queries]
            self._text = json.dumps([queries, to_document(self._layout.routing)["nodes"]]).lower()
        named = [name for name in stream.schema.names if json.dumps(name.lower()) in self._text]
        return wanted_columns(stream, named)


def latest_bounds(notes: Iterable[Mapping[str, Any]]) -> dict[str, int | None]:
    """Per stream the event time below which a row of the next batch may be late, by the notes of all shards."""
    found: dict[str, int | None] = {}
    for note in notes:
        for name, bound in note.get("late_below", {}).items():
            known = found.get(name)
            found[name] = bound if known is None else known if bound is None else max(known, bound)
    return found
