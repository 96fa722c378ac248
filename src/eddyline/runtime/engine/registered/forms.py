"""The forms of queries over joins: one line each.

Answer   `registered_query` puts a query with a join group into the first form that serves it. The file of a form is
         loaded with the first query that needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from eddyline.errors import Fault
from eddyline.model.query import BoundQuery
from eddyline.runtime.engine.registered.query import RegisteredQuery, Registration

#: Which queries a form serves, its file in this folder, and its class.
FORMS: tuple[tuple[Callable[[BoundQuery], object], str, str], ...] = (
    (lambda query: query.living is not None and query.ranking is not None, "ranked_living", "RankedLiving"),
    (lambda query: query.living is not None, "living", "LivingAggregate"),
    (lambda query: query.ranking is not None and query.is_aggregate, "ranked", "RankedAggregate"),
    (lambda query: query.ranking is not None, "ranked", "RankedQuery"),
    (lambda query: query.followed, "followed", "FollowedQuery"),
    (lambda query: query.is_aggregate, "aggregate", "AggregateQuery"),
    (lambda query: query.keeping is not None and query.keeping.kind == "pushed", "living", "PushedRows"),
    (lambda query: query.keeping is not None, "keeping", "KeepingQuery"),
    (lambda query: query.ranking is None and not query.followed, "query", "SelectQuery"),
)


def registered_query(given: Registration) -> RegisteredQuery:
    """The registered form of a query with a join group."""
    found = next(((file, name) for serves, file, name in FORMS if serves(given.query)), None)
    if found is None:
        raise Fault(f"no form of a query serves {given.query.name}")
    form: type[RegisteredQuery] = getattr(import_module(f"{__package__}.{found[0]}"), found[1])
    return form(given)
