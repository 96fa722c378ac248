"""Terms that all alternatives of an OR have, as conjuncts before it.

Answer   `(p AND q) OR (p AND r)` becomes `p AND (q OR r)`, and `p OR (p AND q)` becomes `p`; both hold in three-valued
         logic. A filter or an equality of a join inside an OR then becomes one of WHERE.
Limits   Only the conjuncts of WHERE; terms are common when they are written the same after binding.
"""

from __future__ import annotations

from dataclasses import replace

from eddyline.model.expressions.expression import Expression, conjunction
from eddyline.model.query import BoundQuery
from eddyline.plan.rules.terms import disjunction, key_of, parts_of, without_repeats


def pull_common_filters(query: BoundQuery) -> BoundQuery:
    """The query with common terms of alternatives as conjuncts of WHERE.

    >>> from eddyline.language import bind_script
    >>> job = bind_script('''
    ...     CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
    ...     CREATE QUERY some AS SELECT price FROM bids WHERE item = 1 AND price < 2.0 OR item = 1 AND price > 9.0;
    ... ''')
    >>> [str(part) for part in pull_common_filters(job.queries[0]).where]
    ['bids.item = 1', '(bids.price < 2.0) OR (bids.price > 9.0)']
    """
    pulled = [_pulled(part) for part in query.where]
    if all(terms is None for terms in pulled):
        return query
    everything = (term for part, terms in zip(query.where, pulled, strict=True) for term in (terms or (part,)))
    return replace(query, where=without_repeats(everything))


def _pulled(part: Expression) -> tuple[Expression, ...] | None:
    """The common terms and what is left of the OR; None if there is nothing in common."""
    alternatives = [parts_of(alternative, "and") for alternative in parts_of(part, "or")]
    if len(alternatives) < 2:
        return None
    common = set.intersection(*({key_of(term) for term in terms} for terms in alternatives))
    if not common:
        return None
    shared = without_repeats(term for term in alternatives[0] if key_of(term) in common)
    rests = [tuple(term for term in terms if key_of(term) not in common) for terms in alternatives]
    # An alternative without further terms holds whenever another does.
    return shared if () in rests else (*shared, disjunction(without_repeats(conjunction(rest) for rest in rests)))
