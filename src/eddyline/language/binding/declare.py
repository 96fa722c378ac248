"""CREATE STREAM, CREATE TABLE and CREATE SINK, checked.

Answer   `bind_stream`, `bind_table` and `bind_sink` turn a statement into a `Stream`, a `Table` or a `DeclaredSink`, and
         refuse options of WITH that there are not. Values are checked here where the language defines them.
Limits   `connectors` check the values of options of formats (path, header …).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eddyline.errors import BindingProblem, located
from eddyline.language.binding.columns import column_of, no_option
from eddyline.language.catalog import Catalog, DeclaredSink
from eddyline.language.records.heralds import herald_column
from eddyline.language.records.punctuations import check_marked, key_columns, punctuation_column
from eddyline.language.syntax import ColumnDefinition, CreateSink, CreateStream, CreateTable, WithOption
from eddyline.language.text.windows import parse_span
from eddyline.model.schema import RESULT_TIME, Column, Schema, Stream, Table, time_unit

#: Options of both streams and tables: how files are read.
_READING = ("format", "path", "delimiter", "header", "multiline")
#: Options that only streams have: about time, punctuations and heralds.
_TIMED = ("time", "time_unit", "lateness", "idle", "most_ahead", "sequence", "key", "punctuation", "remember", "herald")
STREAM_OPTIONS = (*_TIMED, *_READING, "files_per_batch", "rate", "distinct_<column>")
TABLE_OPTIONS = (*_READING, "distinct_<column>", "refresh")
SINK_OPTIONS = ("format", "path", "punctuation", "topic", "servers", "key", "<spark.option>")


def bind_stream(statement: CreateStream, catalog: Catalog) -> Stream:
    """The stream that a statement declares; it is not yet in the catalog."""
    catalog.check_free("stream", statement.name)
    schema = _schema(statement.columns, of_stream=True)
    given = _given(statement.options, STREAM_OPTIONS, "stream", schema)
    places = {o.name: o.position for o in statement.options}
    time, unit, sequence, key, mark, herald = (
        given.pop(name, None) for name in ("time", "time_unit", "sequence", "key", "punctuation", "herald")
    )
    if time is None:
        hint = "WITH (time = '…') names its TIMESTAMP column"
        raise BindingProblem(f"stream {statement.name} has no event time", hint=hint)
    if sequence is not None:
        hint = "sequence = '…' names one of its columns"
        sequence = column_of(statement.name, schema, sequence, places["sequence"], hint).name
    _refuse_nested_keys(statement.name, schema, (sequence, *(key or "").split(",")))
    keys = () if key is None else key_columns(statement.name, schema, key, places["key"])
    others = (time, sequence, *keys)
    if unit is not None:
        with located(places["time_unit"]):
            schema = replace(schema, time_unit=time_unit(unit))
    with located(places["time"]):
        spans: dict[str, Any] = {
            name: parse_span(given.pop(name), places[name])
            for name in ("lateness", "idle", "most_ahead", "remember")
            if name in given
        }
        if mark is not None:
            mark = punctuation_column(statement.name, schema, others, mark, places["punctuation"])
        if herald is not None:
            herald = herald_column(statement.name, schema, (*others, mark), herald, places["herald"])
        return Stream(
            name=statement.name,
            schema=schema,
            time=_spelling(schema, time),
            sequence=sequence,
            position=catalog.next_position,
            options=given,
            key=keys,
            punctuation=mark,
            herald=herald,
            **spans,
        )


def _refuse_nested_keys(name: str, schema: Schema, columns: tuple[str | None, ...]) -> None:
    for column in [schema.find(found.strip()) for found in columns if found]:
        if column is not None and column.type.is_nested:
            raise BindingProblem(
                f"column {column.name} of stream {name} is {column.type}, which is not compared",
                hint="sequence and key name columns of plain types",
            )


def bind_table(statement: CreateTable, catalog: Catalog) -> Table:
    """The static table that a statement declares; it is not yet in the catalog."""
    catalog.check_free("table", statement.name)
    schema = _schema(statement.columns)
    for option in statement.options:
        if option.name in _TIMED:
            raise BindingProblem(
                f"a table has no {option.name}",
                hint="a static table is read once; rows that come in time are a STREAM",
                position=option.position,
            )
    given = _given(statement.options, TABLE_OPTIONS, "table", schema)
    refresh = given.pop("refresh", None)
    period = None
    if refresh is not None:
        with located(next(o.position for o in statement.options if o.name == "refresh")):
            period = parse_span(refresh)
            if period < 1:
                raise BindingProblem("refresh takes a span longer than zero", hint="refresh = '10 minutes'")
            if "path" not in given:
                raise BindingProblem("only a table of files can be read again", hint="refresh goes with path = '…'")
    return Table(statement.name, schema, given, period)


def bind_sink(statement: CreateSink, catalog: Catalog) -> DeclaredSink:
    """The sink that a statement declares; it is not yet in the catalog."""
    catalog.check_free("sink", statement.name)
    query = None if statement.query is None else catalog.results_of(statement.query)
    sink = DeclaredSink(statement.name, query, _given(statement.options, SINK_OPTIONS, "sink", None))
    check_marked(sink, catalog, next((o.position for o in statement.options if o.name == "punctuation"), None))
    return sink


def _schema(columns: tuple[ColumnDefinition, ...], of_stream: bool = False) -> Schema:
    seen: set[str] = set()
    for column in columns:
        with located(column.position):
            if column.name.lower() in seen:
                hint = "give each column a name of its own"
                raise BindingProblem(f"column {column.name} is declared twice", hint=hint)
            if column.name.startswith("_") and not (of_stream and column.name == RESULT_TIME):
                hint = "names that begin with _ are the engine's own (_ts, _op, _reason)"
                raise BindingProblem(f"column name {column.name} is reserved", hint=hint)
        seen.add(column.name.lower())
    return Schema(tuple(Column(c.name, c.type) for c in columns))


def _given(options: tuple[WithOption, ...], known: tuple[str, ...], kind: str, schema: Schema | None) -> dict[str, str]:
    given = {}
    for option in options:
        name = option.name
        if name.startswith("distinct_") and schema is not None and "distinct_<column>" in known:
            column = schema.find(name.removeprefix("distinct_"))
            if column is None:
                detail = f"columns are {', '.join(schema.names)}"
                raise BindingProblem(f"option {name} names no column", detail=detail, position=option.position)
            name = f"distinct_{column.name}"
        elif name not in known and not ("." in name and "<spark.option>" in known):
            raise no_option(f"a {kind} has", option, known)
        if name in ("rate", "files_per_batch") or name.startswith("distinct_"):
            _check_number(option)
        given[name] = str(option.value)
    return given


def _spelling(schema: Schema, name: str) -> str:
    """The name as the column was declared; `Stream` itself refuses one that is not there."""
    column = schema.find(name)
    return name if column is None else column.name


def _check_number(option: WithOption) -> None:
    try:
        good = float(option.value) > 0
    except ValueError:
        good = False
    if not good:
        raise BindingProblem(
            f"{option.name} does not take {option.value!r}", hint="a number greater than zero", position=option.position
        )
