"""The grammar of templates and requests.

Answer   `read_template`, `read_requests` and `read_ask` read what stands behind CREATE TEMPLATE name, CREATE REQUESTS name and REQUEST.
Limits   Names are looked up in `templates.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from eddyline.errors import Position, SyntaxProblem
from eddyline.language.reader import Reader
from eddyline.language.syntax import Ask, ColumnDefinition, Constant, CreateRequests, CreateTemplate, Name, Option, Select
from eddyline.language.windows import read_window

_FORM = "REQUEST column, … FROM template [WHERE …] [GROUP BY …] [AS OF TIMESTAMP '…']"


def read_template(
    reader: Reader, name: str, start: Position, options: tuple[Option, ...], select: Callable[[Reader], Select]
) -> CreateTemplate:
    reader.expect("AS", hint="CREATE TEMPLATE name [WITH (…)] AS SELECT … GROUP BY …")
    return CreateTemplate(name, select(reader), options, start)


def read_requests(
    reader: Reader,
    name: str,
    start: Position,
    columns: Callable[[Reader], tuple[ColumnDefinition, ...]],
    options: Callable[[Reader], tuple[Option, ...]],
) -> CreateRequests:
    found = columns(reader)
    reader.expect("FOR", hint="CREATE REQUESTS name (column TYPE, …) FOR template WITH (…)")
    template = reader.name("the name of a template")
    return CreateRequests(name, found, template, options(reader), start)


def read_ask(reader: Reader) -> Ask:
    """A request, from its first column on; the word REQUEST has been taken, or is left out on a command line."""
    first, start = reader.index, reader.position
    items = () if reader.take("*") else _names(reader, "a column of the template")
    reader.expect("FROM", hint=_FORM)
    template = reader.name("the name of a template")
    window = read_window(reader)
    where = reader.expression() if reader.take("WHERE") else None
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
        position = reader.position
        found = reader.expression()
        if not isinstance(found, Constant) or found.kind not in ("timestamp", "string"):
            raise SyntaxProblem("AS OF takes an instant", hint="AS OF TIMESTAMP '2024-01-01 12:00:00'", position=position)
        as_of = Constant("timestamp", found.value, found.position)
    return Ask(items, template, window, where, group_by, as_of, reader.text_since(first), start)


def _names(reader: Reader, what: str) -> tuple[Name, ...]:
    found = [_one(reader, what)]
    while reader.take(","):
        found.append(_one(reader, what))
    return tuple(found)


def _one(reader: Reader, what: str) -> Name:
    start = reader.position
    name = reader.name(what)
    if reader.at("("):
        raise SyntaxProblem(
            f"a request names columns of its template, not {name}(…)",
            hint="the template lists the aggregates under their names",
            position=start,
        )
    return Name(name, None, start)
