"""The rules of aggregate queries.

Answer   `check_groups` tests that outputs and HAVING are made of grouping expressions, aggregates and constants, and
         that every grouping expression is selected, so that a changelog row names its group. `check_close` tests that
         the groups of EMIT ON CLOSE end.
Limits   Two expressions are the same when they are written the same after binding; no algebra is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import UnionType

from eddyline.errors import BindingProblem, Position, located
from eddyline.language.binding.scope import Scope
from eddyline.language.syntax import Item, Select
from eddyline.model.expressions.expression import Call, Expression, columns_of, has_aggregate, ungrouped
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.model.window import Now, Range


def check_groups(
    query: BoundQuery, select: Select, items: Sequence[Item], places: Mapping[Expression, Position | None]
) -> None:
    for group in query.group_by:
        if has_aggregate(group):
            hint = "group by columns and expressions"
            raise BindingProblem(f"GROUP BY {group} is an aggregate", hint=hint, position=places[group])
    for output, item in zip(query.outputs, items, strict=True):
        with located(item.position):
            check_grouped(output.expression, query.group_by)
    if select.having is not None and query.having is not None:
        with located(select.having.position):
            check_grouped(query.having, query.group_by)
    # The beginning of a session need not be selected: the end of the session identifies it too.
    window = query.group_window
    named = {o.expression for o in query.outputs}
    named |= {query.group_by[0]} if window is not None and window.kind == "session" else set()
    for group in query.group_by:
        if group not in named:
            raise BindingProblem(
                f"grouping expression {group} is not selected",
                detail="a row of the changelog has to say which group it is about",
                hint=f"add {group} to SELECT",
                position=places[group],
            )


def check_grouped(e: Expression, groups: tuple[Expression, ...]) -> None:
    """Refuse a column that is neither grouped nor aggregated."""
    column = ungrouped(e, groups)
    if column is not None:
        raise BindingProblem(
            f"column {column} is neither grouped nor aggregated",
            detail=f"grouped by {', '.join(map(str, groups))}" if groups else "there is no GROUP BY",
            hint=f"add {column} to GROUP BY, or aggregate it: max({column})",
        )


def check_close(query: BoundQuery, scope: Scope) -> bool:
    """Refuse EMIT ON CLOSE where groups never end. A group ends with a bucket of the event time of a stream among its
    grouping expressions, or when punctuations close its grouping columns. Returns whether punctuations end groups."""
    keys = query.group_by if query.group_by else tuple(o.expression for o in query.outputs) if query.distinct else ()
    buckets = [(key, str(time.ref)) for key in keys if (time := scope.bucketed_time(key)) is not None]
    closes = any(ends(query, alias, Range | Now) for _, alias in buckets)
    if query.group_window is None and not closes and _is_promised(query, scope, keys):
        return True
    if not buckets:
        times = [f"{e.alias}.{e.relation.called_time}" for e in scope.entries if not e.reference.is_table]  # type: ignore[union-attr]
        raise BindingProblem(
            "EMIT ON CLOSE needs a time bucket among the grouping expressions",
            detail="a group is complete when its bucket of the event time has passed, or when punctuations close its columns",
            hint=f"for example GROUP BY date_trunc('minute', {times[0]}), or epoch_us({times[0]}) // 300000000 for five minutes",
        )
    if not closes:
        key, alias = buckets[0]
        window = query.reference(alias).window
        raise BindingProblem(
            f"the bucket {key} never closes",
            detail=f"{alias} is [{window}] in a join: a row to come can meet a row of {alias} of any age",
            hint=f"give {alias} a window such as [RANGE 10 MINUTES], or group by a bucket of a reference that has one",
        )
    return False


def ends(query: BoundQuery, alias: str, windows: UnionType | type) -> bool:
    """Whether a bucket of a reference's event time ends: no row to come meets a row of it. In a join, the reference
    needs one of these windows for that."""
    return len(query.streams) == 1 or isinstance(query.reference(alias).window, windows)


def _is_promised(query: BoundQuery, scope: Scope, keys: Sequence[Expression]) -> bool:
    """Whether punctuations can close a grouping column: its stream declares them, or WHERE holds it equal to a column of
    a stream that does."""
    punctuated = {e.alias for e in scope.entries if isinstance(e.relation, Stream) and e.relation.is_punctuated}
    named = {column for key in keys for column in columns_of(key)}
    grows = True
    while grows:
        before = len(named)
        for part in query.where:
            if isinstance(part, Call) and part.function == "=":
                sides = [columns_of(side) for side in part.args]
                if any(side & named for side in sides):
                    named |= {column for side in sides for column in side}
        grows = len(named) > before
    return any(alias in punctuated for alias, _ in named)
