"""A job as text: statements that declare its streams, tables, queries, sinks and settings again.

Answer   `catalog_text` is the whole job, `query_text` one query, `sink_text` one sink. Parsing and binding the text gives
         the same job. `written_catalog` is the whole job with the places of its queries.
State    None.
Limits   The WITH of a query has only the settings that differ from the defaults: bind the text under the defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eddyline.language import DeclaredSink, Job, render
from eddyline.language.syntax import (
    BookClause,
    ColumnDefinition,
    CreateConstraints,
    CreateFunction,
    CreatePunctuation,
    CreateRequests,
    CreateSink,
    CreateStream,
    CreateTable,
    Set,
    WithOption,
)
from eddyline.model.expressions.own_function import OwnFunction
from eddyline.model.patterns.constraint import ConstraintSet
from eddyline.model.query import BoundQuery
from eddyline.model.records.punctuation import DerivedPunctuation
from eddyline.model.schema import Column, Stream, Table
from eddyline.model.template import BoundRequests, BoundTemplate, RequestStream, Template
from eddyline.model.window import span_text
from eddyline.settings import Settings


@dataclass(frozen=True)
class CatalogText:
    """Statements that declare a job's streams, tables, queries, sinks and settings again."""

    text: str
    #: The name of each query, and where its statement begins and ends.
    queries: tuple[tuple[str, int, int], ...]


def catalog_text(job: Job) -> str:
    """Statements that declare the job's streams, tables, queries, sinks and settings again."""
    return written_catalog(job).text


def written_catalog(job: Job) -> CatalogText:
    plain = [stream for stream in job.streams if stream.name not in job.catalog.requests]
    lines = [render(CreateStream(s.name, _definitions(s.schema.columns), _stream_options(s))) for s in plain]
    lines += [render(CreateTable(t.name, _definitions(t.schema.columns), _table_options(t))) for t in job.tables]
    lines += [line for own in job.catalog.functions.values() for line in function_texts(own)]
    lines += [line for found in job.constraints for line in _constraint_texts(found)]
    lines += [punctuation_text(derived) for derived in job.catalog.punctuations.values()]
    lines += [template_text(template) for template in job.catalog.templates.values()]
    lines += [requests_text(requests) for requests in job.catalog.requests.values()]
    lines += [derived_text(stream, makers[0]) for stream, makers in job.catalog.makers.items()]
    text, queries = _joined(lines), []
    statements = {name: f"{query_text(query)};\n" for name, query in job.catalog.queries.items()}
    begin = len(text)
    for name, statement in statements.items():
        queries.append((name, begin, begin + len(statement)))
        begin += len(statement)
    after = [sink_text(sink) for sink in job.sinks]
    after += [render(Set(name, value)) for name, value in _settings(job.settings).items()]
    return CatalogText("".join([text, *statements.values(), _joined(after)]), tuple(queries))


def _joined(statements: Iterable[str]) -> str:
    return "".join(f"{statement};\n" for statement in statements)


def query_text(query: BoundQuery) -> str:
    """CREATE QUERY with all settings that differ from the defaults in its WITH."""
    return _create("QUERY", query.name, _settings(query.settings), query.text)


def _create(kind: str, name: str, options: Mapping[str, object], text: str) -> str:
    """CREATE … AS with options and the text of a query."""
    listed = ", ".join(f"{option} = {_value(value)}" for option, value in options.items())
    return f'CREATE {kind} "{name}"{f" WITH ({listed})" if listed else ""} AS {text.rstrip().rstrip(";")}'


def created_by(query: BoundQuery) -> str:
    """The statement that creates a query; of the first maker of a derived stream the one that creates the stream."""
    return query_text(query) if query.feeds is None else derived_text(query.feeds.name, query)


def statement_text(query: BoundQuery) -> str:
    """The statement that creates a query, a template or a stream of requests."""
    if isinstance(query, BoundTemplate) and query.template is not None:
        return template_text(query.template)
    if isinstance(query, BoundRequests) and query.request_stream is not None:
        return requests_text(query.request_stream)
    return query_text(query)


