"""Text to syntax tree; the only module that knows sqlglot.

Answer   `parse_script` gives the statements of a text in order; `parse_select` and `parse_expression` give one SELECT, one
         expression. The tokens and the expressions are sqlglot's, in a dialect of our own; the clauses are `grammar.py`'s;
         the tree is ours.
Limits   What sqlglot understands and we do not is refused by name: every node and every argument of a node that is not
         translated below is an error, so nothing that was written is passed over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokens import Token as RawToken
from sqlglot.tokens import Tokenizer as BaseTokenizer
from sqlglot.tokens import TokenType

from eddyline.errors import SyntaxProblem, Unsupported
from eddyline.language.datatypes import data_type
from eddyline.language.grammar import read_statement
from eddyline.language.reader import NESTED, Places, Reader, Token
from eddyline.language.syntax import Apply, Ask, Cast, Constant, Event, Name, Node, Select, Statement

_SUBQUERY = "write one SELECT over streams and tables"


def parse_script(text: str) -> list[Statement]:
    """The statements of a text, separated by semicolons.

    >>> [type(s).__name__ for s in parse_script("SET seed = 1; DROP QUERY q;")]
    ['Set', 'Drop']
    """
    return [read_statement(reader) for reader in _readers(text)]


def parse_select(text: str) -> Select:
    """The one SELECT that a text holds."""
    statements = parse_script(text)
    if len(statements) != 1 or not isinstance(statements[0], Select):
        raise SyntaxProblem("expected one SELECT", hint="other statements go through execute")
    return statements[0]


def parse_ask(text: str) -> Ask:
    """The one request that a text holds; the word REQUEST may be left out.

    >>> parse_ask("bytes FROM traffic").template
    'traffic'
    """
    written = text if text.lstrip()[:7].upper() == "REQUEST" else f"REQUEST {text}"
    statements = parse_script(written)
    if len(statements) != 1 or not isinstance(statements[0], Ask):
        raise SyntaxProblem("expected one request", hint="REQUEST column, … FROM template [WHERE …] [GROUP BY …]")
    return statements[0]


def parse_body(text: str) -> Select | Event:
    """The one SELECT or EVENT that a text holds."""
    statements = parse_script(text)
    if len(statements) != 1 or not isinstance(statements[0], Select | Event):
        raise SyntaxProblem("expected one SELECT or EVENT", hint="other statements go through execute")
    return statements[0]


def parse_expression(text: str) -> Node:
    """The one expression that a text holds.

    >>> parse_expression("a.x + 1").function
    '+'
    """
    readers = _readers(text)
    if len(readers) != 1:
        raise SyntaxProblem("expected one expression")
    node = readers[0].expression()
    if readers[0].next.kind != "end":
        readers[0].fail("expected the end")
    return node


# Tokens


class Eddyline(Dialect):
    """Our dialect of SQL, as far as tokens and expressions go."""

    class Tokenizer(BaseTokenizer):
        # Clauses are read word by word, so GROUP and BY are two words. Nothing is a command whose rest is one string, nothing a hint.
        KEYWORDS = {k: v for k, v in BaseTokenizer.KEYWORDS.items() if " " not in k and k != "/*+"} | {"//": TokenType.DIV}
        COMMANDS: ClassVar[set[TokenType]] = set()


def _readers(text: str) -> list[Reader]:
    places = Places(text)
    dialect = Eddyline()
    parser = _Expressions(dialect=dialect, error_level=ErrorLevel.IMMEDIATE)
    try:
        raw = dialect.tokenize(text)
    except TokenError as problem:
        raise _unfinished(text, places) from problem
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


def _reader(text: str, raw: list[RawToken], end: int, places: Places, parser: _Expressions) -> Reader:
    tokens = [_token(text, t) for t in raw]
    tokens.append(Token("end", "", end, end))

    def expression_at(index: int) -> tuple[Node, int]:
        return parser.read(text, raw, index, tokens, places)

    return Reader(text, tokens, places, expression_at)


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


def _unfinished(text: str, places: Places) -> SyntaxProblem:
    """Where a quote or a comment begins that never ends."""
    whole = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", re.DOTALL)
    rest = whole.sub(lambda found: " " * len(found[0]), text)
    begun = re.search(r"'|\"|/\*", rest)
    what = {"'": "text", '"': "name in quotes", "/*": "comment"}
    if begun is None:
        return SyntaxProblem("this text cannot be read")
    return SyntaxProblem(
        f"a {what[begun[0]]} that begins here does not end", hint=f"close it with {begun[0][::-1]}", position=places(begun.start())
    )


# Expressions


class _Failure(ParseError):
    """sqlglot gave up at a token."""

    def __init__(self, message: str, token: RawToken | None) -> None:
        super().__init__(message)
        self.reason = message
        self.token = token


class _Expressions(Parser):
    """sqlglot's expressions, without its many functions: every call stays a name with arguments."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[Any, Any]] = {k: v for k, v in Parser.FUNCTION_PARSERS.items() if k in ("CAST", "TRY_CAST", "EXTRACT")}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[Any, Any]] = {k: v for k, v in Parser.NO_PAREN_FUNCTION_PARSERS.items() if k == "CASE"}
    TYPE_LITERAL_PARSERS: ClassVar[dict[Any, Any]] = {
        kind: lambda self, this, kind: exp.Cast(this=this, to=kind, action="literal") for kind in (exp.DType.TIMESTAMP, exp.DType.DATE)
    }

    _places: Places

    def read(self, text: str, raw: list[RawToken], index: int, tokens: list[Token], places: Places) -> tuple[Node, int]:
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
            return _Translation(places, tokens[index].start).node(tree), self._index
        except _Failure as failure:
            raise self._problem(failure, tokens) from failure
        except RecursionError as failure:
            raise SyntaxProblem("this expression is nested too deeply", hint=NESTED, position=places(tokens[index].start)) from failure

    def _problem(self, failure: _Failure, tokens: list[Token]) -> SyntaxProblem:
        token = failure.token
        found = f"'{token.text}'" if token else "the end"
        expected = re.match(r"Expect(?:ing|ed) (.*)", failure.reason)
        message = f"expected {expected[1]}, found {found}" if expected else f"an expression cannot go on with {found}"
        if token and token.text.upper() == "END" and "CASE" in failure.reason:
            message = "CASE needs at least one WHEN"
        return SyntaxProblem(message, position=self._places(token.start if token else tokens[-1].start))

    def raise_error(self, message: str, token: Any = None) -> NoReturn:
        raise _Failure(message, token or self._curr or None)

    def _refuse(self, what: str, hint: str) -> NoReturn:
        raise Unsupported(f"{what} not supported", hint=hint, position=self._places(self._curr.start))

    def _parse_select(self, *args: Any, **kwargs: Any) -> None:
        if self._curr and self._curr.text.upper() in ("SELECT", "WITH", "VALUES") and self._curr.token_type != TokenType.IDENTIFIER:
            self._refuse("subqueries are", _SUBQUERY)

    def _parse_window(self, this: Any, alias: bool = False) -> Any:
        word = self._curr.text.upper() if self._curr else ""
        if word == "OVER":
            self._refuse("window functions (OVER) are", "windows stand in FROM: bids [RANGE 10 MINUTES]")
        if word == "FILTER" or (word == "WITHIN" and self._next and self._next.text.upper() == "GROUP"):
            self._refuse(f"{word} after a function is", "aggregate a CASE WHEN … THEN … END instead")
        return this

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        first = parse_method()
        found = [] if first is None else [first]
        while self._match(sep):
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


