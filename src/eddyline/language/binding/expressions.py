"""Expressions: names resolved, types found.

Answer   `bind_expression` turns a syntax node into a typed expression over the references in a scope; `bind_condition`
         refuses one that is not BOOLEAN.
Limits   `model/expressions/functions.py` defines the functions and their types. A problem that a function raises gets
         the position of the node that calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from eddyline.errors import BindingProblem, located
from eddyline.language.binding.further_aggregates import FURTHER, bind_further
from eddyline.language.binding.scope import Scope
from eddyline.language.other_functions import instead
from eddyline.language.syntax import Apply, Cast, Constant, Name, Node, Over
from eddyline.language.text.windows import parse_span
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, INTERVAL, NULL, STRING, TIMESTAMP
from eddyline.model.expressions.coercion import read_text
from eddyline.model.expressions.expression import Expression, Literal, Literals
from eddyline.model.expressions.functions import (
    AGGREGATE_SYNONYMS,
    AGGREGATES,
    ALIASES,
    FUNCTIONS,
    resolve,
    resolve_aggregate,
    resolve_cast,
)

_AGGREGATE_NAMES = frozenset(AGGREGATES) | frozenset(AGGREGATE_SYNONYMS) | {"mean", "stddev_samp"}


@dataclass
class Clause:
    """The clause of an expression, which decides what the expression may hold."""

    #: SELECT, WHERE, ON, GROUP BY or HAVING, as messages show it.
    name: str
    scope: Scope
    aggregates: bool = False
    #: Names of SELECT that may be used where no column has that name.
    outputs: dict[str, Expression] = field(default_factory=dict)
    #: Names that come before columns: those of the query's group window.
    first: dict[str, Expression] = field(default_factory=dict)
    #: Inside the argument of an aggregate.
    inside: str = ""
    #: What binds a function with OVER; None: there is none in this clause.
    over: Callable[[Over], Expression] | None = None


def bind_expression(node: Node, clause: Clause) -> Expression:
    """The typed expression of a node."""
    with located(node.position):
        match node:
            case Name():
                if node.table is None and node.name.lower() in clause.first:
                    return clause.first[node.name.lower()]
                if node.table is None and node.name.lower() in clause.outputs and not clause.scope.has(node):
                    return clause.outputs[node.name.lower()]
                return _column(node, clause)
            case Constant():
                return bind_constant(node)
            case Over():
                if clause.over is None:
                    raise BindingProblem(
                        f"{node.function} OVER (…) is not allowed in {clause.name}",
                        hint="functions with OVER stand in SELECT and QUALIFY; a subquery in FROM gives their results to others",
                    )
                return clause.over(node)
            case Cast(operand, kind):
                return resolve_cast(bind_expression(operand, clause), kind)
            case Apply():
                if is_aggregate(node):
                    return _aggregate(node, clause)
                own = clause.scope.own(node.function)
                if own is None and node.function not in FUNCTIONS and node.function not in ALIASES:
                    _refuse_unknown(node.function)
                if node.distinct or node.star:
                    what, hint = "*" if node.star else "DISTINCT", f"aggregates are {', '.join(AGGREGATES)}"
                    raise BindingProblem(f"{node.function} does not take {what}", hint=hint)
                args = tuple(bind_expression(a, clause) for a in node.args)
                return resolve(node.function, args) if own is None else own.call(args)


def _refuse_unknown(function: str) -> None:
    """Refuse a function that another engine has, before its arguments are bound: they may have forms of its own."""
    if hint := instead(function):
        raise BindingProblem(f"there is no function {function}", hint=hint)


def _column(node: Name, clause: Clause) -> Expression:
    """A column; `a.b` may also be the field b of a column a."""
    scope = clause.scope
    if (
        node.table is not None
        and scope.has(Name(node.table))
        and not any(e.alias.lower() == node.table.lower() for e in scope.entries)
    ):
        whole = scope.column(Name(node.table, position=node.position))
        return resolve("struct_extract", (whole, Literal(node.name, STRING)))
    return scope.column(node)


def bind_condition(node: Node, clause: Clause) -> Expression:
    """The expression, which must be BOOLEAN."""
    found = bind_expression(node, clause)
    if found.type == NULL:
        return resolve_cast(found, BOOLEAN)
    if found.type != BOOLEAN:
        message = f"{clause.name} needs a condition, not {found.type}"
        raise BindingProblem(message, hint="compare it with something", position=node.position)
    return found


def is_aggregate(node: Node) -> bool:
    return isinstance(node, Apply) and node.function in _AGGREGATE_NAMES


def holds_aggregate(node: Node) -> bool:
    if isinstance(node, Cast):
        return holds_aggregate(node.operand)
    return isinstance(node, Apply) and (is_aggregate(node) or any(holds_aggregate(a) for a in node.args))


def _aggregate(node: Apply, clause: Clause) -> Expression:
    if clause.inside:
        raise BindingProblem(f"{node.function} stands inside {clause.inside}", hint="aggregates do not nest")
    if not clause.aggregates:
        hint = "aggregates stand in SELECT and HAVING"
        if clause.name in ("WHERE", "ON"):
            hint = "conditions on groups stand in HAVING"
        raise BindingProblem(f"aggregate {node.function} is not allowed in {clause.name}", hint=hint)
    if node.function == "count_if":
        node = _counted(node)
    name = AGGREGATE_SYNONYMS.get(node.function, node.function)
    inner = Clause(clause.name, clause.scope, inside=name)
    if name in FURTHER:
        return bind_further(name, node, lambda argument: bind_expression(argument, inner), clause.scope)
    if node.star:
        return resolve_aggregate(node.function, None)
    if len(node.args) != 1:
        hint = "COUNT(*) counts rows" if node.function == "count" else f"write {node.function}(x)"
        raise BindingProblem(f"{node.function} takes one argument, not {len(node.args)}", hint=hint)
    # The smallest of the distinct values is the smallest value.
    distinct = node.distinct and node.function not in ("min", "max")
    return resolve_aggregate(node.function, bind_expression(node.args[0], inner), distinct)


def _counted(node: Apply) -> Apply:
    """COUNT_IF(c) counts the rows for which c holds."""
    if len(node.args) != 1 or node.distinct or node.star:
        raise BindingProblem("count_if takes one condition", hint="write count_if(x > 1)")
    one, nothing = Constant("integer", 1, position=node.position), Constant("null", None, position=node.position)
    holds = Apply("case", (node.args[0], one, nothing), position=node.position)
    return Apply("count", (holds,), position=node.position)


def bind_constant(node: Constant) -> Literal:
    """A literal in the engine's own form."""
    value = node.value
    match node.kind:
        case "null":
            return Literal(None, NULL)
        case "boolean":
            return Literal(value, BOOLEAN)
        case "double":
            return Literal(value, DOUBLE)
        case "string":
            return Literal(value, STRING)
        case "interval":
            return Literal(parse_span(str(value), node.position), INTERVAL)
        case "integer":
            return _integer(node)
        case "integers" | "doubles" | "strings":
            return _listed(node)
    target = TIMESTAMP if node.kind == "timestamp" else DATE
    with located(node.position):
        return Literal(read_text(str(value), target), target)


def _listed(node: Constant) -> Literals:
    """A long list. Whole numbers get the smallest type that holds all of them, as in a short list."""
    assert isinstance(node.value, tuple)
    if node.kind != "integers":
        return Literals(node.value, STRING if node.kind == "strings" else DOUBLE)
    ends = [
        _integer(Constant("integer", value, position=node.position)).type
        for value in (min(node.value), max(node.value))
    ]
    return Literals(node.value, BIGINT if BIGINT in ends else INT)


def _integer(node: Constant) -> Literal:
    value = node.value
    assert isinstance(value, int)
    if -(2**31) <= value < 2**31:
        return Literal(value, INT)
    if -(2**63) <= value < 2**63:
        return Literal(value, BIGINT)
    raise BindingProblem(
        f"{value} does not fit into BIGINT", hint="with a point it is a DOUBLE", position=node.position
    )
