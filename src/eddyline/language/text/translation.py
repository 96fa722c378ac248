"""sqlglot's tree of one expression to the syntax tree of this language.

Answer   `Translation.node` gives the syntax node of a sqlglot node.
Limits   A node, or an argument of a node, that is not translated below is refused, so that no part of a text is ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from eddyline.errors import SyntaxProblem, Unsupported
from eddyline.language.syntax import Apply, Cast, Constant, Name, Node, Ordered, Over
from eddyline.language.text.datatypes import data_type
from eddyline.language.text.long_lists import Lists
from eddyline.language.text.reader import TextPlaces

SUBQUERY = "subqueries stand in FROM, and in WHERE as [NOT] EXISTS (SELECT …) beside other conditions of an AND"

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
    exp.Star: "* stands alone in SELECT, or in COUNT(*)",
    exp.Subquery: SUBQUERY,
    exp.CurrentTimestamp: "time is the time of rows: compare with an event-time column",
    exp.CurrentDate: "time is the time of rows: compare with an event-time column",
    exp.Placeholder: "write the value itself",
    exp.Parameter: "write the value itself",
    exp.Concat: "texts are put together with ||",
}


class Translation:
    """sqlglot's tree of one expression to ours."""

    def __init__(self, places: TextPlaces, start: int, lists: Lists) -> None:
        self.places = places
        self.lists = lists
        #: Where the nearest node with a place of its own begins; nodes without one are put there.
        self.start = start

    def node(self, e: exp.Expr) -> Node:
        if isinstance(e, exp.Paren):
            self._only(e, "this")
            return self.node(e.this)
        if type(e) in _INFIX:
            return self._infix(e)
        # A literal has no parts; a list may hold very many literals, so `_start` is not called for them.
        self.start = int(e.meta.get("start", self.start)) if type(e) is exp.Literal else _start(e, self.start)
        position = self.places(self.start)
        translate = _TRANSLATIONS.get(type(e))
        if translate is None:
            raise self._unsupported(e)
        return translate(self, e, position)

    def _only(self, e: exp.Expr, *names: str) -> None:
        """Refuses a node that has further arguments than those of these names."""
        for name, value in e.args.items():
            if value not in (None, False, []) and name not in names:
                raise self._unsupported(e, name)

    def _unsupported(self, e: exp.Expr, extra: str = "") -> Unsupported:
        named = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(e).__name__).lower()
        what = f"{named} with {extra.strip('_')}" if extra else named
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
        self._only(e, "this", "table", "db", "catalog")
        names = [e.text(part) for part in ("catalog", "db", "table", "this") if e.args.get(part)]
        node: Node = (
            Name(names[-1], position=position) if len(names) == 1 else Name(names[1], names[0], position=position)
        )
        for field in names[2:]:
            node = Apply("struct_extract", (node, Constant("string", field, position=position)), position=position)
        return node

    def field(self, e: exp.Expr, position: Any) -> Node:
        self._only(e, "this", "expression")
        if not isinstance(e.expression, exp.Identifier):
            raise self._unsupported(e)
        field = Constant("string", e.expression.name, position=position)
        return Apply("struct_extract", (self.node(e.this), field), position=position)

    def element(self, e: exp.Expr, position: Any) -> Node:
        self._only(e, "this", "expressions")
        if len(e.expressions) != 1 or isinstance(e.expressions[0], exp.Slice):
            raise Unsupported("slices are not supported", hint="a[1] is one element", position=position)
        return Apply("array_extract", (self.node(e.this), self.node(e.expressions[0])), position=position)

    def arrow(self, e: exp.Expr, position: Any) -> Node:
        """`j -> path` and `j ->> path`; a number is the place of an element."""
        self._only(e, "this", "expression")
        value, path = self.node(e.this), self.node(e.expression)
        function = "json_extract_string" if isinstance(e, exp.JSONExtractScalar) else "json_extract"
        known = isinstance(path, Constant) and path.kind in ("string", "integer")
        if not known or str(path.value).startswith("/"):  # type: ignore[union-attr]
            sign = "->>" if isinstance(e, exp.JSONExtractScalar) else "->"
            hint = f"j {sign} 'key', j {sign} '$.a.b[0]' or j {sign} 0"
            raise SyntaxProblem(f"{sign} takes a path that is written out", hint=hint, position=path.position)
        assert isinstance(path, Constant)
        text = f"$[{path.value}]" if path.kind == "integer" else path.value
        return Apply(function, (value, Constant("string", text, position=path.position)), position=value.position)

    def literal(self, e: exp.Expr, position: Any) -> Node:
        text = str(e.this)
        if e.is_string:
            return Constant("string", text, position=position)
        if re.fullmatch(r"[0-9]+", text):
            return Constant("integer", int(text), position=position)
        try:
            number = float(text)
        except ValueError:
            raise SyntaxProblem(f"{text} is not a number", position=position) from None
        if not math.isfinite(number):
            raise SyntaxProblem(f"{text} is too large a number", hint="DOUBLE ends near 1.8e308", position=position)
        return Constant("double", number, position=position)

    def negative(self, e: exp.Expr, position: Any) -> Node:
        inner = self.node(e.this)
        if isinstance(inner, Constant) and inner.kind in ("integer", "double"):
            return Constant(inner.kind, -inner.value, position=position)  # type: ignore[operator]
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
        ends = (Apply(">=", (operand, low), position=position), Apply("<=", (operand, high), position=position))
        return Apply("and", ends, position=position)

    def membership(self, e: exp.Expr, position: Any) -> Node:
        if e.args.get("query") or e.args.get("unnest"):
            raise Unsupported("subqueries are not supported", hint=SUBQUERY, position=position)
        self._only(e, "this", "expressions")
        if not e.expressions:
            raise SyntaxProblem("IN needs at least one value", hint="x IN (1, 2, 3)", position=position)
        operand, first = self.node(e.this), e.expressions[0]
        listed = self.lists.get(int((first.this if isinstance(first, exp.Neg) else first).meta.get("start", -1)))
        if listed is not None:
            return Apply("in", (operand, Constant(*listed, position=position)), position=position)
        return Apply("in", (operand, *(self.node(x) for x in e.expressions)), position=position)

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
        args.append(Constant("null", None, position=position) if otherwise is None else self.node(otherwise))
        return Apply("case", tuple(args), position=position)

    def cast(self, e: exp.Expr, position: Any) -> Node:
        self._only(e, "this", "to", "action", "safe")
        kind = e.args["to"]
        self._only(kind, "this", "expressions")
        sizes = tuple(int(s.name) if s.name.isdigit() else -1 for s in kind.expressions)
        word = kind.this.value if isinstance(kind.this, exp.DType) else str(kind.this)
        target = data_type(word, sizes, position)
        if e.args.get("action") == "literal":
            return Constant(target.name.lower(), str(e.this.this), position=position)
        return Cast(self.node(e.this), target, position=position)

    def extract(self, e: exp.Expr, position: Any) -> Node:
        self._only(e, "this", "expression")
        part = Constant("string", e.name.lower(), position=position)
        return Apply("date_part", (part, self.node(e.expression)), position=position)

    def filtered(self, e: exp.Expr, position: Any) -> Node:
        """`f(x) FILTER (WHERE c)`: a row for which c does not hold brings NULL, which aggregates pass over."""
        self._only(e, "this", "expression")
        inner = self.node(e.this)
        if not isinstance(inner, Apply) or (not inner.args and not inner.star):
            raise Unsupported(
                "FILTER stands after an aggregate", hint="count(*) FILTER (WHERE x > 1)", position=position
            )
        if inner.function == "array_agg":
            return replace(inner, where=self.node(e.expression))
        value = Constant("integer", 1, position=position) if inner.star else inner.args[0]
        condition, null = self.node(e.expression), Constant("null", None, position=position)
        chosen = Apply("case", (condition, value, null), position=position)
        if inner.function == "count_if":
            chosen = Apply("and", (value, condition), position=position)
        return Apply(inner.function, (chosen, *inner.args[1:]), distinct=inner.distinct, position=inner.position)

    def windowed(self, e: exp.Expr, position: Any) -> Node:
        """`f(x) OVER (PARTITION BY … ORDER BY …)`."""
        inner = self.node(e.this)
        if not isinstance(inner, Apply) or inner.star or inner.distinct:
            raise Unsupported(
                "OVER stands after a function", hint="ROW_NUMBER() OVER (PARTITION BY k ORDER BY x)", position=position
            )
        order = tuple(
            Ordered(self.node(o.this), bool(o.args["desc"]), bool(o.args["nulls_first"]))
            for o in e.args["order"].expressions
        )
        partition = tuple(self.node(p) for p in e.args["partition_by"])
        return Over(inner.function, inner.args, partition, order, position=position)

    def call(self, e: exp.Expr, position: Any) -> Node:
        self._only(e, "this", "expressions")
        args = e.expressions
        if len(args) == 1 and isinstance(args[0], exp.Star):
            self._only(args[0])
            return Apply(e.name.lower(), (), star=True, position=position)
        distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
        if distinct:
            self._only(args[0], "expressions")
            args = args[0].expressions
        return Apply(e.name.lower(), tuple(self.node(a) for a in args), distinct, position=position)


