"""Aggregates with several arguments: ARG_MAX, ARG_MIN, STRING_AGG, and the approximations.

Answer   `bind_further` turns a call of one of `FURTHER` into a typed aggregate, or refuses it.
Limits   STRING_AGG puts texts in the order of rows: a derived stream whose rows of equal time have no order is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec

from eddyline.errors import BindingProblem, Unsupported
from eddyline.language.binding.scope import Scope
from eddyline.language.syntax import Apply, Constant, Node
from eddyline.model.expressions.arranged import APPROXIMATE, ARG_EXTREMES, IN_ORDER, approximate, arg_extreme, in_order
from eddyline.model.expressions.expression import Aggregate, Expression
from eddyline.model.expressions.functions import AGGREGATES
from eddyline.model.schema import Stream

FURTHER = ARG_EXTREMES | IN_ORDER | APPROXIMATE
#: The number of arguments of each.
_COUNTS = {name: 1 if name in ("array_agg", "approx_count_distinct") else 2 for name in FURTHER}


def bind_further(name: str, node: Apply, bind: Callable[[Node], Expression], scope: Scope) -> Aggregate:
    """`bind` binds an argument."""
    hint = f"write {AGGREGATES[name][0]}"
    if node.distinct or node.star:
        raise BindingProblem(f"{name} does not take {'*' if node.star else 'DISTINCT'}", hint=hint)
    if len(node.args) != _COUNTS[name]:
        count = f"{len(node.args)} argument{'s'[: len(node.args) != 1]}"
        raise BindingProblem(f"{name} does not take {count}", hint=hint)
    value = bind(node.args[0])
    if name in ARG_EXTREMES:
        return arg_extreme(name, value, bind(node.args[1]), scope.times)
    if name in IN_ORDER:
        check_ordered(name, scope)
        if name == "array_agg":
            return in_order(name, value, None, scope.times, None if node.where is None else bind(node.where))
        return in_order(name, value, _separator(node.args[1], hint), scope.times)
    found = approximate(name, value, _part(node.args[1], hint) if name == "approx_quantile" else None)
    if find_spec("datasketches") is None:
        raise Unsupported(f"{name} needs the package datasketches", hint=_sketches_hint())
    return found


def _sketches_hint() -> str:
    if sys.version_info < (3, 14):
        return "pip install 'eddyline[sketches]'"
    return "it has no wheel for this Python: use Python 3.13 or older, or compile it with pip install datasketches"


def check_ordered(what: str, scope: Scope) -> None:
    """Refuse a function of the order of rows over a stream whose rows of equal time have none."""
    for entry in scope.entries:
        if isinstance(entry.relation, Stream) and not entry.relation.ordered:
            raise BindingProblem(
                f"{what} over {entry.alias} has no order to follow",
                detail="rows of equal time of a derived stream have an order only where it selects rows of one stream",
                hint="give it one: CREATE STREAM … WITH (sequence = 'column') AS SELECT …",
            )


def _separator(node: Node, hint: str) -> str:
    if not isinstance(node, Constant) or node.kind != "string":
        raise BindingProblem("the separator of string_agg is a text", hint=hint, position=node.position)
    return str(node.value)


def _part(node: Node, hint: str) -> float:
    if isinstance(node, Constant) and node.kind in ("double", "integer") and 0 <= float(str(node.value)) <= 1:
        return float(str(node.value))
    raise BindingProblem("the part of approx_quantile is a number between 0 and 1", hint=hint, position=node.position)
