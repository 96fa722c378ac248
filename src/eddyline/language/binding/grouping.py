"""What an aggregate query must keep to.

Answer   Outputs and HAVING are made of grouping expressions, aggregates and constants; every grouping expression is
         selected, so that a changelog row names its group; EMIT ON CLOSE has a time bucket to close.
Limits   Two expressions are the same when they are written the same after binding; no algebra is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eddyline.errors import BindingProblem, Position
from eddyline.language.binding.scope import Scope
from eddyline.language.syntax import Item, Select
from eddyline.model.expressions.expression import Aggregate, Call, ColumnRef, Expression, columns_of, has_aggregate
from eddyline.model.expressions.monotone import trend_of
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.model.window import Now, Range


def check_groups(
    query: BoundQuery, select: Select, items: Sequence[Item], places: Mapping[Expression, Position | None]
) -> None:
    for group in query.group_by:
        if has_aggregate(group):
            raise BindingProblem(
                f"GROUP BY {group} is an aggregate", hint="group by columns and expressions", position=places[group]
            )
    for output, item in zip(query.outputs, items, strict=True):
        check_grouped(output.expression, query.group_by, item.position)
    if select.having is not None and query.having is not None:
        check_grouped(query.having, query.group_by, select.having.position)
    selected = {o.expression for o in query.outputs}
    for group in query.group_by:
        # The beginning of a session is a grouping expression, selected or not; its last row identifies the session as
        # well.
        is_session = (
            query.group_window is not None and query.group_window.kind == "session" and group == query.group_by[0]
        )
        if group not in selected and not is_session:
            raise BindingProblem(
                f"grouping expression {group} is not selected",
                detail="a row of the changelog has to say which group it is about",
                hint=f"add {group} to SELECT",
                position=places[group],
            )


def check_grouped(e: Expression, groups: tuple[Expression, ...], position: Position | None) -> None:
    """Refuses a column that is neither grouped nor aggregated."""
    if e in groups or isinstance(e, Aggregate):
        return
    if isinstance(e, ColumnRef):
        raise BindingProblem(
            f"column {e} is neither grouped nor aggregated",
            detail=f"grouped by {', '.join(map(str, groups))}" if groups else "there is no GROUP BY",
            hint=f"add {e} to GROUP BY, or aggregate it: max({e})",
            position=position,
        )
    for arg in e.args if isinstance(e, Call) else ():
        check_grouped(arg, groups, position)


def check_close(query: BoundQuery, scope: Scope, select: Select) -> bool:
    """EMIT ON CLOSE needs a grouping expression that is a bucket of some stream's event time, and that closes; or
    grouping columns that
    punctuations close. Returns whether groups end by punctuations."""
    keys = query.group_by if query.group_by else tuple(o.expression for o in query.outputs) if query.distinct else ()
    buckets = [
        (key, str(trend.column.ref))
        for key in keys
        if (trend := trend_of(key)) is not None and scope.is_event_time(trend.column)
    ]
    closes = any(_closes(query, alias) for _, alias in buckets)
    if query.group_window is None and not closes and _is_promised(query, scope, keys):
        return True
    if not buckets:
        times = [f"{e.alias}.{e.relation.called_time}" for e in scope.entries if not e.reference.is_table]  # type: ignore[union-attr]
        raise BindingProblem(
            "EMIT ON CLOSE needs a time bucket among the grouping expressions",
            detail="a group is complete when its bucket of the event time has passed, or when punctuations close its columns",
            hint=f"for example GROUP BY date_trunc('minute', {times[0]}), or epoch_us({times[0]}) // 300000000 for five minutes",
            position=select.emit_position,
        )
    windows = {reference.alias: reference.window for reference in query.streams}
    if not closes:
        key, alias = buckets[0]
        raise BindingProblem(
            f"the bucket {key} never closes",
            detail=f"{alias} is [{windows[alias]}] in a join: a row to come can meet a row of {alias} of any age",
            hint=f"give {alias} a window such as [RANGE 10 MINUTES], or group by a bucket of a reference that has one",
            position=select.emit_position,
        )
    return False


def _closes(query: BoundQuery, alias: str) -> bool:
    """Whether a bucket of a reference is over some time."""
    return len(query.streams) == 1 or isinstance(query.reference(alias).window, Range | Now)


def _is_promised(query: BoundQuery, scope: Scope, keys: Sequence[Expression]) -> bool:
    """Whether punctuations can close a grouping column: one of a stream that declares them, or one that is equal to
    such a column."""
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
