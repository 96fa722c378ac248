"""The axes of a query's grid of shards: which keys place the rows of each reference.

Answer   `axes_of` gives the axes of a query without their shares. A join has an axis per class of keys that it holds
         equal, an outer join only axes over all its references. An aggregate whose groups stay whole has the axes of its
         grouping keys, a pattern that of its partition, a stream of requests those of its template.
Limits   `share_choice.py` chooses into how many slices an axis is cut.
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
        # The last n rows are known only in a shard that stores all rows.
        return ()
    if isinstance(query, BoundRequests):
        return _request_axes(query)
    # In an order that neither aliases nor the order of conditions change: queries that join alike are routed alike.
    streams = {r.alias: r.source for r in query.references}
    classes = sorted(
        (sorted(keys, key=lambda k: _canonical(k, streams)) for keys in key_classes(query.where)),
        key=lambda keys: [_canonical(key, streams) for key in keys],
    )
    in_groups = query.has_groups and not merged
    axes = _group_axes(query, classes, aliases) if in_groups else _join_axes(classes, aliases)
    axes = _whole_partitions(query, axes)
    if query.keeping is not None:
        # A shard can say that a row has no partner only if it has all rows with the key of the row.
        axes = [axis for axis in axes if len(axis.keys) == len(aliases) and all(axis.keys.values())]
    # Axes over the same references become one with several keys. An axis over a part of another's references is left
    # out: for the same number of cells it sends more rows.
    composite: dict[frozenset[str], Axis] = {}
    for axis in axes:
        old = composite.setdefault(frozenset(axis.keys), axis)
        if old is not axis:
            composite[frozenset(axis.keys)] = Axis({alias: old.keys[alias] + axis.keys[alias] for alias in old.keys})
    return tuple(axis for over, axis in composite.items() if not any(over < other for other in composite))


def _whole_partitions(query: BoundQuery, axes: list[Axis]) -> list[Axis]:
    """The axes that keep the rows of a partition in one slice: a reference with a window per partition stays only on
    axes whose keys read the columns of its partition alone."""
    partitions = {r.alias: set(r.window.columns) for r in query.references if isinstance(r.window, PartitionedRows)}
    for alias, columns in partitions.items():
        for at, axis in enumerate(axes):
            keys = axis.keys.get(alias, ())
            if not keys or any(name not in columns for key in keys for _, name in columns_of(key)):
                axes[at] = replace(axis, keys={other: of for other, of in axis.keys.items() if other != alias})
    return [axis for axis in axes if axis.keys] if partitions else axes


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
    """The keys that have one value in each group or partition: rows with different values need not meet."""
    keys = tuple(o.expression for o in query.outputs) if query.distinct else query.group_by
    if (window := query.group_window) is not None and window.kind != "tumble":
        # A row may be in several windows, or other rows decide in which: windows do not place rows.
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
    """One key per alias, the first of the class: a row whose keys of one class differ is in no combination."""
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