_INFIX: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "and",
    exp.Or: "or",
    exp.DPipe: "||",
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.NullSafeEQ: "is_not_distinct",
    exp.NullSafeNEQ: "is_not_distinct",
}


#: What to write instead of some of the nodes that are not translated.
_INSTEAD: dict[type[exp.Expr], str] = {
    exp.Bracket: "a window stands after a stream's name in FROM",
    exp.Star: "* stands alone in SELECT, or in COUNT(*)",
    exp.Subquery: _SUBQUERY,
    exp.CurrentTimestamp: "time is the time of rows: compare with an event-time column",
    exp.CurrentDate: "time is the time of rows: compare with an event-time column",
    exp.Placeholder: "write the value itself",
    exp.Parameter: "write the value itself",
    exp.Concat: "texts are put together with ||",
}


class _Translation:
    """sqlglot's tree of one expression to ours."""

    def __init__(self, places: Places, start: int) -> None:
        self.places = places
        #: Where the nearest node with a place of its own begins; nodes without one are put there.
        self.start = start

    def node(self, e: exp.Expr) -> Node:
        if isinstance(e, exp.Paren):
            self._only(e, "this")
            return self.node(e.this)
        if type(e) in _INFIX:
            return self._infix(e)
        self.start = _start(e, self.start)
        position = self.places(self.start)
        translate = _TRANSLATIONS.get(type(e))
        if translate is None:
            raise self._unsupported(e)
        return translate(self, e, position)

    def _only(self, e: exp.Expr, *names: str) -> None:
        """Refuses a node that says more than the arguments of these names."""
        for name, value in e.args.items():
            if value not in (None, False, []) and name not in names:
                raise self._unsupported(e, name)

    def _unsupported(self, e: exp.Expr, extra: str = "") -> Unsupported:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(e).__name__).lower()
        what = f"{words} with {extra.strip('_')}" if extra else words
        hint = _INSTEAD.get(type(e), "the language reference lists what expressions may hold")
        return Unsupported(f"{what} is not supported in an expression", hint=hint, position=self.places(self.start))

    def _infix(self, e: exp.Expr) -> Node:
        self._only(e, "this", "expression", "typed", "safe", "negate")
        left, right = self.node(e.this), self.node(e.expression)
        position = left.position
        node: Node = Apply(_INFIX[type(e)], (left, right), position=position)
        negated = isinstance(e, exp.NullSafeNEQ) or bool(e.args.get("negate"))
        return Apply("not", (node,), position=position) if negated else node

    def column(self, e: exp.Expr, position: Any) -> Node:
        if isinstance(e.this, exp.Star):
            raise self._unsupported(e.this)
        if e.args.get("db"):
            raise SyntaxProblem("a column has at most an alias before it", hint="write alias.column", position=position)
        self._only(e, "this", "table")
        return Name(e.name, e.text("table") or None, position)

    def literal(self, e: exp.Expr, position: Any) -> Node:
        text = str(e.this)
        if e.is_string:
            return Constant("string", text, position)
        if re.fullmatch(r"[0-9]+", text):
            return Constant("integer", int(text), position)
        try:
            number = float(text)
        except ValueError:
            raise SyntaxProblem(f"{text} is not a number", position=position) from None
        if not math.isfinite(number):
            raise SyntaxProblem(f"{text} is too large a number", hint="DOUBLE ends near 1.8e308", position=position)
        return Constant("double", number, position)

    def negative(self, e: exp.Expr, position: Any) -> Node:
        inner = self.node(e.this)
        if isinstance(inner, Constant) and inner.kind in ("integer", "double"):
            return Constant(inner.kind, -inner.value, position)  # type: ignore[operator]
        return Apply("neg", (inner,), position=position)

    def negation(self, e: exp.Expr, position: Any) -> Node:
        inner = self.node(e.this)
        if isinstance(inner, Apply) and inner.function == "is_null" and isinstance(e.this, exp.Is):
            return Apply("is_not_null", inner.args, position=position)
        return Apply("not", (inner,), position=position)

    def test(self, e: exp.Expr, position: Any) -> Node:
        self._only(e, "this", "expression", "negate")
        operand, negated = self.node(e.this), bool(e.args.get("negate"))
        if isinstance(e.expression, exp.Null):
            return Apply("is_not_null" if negated else "is_null", (operand,), position=position)
        if not isinstance(e.expression, exp.Boolean):
            raise SyntaxProblem("IS takes NULL, TRUE, FALSE or DISTINCT FROM", position=position)
        node = Apply("is_not_distinct", (operand, self.node(e.expression)), position=position)
        return Apply("not", (node,), position=position) if negated else node

    def between(self, e: exp.Expr, position: Any) -> Node:
        self._only(e, "this", "low", "high")
        operand, low, high = self.node(e.this), self.node(e.args["low"]), self.node(e.args["high"])
        return Apply(
            "and", (Apply(">=", (operand, low), position=position), Apply("<=", (operand, high), position=position)), position=position
        )

    def membership(self, e: exp.Expr, position: Any) -> Node:
        if e.args.get("query") or e.args.get("unnest"):
            raise Unsupported("subqueries are not supported", hint=_SUBQUERY, position=position)
        self._only(e, "this", "expressions")
        if not e.expressions:
            raise SyntaxProblem("IN needs at least one value", hint="x IN (1, 2, 3)", position=position)
        return Apply("in", (self.node(e.this), *(self.node(x) for x in e.expressions)), position=position)

    def case(self, e: exp.Expr, position: Any) -> Node:
        self._only(e, "this", "ifs", "default")
        args: list[Node] = []
        for branch in e.args["ifs"]:
            self._only(branch, "this", "true")
            condition = self.node(branch.this)
            if e.this is not None:
                condition = Apply("=", (self.node(e.this), condition), position=condition.position)
            args += [condition, self.node(branch.args["true"])]
        otherwise = e.args.get("default")
        args.append(Constant("null", None, position) if otherwise is None else self.node(otherwise))
        return Apply("case", tuple(args), position=position)

    def cast(self, e: exp.Expr, position: Any) -> Node:
        self._only(e, "this", "to", "action", "safe")
        kind = e.args["to"]
        self._only(kind, "this", "expressions")
        sizes = tuple(int(s.name) if s.name.isdigit() else -1 for s in kind.expressions)
        word = kind.this.value if isinstance(kind.this, exp.DType) else str(kind.this)
        target = data_type(word, sizes, position)
        if e.args.get("action") == "literal":
            return Constant(target.name.lower(), str(e.this.this), position)
        return Cast(self.node(e.this), target, position)

    def extract(self, e: exp.Expr, position: Any) -> Node:
        self._only(e, "this", "expression")
        return Apply("date_part", (Constant("string", e.name.lower(), position), self.node(e.expression)), position=position)

    def call(self, e: exp.Expr, position: Any) -> Node:
        self._only(e, "this", "expressions")
        args = e.expressions
        if len(args) == 1 and isinstance(args[0], exp.Star):
            self._only(args[0])
            return Apply(e.name.lower(), (), star=True, position=position)
        if len(args) == 1 and isinstance(args[0], exp.Distinct):
            self._only(args[0], "expressions")
            return Apply(e.name.lower(), tuple(self.node(a) for a in args[0].expressions), distinct=True, position=position)
        return Apply(e.name.lower(), tuple(self.node(a) for a in args), position=position)


def _start(e: exp.Expr, otherwise: int) -> int:
    """Where the text of a node begins, as far as sqlglot kept it."""
    first = next((n for n in e.walk(bfs=False) if "start" in n.meta), None)
    if first is None:
        return otherwise
    alias = first.parent.args.get("table") if isinstance(first.parent, exp.Column) else None
    return int((alias or first).meta.get("start", otherwise))


_TRANSLATIONS: dict[type[exp.Expr], Callable[[_Translation, Any, Any], Node]] = {
    exp.Column: _Translation.column,
    exp.Literal: _Translation.literal,
    exp.Null: lambda _, e, position: Constant("null", None, position),
    exp.Boolean: lambda _, e, position: Constant("boolean", bool(e.this), position),
    exp.Neg: _Translation.negative,
    exp.Not: _Translation.negation,
    exp.Is: _Translation.test,
    exp.Between: _Translation.between,
    exp.In: _Translation.membership,
    exp.Case: _Translation.case,
    exp.Cast: _Translation.cast,
    exp.TryCast: _Translation.cast,
    exp.Extract: _Translation.extract,
    exp.Interval: lambda _, e, position: Constant("interval", str(e.this.this), position),
    exp.Anonymous: _Translation.call,
}
