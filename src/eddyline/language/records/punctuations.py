"""Punctuations in the language: their statements, the options of streams and sinks, and conditions as patterns.

Answer   `read_punctuation` and `read_punctuate` read what follows CREATE PUNCTUATION name and PUNCTUATE.
         `bind_punctuation` gives what the first declares. `condition_text` is the body of a record: the patterns of a
         condition about one stream.
Limits   A condition is a conjunction of conditions on one column each; columns that it leaves out are `*`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from eddyline.errors import BindingProblem, Position, located
from eddyline.language.binding.columns import column_of, marker_column
from eddyline.language.binding.expressions import Clause, bind_condition, bind_constant
from eddyline.language.binding.scope import Scope, ScopeEntry
from eddyline.language.syntax import CreatePunctuation, Node, Punctuate
from eddyline.language.text.reader import StatementReader
from eddyline.language.text.windows import read_at
from eddyline.model.datatypes import BOOLEAN, STRING, TIMESTAMP
from eddyline.model.query import Reference
from eddyline.model.records.punctuation import KIND, DerivedPunctuation, body_of, patterns_of, to_text
from eddyline.model.schema import Schema, Stream
from eddyline.model.window import UNBOUNDED

if TYPE_CHECKING:
    from eddyline.language.catalog import Catalog, DeclaredSink
    from eddyline.model.records.records import Records

_FORM = "PUNCTUATE stream WHERE column = value AND … AT TIMESTAMP '2024-01-01 12:00:00'"
_DERIVED = "CREATE PUNCTUATION name ON stream (column, …) FROM stream (column, …) AT column"
_KINDS = "conditions are = IN IS NULL < <= > >= <> BETWEEN of one column with literals, joined by AND"


# -- statements


def read_punctuation(reader: StatementReader, name: str) -> CreatePunctuation:
    """What follows CREATE PUNCTUATION name."""
    reader.expect("ON", hint=_DERIVED)
    stream, columns = _side(reader)
    reader.expect("FROM", hint=_DERIVED)
    source, source_columns = _side(reader)
    at = reader.name("a TIMESTAMP column") if reader.take("AT") else None
    return CreatePunctuation(name, stream, columns, source, source_columns, at)


def _side(reader: StatementReader) -> tuple[str, tuple[str, ...]]:
    stream = reader.name("the name of a stream")
    reader.expect("(", hint=_DERIVED)
    columns = reader.names("the name of a column")
    reader.expect(")", hint=_DERIVED)
    return stream, columns


def read_punctuate(reader: StatementReader) -> Punctuate:
    """What follows PUNCTUATE."""
    stream = reader.name("the name of a stream")
    reader.expect("WHERE", hint=_FORM)
    first = reader.index
    where = reader.expression()
    text = reader.text_since(first)
    return Punctuate(stream, where, read_at(reader, "session.punctuate"), text=text)


# -- declarations


def bind_punctuation(statement: CreatePunctuation, catalog: Catalog) -> DerivedPunctuation:
    """What CREATE PUNCTUATION declares; it is not yet in the catalog."""
    catalog.check_free("punctuation", statement.name)
    stream, source = punctuated_stream(catalog, statement.stream), punctuated_stream(catalog, statement.source)
    for one in (stream, source):
        if one.is_derived:
            raise BindingProblem(
                f"{one.name} is a stream of results",
                detail="CREATE PUNCTUATION reads rows of streams that come from a source, and speaks of such streams",
                hint="CREATE STREAM … WITH (propagate = 'on') AS …: values that its query has finished are its punctuations",
            )
    if len(statement.columns) != len(statement.source_columns):
        raise BindingProblem(
            f"punctuation {statement.name} has {len(statement.columns)} columns, and {len(statement.source_columns)} after FROM",
            hint="each column takes its value from the column at the same place after FROM",
        )
    mine = [column_of(stream.name, stream.schema, name) for name in statement.columns]
    given = [column_of(source.name, source.schema, name) for name in statement.source_columns]
    for a, b in zip(mine, given, strict=True):
        if a.type != b.type:
            raise BindingProblem(
                f"column {a.name} of {stream.name} is {a.type}, column {b.name} of {source.name} is {b.type}",
                hint="a punctuation compares columns of one type",
            )
    if len(set(mine)) < len(mine):
        raise BindingProblem(f"punctuation {statement.name} names a column twice", hint="keep one")
    at = None if statement.at is None else column_of(source.name, source.schema, statement.at)
    if at is not None and at.type != TIMESTAMP:
        hint = "AT names a TIMESTAMP column of the stream after FROM"
        raise BindingProblem(f"AT {at.name} is no TIMESTAMP", hint=hint)
    if _reaches(catalog, stream.name, source.name):
        raise BindingProblem(
            f"the punctuations of {source.name} come from {stream.name}",
            hint="no stream waits for itself: derive punctuations in one direction",
        )
    columns, source_columns = tuple(c.name for c in mine), tuple(c.name for c in given)
    time_column = None if at is None or at.name == source.time else at.name
    return DerivedPunctuation(statement.name, stream.name, columns, source.name, source_columns, time_column)


def _reaches(catalog: Catalog, first: str, second: str) -> bool:
    """Whether punctuations of the second stream are derived from the first, also through other streams."""
    pending, seen = [second], set()
    while pending:
        name = pending.pop()
        for derived in catalog.streams[name].promised:
            if derived.source == first and derived.source != second:
                return True
            if derived.source not in seen:
                seen.add(derived.source)
                pending.append(derived.source)
    return False


def punctuated_stream(catalog: Catalog, name: str) -> Stream:
    found = catalog.relation(name)
    if not isinstance(found, Stream):
        raise BindingProblem(f"{found.name} is a table", hint="punctuations speak of streams; a table is closed")
    return found


def key_columns(stream: str, schema: Schema, text: str, position: Position | None) -> tuple[str, ...]:
    """The columns that the option `key` names, each once."""
    hint = "key = '…' names columns, separated by commas"
    names = [column_of(stream, schema, part.strip(), position, hint).name for part in text.split(",")]
    return tuple(dict.fromkeys(names))


def punctuation_column(
    stream: str, schema: Schema, taken: tuple[str | None, ...], name: str, position: Position | None
) -> str:
    """The column that the option `punctuation` names."""
    meaning = "BOOLEAN: true marks a punctuation; STRING: the text is a condition"
    return marker_column("punctuation", (BOOLEAN, STRING), meaning, stream, schema, taken, name, position)


def check_marked(sink: DeclaredSink, catalog: Catalog, position: Position | None) -> None:
    """Check the option `punctuation` of a sink: it adds a column to the results of one query, which is true in
    punctuations."""
    name = sink.options.get("punctuation")
    if name is None:
        return
    query = None if sink.query is None else catalog.queries.get(sink.query)
    with located(position):
        if query is None:
            raise BindingProblem(
                f"sink {sink.name} is not that of one query",
                detail="punctuations of results stand between the results of their query",
                hint="CREATE SINK … FOR query WITH (punctuation = '…')",
            )
        if query.settings.propagate == "off":
            hint = "CREATE QUERY … WITH (propagate = 'on') AS …"
            raise BindingProblem(f"query {query.name} puts out no punctuations", hint=hint)
        taken = [output.name for output in query.outputs if output.name.lower() == name.lower()]
        if taken or not name.isidentifier() or name.startswith("_"):
            raise BindingProblem(
                f"column {name} cannot mark the punctuations of query {query.name}",
                detail=f"the query has an output {taken[0]}" if taken else "it is no name of a column",
                hint="choose a name that no output has, such as closed",
            )


# -- conditions


def condition_text(stream: Stream, where: Node) -> str:
    """The patterns of a condition about a stream as the text of a record; one that no row matches has an empty pattern
    alone."""
    scope = Scope((ScopeEntry(Reference(stream.name, stream.name, UNBOUNDED), stream),))
    bound = bind_condition(where, Clause("PUNCTUATE", scope))
    found = patterns_of(bound)
    if found is None:
        raise BindingProblem(
            f"{bound} is no pattern",
            detail="a punctuation has one pattern per column",
            hint=_KINDS,
            position=where.position,
        )
    empty = {column: pattern for column, pattern in found.items() if pattern.is_empty}
    if empty:
        return to_text(empty)
    restricted = {column: pattern for column, pattern in found.items() if not pattern.is_all}
    if not restricted:
        raise BindingProblem(
            "a punctuation without a condition ends the stream",
            hint="name at least one column; a source says itself when it has ended",
            position=where.position,
        )
    return to_text(restricted)


def text_condition(stream: Stream, text: str) -> str:
    """`condition_text` of a condition as text: from the STRING column of a stream, or `session.punctuate`."""
    from eddyline.language.parse import parse_expression

    return condition_text(stream, parse_expression(text))


def bind_punctuate(statement: Punctuate, catalog: Catalog) -> Records:
    """The record of a statement; its name is a hash of the statement, so that a checkpoint takes it once."""
    stream = punctuated_stream(catalog, statement.stream)
    instant = bind_constant(statement.at).value
    assert isinstance(instant, int)
    body = condition_text(stream, statement.where)
    once = blake2b(f"{stream.name}|{body}|{instant}".encode(), digest_size=10).hexdigest()
    return record_of(stream, body, instant, once)


def record_of(stream: Stream, text: str, instant: int, once: str | None = None) -> Records:
    """A punctuation after all rows of an instant."""
    from eddyline.model.records.records import Records

    return Records.one(stream.name, KIND, instant, record_body(stream, text), once=once)


def record_body(stream: Stream, text: str) -> dict[str, object]:
    return body_of(text, {column.name: column.type for column in stream.schema.columns}, stream.time)
