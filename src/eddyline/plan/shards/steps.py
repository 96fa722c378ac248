"""Queries over queries in several stateful steps: where no key goes through a chain, derived rows are placed anew for
the next step.

Answer   `in_steps` gives the routings of such a chain. A query that reads no derived stream is in step 0. A query that
         reads one is one step after the queries that make it. Each is cut like a query over streams from outside:

             CREATE STREAM j AS SELECT a.k, b.v … WHERE a.k = b.k     step 0: a by a.k, b by b.k
             SELECT v, count(*) FROM j GROUP BY v                     step 1: j by j.v

         A query each of whose results comes of one row, or whose groups are merged from parts at the end, stays in the
         step and the shards that make its rows. `steps_again` gives the routing of a checkpoint.
Limits   Rows that several shards make have no common numbers. A query that counts all rows of a derived stream, reads
         their numbers, or needs an order that only numbers give, raises `Misfit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from eddyline.model.expressions.arranged import IN_ORDER
from eddyline.model.expressions.expression import Aggregate, ColumnRef, walk
from eddyline.model.query import BoundQuery
from eddyline.model.schema import CHANGE, ROW
from eddyline.model.window import Now, PartitionedRows
from eddyline.plan.shards.axes import Axis, axes_of
from eddyline.plan.shards.chain_keys import Misfit, is_bucket, refuse_whole
from eddyline.plan.shards.chain_parts import parts_of
from eddyline.plan.shards.routing import Record, Routing
from eddyline.plan.shards.share_choice import choose_shares, chosen_axes, recorded_axes, whole_because, with_shares

Rates = Mapping[str, float]

#: Why a query is in several steps, as EXPLAIN shows it, where a checkpoint says that it is.
_RECORDED = "they were"


def in_steps(
    queries: Sequence[BoundQuery],
    others: Mapping[str, Routing],
    tied: Sequence[BoundQuery],
    rates: Rates,
    shards: int,
    most: int | None,
    why: Misfit,
) -> dict[str, Routing]:
    """The routings of the queries of a chain, over several steps.

    Args:
        queries: Those that have none yet, in the order of the catalog.
        others: The routings of those that run already and make some of the streams.
        tied: The queries with these routings.
        rates: stream -> rows per second.
        shards: Of one step.
        most: How many steps there are; None: as many as are needed.
        why: Why no key goes through all of them.

    Raises:
        Misfit: they cannot be in several steps, or all of them would be in one shard of their step.
    """
    parts = [part for query in queries for part in parts_of(query)]
    if not any(reference.derived for part in parts for reference in part.streams):
        # A stream that is made in one shard can be read by every later query.
        raise why
    makers = _makers([*(part for query in tied for part in parts_of(query)), *parts])
    # Of the queries that run and those behind their subqueries, by their names.
    routings = {
        part.name: others[query.name].parts.get(part.name, others[query.name])
        for query in tied
        for part in parts_of(query)
    }
    made: dict[str, set[int]] = {
        name: {routings[maker.name].step for maker in of if maker.name in routings} for name, of in makers.items()
    }
    for part in parts:
        _check(part, makers, routings)
        routing = routings[part.name] = _routed(part, made, rates, shards, str(why))
        if most is not None and routing.step >= most:
            raise Misfit(f"{why}, and the job has {most} step{'s' if most > 1 else ''}")
        if part.feeds is not None:
            made[part.feeds.name].add(routing.step)
    if not tied and not any(_is_cut(routings[part.name]) and not _is_row_wise(part) for part in parts):
        raise why
    return {
        query.name: replace(routings[query.name], parts={m.name: routings[m.name] for m in query.makers})
        for query in queries
    }


def steps_again(query: BoundQuery, record: Record, rates: Rates, shards: int) -> Routing:
    """The routing that a record gives a query of a chain in several steps."""
    found = {}
    for part in parts_of(query):
        step, *cut = record.steps[part.name]
        merged = part is query and record.merged
        if not cut:
            found[part.name] = _local(part, step, shards, merged)
            continue
        references = _references(part, rates)
        first, *shares = cut
        axes = recorded_axes(part, tuple(references), merged, shares, shards)
        found[part.name] = Routing(part.name, references, axes, shards, first, merged, stepped=_RECORDED, step=step)
    return replace(found[query.name], parts={maker.name: found[maker.name] for maker in query.makers})


def _routed(part: BoundQuery, made: Mapping[str, set[int]], rates: Rates, shards: int, why: str) -> Routing:
    below = set[int]().union(*(made[r.source] for r in part.streams if r.derived))
    is_merged = part.feeds is None and part.is_aggregate and not whole_because(part)
    if len(below) == 1 and (_is_row_wise(part) or (is_merged and len(part.streams) == 1)):
        return replace(_local(part, min(below), shards, is_merged), stepped=why)
    references = _references(part, rates)
    of_alias = {alias: rate for alias, (_, rate) in references.items()}
    axes, merged, whole = chosen_axes(part, of_alias, shards)
    if merged and part.feeds is not None:
        # Its groups are rows of the next step, where no parts are merged.
        axes, merged = axes_of(part, tuple(of_alias), False), False
        axes = with_shares(axes, choose_shares(axes, of_alias, shards))
    return Routing(part.name, references, axes, shards, 0, merged, whole, stepped=why, step=1 + max(below, default=-1))


def _is_cut(routing: Routing) -> bool:
    """Whether rows of one instant are in several shards: those of one bucket of time are not."""
    cut = [key for axis in routing.axes if axis.share > 1 for keys in axis.keys.values() for key in keys]
    return routing.cells > 1 and not (cut and all(map(is_bucket, cut)))


def _local(part: BoundQuery, step: int, shards: int, merged: bool) -> Routing:
    """The routing of a query that stays where the rows of its one stream are made."""
    return Routing(part.name, {}, (Axis({}, shards),), shards, 0, merged, stepped=_RECORDED, step=step)


def _references(part: BoundQuery, rates: Rates) -> dict[str, tuple[str, float]]:
    return {r.alias: (r.source, float(rates.get(r.source, 1.0))) for r in part.streams}


def _makers(parts: Iterable[BoundQuery]) -> dict[str, list[BoundQuery]]:
    found: dict[str, list[BoundQuery]] = {}
    for part in parts:
        if part.feeds is not None:
            found.setdefault(part.feeds.name, []).append(part)
    return found


# -- what cannot be in several steps


def _check(part: BoundQuery, makers: Mapping[str, list[BoundQuery]], routings: Mapping[str, Routing]) -> None:
    refuse_whole(part, "knows rows by their numbers" if part.living is not None or _names_rows(part) else "")
    for reference in part.streams:
        if (
            reference.derived
            and _needs_order(part, reference.source)
            and not _has_order(makers[reference.source], routings)
        ):
            raise Misfit(f"{part.name} needs the order of rows of {reference.source} with equal times")


def _names_rows(part: BoundQuery) -> bool:
    columns = [] if part.feeds is None else [column.name for column in part.feeds.schema.columns]
    above = (*part.where, *(o.expression for o in part.outputs))
    columns += [e.column for expression in above for e in walk(expression) if isinstance(e, ColumnRef)]
    return any(name in (ROW, CHANGE) or name.endswith(f".{ROW}") for name in columns)


def _is_row_wise(part: BoundQuery) -> bool:
    """Whether each result comes of one row of the one stream."""
    return len(part.streams) == 1 and not part.has_groups and part.pattern is None


def _needs_order(part: BoundQuery, source: str) -> bool:
    """Whether the results depend on the order of rows of a derived stream that have the same time."""
    if part.pattern is not None or part.ranking is not None or part.followed:
        return True
    if any(isinstance(x, Aggregate) and x.function in IN_ORDER for e in part.computed for x in walk(e)):
        return True
    mine = [r for r in part.streams if r.source == source]
    if any(isinstance(r.window, PartitionedRows) for r in mine):
        return True
    # Of two rows of this stream with equal times, the newer one has the older in its window.
    return len(mine) > 1 and any(isinstance(r.window, Now) for r in mine)


def _has_order(makers: Sequence[BoundQuery], routings: Mapping[str, Routing]) -> bool:
    """Whether rows of equal times have an order that all shards know: that of a column, or of the newest rows of the
    combinations that they were made of."""
    maker, stream = makers[0], makers[0].feeds
    if stream is not None and stream.sequence is not None:
        return True
    is_join = not maker.has_groups and maker.pattern is None and maker.keeping is None
    if len(makers) > 1 or not is_join or any(r.derived for r in maker.streams):
        return False
    # Combinations with one newest row are in one shard.
    return all(route.replication == 1 for route in routings[maker.name].routes.values())
