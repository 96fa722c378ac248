"""Conditions without terms that decide nothing.

Answer   TRUE and repeated conjuncts are dropped. If a conjunct is FALSE or NULL, or two leave a column no value, one
         FALSE takes the place of all filters. Inside AND, OR and NOT the same is done as far as three-valued logic
         allows.
Limits   A HAVING that is TRUE stays. Grouping expressions stay as they are. Rows that a dropped term could not compute
         are no longer counted.
"""

from __future__ import annotations

from dataclasses import replace

from eddyline.model.datatypes import BOOLEAN
from eddyline.model.expressions.expression import Call, Expression, Literal, conjunction
from eddyline.model.query import BoundQuery
from eddyline.plan.rules.ranges import contradict
from eddyline.plan.rules.terms import (
    FALSE,
    TRUE,
    UNKNOWN,
    disjunction,
    is_same,
    parts_of,
    with_args,
    with_nothing,
    without_repeats,
)

_PAIRS = (("=", "<>"), ("<", ">="), (">", "<="), ("is_null", "is_not_null"))
_OPPOSITE = dict(_PAIRS) | {other: one for one, other in _PAIRS}
_NULL_OF_NULL = frozenset(("=", "<>", "<", "<=", ">", ">=", "like", "ilike"))


def simplify_conditions(query: BoundQuery) -> BoundQuery:
    """The query with shorter WHERE and HAVING.

    >>> from eddyline.language import bind_script
    >>> job = bind_script('''
    ...     CREATE STREAM bids (price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
    ...     CREATE QUERY dear AS SELECT price FROM bids WHERE price > 10.0 AND TRUE AND NOT price <= 10.0;
    ... ''')
    >>> [str(part) for part in simplify_conditions(job.queries[0]).where]
    ['bids.price > 10.0']
    """
    having = None if query.having is None else _simple(query.having, True, query.group_by)
    parts = without_repeats(term for part in query.where for term in parts_of(_simple(part, True, ()), "and"))
    parts = tuple(part for part in parts if part != TRUE)
    if having is not query.having or not is_same(parts, query.where):
        query = replace(query, where=parts, having=having)
    return with_nothing(query) if FALSE in parts or contradict(parts) else query


def _simple(e: Expression, as_filter: bool, fixed: tuple[Expression, ...]) -> Expression:
    """`as_filter`: NULL may become FALSE, because only TRUE passes. `fixed` expressions stay as they are."""
    if e in fixed or not isinstance(e, Call):
        return FALSE if as_filter and _is_unknown(e) else e
    if e.function in ("and", "or"):
        return _simple_chain(e, as_filter, fixed)
    whole = with_args(e, tuple(_simple(a, False, fixed) for a in e.args))
    if whole.function == "not":
        return _simple_negation(whole, fixed)
    if whole.function in _NULL_OF_NULL and any(_is_unknown(a) for a in whole.args):
        return FALSE if as_filter else UNKNOWN
    return whole


def _simple_chain(e: Call, as_filter: bool, fixed: tuple[Expression, ...]) -> Expression:
    """An AND (OR) of simple parts: one FALSE (TRUE) decides, a TRUE (FALSE) is left out."""
    decides, neutral = (FALSE, TRUE) if e.function == "and" else (TRUE, FALSE)
    old = parts_of(e, e.function, fixed)
    new = [term for part in old for term in parts_of(_simple(part, as_filter, fixed), e.function, fixed)]
    if decides in new:
        return decides
    rest = without_repeats(term for term in new if term != neutral)
    if is_same(old, rest):
        return e
    return conjunction(rest) if e.function == "and" else disjunction(rest)


def _simple_negation(e: Call, fixed: tuple[Expression, ...]) -> Expression:
    (arg,) = e.args
    if isinstance(arg, Literal):
        return UNKNOWN if arg.value is None else FALSE if arg.value else TRUE
    if not isinstance(arg, Call) or arg in fixed:
        return e
    if arg.function == "not":
        return arg.args[0]
    # Values of one type are totally ordered, NaN included, and NULL stays NULL under both.
    return Call(_OPPOSITE[arg.function], arg.args, BOOLEAN) if arg.function in _OPPOSITE else e


def _is_unknown(e: Expression) -> bool:
    return isinstance(e, Literal) and e.value is None
