"""Punctuations as records: how they are found in rows, and what they promise of their stream.

Answer   `PunctuationKind` finds punctuations in the rows of a stream: rows that its `punctuation` column marks, the
         `key` of every row, and what CREATE PUNCTUATION derives for another stream.
State    None.
Limits   A null key, or a null AT, gives no punctuation.
Reading  docs/punctuations.md, docs/add-a-record.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.errors import UserError
from eddyline.language.records.punctuations import text_condition
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.records.punctuation import (
    HEARTBEAT,
    KIND,
    PATTERN,
    DerivedPunctuation,
    Interval,
    ValuePattern,
    body_of,
    to_text,
)
from eddyline.model.records.records import AFTER_ALL, BEFORE_ALL, Flags, Ints, Records
from eddyline.model.schema import Stream
from eddyline.operators.promises.covering import alike, there
from eddyline.operators.promises.promises import Promises
from eddyline.operators.stream.intake import event_times
from eddyline.runtime.engine.records.kinds import RecordKind, Split, Splitter, bad_rows
from eddyline.state.columns import as_plain

_NO_CONDITION = "a punctuation without a constant would end its stream"


class PunctuationKind(RecordKind):
    name = KIND
    for_units = True

    def concerns(self, stream: Stream) -> bool:
        return stream.is_punctuated

    def follows(self, stream: Stream, streams: Mapping[str, Stream]) -> frozenset[str]:
        return frozenset(derived.source for derived in stream.promised)

    def splitter(self, stream: Stream, streams: Mapping[str, Stream]) -> Splitter | None:
        if not (stream.key or stream.punctuation or stream.promising):
            return None
        return _Splitter(stream, streams)

    def checker(self, stream: Stream, streams: Mapping[str, Stream]) -> Promises:
        return Promises(stream)

    def heartbeats(self, records: Records) -> Ints | None:
        if records.body.column_names != [HEARTBEAT] or not len(records):
            return None
        return np.asarray(records.body.column(HEARTBEAT)).astype(np.int64)

    def after_place(self, records: Records, stream: Stream) -> Records | None:
        instants = self.heartbeats(records)
        if instants is None:
            return None
        chosen = np.flatnonzero(instants > records.ts)
        if not len(chosen):
            return None
        texts = [
            to_text({stream.time: ValuePattern((Interval(high=instant),))}) for instant in instants[chosen].tolist()
        ]
        return replace(records.take(chosen), body=pa.table({PATTERN: texts}), home=np.zeros(len(chosen), np.bool_))

    def pinned(self, records: Records, stream: Stream) -> pa.Table | None:
        return None if records.body.column_names in ([PATTERN], [HEARTBEAT]) else records.body


class _Splitter:
    def __init__(self, stream: Stream, streams: Mapping[str, Stream]) -> None:
        self.stream = stream
        self.types = {column.name: column.type for column in stream.schema.columns}
        self.targets = [(derived, streams[derived.stream]) for derived in stream.promising if derived.stream in streams]
        #: Condition as text -> the body of its record, or why it is none.
        self._bodies: dict[str, tuple[str | None, str | None]] = {}

    def __call__(self, rows: pa.Table) -> Split:
        kept: Flags | None = None
        records: list[Records] = []
        bad: pa.Table | None = None
        if self.stream.punctuation is not None:
            kept, records, bad = self._marked(rows)
        derives = bool(self.stream.key or self.targets)
        if kept is not None and derives:
            rows = rows.filter(pa.array(kept))
        if derives and len(rows):
            ts = event_times(rows, self.stream.time)
            if self.stream.key:
                records.append(self._keys(rows, ts))
            records += [_derived(derived, self.stream, target, rows, ts) for derived, target in self.targets]
        return Split(kept, [batch for batch in records if len(batch)], bad)

    def _sequence(self, rows: pa.Table) -> pa.Array | None:
        return None if self.stream.sequence is None else _whole(rows.column(self.stream.sequence))

    def _keys(self, rows: pa.Table, ts: Ints) -> Records:
        """After every row: no further row with its key."""
        number = np.arange(1, len(rows) + 1)
        body = rows.select(list(self.stream.key))
        found = Records(
            self.stream.name, KIND, ts, number, body, self._sequence(rows), origin=self.stream.name, origin_ts=ts
        )
        return _where(found, _present(body))

    def _marked(self, rows: pa.Table) -> tuple[Flags | None, list[Records], pa.Table | None]:
        """The rows that are punctuations; which rows are left."""
        assert self.stream.punctuation is not None
        column = _whole(rows.column(self.stream.punctuation))
        is_text = pa.types.is_string(column.type)
        marked = there(column) if is_text else np.asarray(column.fill_null(False) if column.null_count else column)
        places = np.flatnonzero(marked)
        if not len(places):
            return None, [], None
        kept = ~marked
        number: Ints = places - np.arange(len(places))
        said = rows.take(pa.array(places)).combine_chunks()
        bodies, bad = self._texts(said) if is_text else self._constants(said)
        ts, sequence = event_times(said, self.stream.time), self._sequence(said)
        records = []
        for chosen, body in bodies:
            place = None if sequence is None else sequence.take(pa.array(chosen))
            records.append(Records(self.stream.name, KIND, ts[chosen], number[chosen], body, place))
        return kept, records, bad

    def _constants(self, said: pa.Table) -> tuple[list[tuple[Ints, pa.Table]], pa.Table | None]:
        """Punctuations with the same columns together: what is not null is a constant."""
        others = (self.stream.time, self.stream.punctuation, self.stream.sequence)
        names = [name for name in self.stream.schema.names if name not in others]
        bodies, bad = [], None
        for chosen, columns in alike(said, names):
            if columns:
                body = said.select(columns)
                bodies.append((chosen, body if len(chosen) == len(said) else body.take(pa.array(chosen))))
            else:
                lost = said.take(pa.array(chosen))
                bad = bad_rows(self.stream, lost, pa.repeat(pa.scalar(_NO_CONDITION), len(lost)))
        return bodies, bad

    def _texts(self, said: pa.Table) -> tuple[list[tuple[Ints, pa.Table]], pa.Table | None]:
        assert self.stream.punctuation is not None
        texts = said.column(self.stream.punctuation).to_pylist()
        known = [self._body(text) for text in texts]
        kinds: dict[str, list[int]] = {PATTERN: [], HEARTBEAT: []}
        values: dict[str, list[object]] = {PATTERN: [], HEARTBEAT: []}
        lost, reasons = [], []
        for place, (text, problem) in enumerate(known):
            if problem is not None:
                lost.append(place)
                reasons.append(problem)
            else:
                assert text is not None
                [(column, value)] = body_of(text, self.types, self.stream.time).items()
                kinds[column].append(place)
                values[column].append(value)
        bodies = [(np.array(at, np.int64), pa.table({column: values[column]})) for column, at in kinds.items() if at]
        bad = bad_rows(self.stream, said.take(pa.array(lost)), pa.array(reasons)) if lost else None
        return bodies, bad

    def _body(self, text: str) -> tuple[str | None, str | None]:
        if text not in self._bodies:
            try:
                self._bodies[text] = text_condition(self.stream, text), None
            except UserError as problem:
                self._bodies[text] = None, f"its punctuation cannot be read: {problem.message}"
            if len(self._bodies) > 4096:
                self._bodies = {text: self._bodies[text]}
        return self._bodies[text]


def _derived(derived: DerivedPunctuation, source: Stream, target: Stream, rows: pa.Table, ts: Ints) -> Records:
    """The punctuation of CREATE PUNCTUATION after every row:
    at its place, or at the end of AT where that is not before the time
    of the row."""
    body = rows.select(list(derived.source_columns)).rename_columns(list(derived.columns))
    present = _present(body)
    at = ts
    if derived.at is not None:
        column = _whole(rows.column(derived.at))
        present &= there(column)
        at = np.where(there(column), as_plain(column, TIMESTAMP), ts)
    sequence = None
    if source.name == target.name:
        side = np.arange(1, len(rows) + 1)
        sequence = None if source.sequence is None else _whole(rows.column(source.sequence))
    else:
        side = np.full(len(rows), BEFORE_ALL if source.position < target.position else AFTER_ALL)
    number = np.where(at >= ts, AFTER_ALL, side)
    found = Records(target.name, KIND, np.maximum(at, ts), number, body, sequence, origin=source.name, origin_ts=ts)
    return _where(found, present)


def _present(body: pa.Table) -> Flags:
    found: Flags = np.logical_and.reduce([there(_whole(body.column(name))) for name in body.column_names])
    return found


def _where(records: Records, chosen: Flags) -> Records:
    return records if chosen.all() else records.take(chosen)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
