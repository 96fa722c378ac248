"""The conditions of WHERE: an expression, and [NOT] EXISTS (SELECT …) beside it.

Answer   `read_where` reads what follows WHERE: conditions that AND ties together, each an expression or an EXISTS.
Limits   EXISTS is one of the conditions of an AND: not under OR, not in an expression.
"""

from __future__ import annotations

from collections.abc import Callable

from eddyline.errors import Unsupported
from eddyline.language.syntax import Apply, Exists, Node, Select
from eddyline.language.text.reader import StatementReader

_HINT = "WHERE condition AND [NOT] EXISTS (SELECT …)"


def read_where(
    reader: StatementReader, read_select: Callable[[StatementReader], Select]
) -> tuple[Node | None, tuple[Exists, ...]]:
    """The conditions after WHERE: those that are expressions as one, and the others."""
    begin = reader.index
    where: Node | None = None
    found: list[Exists] = []
    while True:
        if _at_exists(reader, reader.index):
            found.append(_exists(reader, read_select))
        else:
            position = reader.position
            part = reader.expression(_next_exists(reader))
            where = part if where is None else Apply("and", (where, part), position=position)
        if not reader.take("AND"):
            break
    if found:
        _refuse_or(reader, begin)
    return where, tuple(found)


def _exists(reader: StatementReader, read_select: Callable[[StatementReader], Select]) -> Exists:
    position = reader.position
    negated = reader.take("NOT")
    reader.expect("EXISTS", "(")
    select = read_select(reader)
    reader.expect(")", hint=_HINT)
    return Exists(select, negated, position=position)


def _at_exists(reader: StatementReader, index: int) -> bool:
    tokens = [token.upper for token in reader.tokens[index : index + 3]]
    return tokens[:2] == ["EXISTS", "("] or tokens == ["NOT", "EXISTS", "("]


def _next_exists(reader: StatementReader) -> int | None:
    """The index of the AND before the next EXISTS of this WHERE; None: there is none."""
    depth = 0
    for index in range(reader.index, len(reader.tokens)):
        token = reader.tokens[index]
        depth += (token.text == "(") - (token.text == ")") if token.kind == "symbol" else 0
        if depth < 0:
            return None
        if depth == 0 and token.kind == "word" and token.upper == "AND" and _at_exists(reader, index + 1):
            return index
    return None


def _refuse_or(reader: StatementReader, begin: int) -> None:
    """Refuses an OR outside of parentheses after the token `begin`, up to the next token."""
    depth = 0
    for token in reader.tokens[begin : reader.index + 1]:
        if token.kind == "symbol":
            depth += (token.text == "(") - (token.text == ")")
        elif token.kind == "word":
            depth += (token.upper == "CASE") - (token.upper == "END")
            if token.upper == "OR" and depth == 0:
                raise Unsupported("EXISTS beside OR is not supported", hint=_HINT, position=reader.places(token.start))