def _start(e: exp.Expr, otherwise: int) -> int:
    """Where the text of a node begins, as far as sqlglot kept it."""
    first = next((n for n in e.walk(bfs=False) if "start" in n.meta), None)
    if first is None:
        return otherwise
    alias = first.parent.args.get("table") if isinstance(first.parent, exp.Column) else None
    return int((alias or first).meta.get("start", otherwise))


_TRANSLATIONS: dict[type[exp.Expr], Callable[[Translation, Any, Any], Node]] = {
    exp.Column: Translation.column,
    exp.Literal: Translation.literal,
    exp.Null: lambda _, e, position: Constant("null", None, position=position),
    exp.Boolean: lambda _, e, position: Constant("boolean", bool(e.this), position=position),
    exp.Neg: Translation.negative,
    exp.Not: Translation.negation,
    exp.Is: Translation.test,
    exp.Between: Translation.between,
    exp.In: Translation.membership,
    exp.Case: Translation.case,
    exp.Cast: Translation.cast,
    exp.TryCast: Translation.cast,
    exp.Extract: Translation.extract,
    exp.Interval: lambda _, e, position: Constant("interval", str(e.this.this), position=position),
    exp.Anonymous: Translation.call,
    exp.Filter: Translation.filtered,
    exp.Window: Translation.windowed,
    exp.Dot: Translation.field,
    exp.Bracket: Translation.element,
    exp.JSONExtract: Translation.arrow,
    exp.JSONExtractScalar: Translation.arrow,
}
