"""Constants computed once, and not again for every row.

Answer   A sub-expression that reads no column becomes the literal that it evaluates to, everywhere in the query.
Limits   Expressions that cannot be computed (overflow, a failed CAST) stay, so that rows are counted for them. Calls of
         functions of users stay. -0.0 and NaN stay: groups are found by comparing expressions, and for Python -0.0
         equals 0.0 and NaN does not equal NaN.
"""

from __future__ import annotations

from dataclasses import replace
from math import copysign, isnan
from typing import TYPE_CHECKING

from eddyline.model.expressions.expression import OWN, Aggregate, Call, Expression, Literal
from eddyline.model.query import BoundQuery, OutputColumn
from eddyline.plan.rules.terms import with_args

if TYPE_CHECKING:
    import pyarrow as pa


def fold_constants(query: BoundQuery) -> BoundQuery:
    """The query with every constant sub-expression computed.

    >>> from eddyline.language import bind_script
    >>> job = bind_script('''
    ...     CREATE STREAM bids (price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
    ...     CREATE QUERY dear AS SELECT price FROM bids WHERE price > 10.0 * 2.5;
    ... ''')
    >>> str(fold_constants(job.queries[0]).where[0])
    'bids.price > 25.0'
    """
    ranked = query.ranking is not None
    if all(folded(e) is e for e in (*query.where, *query.computed, *query.group_by)) and not ranked:
        return query
    return replace(
        query,
        where=tuple(folded(part) for part in query.where),
        outputs=tuple(OutputColumn(o.name, folded(o.expression)) for o in query.outputs),
        # Two grouping expressions that have become equal are one, as if they were written the same.
        group_by=tuple(dict.fromkeys(folded(e) for e in query.group_by)),
        having=None if query.having is None else folded(query.having),
        ranking=None if query.ranking is None else query.ranking.mapped(folded),
    )


def folded(e: Expression) -> Expression:
    """The expression with its largest constant parts computed."""
    seen, constant = _inside(e)
    return _computed(seen) if constant else seen


def _inside(e: Expression) -> tuple[Expression, bool]:
    """The expression with the constants in it computed, and whether it is itself a constant; a constant is returned as
    it is."""
    if isinstance(e, Literal):
        return e, True
    if isinstance(e, Aggregate):
        inner = None if e.arg is None else folded(e.arg)
        return (e if inner is e.arg else replace(e, arg=inner)), False
    if not isinstance(e, Call):
        return e, False
    parts = [_inside(a) for a in e.args]
    if all(constant for _, constant in parts) and OWN not in e.function:
        return e, True
    return with_args(e, tuple(_computed(part) if constant else part for part, constant in parts)), False


def _computed(e: Expression) -> Expression:
    """The literal of a constant expression; if there is none, the expression with its parts computed."""
    if not isinstance(e, Call):
        return e
    # The functions take a tenth of a second to load, and most queries need none.
    from eddyline.operators.expressions.evaluate import Issues, compile_expression

    issues = Issues()
    array = compile_expression(e)({}, 1, issues)
    value = _plain(array)
    if issues.total or _is_hard_to_compare(value):
        return with_args(e, tuple(_computed(a) for a in e.args))
    return Literal(value, e.type)


def _plain(array: pa.Array) -> object:
    """The one value of an array in the form that literals have: times are whole numbers."""
    import pyarrow as pa

    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    elif pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    value: object = array[0].as_py()
    return value


def _is_hard_to_compare(value: object) -> bool:
    return isinstance(value, float) and (isnan(value) or (value == 0 and copysign(1, value) < 0))
