"""The output columns whose values decide the shard of a result: shards can announce only their finished values.

Answer   `deciding` gives the route from values of equal columns to shards; None: results with one value are in several.
         `finished_line` is the line of EXPLAIN for a query that puts out punctuations.
Limits   A column decides the shard if the keys of every axis that is cut can be computed from it alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from eddyline.model.expressions.expression import ColumnRef, columns_of
from eddyline.model.query import BoundQuery
from eddyline.plan.shards.axes import key_classes
from eddyline.plan.shards.routing import Route, Routing

#: (alias, column)
Columns = Collection[tuple[str, str]]


def deciding(routing: Routing, columns: Columns) -> Route | None:
    """The route of results with a value of these columns, which equal each other; its keys name one of the columns."""
    slices = []
    for axis in routing.axes:
        if axis.share > 1:
            read = {keys: [columns_of(key) for key in keys] for keys in axis.keys.values() if keys}
            known = next((keys for keys, of in read.items() if all(one and one <= {*columns} for one in of)), None)
            if known is None:
                return None
            slices.append((axis.share, known))
    return Route("", tuple(slices), routing.first, routing.shards)


def _is_time(column: ColumnRef, query: BoundQuery, times: Mapping[str, str]) -> bool:
    return times.get(query.reference(str(column.ref)).source) == column.column


def finished_line(query: BoundQuery, routing: Routing, times: Mapping[str, str]) -> str:
    """The line of EXPLAIN on the values whose end shards announce; empty: the query puts out no punctuations.

    Args:
        query: The query.
        routing: Its routing.
        times: stream -> its event-time column, whose progress punctuations of `_ts` announce.
    """
    if not query.announces:
        return ""
    if query.is_aggregate:
        return "  punctuations: each shard announces the groups that it closes"
    announced: list[str] = []
    others: list[str] = []
    for output in query.outputs:
        if isinstance(output.expression, ColumnRef) and not _is_time(output.expression, query, times):
            equal = next((keys for keys in key_classes(query.where) if output.expression in keys), [output.expression])
            columns = {(str(key.ref), key.column) for key in equal if isinstance(key, ColumnRef)}
            (others if deciding(routing, columns) is None else announced).append(output.name)
    parts = [f"of {', '.join(announced)}"] if announced else []
    parts += [f"not of {', '.join(others)}: results with one value of it are in several shards"] if others else []
    return f"  punctuations: {'; '.join(parts)}" if parts else ""
