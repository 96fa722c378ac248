"""Requests as texts: from a program, from a command line, from a file.

Answer   `parse_request` reads one request, `parse_requests` all requests of a text; the word REQUEST may be left out
         before the first one. `bind_request_texts` binds texts, with one instant for those that have no AS OF.
Limits   Nothing is answered here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from eddyline.errors import SyntaxProblem
from eddyline.language.catalog import Catalog
from eddyline.language.grammar.grammar import ended, read_statement
from eddyline.language.grammar.request_clauses import read_request
from eddyline.language.parse import readers_of
from eddyline.language.requests.request_shapes import RequestShapes
from eddyline.language.requests.templates import bind_request
from eddyline.language.syntax import RequestStatement, Statement
from eddyline.language.text.reader import StatementReader
from eddyline.model.expressions.coercion import micros_of
from eddyline.model.template import Request

_FORM = "REQUEST column, … FROM template [WHERE …] [GROUP BY …]"


def _read_first(reader: StatementReader) -> Statement:
    """The first statement: of a request the word REQUEST may be left out. A column may have that name."""
    if reader.at("REQUEST") and not reader.at("REQUEST", "FROM") and not reader.at("REQUEST", ","):
        return read_statement(reader)
    return ended(reader, read_request(reader))


def parse_requests(text: str) -> list[RequestStatement]:
    """The requests that a text holds.

    >>> [request.template for request in parse_requests("bytes FROM traffic; REQUEST n FROM calls")]
    ['traffic', 'calls']
    """
    found = []
    for number, reader in enumerate(readers_of(text)):
        statement = read_statement(reader) if number else _read_first(reader)
        if not isinstance(statement, RequestStatement):
            raise SyntaxProblem("expected requests only", hint=_FORM, position=getattr(statement, "position", None))
        found.append(statement)
    if not found:
        raise SyntaxProblem("there is no request", hint=_FORM)
    return found


def parse_request(text: str) -> RequestStatement:
    """The one request that a text holds.

    >>> parse_request("bytes FROM traffic").template
    'traffic'
    """
    found = parse_requests(text)
    if len(found) != 1:
        raise SyntaxProblem("expected one request", hint=_FORM)
    return found[0]


def bind_request_texts(
    texts: Sequence[str], as_of: str | datetime | None, catalog: Catalog, shapes: RequestShapes | None = None
) -> list[Request]:
    """The requests of texts, one each; `as_of` is the instant of requests without AS OF. `shapes` keeps texts for later
    calls."""
    shapes = shapes or RequestShapes()
    found = []
    for text in texts:
        if not isinstance(text, str):
            raise SyntaxProblem(f"a request is a text, not {text!r}", hint=_FORM)
        known = shapes.find(text, catalog)
        if known is None:
            known = bind_request(parse_request(text), catalog)
            shapes.learn(text, known, catalog)
        found.append(known)
    if as_of is None:
        return found
    if not isinstance(as_of, str | datetime):
        raise SyntaxProblem(f"as_of is {as_of!r}", hint="a text such as '2024-01-31 12:30:00', or a datetime")
    instant = micros_of(as_of)
    return [replace(one, as_of=instant) if one.as_of is None else one for one in found]
