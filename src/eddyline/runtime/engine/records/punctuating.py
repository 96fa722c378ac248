"""`session.punctuate` and `session.advance`: promises that a program makes while rows are pushed.

Answer   `promise` passes a condition, or constants, to the runner as records: after the newest row pushed, or after an
         instant. `advance` passes a heartbeat: no row comes any more up to an instant.
Limits   Constants are checked against the declaration of the stream; a null constant is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import numpy as np
import pyarrow as pa

from eddyline.errors import BindingProblem
from eddyline.language.records.punctuations import record_body, text_condition
from eddyline.model.records.punctuation import KIND
from eddyline.model.records.records import AFTER_ALL, Records
from eddyline.model.schema import Stream
from eddyline.runtime.engine.records.kinds import instant_of
from eddyline.runtime.front.runner import Runner


def promise(
    runner: Runner, stream: Stream, what: str | pa.Table | Mapping[str, object], at: str | datetime | None
) -> None:
    body = _condition(stream, what) if isinstance(what, str) else _constants(stream, what)
    if not len(body):
        return
    if at is None:
        runner.push_record(stream, KIND, body)
        return
    runner.announce(
        [Records(stream.name, KIND, np.full(len(body), instant_of(at)), np.full(len(body), AFTER_ALL), body)]
    )


def advance(runner: Runner, streams: Iterable[Stream], to: str | datetime) -> None:
    """Move the horizons of streams just past an instant, after the rows that were pushed before. A stream that is not
    pushed has the heartbeat after its rows of that instant."""
    micros = instant_of(to)
    shown = str(np.datetime64(micros, "us")).replace("T", " ")
    for stream in streams:
        time = stream.time.replace('"', '""')
        pushed = stream.options.get("format", "parquet" if "path" in stream.options else "memory") == "memory"
        promise(runner, stream, f"\"{time}\" <= TIMESTAMP '{shown}'", None if pushed else shown)


def _condition(stream: Stream, text: str) -> pa.Table:
    return pa.table({name: [value] for name, value in record_body(stream, text_condition(stream, text)).items()})


def _constants(stream: Stream, what: pa.Table | Mapping[str, object]) -> pa.Table:
    if isinstance(what, Mapping):
        try:
            what = pa.table(
                {name: value if isinstance(value, list | tuple) else [value] for name, value in what.items()}
            )
        except (pa.ArrowException, OverflowError, TypeError) as problem:
            raise BindingProblem(
                f"constants of {stream.name} make no table",
                detail=str(problem),
                hint="every column has a constant for every punctuation",
            ) from None
    if not isinstance(what, pa.Table):
        raise BindingProblem(
            f"{what!r} is no punctuation of {stream.name}",
            hint='a condition, such as "item = 180", or a table of constants',
        )
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
            raise BindingProblem(
                f"column {name} of stream {stream.name} is {column.type}", detail=str(problem)
            ) from None
        if columns[column.name].null_count:
            raise BindingProblem(
                f"a constant of {name} is null",
                hint='nulls are promised by a condition: session.punctuate(stream, "x IS NULL")',
            )
    if not columns:
        raise BindingProblem("a punctuation without a constant ends its stream", hint="name at least one column")
    return pa.table(columns)
