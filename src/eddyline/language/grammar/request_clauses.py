"""The grammar of templates and requests.

Answer   `read_template`, `read_requests` and `read_request` read what stands behind CREATE TEMPLATE name, CREATE REQUESTS
         name and REQUEST.
Limits   Names are looked up in `templates.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from eddyline.errors import Position, SyntaxProblem, Unsupported
from eddyline.language.syntax import (
    ColumnDefinition,
    CreateRequests,
    CreateTemplate,
    Name,
    Node,
    RequestStatement,
    Select,
    WithOption,
)
from eddyline.language.text.reader import StatementReader
from eddyline.language.text.windows import read_instant, read_window

_FORM = "REQUEST column, … FROM template [WHERE …] [GROUP BY …] [AS OF TIMESTAMP '…']"


def read_template(
    reader: StatementReader,
    name: str,
    start: Position,
    options: tuple[WithOption, ...],
    select: Callable[[StatementReader], Select],
) -> CreateTemplate:
    reader.expect("AS", hint="CREATE TEMPLATE name [WITH (…)] AS SELECT … GROUP BY …")
    return CreateTemplate(name, select(reader), options, start)


def read_requests(
    reader: StatementReader,
    name: str,
    start: Position,
    columns: Callable[[StatementReader], tuple[ColumnDefinition, ...]],
    options: Callable[[StatementReader], tuple[WithOption, ...]],
) -> CreateRequests:
    found = columns(reader)
    reader.expect("FOR", hint="CREATE REQUESTS name (column TYPE, …) FOR template WITH (…)")
    template = reader.name("the name of a template")
    return CreateRequests(name, found, template, options(reader), start)


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
    """A request, from its first column on; the word REQUEST has been taken, or is left out on a command line."""
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
    return RequestStatement(items, template, window, where, group_by, as_of, reader.text_since(first), start)


def _names(reader: StatementReader, what: str) -> tuple[Name, ...]:
    return reader.listed(lambda reader: _one(reader, what))


def _one(reader: StatementReader, what: str) -> Name:
    start = reader.position
    name = reader.name(what)
    if reader.at("("):
        raise SyntaxProblem(
            f"a request names columns of its template, not {name}(…)",
            hint="the template lists the aggregates under their names",
            position=start,
        )
    return Name(name, None, start)
