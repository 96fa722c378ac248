"""Which output columns decide the shard of their results: only their finished values can be announced on shards.

Answer   `deciding` gives the way from values of equal columns to shards; None: results with one value are in several.
         `finished_line` is what EXPLAIN says of a query that puts out punctuations.
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
    """Where results with a value of these columns, which are equal to each other, are; keys name one of the columns."""
    slices = []
    for axis in routing.axes:
        if axis.share > 1:
            known = [
                keys for keys in axis.keys.values() if keys and all(_is_from(columns_of(key), columns) for key in keys)
            ]
            if not known:
                return None
            slices.append((axis.share, known[0]))
    return Route("", tuple(slices), routing.first, routing.shards)


def _is_from(read: Collection[tuple[object, str]], columns: Columns) -> bool:
    return bool(read) and all(column in columns for column in read)


def _is_time(column: ColumnRef, query: BoundQuery, times: Mapping[str, str]) -> bool:
    return times.get(query.reference(str(column.ref)).source) == column.column


def finished_line(query: BoundQuery, routing: Routing, times: Mapping[str, str]) -> str:
    """What EXPLAIN says of the values whose end shards announce; empty: the query puts out no punctuations.

    Args:
        times: stream -> its event-time column, whose end `_ts` says.
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
    said = [f"of {', '.join(announced)}"] if announced else []
    said += [f"not of {', '.join(others)}: results with one value of it are in several shards"] if others else []
    return f"  punctuations: {'; '.join(said)}" if said else ""
