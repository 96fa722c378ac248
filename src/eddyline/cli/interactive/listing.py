"""What a shell shows of its job: SHOW and DESCRIBE.

Answer   `listing` gives the entries of one kind as a table, `description` the columns of one entry.
State    None: the job is given.
Limits   Entries of the job and of the engine only; nothing runs and no file is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from eddyline.dashboard.vocabulary import vocabulary
from eddyline.errors import UserError
from eddyline.language import Job
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Schema, Stream

Rows = Iterable[Sequence[str]]


def listing(kind: str, job: Job) -> pa.Table:
    """What `SHOW kind` shows.

    >>> listing("sinks", Job()).column_names
    ['sink', 'of query', 'options']
    """
    if kind.lower() not in KINDS:
        message = f"SHOW does not take {kind}" if kind else "SHOW needs a word"
        raise UserError(message, detail="it lists the entries of one kind", hint=f"SHOW {' | '.join(KINDS).upper()}")
    columns, rows = KINDS[kind.lower()]
    return _table(columns, rows(job))


def description(name: str, job: Job) -> pa.Table:
    """What `DESCRIBE name` shows: one line per column of a stream, a table, a query or a template."""
    queries = {query.name.lower(): query for query in job.queries}
    if name.lower() in queries:
        return columns_of(queries[name.lower()])
    entry = job.catalog.relation(name)
    roles = {entry.time: "event time", entry.sequence: "sequence"} if isinstance(entry, Stream) else {}
    return _table(
        ("column", "type", "role"), [(c.name, str(c.type), roles.get(c.name, "")) for c in entry.schema.columns]
    )


def columns_of(query: BoundQuery) -> pa.Table:
    """The columns of the results of a query."""
    return _table(("column", "type"), [(output.name, str(output.type)) for output in query.outputs])


def _table(columns: Sequence[str], rows: Rows) -> pa.Table:
    listed = [dict(zip(columns, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(listed, pa.schema([(column, pa.string()) for column in columns]))


def _streams(job: Job) -> Rows:
    return [(s.name, _columns(s.schema), s.called_time, _options(s.options)) for s in job.catalog.streams.values()]


def _queries(job: Job) -> Rows:
    return [(query.name, " ".join(query.text.split())) for query in job.catalog.queries.values()]


def _tables(job: Job) -> Rows:
    return [(table.name, _columns(table.schema), _options(table.options)) for table in job.tables]


def _sinks(job: Job) -> Rows:
    return [(sink.name, "all" if sink.query is None else sink.query, _options(sink.options)) for sink in job.sinks]


def _settings(job: Job) -> Rows:
    for setting in vocabulary(job.catalog)["settings"]:
        value = getattr(job.settings, setting["name"])
        yield setting["name"], "none" if value is None else str(value), setting["values"], setting["help"]


def _functions(job: Job) -> Rows:
    yield from ((own.signature, f"{own.result}, a function of your own") for own in job.catalog.functions.values())
    yield from ((function["signature"], function["help"]) for function in vocabulary(job.catalog)["functions"])


def _columns(schema: Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema.columns)


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in options.items())


#: Per word after SHOW the columns of its table, and the function that gives the rows.
KINDS: dict[str, tuple[tuple[str, ...], Callable[[Job], Rows]]] = {
    "streams": (("stream", "columns", "event time", "options"), _streams),
    "queries": (("query", "text"), _queries),
    "tables": (("table", "columns", "options"), _tables),
    "sinks": (("sink", "of query", "options"), _sinks),
    "settings": (("setting", "value", "values", "what it is for"), _settings),
    "functions": (("write", "gives"), _functions),
}
