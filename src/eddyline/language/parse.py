"""Text to syntax tree.

Answer   `parse_script` gives the statements of a text in order; `parse_select` and `parse_expression` give one SELECT,
         one expression. `text/dialect.py` reads tokens and expressions with sqlglot, `grammar/` the clauses; `syntax.py`
         has the nodes of the tree.
Limits   `text/translation.py` refuses by name what sqlglot has and this language has not.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sqlglot.errors import ErrorLevel, TokenError
from sqlglot.tokens import Token as RawToken
from sqlglot.tokens import TokenType

from eddyline.errors import SyntaxProblem
from eddyline.language.grammar.grammar import read_statement
from eddyline.language.syntax import Body, Event, Node, Select, Statement, Union
from eddyline.language.text.dialect import Eddyline, ExpressionParser
from eddyline.language.text.long_lists import Lists, put_back, shortened
from eddyline.language.text.reader import StatementReader, TextPlaces, Token


def parse_script(text: str) -> list[Statement]:
    """The statements of a text, separated by semicolons.

    >>> [type(s).__name__ for s in parse_script("SET seed = 1; DROP QUERY q;")]
    ['Set', 'Drop']
    """
    return list(_statements(text))


@lru_cache(maxsize=256)
def _statements(text: str) -> tuple[Statement, ...]:
    """The statements, kept for when the text comes again: jobs restart, and queries are dropped and created again."""
    return tuple(read_statement(reader) for reader in readers_of(text))


def parse_select(text: str) -> Select:
    """The one SELECT that a text holds."""
    statements = parse_script(text)
    if len(statements) != 1 or not isinstance(statements[0], Select):
        raise SyntaxProblem("expected one SELECT", hint="other statements go through execute")
    return statements[0]


def parse_body(text: str) -> Body:
    """The one SELECT or EVENT that a text holds."""
    statements = parse_script(text)
    if len(statements) != 1 or not isinstance(statements[0], Select | Union | Event):
        raise SyntaxProblem("expected one SELECT or EVENT", hint="other statements go through execute")
    return statements[0]


def reader_of(text: str) -> StatementReader:
    """The reader of a text that holds one thing."""
    readers = readers_of(text)
    if len(readers) != 1:
        raise SyntaxProblem("expected one expression")
    return readers[0]


def parse_expression(text: str) -> Node:
    """The one expression that a text holds.

    >>> parse_expression("a.x + 1").function
    '+'
    """
    reader = reader_of(text)
    node = reader.expression()
    if reader.next.kind != "end":
        reader.fail("expected the end")
    return node


# Tokens


def readers_of(text: str) -> list[StatementReader]:
    """One reader per statement."""
    places = TextPlaces(text)
    dialect = Eddyline()
    parser = ExpressionParser(dialect=dialect, error_level=ErrorLevel.IMMEDIATE)
    try:
        shorter, lists, cuts = shortened(text)
        raw = dialect.tokenize(shorter)
        put_back(raw, cuts)
        if not _are_lists(lists, raw):
            raw, lists = dialect.tokenize(text), {}
    except TokenError as problem:
        raise _unfinished(text, places) from problem
    parser.lists = lists
    readers = []
    statement: list[RawToken] = []
    for token in raw:
        if token.token_type != TokenType.SEMICOLON:
            statement.append(token)
        elif statement:
            readers.append(_reader(text, statement, token.start, places, parser))
            statement = []
    if statement:
        readers.append(_reader(text, statement, statement[-1].end + 1, places, parser))
    return readers


def _are_lists(lists: Lists, raw: list[RawToken]) -> bool:
    """Whether all `lists` are lists: each begins after the tokens IN and (, and not within a text or a comment."""
    known = 0
    for at, token in enumerate(raw):
        if token.start in lists:
            before = [t.token_type for t in raw[max(at - 4, 0) : at] if t.token_type != TokenType.DASH]
            known += before[-2:] == [TokenType.IN, TokenType.L_PAREN] and before[-3:-2] != [TokenType.DOT]
    return known == len(lists)


def _reader(text: str, raw: list[RawToken], end: int, places: TextPlaces, parser: ExpressionParser) -> StatementReader:
    tokens = [_token(text, t) for t in raw]
    tokens.append(Token("end", "", end, end))

    def expression_at(index: int, stop: int | None) -> tuple[Node, int]:
        return parser.read(text, raw if stop is None else raw[:stop], index, tokens, places)

    return StatementReader(text, tokens, places, expression_at)


def _token(text: str, raw: RawToken) -> Token:
    start, end = raw.start, raw.end + 1
    if raw.token_type == TokenType.STRING:
        kind = "string"
    elif raw.token_type == TokenType.NUMBER:
        kind = "number"
    elif raw.token_type == TokenType.IDENTIFIER:
        kind = "quoted"
    else:
        kind = "word" if text[start:end].isidentifier() and raw.text.upper() == text[start:end].upper() else "symbol"
    return Token(kind, raw.text, start, end, raw.text.upper())


def _unfinished(text: str, places: TextPlaces) -> SyntaxProblem:
    """Where a quote or a comment begins that never ends."""
    whole = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", re.DOTALL)
    rest = whole.sub(lambda found: " " * len(found[0]), text)
    begun = re.search(r"'|\"|/\*", rest)
    what = {"'": "text", '"': "name in quotes", "/*": "comment"}
    if begun is None:
        return SyntaxProblem("this text cannot be read")
    return SyntaxProblem(
        f"a {what[begun[0]]} that begins here does not end",
        hint=f"close it with {begun[0][::-1]}",
        position=places(begun.start()),
    )
