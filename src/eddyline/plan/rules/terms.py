"""The terms of a condition: taken apart, compared, and put together again.

Answer   `key_of` is equal for equal expressions only; Python's equality takes 0.0 for -0.0. `parts_of` takes a chain of
         ANDs or ORs apart; `disjunction` makes an OR as `conjunction` makes an AND.
Limits   Two terms are equal if they are written the same after binding; `a.x = b.x` and `b.x = a.x` are two terms.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from eddyline.model.datatypes import BOOLEAN
from eddyline.model.expressions.expression import Aggregate, Call, Expression, Literal, refs_of
from eddyline.model.query import BoundQuery

TRUE = Literal(True, BOOLEAN)
FALSE = Literal(False, BOOLEAN)
UNKNOWN = Literal(None, BOOLEAN)


def key_of(e: Expression) -> Hashable:
    """Something to compare and hash in place of the expression."""
    if isinstance(e, Literal):
        return e.type, repr(e.value)
    if isinstance(e, Call):
        return e.function, e.type, tuple(key_of(a) for a in e.args)
    if isinstance(e, Aggregate):
        return e.function, e.distinct, e.type, None if e.arg is None else key_of(e.arg)
    return e


def with_args(e: Call, args: tuple[Expression, ...]) -> Call:
    """The call with other arguments; the same object if they are the same, so that a rule knows that it changed
    nothing."""
    return e if is_same(e.args, args) else replace(e, args=args)


def is_same(old: Sequence[Expression], new: Sequence[Expression]) -> bool:
    """Whether both have the same objects in the same order."""
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))


def without_repeats(terms: Iterable[Expression]) -> tuple[Expression, ...]:
    """Each term once, at its first place."""
    found: dict[Hashable, Expression] = {}
    for term in terms:
        found.setdefault(key_of(term), term)
    return tuple(found.values())


def parts_of(e: Expression, function: str, fixed: Sequence[Expression] = ()) -> tuple[Expression, ...]:
    """The parts of an AND or of an OR, in order; a part that is one of the `fixed` is not taken apart.

    >>> len(parts_of(Call("or", (TRUE, Call("or", (FALSE, UNKNOWN), BOOLEAN)), BOOLEAN), "or"))
    3
    """
    found: list[Expression] = []
    rest = [e]
    # A chain of hundreds of ORs is nested as deeply, too deep for recursion.
    while rest:
        part = rest.pop()
        if isinstance(part, Call) and part.function == function and part not in fixed:
            rest.extend(reversed(part.args))
        else:
            found.append(part)
    return tuple(found)


def disjunction(terms: Iterable[Expression]) -> Expression:
    """The OR of the terms; FALSE of none."""
    whole: Expression | None = None
    for term in terms:
        whole = term if whole is None else Call("or", (whole, term), BOOLEAN)
    return FALSE if whole is None else whole


def with_nothing(query: BoundQuery) -> BoundQuery:
    """The query whose WHERE never holds.

    One FALSE takes the place of all filters. Conditions between references stay: without them the join would make the
    cross product of those references that the FALSE does not filter.
    """
    where = (FALSE, *(part for part in query.where if len(refs_of(part)) > 1))
    return query if is_same(query.where, where) else replace(query, where=where)
