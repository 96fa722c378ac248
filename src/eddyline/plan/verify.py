"""The laws of a plan, and warnings about state that nothing bounds.

Answer   `verify` raises if a query breaks a law of bound queries, `verify_rewritten` if a rule changed what no rule may
         change. `warnings_of` names state that can only grow; with `SET unbounded = 'error'` it refuses the query.
         `unseen` names what is never shown.
Limits   Whether two conditions are equivalent is not tested here: goldens run both.
"""

from __future__ import annotations

from eddyline.errors import Fault, PlanProblem
from eddyline.model.datatypes import BOOLEAN
from eddyline.model.expressions.expression import (
    Aggregate,
    columns_of,
    conjuncts,
    has_aggregate,
    refs_of,
    ungrouped,
    walk,
)
from eddyline.model.query import BoundQuery
from eddyline.model.schema import ROW
from eddyline.model.window import NOW, Range, Unbounded
from eddyline.plan.promised import Sources, lasting, times_of
from eddyline.plan.ranges.implied import implied_windows

#: In microseconds: outputs of EMIT ON CHANGE are rarely closer to each other in event time.
_SECOND = 1_000_000


def verify(query: BoundQuery) -> None:
    """The laws that every bound query keeps: a query that breaks one is a fault of the engine, not of the user."""
    aliases = {reference.alias for reference in query.references}
    having = () if query.having is None else (query.having,)
    for expression in (*query.where, *query.computed, *query.group_by):
        strange = refs_of(expression) - aliases
        if strange:
            raise Fault(
                f"query {query.name} reads {', '.join(sorted(map(str, strange)))}, which is not in FROM",
                detail=str(expression),
            )
    for part in (*query.where, *having):
        if part.type != BOOLEAN:
            raise Fault(f"a condition of query {query.name} is {part.type}", detail=str(part))
    for part in query.where:
        if conjuncts(part) != (part,):
            raise Fault(f"WHERE of query {query.name} is not split at AND", detail=str(part))
    for part in (*query.where, *query.group_by):
        if has_aggregate(part):
            raise Fault(f"query {query.name} has an aggregate below its grouping", detail=str(part))
    _verify_groups(query)


def _verify_groups(query: BoundQuery) -> None:
    """Outputs and HAVING are made of grouping expressions, aggregates and constants; all grouping expressions are
    selected."""
    if not query.group_by and query.having is None and not any(has_aggregate(o.expression) for o in query.outputs):
        return
    selected = [o.expression for o in query.outputs]
    for expression in query.computed:
        stray = ungrouped(expression, query.group_by)
        if stray is not None:
            raise Fault(f"query {query.name} reads {stray} above its grouping", detail=str(expression))
    window = query.group_window
    for at, group in enumerate(query.group_by):
        if group not in selected and not (window is not None and window.kind == "session" and at == window.start):
            raise Fault(f"query {query.name} groups by {group} and does not select it")


def verify_rewritten(before: BoundQuery, after: BoundQuery) -> None:
    """A rule changes none of these: references, the names and types of outputs, grouping or none, EMIT, settings."""
    laws = {
        "name": (before.name, after.name),
        "references": (before.references, after.references),
        "outputs": ([(o.name, o.type) for o in before.outputs], [(o.name, o.type) for o in after.outputs]),
        "number of groups": (bool(before.group_by), bool(after.group_by)),
        "aggregation": (before.is_aggregate, after.is_aggregate),
        "HAVING": (before.having is None, after.having is None),
        "DISTINCT": (before.distinct, after.distinct),
        "EMIT": (before.emit, after.emit),
        "settings": (before.settings, after.settings),
        "text": (before.text, after.text),
    }
    for what, (old, new) in laws.items():
        if old != new:
            raise Fault(f"the {what} changed", detail=f"{old} became {new}")


def warnings_of(query: BoundQuery, sources: Sources | None = None) -> list[str]:
    """What grows for ever, one line each.

    Two streams and more are joined through their stores, and a store without a window keeps every row. One stream alone
    needs no store; an aggregate over it keeps its groups, which are bounded if there is one group only or buckets
    close. Rows that wait only for rows of references that punctuations close, or of which conditions between event
    times say how long, are not kept for ever.

    Raises:
        PlanProblem: there is one, and `SET unbounded = 'error'`.
    """
    found: list[str] = []
    implied = implied_windows(query, times_of(sources or {}))
    lasts = not query.is_aggregate and query.emit.kind != "close"
    ranked = query.ranking is not None and bool(query.ranking.partition) and lasts
    for reference in query.streams:
        if not isinstance(reference.window, Unbounded) or reference.alias in implied:
            continue
        ends = query.settings.punctuations == "on" and reference.alias not in lasting(query, sources or {})
        if len(query.streams) > 1 and ends:
            continue
        if _puts_together(query):
            # Both of its stores grow: one warning is enough.
            if found:
                continue
            what = "what an outer join or EXISTS found for rows"
        elif len(query.streams) > 1:
            what = f"the store of {reference.source} ({reference.alias})"
        elif ranked or any(followed.partition for followed in query.followed):
            what = f"what is kept of {reference.source} ({reference.alias}) per partition"
        elif query.living is not None:
            # The queries that make its stream name the streams without a window.
            continue
        elif query.is_aggregate and query.emit.kind != "close" and query.group_window is None and _keeps_values(query):
            what = f"what is kept of {reference.source} ({reference.alias}) per group"
        else:
            continue
        text = f"query {query.name}: {what} grows for ever, it has no window"
        hint = f"write a window such as {reference.source} [RANGE 10 MINUTES], or SET unbounded = 'warn'"
        if _puts_together(query):
            # Its name has that of the user's query: _q-3.2.
            text = f"query {query.name.removeprefix('_').rpartition('-')[0]}: {what} whose windows do not end by time grows for ever"
            hint = "write [RANGE …] or [NOW] after the references whose rows may be without a partner, or SET unbounded = 'warn'"
        if query.settings.unbounded == "error":
            raise PlanProblem(text, hint=hint)
        found.append(text)
    return found


def unseen(query: BoundQuery) -> list[str]:
    """The windows of a changelog in which rows come and go between two outputs, one line each. EMIT ON CHANGE gives the
    last moment before the frontier: a row that has left by then is never shown."""
    if not query.is_changelog or query.emit.kind != "change" or query.group_window is not None or query.name[:1] == "_":
        return []
    brief = [r for r in query.streams if r.window == NOW or (isinstance(r.window, Range) and r.window.micros < _SECOND)]
    return [
        f"query {query.name}: rows of {one.source} [{one.window}] that come and go between two outputs of EMIT ON CHANGE are "
        f"never shown; leave the window out, or write EMIT EVERY and a window as long as its period"
        for one in brief
    ]


def _puts_together(query: BoundQuery) -> bool:
    """Whether a query joins results of outer joins by the numbers of rows (`language/derived/outer_trees.py`)."""
    return any(name.endswith(f".{ROW}") for condition in query.where for _, name in columns_of(condition))


def _keeps_values(query: BoundQuery) -> bool:
    """Whether an aggregate has ever more groups or distinct values to remember."""
    distinct = any(isinstance(x, Aggregate) and x.distinct for part in query.computed for x in walk(part))
    return bool(query.group_by) or query.distinct or distinct
