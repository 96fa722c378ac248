"""The grammar of templates and requests.

Answer   `read_template`, `read_requests` and `read_request` read what follows CREATE TEMPLATE name, CREATE REQUESTS name
         and REQUEST.
Limits   `requests/templates.py` looks names up.
"""

from __future__ import annotations

from collections.abc import Callable

from eddyline.errors import SyntaxProblem, Unsupported
from eddyline.language.grammar.clauses import read_columns, read_options
from eddyline.language.syntax import CreateRequests, CreateTemplate, Name, Node, RequestStatement, Select
from eddyline.language.text.reader import StatementReader
from eddyline.language.text.windows import read_instant, read_window

_FORM = "REQUEST column, … FROM template [WHERE …] [GROUP BY …] [AS OF TIMESTAMP '…']"


def read_template(reader: StatementReader, name: str, select: Callable[[StatementReader], Select]) -> CreateTemplate:
    options = read_options(reader)
    reader.expect("AS", hint="CREATE TEMPLATE name [WITH (…)] AS SELECT … GROUP BY …")
    return CreateTemplate(name, select(reader), options)


def read_requests(reader: StatementReader, name: str) -> CreateRequests:
    columns = read_columns(reader, "requests", name)
    reader.expect("FOR", hint="CREATE REQUESTS name (column TYPE, …) FOR template WITH (…)")
    template = reader.name("the name of a template")
    return CreateRequests(name, columns, template, read_options(reader))


def _condition(reader: StatementReader) -> Node:
    try:
        return reader.expression()
    except Unsupported as problem:
        if "subqueries" in str(problem):
            raise Unsupported(
                "a request has no subqueries",
                hint="its conditions are on grouping columns of the template; a query says WHERE [NOT] EXISTS (SELECT …)",
                position=problem.position,
            ) from None
        raise


def read_request(reader: StatementReader) -> RequestStatement:
    """What follows REQUEST. A command line may leave that word out."""
    first, start = reader.index, reader.position
    items = () if reader.take("*") else _names(reader, "a column of the template")
    reader.expect("FROM", hint=_FORM)
    template = reader.name("the name of a template")
    window = read_window(reader)
    where = _condition(reader) if reader.take("WHERE") else None
    group_by: tuple[Name, ...] | None = None
    if reader.take("GROUP"):
        reader.expect("BY")
        if reader.take("("):
            group_by = () if reader.at(")") else _names(reader, "a grouping column")
            reader.expect(")")
        else:
            group_by = _names(reader, "a grouping column")
    as_of = None
    if reader.take("AS"):
        reader.expect("OF", hint="AS OF TIMESTAMP '2024-01-01 12:00:00'")
        as_of = read_instant(reader, "AS OF")
    text = reader.text_since(first)
    return RequestStatement(items, template, window, where, group_by, as_of, text=text, position=start)


def _names(reader: StatementReader, what: str) -> tuple[Name, ...]:
    return reader.listed(lambda reader: _named(reader, what))


def _named(reader: StatementReader, what: str) -> Name:
    start = reader.position
    name = reader.name(what)
    if reader.at("("):
        raise SyntaxProblem(
            f"a request names columns of its template, not {name}(…)",
            hint="the template lists the aggregates under their names",
            position=start,
        )
    return Name(name, position=start)
