"""Expressions compiled once and computed on whole columns.

Answer   `compile_expression` gives a `Compiled`: columns in, one Arrow array of exactly the expression's type out.
         `compile_predicate` gives a `Predicate`: columns in, a NumPy mask out, in which NULL counts as false. Results
         are DuckDB's. Where DuckDB raises for a value the result is NULL; `Issues` counts it, unless CASE, COALESCE or
         an earlier conjunct excludes the row.
State    None between calls; a sub-expression that occurs twice is computed once per call.
Limits   Columns are Arrow arrays of their declared types; NumPy arrays are taken for columns without nulls. An
         aggregate cannot be computed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import Fault
from eddyline.model.datatypes import DOUBLE, NULL, STRING
from eddyline.model.expressions.expression import (
    OWN,
    Aggregate,
    Call,
    ColumnKey,
    ColumnRef,
    Expression,
    Literal,
    Literals,
    columns_of,
    walk,
)
from eddyline.operators.expressions import (
    functions_cast,
    functions_compare,
    functions_decimal,
    functions_json,
    functions_nested,
    functions_number,
    functions_text,
    functions_time,
)
from eddyline.operators.expressions.own_functions import make_call
from eddyline.operators.expressions.vectors import (
    EVERYTHING,
    Frame,
    Issues,
    Kernel,
    Mask,
    Vector,
    bitmap,
    both,
    constant,
    from_arrow,
    is_arrow,
    to_arrow,
    truth,
    validity,
)

__all__ = ["Compiled", "Issues", "Predicate", "compile_expression", "compile_predicate", "may_fail"]

Node = Callable[[Frame], Vector]
Test = Callable[[Frame], Mask]
Columns = Mapping[ColumnKey, Any]


class Compiled:
    """An expression, ready to be computed."""

    __slots__ = ("expression", "columns", "_node")

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        #: The (reference, column) pairs that a call has to bring.
        self.columns: tuple[ColumnKey, ...] = tuple(sorted(columns_of(expression), key=str))
        self._node = _Compiler(expression).node(expression)

    def __call__(self, columns: Columns, rows: int, issues: Issues | None = None) -> pa.Array:
        if isinstance(self.expression, ColumnRef) and isinstance(values := columns[self.columns[0]], pa.Array):
            return values
        with np.errstate(all="ignore"):
            result = self._node(Frame(columns, rows, issues))
        return to_arrow(result, self.expression.type, rows)


class Predicate:
    """A condition, ready to be tested."""

    __slots__ = ("expression", "columns", "_test")

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self.columns: tuple[ColumnKey, ...] = tuple(sorted(columns_of(expression), key=str))
        self._test = _Compiler(expression).test(expression)

    def __call__(self, columns: Columns, rows: int, issues: Issues | None = None) -> Mask:
        with np.errstate(all="ignore"):
            result = self._test(Frame(columns, rows, issues))
        return result if len(result) == rows else np.broadcast_to(result, rows).copy()


def compile_expression(expression: Expression) -> Compiled:
    """The expression as a function of columns.

    >>> from eddyline.model.datatypes import INT
    >>> from eddyline.model.expressions.functions import resolve
    >>> double = compile_expression(resolve("*", (ColumnRef("a", "x", INT), Literal(2, INT))))
    >>> double({("a", "x"): pa.array([1, None, 3], pa.int32())}, 3).to_pylist()
    [2, None, 6]
    """
    return Compiled(expression)


def compile_predicate(expression: Expression) -> Predicate:
    """The condition as a function of columns."""
    return Predicate(expression)


class _Compiler:
    """Turns one expression tree into nested functions; knows which sub-expressions occur more than once."""

    def __init__(self, expression: Expression) -> None:
        self._numbers: dict[object, int] = {}
        #: Numbers by the identity of sub-expressions, which the expression keeps alive: each is numbered once.
        self._known: dict[int, int] = {}
        self._uses: Counter[int] = Counter()
        self._built: dict[int, Node] = {}
        self._count(expression)

    def _number(self, e: Expression) -> int:
        """The same number for sub-expressions with the same result; -0.0 and 0.0, which Python has equal, differ."""
        if id(e) in self._known:
            return self._known[id(e)]
        if isinstance(e, Literal):
            key: object = (e.type, repr(e.value))
        elif isinstance(e, Call):
            key = (e.function, e.type, tuple(self._number(a) for a in e.args))
        else:
            key = e
        self._known[id(e)] = number = self._numbers.setdefault(key, len(self._numbers))
        return number

    def _count(self, e: Expression) -> None:
        number = self._number(e)
        self._uses[number] += 1
        if self._uses[number] == 1 and isinstance(e, Call):
            for a in e.args:
                self._count(a)

    def node(self, e: Expression) -> Node:
        number = self._number(e)
        if number not in self._built:
            plain = self._plain(e)
            is_once = isinstance(e, Literal) or self._uses[number] == 1
            self._built[number] = plain if is_once else _remembered(plain, number)
        return self._built[number]

    def _plain(self, e: Expression) -> Node:
        if isinstance(e, Literal):
            value = constant(e.value, e.type)
            return lambda frame: value
        if isinstance(e, ColumnRef):
            name, kind = (e.ref, e.column), e.type
            return lambda frame: from_arrow(frame.columns[name], kind)
        if isinstance(e, Aggregate):
            raise Fault(f"aggregate {e} reached the evaluator")
        shape = getattr(self, "_" + e.function, None) if e.function in _SHAPES else None
        if shape is not None:
            node: Node = shape(e)
            return node
        # The kernel of IN holds the values of a long list.
        return _applied(_kernel(e), [self.node(a) for a in e.args if not isinstance(a, Literals)])

    def test(self, e: Expression) -> Test:
        """The condition with NULL as false: AND and OR need no third value then."""
        if isinstance(e, Call) and e.function in ("and", "or"):
            tests = [(self.test(a), may_fail(a)) for a in e.args]
            return _conjunction(tests) if e.function == "and" else _disjunction(tests)
        if isinstance(e, Call) and e.function in ("is_null", "is_not_null"):
            node = self.node(e)
            return lambda frame: node(frame).values
        condition = self.node(e)
        return lambda frame: truth(condition(frame))

    def _and(self, e: Call) -> Node:
        return _kleene([self.node(a) for a in e.args], stop=False)

    def _or(self, e: Call) -> Node:
        return _kleene([self.node(a) for a in e.args], stop=True)

    def _case(self, e: Call) -> Node:
        tests = [(self.test(a), may_fail(a)) for a in e.args[0:-1:2]]
        nodes = [(self.node(a), may_fail(a)) for a in e.args[1:-1:2]]
        otherwise = (self.node(e.args[-1]), may_fail(e.args[-1]))
        arrow, empty = is_arrow(e.type), constant(None, e.type)

        def choose(frame: Frame) -> Vector:
            rest: Mask = np.ones(1, np.bool_)
            picks: list[tuple[Mask, Vector]] = []
            for (test, test_fails), (node, node_fails) in zip(tests, nodes, strict=True):
                chosen = _narrowed(frame, test, rest if test_fails else None) & rest
                if chosen.any():
                    picks.append((chosen, _narrowed(frame, node, chosen if node_fails else None)))
                    rest = rest & ~chosen
            result = _narrowed(frame, otherwise[0], rest if otherwise[1] else None) if rest.any() else empty
            for chosen, value in reversed(picks):
                result = _pick(frame, chosen, value, result, arrow)
            return result

        return choose

    def _coalesce(self, e: Call) -> Node:
        nodes = [(self.node(a), may_fail(a)) for a in e.args]
        arrow = is_arrow(e.type)

        def first(frame: Frame) -> Vector:
            result = nodes[0][0](frame)
            for node, fails in nodes[1:]:
                known = validity(result)
                if known is None or known.all():
                    break
                other = _narrowed(frame, node, ~known if fails else None)
                result = _pick(frame, known, result, other, arrow)
            return result

        return first


#: Functions that decide which of their arguments are computed, and so are no kernels.
_SHAPES = frozenset(("and", "or", "case", "coalesce"))


def _remembered(node: Node, number: int) -> Node:
    def remembered(frame: Frame) -> Vector:
        known = frame.memo.get(number)
        if known is None:
            known = node(frame)
            # Issues of a narrowed evaluation were counted for some rows only.
            if frame.active is None:
                frame.memo[number] = known
        return known

    return remembered


def _applied(kernel: Kernel, nodes: list[Node]) -> Node:
    if len(nodes) == 1:
        (only,) = nodes
        return lambda frame: kernel(frame, only(frame))
    if len(nodes) == 2:
        first, second = nodes
        return lambda frame: kernel(frame, first(frame), second(frame))
    return lambda frame: kernel(frame, *[node(frame) for node in nodes])


def _narrowed(frame: Frame, node: Callable[[Frame], Any], where: Mask | None) -> Any:
    """Computed with issues counted only in some rows."""
    if where is None:
        return node(frame)
    outer = frame.active
    frame.active = where if outer is None else where & outer
    try:
        return node(frame)
    finally:
        frame.active = outer


def _pick(frame: Frame, where: Mask, a: Vector, b: Vector, arrow: bool) -> Vector:
    """`a` where the mask is true, `b` elsewhere."""
    if arrow:
        return Vector(pc.if_else(bitmap(where, frame.rows), a.values, b.values))
    values = np.where(where, a.values, b.values)
    if a.valid is None and b.valid is None:
        return Vector(values)
    here = True if a.valid is None else a.valid
    there = True if b.valid is None else b.valid
    return Vector(values, np.where(where, here, there))


def _conjunction(tests: list[tuple[Test, bool]]) -> Test:
    def all_hold(frame: Frame) -> Mask:
        result = tests[0][0](frame)
        for test, fails in tests[1:]:
            if not result.any():
                return result
            result = result & _narrowed(frame, test, result if fails else None)
        return result

    return all_hold


def _disjunction(tests: list[tuple[Test, bool]]) -> Test:
    def one_holds(frame: Frame) -> Mask:
        result = tests[0][0](frame)
        for test, fails in tests[1:]:
            result = result | _narrowed(frame, test, ~result if fails else None)
        return result

    return one_holds


def _kleene(nodes: list[Node], stop: bool) -> Node:
    """AND (stop is false) and OR (stop is true) of three values: one `stop` decides, otherwise one unknown does."""

    def combine(frame: Frame) -> Vector:
        values, valid = nodes[0](frame)
        for node in nodes[1:]:
            other = node(frame)
            if valid is None and other.valid is None:
                values = values | other.values if stop else values & other.values
                continue
            here = values if stop else ~values
            there = other.values if stop else ~other.values
            if valid is not None:
                here = here & valid
            if other.valid is not None:
                there = there & other.valid
            decided = here | there
            known = both(valid, other.valid)
            values = decided if stop else ~decided
            valid = decided | known
        return Vector(values, valid)

    return combine


def _negation(frame: Frame, a: Vector) -> Vector:
    return Vector(~a.values, a.valid)


def _is_null(frame: Frame, a: Vector) -> Vector:
    return Vector(~_is_not_null(frame, a).values)


def _is_not_null(frame: Frame, a: Vector) -> Vector:
    valid = validity(a)
    return Vector(EVERYTHING if valid is None else valid)


def _arranged(call: Call) -> Kernel:
    # Loaded here: planning computes constants, and loads no compiled kernels.
    from eddyline.operators.expressions import functions_arranged

    return functions_arranged.MAKERS[call.function](call)


_MAKERS: dict[str, Callable[[Call], Kernel]] = {
    **functions_number.MAKERS,
    **functions_compare.MAKERS,
    **functions_text.MAKERS,
    **functions_time.MAKERS,
    **functions_nested.MAKERS,
    **functions_json.MAKERS,
    **dict.fromkeys(("arranged", "place", "row_number"), _arranged),
    "cast": functions_cast.make_cast,
    "not": lambda call: _negation,
    "is_null": lambda call: _is_null,
    "is_not_null": lambda call: _is_not_null,
}


def _kernel(call: Call) -> Kernel:
    if OWN in call.function:
        return make_call(call)
    is_decimal = any(a.type.name == "DECIMAL" for a in call.args)
    maker = (functions_decimal.MAKERS.get(call.function) if is_decimal else None) or _MAKERS.get(call.function)
    if maker is None:
        raise Fault(f"there is no kernel for {call.function}")
    return maker(call)


#: Functions whose result can be an issue; with a DOUBLE result most of them cannot.
_FAILING = frozenset(("+", "-", "*", "neg", "abs", "round", "%"))
_ALWAYS_FAILING = frozenset(
    ("//", "lpad", "rpad", "substr", "left", "make_timestamp", "make_timestamp_ms", *functions_json.MAKERS)
)


def may_fail(e: Expression) -> bool:
    """Whether an expression can have no value where DuckDB would raise an error."""
    for part in walk(e):
        if not isinstance(part, Call):
            continue
        name, kind = part.function, part.type
        if OWN in name or name in _ALWAYS_FAILING or (name in _FAILING and kind != DOUBLE):
            return True
        if name == "cast" and (part.args[0].type == STRING if kind == DOUBLE else kind not in (STRING, NULL)):
            return True
    return False
