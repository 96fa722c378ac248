"""The laws of a plan, and warnings about what nothing bounds.

Answer   `warnings_of` names references whose store can only grow; `verify` raises where a query breaks a law of its own form.
         With `SET unbounded = 'error'` the warning is a refusal.
"""

from __future__ import annotations

from eddyline.errors import Fault, PlanProblem
from eddyline.model.expression import columns_of, refs_of
from eddyline.model.query import BoundQuery
from eddyline.model.window import Unbounded


def verify(query: BoundQuery) -> None:
    """Every expression reads only references that are there: a rule that broke this is a fault of ours."""
    aliases = {reference.alias for reference in query.references}
    for expression in (*query.where, *(o.expression for o in query.outputs), *query.group_by):
        strange = refs_of(expression) - aliases
        if strange:
            raise Fault(f"query {query.name} reads {', '.join(sorted(strange))}, which is not in FROM", detail=str(expression))
        assert all(alias in aliases for alias, _ in columns_of(expression))


def warnings_of(query: BoundQuery) -> list[str]:
    """References whose store grows for ever.

    Raises:
        PlanProblem: there is one, and `SET unbounded = 'error'`.
    """
    if len(query.streams) < 2 and not query.is_aggregate:
        return []
    found = []
    for reference in query.streams:
        if isinstance(reference.window, Unbounded):
            text = f"query {query.name}: the store of {reference.source} ({reference.alias}) grows for ever, it has no window"
            if query.settings.unbounded == "error":
                raise PlanProblem(text, hint=f"write a window such as {reference.source} [RANGE 10 MINUTES], or SET unbounded = 'warn'")
            found.append(text)
    return found
