"""A statement as tokens, and the index of the next one.

Answer   The grammar files read a statement with a `StatementReader`: it tests the next tokens, takes them, or raises an
         error with line and column; it reads names, numbers, texts and lists. `expression` reads a whole expression.
State    The index of the next token, which only grows.
Limits   It has no grammar of statements. `parse.py` makes the tokens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import accumulate, pairwise
from typing import NoReturn, TypeVar

from eddyline.errors import Position, SyntaxProblem, Unsupported
from eddyline.language.syntax import Node
from eddyline.settings import Value

T = TypeVar("T")

_RESERVED = """
ALL ALTER AND ANTI AS ASOF BETWEEN CASE CREATE CROSS DISTINCT DROP ELSE EMIT END EXCEPT EXISTS FALSE FETCH FOR FROM FULL GLOB
GRANT GROUP HAVING ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LATERAL LEFT LIKE LIMIT NATURAL NOT NOTNULL
NULL OFFSET ON OR ORDER OUTER OVER QUALIFY REGEXP RETURNING REVOKE RIGHT RLIKE ROLLBACK SELECT SEMI TABLESAMPLE THEN TRUE UNCACHE
UNION UNNEST USING VALUES WHEN WHERE WINDOW WITH XOR
"""
#: Words that are names only in double quotes.
RESERVED = frozenset(_RESERVED.split())
#: The words that begin the clauses of SELECT, and how near a word is that is taken for a misspelt one. FORM is 0.75 near
#: to FROM, as is every word of four letters with one wrong letter or two that changed places.
CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "EMIT", "JOIN", "ORDER", "LIMIT", "UNION")
_NEAR = 0.75
#: The hint for an expression that is too deep to be read or bound.
NESTED = "a long chain of ORs over one column is x IN (…)"


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is word, quoted, number, string, symbol or end; `start` and `end` are offsets into the text."""

    kind: str
    text: str
    start: int
    end: int
    #: The text in capital letters, which is how words of the language are compared.
    upper: str = ""

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"'{self.text}'"


#: From the index of a token, and that of the token where an expression ends at the latest, to the expression and the
#: index of the token after it.
ExpressionReader = Callable[[int, int | None], tuple[Node, int]]


class TextPlaces:
    """Offsets to lines and columns."""

    def __init__(self, text: str) -> None:
        self._lines = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]

    def __call__(self, offset: int) -> Position:
        line = bisect_right(self._lines, offset)
        return Position(line, offset - self._lines[line - 1] + 1)


class StatementReader:
    """One statement. `tokens` ends with a token of kind end."""

    def __init__(self, text: str, tokens: list[Token], places: TextPlaces, expression_at: ExpressionReader) -> None:
        self.text = text
        self.tokens = tokens
        self.places = places
        self.index = 0
        self._expression_at = expression_at

    @property
    def next(self) -> Token:
        return self.tokens[self.index]

    @property
    def position(self) -> Position:
        return self.places(self.next.start)

    def at(self, *tokens: str) -> bool:
        """Whether these keywords or symbols come next, in this order, in letters of any case."""
        index = self.index
        for wanted in tokens:
            # The last token is of kind end and equals nothing: the loop ends there at the latest.
            token = self.tokens[index]
            if token.upper != wanted or token.kind not in ("word", "symbol"):
                return False
            index += 1
        return True

    def at_any(self, *keywords: str) -> str | None:
        return self.next.upper if self.next.kind == "word" and self.next.upper in keywords else None

    def take(self, *tokens: str) -> bool:
        if not self.at(*tokens):
            return False
        self.index += len(tokens)
        return True

    def expect(self, *tokens: str, hint: str = "") -> None:
        for token in tokens:
            if not self.take(token):
                self.fail(f"expected {token}", hint=hint)

    def fail(self, expectation: str, *, hint: str = "") -> NoReturn:
        raise SyntaxProblem(f"{expectation}, found {self.next}", hint=hint, position=self.position)

    def fail_at_clause(self, expectation: str, *, hint: str = "") -> NoReturn:
        """As `fail`, where a clause may begin. A word that is nearly the word of a clause is the mistake; it may have
        been read as a name without AS, and is then the word before."""
        before = self.tokens[max(self.index - 2, 0)]
        named = before.text in (")", "]") or (before.kind != "symbol" and before.upper not in RESERVED)
        for index in (self.index - 1, self.index) if named and self.index > 1 else (self.index,):
            token = self.tokens[index]
            near = get_close_matches(token.upper, CLAUSES, 1, _NEAR)
            if token.kind == "word" and near and token.upper not in RESERVED:
                self.index = index
                self.fail(f"expected {near[0]}", hint=f"did you mean {near[0]}?")
        self.fail(expectation, hint=hint)

    def unsupported(self, what: str, hint: str, position: Position | None = None) -> NoReturn:
        """Refuse what SQL has and this language has not; without a position it begins with the next token."""
        raise Unsupported(f"{what} is not supported", hint=hint, position=position or self.position)

    def name(self, what: str) -> str:
        """A name: a word that is not reserved, or anything in double quotes."""
        token = self.next
        if token.kind == "word" and token.upper in RESERVED:
            hint = f'{token.text} is a word of the language; as a name it is written "{token.text}"'
            self.fail(f"expected {what}", hint=hint)
        if token.kind not in ("word", "quoted") or not token.text:
            self.fail(f"expected {what}")
        self.index += 1
        return token.text

    def at_name(self) -> bool:
        return self.next.kind == "quoted" or (self.next.kind == "word" and self.next.upper not in RESERVED)

    def listed(self, read: Callable[[StatementReader], T], separator: str = ",") -> tuple[T, ...]:
        """One or more of what `read` reads, with a separator between them."""
        found = [read(self)]
        while self.take(separator):
            found.append(read(self))
        return tuple(found)

    def names(self, what: str) -> tuple[str, ...]:
        """One or more names."""
        return self.listed(lambda reader: reader.name(what))

    def word(self, what: str) -> str:
        """A word, reserved or not."""
        if self.next.kind not in ("word", "quoted"):
            self.fail(f"expected {what}")
        self.index += 1
        return self.tokens[self.index - 1].text

    def dotted(self, what: str) -> str:
        """The name of a setting: a word, or `experiment.` and a word."""
        first = self.word(what)
        return f"{first}.{self.word(what)}" if self.take(".") else first

    def number(self, what: str) -> str:
        if self.next.kind != "number":
            self.fail(f"expected {what}")
        self.index += 1
        return self.tokens[self.index - 1].text

    def value(self) -> Value:
        """`word | number | 'text'`, as SET and WITH take it."""
        token = self.next
        if token.kind == "string" or token.kind in ("word", "quoted"):
            self.index += 1
            return token.text
        negative = self.take("-")
        text = self.number("a word, a number or a 'text'")
        number = float(text) if any(c in text for c in ".eE") else int(text)
        return -number if negative else number

    def expression(self, stop: int | None = None) -> Node:
        """The expression that begins here; it does not go beyond the token `stop`."""
        node, self.index = self._expression_at(self.index, stop)
        return node

    def text_since(self, start: int) -> str:
        """The text from the token at index `start` to the last token taken."""
        return self.text[self.tokens[start].start : self.tokens[self.index - 1].end]

    def line_since(self, start: int) -> str:
        """As `text_since`, with one blank in place of the blanks, line ends and comments between two tokens."""
        tokens = self.tokens[start : self.index]
        gaps = [" " if a.end < b.start else "" for a, b in pairwise(tokens)]
        return "".join(self.text[token.start : token.end] + gap for token, gap in zip(tokens, [*gaps, ""], strict=True))
