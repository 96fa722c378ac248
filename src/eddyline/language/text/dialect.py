"""The dialect of sqlglot that reads tokens and expressions.

Answer   `Eddyline` has the tokens. `ExpressionParser.read` reads the expression that begins at a token.
Limits   sqlglot's functions stay names with arguments; subqueries, and frames in OVER, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.parser import Parser
from sqlglot.tokens import Token as RawToken
from sqlglot.tokens import Tokenizer as BaseTokenizer
from sqlglot.tokens import TokenType

from eddyline.errors import SyntaxProblem, Unsupported
from eddyline.language.other_functions import instead
from eddyline.language.syntax import Node
from eddyline.language.text.long_lists import Lists
from eddyline.language.text.reader import NESTED, TextPlaces, Token
from eddyline.language.text.translation import SUBQUERY, Translation


class Eddyline(Dialect):
    """Our dialect of SQL, as far as tokens and expressions go."""

    class Tokenizer(BaseTokenizer):
        # Clauses are read word by word, so GROUP and BY are two words. Nothing is a command whose rest is one string,
        # nothing a hint. SESSION is a function.
        KEYWORDS = {k: v for k, v in BaseTokenizer.KEYWORDS.items() if " " not in k and k not in ("/*+", "SESSION")} | {
            "//": TokenType.DIV
        }
        COMMANDS: ClassVar[set[TokenType]] = set()


class _Failure(ParseError):
    """sqlglot gave up at a token."""

    def __init__(self, message: str, token: RawToken | None) -> None:
        super().__init__(message)
        self.reason = message
        self.token = token


#: Tokens of literals, and the tokens that follow a literal which is a whole item of a list.
_LITERALS = frozenset({TokenType.NUMBER, TokenType.STRING})
_AFTER = frozenset({TokenType.COMMA, TokenType.R_PAREN})


class ExpressionParser(Parser):
    """The parser of expressions; it knows no function, so that every call stays a name with arguments."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[Any, Any]] = {
        k: v for k, v in Parser.FUNCTION_PARSERS.items() if k in ("CAST", "TRY_CAST", "EXTRACT")
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[Any, Any]] = {
        k: v for k, v in Parser.NO_PAREN_FUNCTION_PARSERS.items() if k == "CASE"
    }
    TYPE_LITERAL_PARSERS: ClassVar[dict[Any, Any]] = {
        kind: lambda self, this, kind: exp.Cast(this=this, to=kind, action="literal")
        for kind in (exp.DType.TIMESTAMP, exp.DType.DATE)
    }

    # `->` is never a lambda, and its path is not read here: a text without $ is one key, also one with a point.
    LAMBDAS: ClassVar[dict[Any, Any]] = {}
    COLUMN_OPERATORS: ClassVar[dict[Any, Any]] = Parser.COLUMN_OPERATORS | {
        TokenType.ARROW: lambda self, this, path: exp.JSONExtract(this=this, expression=path),
        TokenType.DARROW: lambda self, this, path: exp.JSONExtractScalar(this=this, expression=path),
    }

    _places: TextPlaces
    #: The long lists of the text by where their first value begins.
    lists: Lists

    def read(
        self, text: str, raw: list[RawToken], index: int, tokens: list[Token], places: TextPlaces
    ) -> tuple[Node, int]:
        """The expression that begins at the token `index`, and the index of the token after it."""
        self.reset()
        self.sql = text
        self._places = places
        self._chunks = [raw]
        self._advance_chunk()
        self._advance(index)
        try:
            tree = self._parse_disjunction()
            if tree is None:
                raise _Failure("Expecting an expression", self._curr or None)
            return Translation(places, tokens[index].start, self.lists).node(tree), self._index
        except _Failure as failure:
            raise self._problem(failure, tokens) from failure
        except RecursionError as failure:
            raise SyntaxProblem(
                "this expression is nested too deeply", hint=NESTED, position=places(tokens[index].start)
            ) from failure

    def _problem(self, failure: _Failure, tokens: list[Token]) -> SyntaxProblem:
        token = failure.token
        found = f"'{token.text}'" if token else "the end"
        expected = re.match(r"Expect(?:ing|ed) (.*)", failure.reason)
        message = f"expected {expected[1]}, found {found}" if expected else f"an expression cannot go on with {found}"
        if token and token.text.upper() == "END" and "CASE" in failure.reason:
            message = "CASE needs at least one WHEN"
        at = token.start if token else tokens[-1].start
        before = next((one.text for one in reversed(tokens) if one.start < at and one.text), "")
        hint = ""
        if before == ",":
            hint = "leave the comma before it out, or write an expression between them"
        elif failure.reason.startswith("Required keyword"):
            hint = f"write an expression after {before}"
        elif message.startswith("expected ),"):
            hint = f"close the parenthesis before {found}"
        return SyntaxProblem(message, hint=hint, position=self._places(at))

    def raise_error(self, message: str, token: Any = None) -> NoReturn:
        raise _Failure(message, token or self._curr or None)

    def _refuse(self, what: str, hint: str) -> NoReturn:
        raise Unsupported(f"{what} not supported", hint=hint, position=self._places(self._curr.start))

    def _parse_select(self, *args: Any, **kwargs: Any) -> None:
        if (
            self._curr
            and self._curr.text.upper() in ("SELECT", "WITH", "VALUES")
            and self._curr.token_type != TokenType.IDENTIFIER
        ):
            self._refuse("subqueries are", SUBQUERY)

    def _parse_window(self, this: Any, alias: bool = False) -> Any:
        word = self._curr.text.upper() if self._curr else ""
        if word == "OVER":
            return self._parse_over(this)
        if word == "FILTER" and self._next and self._next.token_type == TokenType.L_PAREN:
            return self._parse_filter(this)
        if word == "WITHIN" and self._next and self._next.text.upper() == "GROUP":
            hint = instead(this.name) if isinstance(this, exp.Anonymous) else None
            self._refuse("WITHIN GROUP is", hint or "the order of rows is that of their time")
        return this

    def _parse_over(self, this: Any) -> exp.Window:
        """`OVER ([PARTITION BY …] [ORDER BY …])`; a frame is refused."""
        self._advance()
        if not self._match(TokenType.L_PAREN):
            self.raise_error("Expecting (")
        partition = self._parse_csv(self._parse_disjunction) if self._take("PARTITION", "BY") else []
        order = self._parse_csv(self._parse_one_order) if self._take("ORDER", "BY") else []
        if self._curr and self._curr.text.upper() in ("ROWS", "RANGE", "GROUPS"):
            self._refuse("frames of OVER are", "windows stand in FROM: bids [RANGE 10 MINUTES]")
        if not self._match(TokenType.R_PAREN):
            self.raise_error("Expecting )")
        return exp.Window(this=this, partition_by=partition, order=exp.Order(expressions=order))

    def _parse_one_order(self) -> exp.Ordered:
        value = self._parse_disjunction()
        if value is None:
            self.raise_error("Expecting an expression")
        descending = self._take("DESC") or (self._take("ASC") and False)
        nulls_first = self._take("NULLS", "FIRST") or (self._take("NULLS", "LAST") and False)
        return exp.Ordered(this=value, desc=descending, nulls_first=nulls_first)

    def _take(self, *keywords: str) -> bool:
        """Takes these keywords, if they come next."""
        found = [token.text.upper() for token in (self._curr, self._next)[: len(keywords)] if token]
        if found != list(keywords):
            return False
        self._advance(len(keywords))
        return True

    def _parse_filter(self, this: Any) -> exp.Filter:
        self._advance(2)
        if not self._match(TokenType.WHERE):
            self.raise_error("Expecting WHERE")
        condition = self._parse_disjunction()
        if condition is None:
            self.raise_error("Expecting an expression")
        if not self._match(TokenType.R_PAREN):
            self.raise_error("Expecting )")
        return exp.Filter(this=this, expression=condition)

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        first = parse_method()
        found = [] if first is None else [first]
        while self._match(sep):
            # Most items of a long list are literals: they are taken without trying every operator.
            if self._curr and self._curr.token_type in _LITERALS and self._next and self._next.token_type in _AFTER:
                self._advance()
                found.append(self.PRIMARY_PARSERS[self._prev.token_type](self, self._prev))
                continue
            item = parse_method()
            if item is None:
                self.raise_error("Expecting an expression")
            found.append(item)
        return found

    def _parse_between(self, this: Any) -> exp.Between:
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.raise_error("Expecting AND")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

    def _parse_interval(self, *args: Any, **kwargs: Any) -> Any:
        follower = self._next.token_type if self._next else None
        if self._curr.token_type != TokenType.INTERVAL or follower not in (TokenType.STRING, TokenType.NUMBER):
            return None
        start = self._curr
        self._advance(2)
        text = self._prev.text
        if not re.search("[A-Za-z]", text) and self._curr:
            text = f"{text} {self._curr.text}"
            self._advance()
        return exp.Interval(this=exp.Literal.string(text)).update_positions(start)
