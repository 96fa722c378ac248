"""The range that comparisons with constants leave to a column.

Answer   `contradict` tests whether no value of some column satisfies all of the terms: `a.x > 5` and `a.x < 3`.
Limits   Only terms that compare a plain column with a literal of its type; NaN literals are left out. A column's NaN is
         greater than every number: it satisfies no upper bound, so an empty range is empty for it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class ColumnBound:
    """`column comparison value`."""

    column: ColumnRef
    comparison: str
    value: Any


def bound_of(e: Expression) -> ColumnBound | None:
    """The term as a bound of a column, which may be on either side; None: it is no such term."""
    if not (isinstance(e, Call) and e.function in _MIRRORED):
        return None
    left, right = e.args
    comparison = e.function
    if isinstance(left, Literal):
        left, right, comparison = right, left, _MIRRORED[comparison]
    if not (isinstance(left, ColumnRef) and isinstance(right, Literal)) or left.type != right.type:
        return None
    if right.value is None or right.value != right.value:
        return None
    return ColumnBound(left, comparison, right.value)


def contradict(terms: Iterable[Expression]) -> bool:
    """Whether the terms leave some column no value at all.

    >>> from eddyline.model.datatypes import BOOLEAN, INT
    >>> x = ColumnRef("a", "x", INT)
    >>> contradict([Call(">", (x, Literal(5, INT)), BOOLEAN), Call("<=", (x, Literal(5, INT)), BOOLEAN)])
    True
    """
    lower: dict[ColumnRef, tuple[Any, bool]] = {}
    upper: dict[ColumnRef, tuple[Any, bool]] = {}
    for term in terms:
        bound = bound_of(term)
        if bound is None:
            continue
        edge = (bound.value, "=" not in bound.comparison)
        if "<" not in bound.comparison:
            lower[bound.column] = max(lower.get(bound.column, edge), edge)
        if ">" not in bound.comparison:
            # The tighter of two equal upper bounds is the one without its edge.
            upper[bound.column] = min(upper.get(bound.column, edge), edge, key=lambda e: (e[0], not e[1]))
    return any(_is_empty(lower[column], upper[column]) for column in lower.keys() & upper.keys())


def _is_empty(lower: tuple[Any, bool], upper: tuple[Any, bool]) -> bool:
    (low, above), (high, below) = lower, upper
    return bool(low > high or (low == high and (above or below)))
