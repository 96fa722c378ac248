"""The axes of a query's grid of shards: which keys place the rows of each reference.

Answer   `axes_of` gives the axes of a query without their shares. A join has an axis per class of keys that it holds
         equal, an outer join that of the keys which all its references have; an aggregate whose groups stay whole has
         those axes that its groups determine; a pattern has its partition; a stream of requests has the axes of its
         template.
Limits   How many slices an axis has is chosen in `share_choice.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eddyline.model.expressions.expression import Call, Expression, columns_of, refs_of, rename_refs
from eddyline.model.query import BoundQuery
from eddyline.model.template import BoundRequests, BoundTemplate
from eddyline.model.window import PartitionedRows, Rows


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of the grid: per reference the keys that place its rows, and the number of slices.

    An alias with no keys is placed by row number; an alias that is missing goes to every slice.
    """

    keys: Mapping[str, tuple[Expression, ...]]
    share: int = 1

    def __str__(self) -> str:
        names = [" + ".join(map(str, keys)) if keys else f"row of {alias}" for alias, keys in self.keys.items()]
        return f"{{{', '.join(names)}}}"


def axes_of(query: BoundQuery, aliases: tuple[str, ...], merged: bool) -> tuple[Axis, ...]:
    """The axes over these references; `merged` says that shards may keep parts of groups."""
    if query.pattern is not None:
        return (Axis({aliases[0]: query.pattern.keys}),) if query.pattern.keys else ()
    if isinstance(query, BoundTemplate) and any(isinstance(r.window, Rows) for r in query.references):
        # How many rows there are up to an instant is known where all of them are stored.
        return ()
    if isinstance(query, BoundRequests):
        return _request_axes(query)
    # In an order that neither aliases nor the order of conditions change: queries that join alike are routed alike.
    streams = {r.alias: r.source for r in query.references}
    classes = sorted(
        (sorted(keys, key=lambda k: _canonical(k, streams)) for keys in key_classes(query.where)),
        key=lambda keys: [_canonical(key, streams) for key in keys],
    )
    placed = query.is_aggregate or query.ranking is not None or bool(query.followed)
    axes = _group_axes(query, classes, aliases) if placed and not merged else _join_axes(classes, aliases)
    axes = _whole_partitions(query, axes)
    if query.keeping is not None:
        # A row has no partner only where all partners that it could have are: each shard has all rows of a key, or all
        # rows.
        axes = [axis for axis in axes if len(axis.keys) == len(aliases) and all(axis.keys.values())]
    # Keys held equal over the same references make one composite axis; an axis over fewer of the same references than
    # another can only send more rows for the same number of cells.
    composite: dict[frozenset[str], Axis] = {}
    for axis in axes:
        over = frozenset(axis.keys)
        old = composite.get(over)
        composite[over] = (
            axis if old is None else Axis({alias: old.keys[alias] + axis.keys[alias] for alias in old.keys})
        )
    return tuple(axis for over, axis in composite.items() if not any(over < other for other in composite))


def _whole_partitions(query: BoundQuery, axes: list[Axis]) -> list[Axis]:
    """The axes that leave the rows of a partition together: a reference with such a window is cut by its partition, or
    not at all."""
    partitions = {r.alias: set(r.window.columns) for r in query.references if isinstance(r.window, PartitionedRows)}
    if not partitions:
        return axes
    cut = [
        replace(
            axis,
            keys={
                alias: keys
                for alias, keys in axis.keys.items()
                if alias not in partitions or _within(keys, partitions[alias])
            },
        )
        for axis in axes
    ]
    return [axis for axis in cut if axis.keys]


def _within(keys: tuple[Expression, ...], columns: set[str]) -> bool:
    """Whether there are keys, and they read these columns alone."""
    return bool(keys) and all(name in columns for key in keys for _, name in columns_of(key))


def _request_axes(query: BoundRequests) -> tuple[Axis, ...]:
    """The axes of the template: its rows are placed as for the template itself, and requests go to every slice."""
    assert query.request_stream is not None
    template = query.request_stream.template.as_query
    alias, rows = template.references[0].alias, query.references[1].alias
    axes = axes_of(template, (alias,), merged=False)
    return tuple(
        Axis({rows: tuple(rename_refs(key, {alias: rows}) for key in axis.keys[alias])}, axis.share) for axis in axes
    )


def _canonical(key: Expression, streams: Mapping[str, str]) -> str:
    return str(rename_refs(key, dict(streams)))


def _join_axes(classes: list[list[Expression]], aliases: tuple[str, ...]) -> list[Axis]:
    axes = [axis for keys in classes if len((axis := _axis(keys, aliases)).keys) > 1]
    placed = {alias for axis in axes for alias in axis.keys}
    return axes + [Axis({alias: ()}) for alias in aliases if alias not in placed]


def _group_axes(query: BoundQuery, classes: list[list[Expression]], aliases: tuple[str, ...]) -> list[Axis]:
    """Axes whose slice is a function of the group: a grouping key, with whatever the query holds equal to it."""
    axes = []
    for key in placing_keys(query):
        if len(refs_of(key)) == 1:
            axis = _axis(next((c for c in classes if key in c), [key]), aliases)
            if axis.keys and axis not in axes:
                axes.append(axis)
    return axes


def placing_keys(query: BoundQuery) -> tuple[Expression, ...]:
    """The keys of which each group, or each partition, has one value: rows that they tell apart need not meet."""
    keys = tuple(o.expression for o in query.outputs) if query.distinct else query.group_by
    if (window := query.group_window) is not None and window.kind != "tumble":
        # A row is in several windows, or the rows around it decide: no shard is where its window is.
        keys = tuple(key for at, key in enumerate(keys) if at not in (window.start, window.end))
    if query.ranking is not None:
        # All rows of a partition are ranked in one shard.
        partition = query.ranking.partition
        keys = tuple(key for key in keys if key in partition) if query.is_aggregate else partition
    if query.followed:
        first, *others = [followed.partition for followed in query.followed]
        keys = tuple(key for key in first if all(key in other for other in others))
    return keys


def _axis(keys: Sequence[Expression], aliases: tuple[str, ...]) -> Axis:
    """One key per alias: a row whose keys of one class differ is in no combination, so any of them will do."""
    found: dict[str, tuple[Expression, ...]] = {}
    for alias in aliases:
        of_alias = [key for key in keys if refs_of(key) == {alias}]
        if of_alias:
            found[alias] = (of_alias[0],)
    return Axis(found)


def key_classes(where: Sequence[Expression]) -> list[list[Expression]]:
    """The connected components of the equalities, in the order of their first appearance."""
    classes: list[list[Expression]] = []
    for part in where:
        if not (isinstance(part, Call) and part.function == "=" and all(len(refs_of(side)) == 1 for side in part.args)):
            continue
        touched = [c for c in classes if any(side in c for side in part.args)]
        whole = list(dict.fromkeys([key for c in touched for key in c] + list(part.args)))
        classes = [c for c in classes if c not in touched]
        classes.append(whole)
    return classes
