"""Heralds in the language: their statement, the option of streams, and their texts.

Answer   `read_herald` reads what follows HERALD. `herald_of` reads the text of a herald, `store >= 200 AND store < 400
         FOR 300 ROWS`, which a column of a stream or a session gives. `bind_herald` gives the record of a statement.
Limits   A condition is a conjunction of `= < <= > >= BETWEEN IN IS NULL`, each of one column with literals. A span is a
         number of rows or a distance in time, never both.
"""

from __future__ import annotations

from functools import lru_cache, partial
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

from eddyline.errors import BindingProblem, Position, SyntaxProblem
from eddyline.language.binding.columns import marker_column
from eddyline.language.binding.expressions import Clause, bind_condition, bind_constant
from eddyline.language.binding.scope import Scope, ScopeEntry
from eddyline.language.records.herald_forms import Texts
from eddyline.language.syntax import Apply, Cast, HeraldStatement, Name, Node
from eddyline.language.text.reader import StatementReader
from eddyline.language.text.windows import MOST_ROWS, read_at, read_span
from eddyline.model.datatypes import STRING
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal, conjuncts
from eddyline.model.query import Reference
from eddyline.model.records.herald import KIND, TEXT, Herald
from eddyline.model.schema import Schema, Stream
from eddyline.model.window import UNBOUNDED

if TYPE_CHECKING:
    from eddyline.language.catalog import Catalog
    from eddyline.model.records.records import Records

_FORM = (
    "HERALD stream WHERE condition FOR 300 ROWS AT TIMESTAMP '2024-01-01 12:00:00'; a span of time is FOR 10 MINUTES"
)
_SPAN = "FOR 300 ROWS, or FOR 10 MINUTES"
_CONDITIONS = "conditions are = < <= > >= BETWEEN IN IS NULL of one column with literals, joined by AND"
_ALLOWED = ("=", "<", "<=", ">", ">=", "in", "is_null")


def read_herald(reader: StatementReader) -> HeraldStatement:
    """What follows HERALD."""
    stream = reader.name("the name of a stream")
    reader.expect("WHERE", hint=_FORM)
    first = reader.index
    where = reader.expression()
    rows, micros = _span(reader)
    text = reader.line_since(first)
    return HeraldStatement(stream, where, rows, micros, read_at(reader, "session.herald"), text=text)


def _span(reader: StatementReader) -> tuple[int | None, int | None]:
    """FOR n ROWS, or FOR a span of time."""
    if not reader.take("FOR"):
        reader.fail("expected FOR", hint=f"a herald has a span: {_SPAN}")
    position = reader.position
    sign = "-" if reader.take("-") else ""
    if reader.next.kind == "number" and reader.tokens[reader.index + 1].upper in ("ROWS", "ROW"):
        text = sign + reader.number("a number of rows")
        reader.index += 1
        if not text.isdigit() or not 1 <= int(text) <= MOST_ROWS:
            raise SyntaxProblem(
                f"FOR {text} ROWS is no span", hint="a whole number of rows, 1 or more", position=position
            )
        found: tuple[int | None, int | None] = int(text), None
    else:
        if any(a.kind == "number" and b.upper in ("ROWS", "ROW") for a, b in pairwise(reader.tokens[reader.index :])):
            raise SyntaxProblem("a herald has one span", hint=f"either rows or time: {_SPAN}", position=position)
        if sign:
            raise SyntaxProblem("a span is not negative", hint=_SPAN, position=position)
        found = None, read_span(reader)
    if reader.at("FOR") or reader.next.kind == "number":
        reader.fail("a herald has one span", hint=f"either rows or time: {_SPAN}")
    return found


def herald_of(stream: Stream, text: str) -> Herald:
    """The herald of a text: a condition and its span."""
    return herald_texts(stream).herald(text)


def herald_texts(stream: Stream) -> Texts:
    """The reader of a stream's heralds. Intake and gate share it, and texts that come again are not parsed again."""
    return _texts(stream.name, stream.schema, stream.time)


@lru_cache(maxsize=64)
def _texts(stream: str, schema: Schema, time: str) -> Texts:
    return Texts(partial(_read_text, Stream(stream, schema, time)))


def _read_text(stream: Stream, text: str) -> Herald:
    from eddyline.language.parse import reader_of

    reader = reader_of(text)
    where = reader.expression()
    rows, micros = _span(reader)
    if reader.next.kind != "end":
        reader.fail("expected the end")
    return Herald(bound_condition(stream, where), rows, micros, text)


def bound_condition(stream: Stream, where: Node) -> Expression:
    """The condition of a herald about a stream, checked."""
    scope = Scope((ScopeEntry(Reference(stream.name, stream.name, UNBOUNDED), stream),))
    bound = bind_condition(where, Clause("HERALD", scope))
    for part in conjuncts(bound):
        if not _is_plain(part):
            raise BindingProblem(f"a herald does not say {part}", hint=_CONDITIONS, position=where.position)
    if _casts_columns(where):
        raise BindingProblem("a herald does not cast columns", hint=_CONDITIONS, position=where.position)
    return bound


def _casts_columns(node: Node, inside: bool = False) -> bool:
    """Whether the text casts a column. The binder adds casts too, for example to compare an INT with 5.5."""
    match node:
        case Cast(operand):
            return _casts_columns(operand, True)
        case Apply():
            return any(_casts_columns(part, inside) for part in node.args)
        case _:
            return inside and isinstance(node, Name)


def _is_plain(part: Expression) -> bool:
    if not isinstance(part, Call) or part.function not in _ALLOWED:
        return False
    columns = [side for side in part.args if not isinstance(side, Literal)]
    return len(columns) == 1 and isinstance(_bare(columns[0]), ColumnRef)


def _bare(e: Expression) -> Expression:
    while isinstance(e, Call) and e.function == "cast":
        e = e.args[0]
    return e


def bind_herald(statement: HeraldStatement, catalog: Catalog) -> Records:
    """The record of a statement; its name is a hash of the statement, so that a checkpoint takes it once."""
    from eddyline.model.records.records import Records

    stream = catalog.relation(statement.stream)
    if not isinstance(stream, Stream):
        raise BindingProblem(f"{stream.name} is a table", hint="heralds speak of streams")
    bound_condition(stream, statement.where)
    instant = bind_constant(statement.at).value
    assert isinstance(instant, int)
    once = blake2b(f"herald|{stream.name}|{statement.text}|{instant}".encode(), digest_size=10).hexdigest()
    return Records.one(stream.name, KIND, instant, {TEXT: statement.text}, once=once)


def herald_column(
    stream: str, schema: Schema, taken: tuple[str | None, ...], name: str, position: Position | None
) -> str:
    """The column that the option `herald` names."""
    meaning = "a STRING column holds heralds: 'store < 400 FOR 300 ROWS'"
    return marker_column("herald", (STRING,), meaning, stream, schema, taken, name, position)
