"""`session.punctuate`: promises that a program makes while rows are pushed.

Answer   `promise` passes a condition, or constants, to the runner as records: after the newest row pushed, or after an instant.
Limits   Constants are checked against the declaration of the stream; a null constant is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import numpy as np
import pyarrow as pa

from eddyline.errors import BindingProblem
from eddyline.language.punctuations import record_body, text_condition
from eddyline.model.coercion import read_text
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.punctuation import KIND
from eddyline.model.records import AFTER_ALL, Records
from eddyline.model.schema import Stream
from eddyline.runtime.runner import Runner


def promise(runner: Runner, stream: Stream, what: str | pa.Table | Mapping[str, object], at: str | datetime | None) -> None:
    body = _constants(stream, what) if not isinstance(what, str) else _condition(stream, what)
    if body is None or not len(body):
        return
    if at is None:
        runner.push_record(stream, KIND, body)
        return
    instant = read_text(at.isoformat(" ") if isinstance(at, datetime) else at, TIMESTAMP)
    assert isinstance(instant, int)
    runner.announce([Records(stream.name, KIND, np.full(len(body), instant), np.full(len(body), AFTER_ALL), body)])


def _condition(stream: Stream, text: str) -> pa.Table | None:
    found = text_condition(stream, text)
    return None if found is None else pa.table({name: [value] for name, value in record_body(stream, found).items()})


def _constants(stream: Stream, what: pa.Table | Mapping[str, object]) -> pa.Table:
    if isinstance(what, Mapping):
        what = pa.table({name: value if isinstance(value, list | tuple) else [value] for name, value in what.items()})
    columns = {}
    for name in what.column_names:
        column = stream.schema.find(name)
        if column is None or column.name == stream.time:
            raise BindingProblem(
                f"a punctuation of {stream.name} has no constant {name}",
                detail=f"columns are {', '.join(n for n in stream.schema.names if n != stream.time)}",
                hint='a table of constants has columns of the stream; times are conditions: session.punctuate(stream, "ts <= …")',
            )
        try:
            columns[column.name] = what.column(name).cast(column.type.arrow)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            raise BindingProblem(f"column {name} of stream {stream.name} is {column.type}", detail=str(problem)) from None
        if columns[column.name].null_count:
            raise BindingProblem(
                f"a constant of {name} is null", hint='nulls are promised by a condition: session.punctuate(stream, "x IS NULL")'
            )
    if not columns:
        raise BindingProblem("a punctuation without a constant ends its stream", hint="name at least one column")
    return pa.table(columns)
