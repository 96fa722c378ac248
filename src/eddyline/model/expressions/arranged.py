"""Aggregates with several arguments, as aggregates of one argument and a constant.

Answer   `arg_extreme`, `in_order` and `approximate` give the aggregate of ARG_MAX and ARG_MIN, of STRING_AGG and
         ARRAY_AGG, and of the approximations. Several values are one of type BYTES: `arranged` puts them one after the
         other so that its bytes lie in the order of its parts.

             ARG_MAX(x, y)      ─►  the least of  arranged('-+x', y, time, x)
             STRING_AGG(x, s)   ─►  all of        arranged('+x', place, x), in order

Limits   `place` is the place of a row in the total order of the query's streams; only registered aggregates have it.
"""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.errors import BindingProblem
from eddyline.model.datatypes import BIGINT, BYTES, DOUBLE, INTERVAL, NULL, STRING, array
from eddyline.model.expressions.coercion import convert
from eddyline.model.expressions.expression import Aggregate, Call, ColumnRef, Expression, Literal
from eddyline.model.expressions.functions import resolve, resolve_cast

#: Aggregates whose values come in the order of rows.
IN_ORDER = frozenset(("string_agg", "array_agg"))
ARG_EXTREMES = frozenset(("arg_min", "arg_max"))
APPROXIMATE = frozenset(("approx_count_distinct", "approx_quantile"))


def newest(times: Sequence[ColumnRef]) -> Expression:
    """The time of a combination: that of its newest row."""
    return times[0] if len(times) == 1 else resolve("greatest", tuple(times))


def arg_extreme(name: str, x: Expression, y: Expression, times: Sequence[ColumnRef]) -> Aggregate:
    """ARG_MAX and ARG_MIN: x where y is largest or smallest; of several the oldest, of one instant the smallest x."""
    x = _known(name, x)
    y = _known(name, y)
    form = Literal("-+x" if name == "arg_max" else "++x", STRING)
    return Aggregate(name, Call("arranged", (form, y, newest(times), x), BYTES), False, x.type)


def in_order(
    name: str, x: Expression, parameter: str | None, times: Sequence[ColumnRef], where: Expression | None = None
) -> Aggregate:
    """STRING_AGG and ARRAY_AGG: the values in the order of rows. `where` is the FILTER of ARRAY_AGG, which takes NULL for
    a value."""
    if name == "string_agg" and x.type not in (STRING, NULL):
        raise BindingProblem(f"{name} does not take {x.type}", hint="CAST it to STRING")
    x = resolve_cast(x, STRING) if name == "string_agg" and x.type == NULL else _known(name, x)
    place = Call("place", (newest(times),), BIGINT)
    written: Expression = Call("arranged", (Literal("+x" if name == "string_agg" else "+n", STRING), place, x), BYTES)
    if where is not None:
        written = Call("case", (where, written, Literal(None, BYTES)), BYTES)
    return Aggregate(name, written, False, STRING if name == "string_agg" else array(x.type), parameter)


def approximate(name: str, x: Expression, parameter: float | None) -> Aggregate:
    """APPROX_COUNT_DISTINCT and APPROX_QUANTILE."""
    if name == "approx_count_distinct":
        return Aggregate(name, _known(name, x), False, BIGINT)
    if not (x.type.is_number or x.type == NULL):
        raise BindingProblem(f"{name} does not take {x.type}", hint="it takes numbers")
    return Aggregate(name, convert(x, DOUBLE), False, DOUBLE, parameter)


def _known(name: str, x: Expression) -> Expression:
    if x.type.is_nested:
        raise BindingProblem(f"{name} does not take {x.type}", hint="aggregate a field or an element of it: a.b, a[1]")
    if x.type == INTERVAL:
        raise BindingProblem(f"{name} does not take {INTERVAL}", hint="use epoch(…), the seconds, instead")
    return resolve_cast(x, BIGINT) if x.type == NULL else x
