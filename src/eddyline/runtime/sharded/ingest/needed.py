"""What of a stream the queries of a layout need: which columns, and which row groups.

Answer   `NeededColumns.of` names the columns that tasks read and place; None: all of them. A column is needed if its
         name stands anywhere in a bound query or in a route. `latest_bounds` finds the event time from which on no row
         of a batch is late, for any query. `skipping` says which row groups need not be read in a batch.
State    What was found, by stream.
Limits   A dead letter has all columns of its row. So all are read of streams whose rows may break a promise, contain
         records or lie too far ahead, and of rows below that time. In a batch with control records nothing is known of
         that time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from eddyline.connectors.files.parts import by_groups
from eddyline.connectors.formats.conform import wanted_columns
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.operators.sharing.skipping import Skipping
from eddyline.plan.skippable import skipping_of
from eddyline.runtime.engine.records.kinds import Splitting, is_concerned
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.job.document import to_document
from eddyline.runtime.sharded.job.layout import JobLayout


class NeededColumns:
    def __init__(self, layout: JobLayout) -> None:
        self._layout = layout
        self._splitting = Splitting(layout.streams)
        self._found: dict[str, frozenset[str] | None] = {}
        self._skipping: dict[str, Skipping] = {}
        self._text = ""

    def of(self, stream: Stream, batch: BatchDocument) -> frozenset[str] | None:
        """The columns that are read of a stream in a batch, for rows that are not late."""
        if not _is_known(stream, batch):
            return None
        if stream.name not in self._found:
            self._found[stream.name] = self._needed(stream)
        return self._found[stream.name]

    def skipping(self, stream: Stream, batch: BatchDocument) -> Skipping | None:
        """What need not be read of a stream in a batch, with counts of its own; None: all is read."""
        if not by_groups(stream.options) or not _is_known(stream, batch):
            return None
        if stream.name not in self._skipping:
            promises = self._has_promises(stream)
            self._skipping[stream.name] = skipping_of(stream, self._parts, self._layout.settings, promises)
        return replace(self._skipping[stream.name], below=batch.late_below.get(stream.name), counts=Counter())

    @cached_property
    def _parts(self) -> list[BoundQuery]:
        return [part for query in self._layout.queries for part in (*query.makers, query)]

    def _has_promises(self, stream: Stream) -> bool:
        self._splitting.prepare(stream)
        return stream.name not in self._splitting.plain or is_concerned(stream)

    def _needed(self, stream: Stream) -> frozenset[str] | None:
        parts = self._parts
        if (
            self._has_promises(stream)
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


def _is_known(stream: Stream, batch: BatchDocument) -> bool:
    """Whether it is known which rows of a stream are late in a batch."""
    return not batch.control and (not batch.before or stream.name in batch.late_below)


def latest_bounds(notes: Iterable[Mapping[str, Any]]) -> dict[str, int | None]:
    """Per stream the event time below which a row of the next batch may be late, by the notes of all shards."""
    found: dict[str, int | None] = {}
    for note in notes:
        for name, bound in note.get("late_below", {}).items():
            known = found.get(name)
            found[name] = bound if known is None else known if bound is None else max(known, bound)
    return found