def derived_text(stream: str, maker: BoundQuery) -> str:
    """CREATE STREAM … AS with all settings that differ from the defaults in its WITH."""
    named = {} if maker.feeds is None or maker.feeds.sequence is None else {"sequence": maker.feeds.sequence}
    return _create("STREAM", stream, named | _settings(maker.settings), maker.text)


def template_text(template: Template) -> str:
    """CREATE TEMPLATE with its options. Settings are left out: they change no answer of a template."""
    options = {"bits": template.bits, "index": template.index, "history": span_text(template.history).lower()}
    return _create("TEMPLATE", template.name, options, template.query.text)


def requests_text(requests: RequestStream) -> str:
    roles = {"window": requests.window, "group_by": requests.group_by, "aggregates": requests.aggregates}
    named = _options({role: name for role, name in roles.items() if name is not None})
    options, columns = (*_stream_options(requests.stream), *named), _definitions(requests.stream.schema.columns)
    return render(CreateRequests(requests.name, columns, requests.template.name, options))


def _constraint_texts(found: ConstraintSet) -> list[str]:
    """CREATE CONSTRAINTS with its rules, also those from a workflow. SET statements before and after it change settings
    that differ from the defaults."""
    plain, own = Settings(), found.settings
    around = {n: v for n in ("constraints", "on_violation") if (v := getattr(own, n)) != getattr(plain, n)}
    book = BookClause(found.book.stream, found.book.type, found.book.partition)
    lines = [render(Set(name, value)) for name, value in around.items()]
    lines.append(render(CreateConstraints(found.name, book, found.rules)))
    return lines + [render(Set(name, getattr(plain, name))) for name in around]


def function_texts(own: OwnFunction) -> list[str]:
    """CREATE FUNCTION, between SET statements if it is strict. A function of a program has no target in the text."""
    around = [] if not own.strict else [render(Set("on_bad", value)) for value in ("error", Settings().on_bad)]
    target = "" if own.target.startswith("#") else own.target
    arguments = tuple(ColumnDefinition(name, kind) for name, kind in own.arguments)
    options = () if own.arrays == "arrow" else (WithOption("arrays", own.arrays),)
    return [*around[:1], render(CreateFunction(own.name, arguments, own.result, target, options)), *around[1:]]


def punctuation_text(derived: DerivedPunctuation) -> str:
    target, source = (derived.stream, derived.columns), (derived.source, derived.source_columns)
    return render(CreatePunctuation(derived.name, *target, *source, derived.at))


def sink_text(sink: DeclaredSink) -> str:
    return render(CreateSink(sink.name, sink.query, _options(sink.options)))


def _definitions(columns: Iterable[Column]) -> tuple[ColumnDefinition, ...]:
    return tuple(ColumnDefinition(c.name, c.type) for c in columns)


def _options(options: Mapping[str, Any]) -> tuple[WithOption, ...]:
    return tuple(WithOption(name, value) for name, value in options.items())


def _stream_options(stream: Stream) -> tuple[WithOption, ...]:
    given = {
        "time": stream.time,
        "time_unit": stream.schema.time_unit,
        "lateness": _span(stream.lateness),
        "idle": _span(stream.idle),
        "most_ahead": _span(stream.most_ahead),
        "sequence": stream.sequence,
        "key": ", ".join(stream.key) or None,
        "punctuation": stream.punctuation,
        "herald": stream.herald,
        "remember": _span(stream.remember),
    }
    return _options({**stream.options, **{name: value for name, value in given.items() if value is not None}})


def _span(micros: int | None) -> str | None:
    return None if micros is None else span_text(micros).lower()


def _table_options(table: Table) -> tuple[WithOption, ...]:
    return _options({**table.options, **({} if table.refresh is None else {"refresh": _span(table.refresh)})})


def _settings(settings: Settings) -> dict[str, Any]:
    return {name: value if isinstance(value, str | int) else str(value) for name, value in settings.changed().items()}


def _value(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
