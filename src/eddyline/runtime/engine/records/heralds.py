"""Heralds as records: how they are found in rows, and what checks them.

Answer   `HeraldKind` takes rows whose `herald` column is not null for heralds; a text that is none makes the row a bad
         one. `herald` is `session.herald`.
State    None.
Limits   On Spark `n ROWS` needs a stream whose rows are counted: one with a herald column, or one that a statement
         has announced heralds for.
Reading  docs/heralds.md, docs/add-a-record.md
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from numbers import Integral

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import BindingProblem
from eddyline.language.records.heralds import herald_of, herald_texts
from eddyline.language.text.windows import parse_span
from eddyline.model.records.herald import KIND, TEXT
from eddyline.model.records.records import Records
from eddyline.model.schema import Stream
from eddyline.operators.promises.heralded import Heralded
from eddyline.operators.stream.intake import event_times
from eddyline.runtime.engine.records.kinds import RecordKind, Split, Splitter, bad_rows, instant_of
from eddyline.runtime.front.runner import Runner


class HeraldKind(RecordKind):
    name = KIND
    ignored_below = True
    #: Stores are cut into zones at heralds.
    for_units = True

    def concerns(self, stream: Stream) -> bool:
        return stream.herald is not None or stream.heralded

    def splitter(self, stream: Stream, streams: Mapping[str, Stream]) -> Splitter | None:
        return None if stream.herald is None else _Splitter(stream, stream.herald)

    def checker(self, stream: Stream, streams: Mapping[str, Stream]) -> Heralded:
        return Heralded(stream.name, herald_texts(stream).many)

    def counts_rows(self, stream: Stream) -> bool:
        return stream.herald is not None or stream.counted


class _Splitter:
    def __init__(self, stream: Stream, column: str) -> None:
        self.stream = stream
        self.column = column
        self._texts = herald_texts(stream)

    def __call__(self, rows: pa.Table) -> Split:
        noted = pc.is_valid(rows.column(self.column)).to_numpy()
        if not noted.any():
            return Split()
        said = rows.filter(pa.array(noted))
        number = np.cumsum(~noted)[noted]
        problems = self._texts.many(said.column(self.column).combine_chunks()).problems
        bad = None
        if problems:
            lost = np.array(sorted(problems))
            reasons = [f"its herald cannot be read: {problems[at].message}" for at in lost.tolist()]
            bad = bad_rows(self.stream, said.take(pa.array(lost)), pa.array(reasons, pa.string()))
            good = np.delete(np.arange(len(said)), lost)
            said, number = said.take(pa.array(good)), number[good]
        records = []
        if len(said):
            sequence = None if self.stream.sequence is None else said.column(self.stream.sequence).combine_chunks()
            body = pa.table({TEXT: said.column(self.column)})
            records.append(Records(self.stream.name, KIND, event_times(said, self.stream.time), number, body, sequence))
        return Split(~noted, records, bad)


def herald(
    runner: Runner, stream: Stream, condition: str, rows: int | None, span: str | None, at: str | datetime | None
) -> None:
    """Describe the next rows of a stream: after the newest row pushed, or after an instant."""
    if (rows is None) == (span is None):
        raise BindingProblem("a herald has one span", hint='rows=300 or span="10 minutes"')
    if not isinstance(condition, str):
        raise BindingProblem(f"{condition!r} is no condition of {stream.name}", hint='"store < 400"')
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, Integral)):
        raise BindingProblem(f"{rows!r} is no number of rows", hint="rows=300")
    if span is not None:
        if not isinstance(span, str):
            raise BindingProblem(f"{span!r} is no span of time", hint='span="10 minutes"')
        parse_span(span)
    text = f"{condition} FOR {f'{rows} ROWS' if rows is not None else repr(span)}"
    herald_of(stream, text)
    if at is None:
        runner.push_record(stream, KIND, {TEXT: text})
        return
    runner.announce([Records.one(stream.name, KIND, instant_of(at), {TEXT: text})])
