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

import pyarrow as pa

from eddyline.connectors.files.parts import by_groups
from eddyline.connectors.formats.conform import wanted_columns
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.operators.sharing.skipping import Skipping
from eddyline.operators.stream.intake import event_times
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
        if not knows_late_rows(stream, batch):
            return None
        if stream.name not in self._found:
            self._found[stream.name] = self._needed(stream)
        return self._found[stream.name]

    def skipping(self, stream: Stream, batch: BatchDocument) -> Skipping | None:
        """What need not be read of a stream in a batch, with counts of its own; None: all is read."""
        if not by_groups(stream.options) or not knows_late_rows(stream, batch):
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

    def is_plain(self, stream: Stream) -> bool:
        """Whether queries alone decide what is needed of the stream's rows that are not late: none is a record, or may
        break a promise or be too far ahead."""
        return (
            not self._has_promises(stream)
            and not stream.constraints
            and stream.most_ahead is None
            and all(isinstance(part, BoundQuery) and part.pattern is None for part in self._parts)
        )

    def _needed(self, stream: Stream) -> frozenset[str] | None:
        if not self.is_plain(stream):
            return None
        if not self._text:
            queries = [to_document(query)["nodes"] for query in self._layout.queries]
            self._text = json.dumps([queries, to_document(self._layout.routing)["nodes"]]).lower()
        named = [name for name in stream.schema.names if json.dumps(name.lower()) in self._text]
        return wanted_columns(stream, named)


def without_unneeded(
    rows: pa.Table, stream: Stream, columns: frozenset[str] | None, late_below: int | None
) -> pa.Table:
    """Rows of a piece without the columns that no query needs, unless one of them may be late.

    Args:
        rows: With all columns.
        stream: Theirs.
        columns: Those needed; None: all.
        late_below: As the document of the batch has it.
    """
    if columns is None or (late_below is not None and len(rows) and event_times(rows, stream.time).min() < late_below):
        return rows
    return rows.select([name for name in rows.column_names if name in columns])


def knows_late_rows(stream: Stream, batch: BatchDocument) -> bool:
    """Whether it is known before a batch from which event time on no row is late."""
    return not batch.control and (not batch.before or stream.name in batch.late_below)


def latest_bounds(notes: Iterable[Mapping[str, Any]]) -> dict[str, int | None]:
    """Per stream the event time below which a row of the next batch may be late, by the notes of all shards."""
    found: dict[str, int | None] = {}
    for note in notes:
        for name, bound in note.get("late_below", {}).items():
            known = found.get(name)
            found[name] = bound if known is None else known if bound is None else max(known, bound)
    return found
