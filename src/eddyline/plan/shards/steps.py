"""Queries over queries in several stateful steps: where no key goes through a chain, derived rows are placed anew for
the next step.

Answer   `in_steps` gives the routings of such a chain. A query that reads streams from outside alone is in step 0; one
         that reads a derived stream is one step after the queries that make it, and is cut like a query over streams
         from outside:

             CREATE STREAM j AS SELECT a.k, b.v … WHERE a.k = b.k     step 0: a by a.k, b by b.k
             SELECT v, count(*) FROM j GROUP BY v                     step 1: j by j.v

         A query that takes each row for itself, or keeps parts of groups that are merged at the end, stays in the step
         and the shards that make its rows. `steps_again` gives the routing that a checkpoint remembers.
Limits   Rows that several shards make have no common number: what counts all rows of a derived stream, names its rows,
         or needs an order that only a number gives, raises `Misfit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from eddyline.errors import PlanProblem
from eddyline.model.expressions.arranged import IN_ORDER
from eddyline.model.expressions.expression import Aggregate, ColumnRef, walk
from eddyline.model.query import BoundQuery
from eddyline.model.schema import CHANGE, ROW
from eddyline.model.window import Now, PartitionedRows
from eddyline.plan.shards.axes import Axis, axes_of
from eddyline.plan.shards.chain_keys import Misfit, is_bucket, refuse_whole
from eddyline.plan.shards.chains import parts_of
from eddyline.plan.shards.routing import Record, Routing
from eddyline.plan.shards.share_choice import choose_shares, chosen_axes, whole_because, with_shares

Rates = Mapping[str, float]


def in_steps(
    queries: Sequence[BoundQuery],
    others: Mapping[str, Routing],
    tied: Sequence[BoundQuery],
    rates: Rates,
    shards: int,
    most: int | None,
    why: Misfit,
) -> dict[str, Routing]:
    """The routings of queries that derived streams tie together, over several steps.

    Args:
        queries: Those that have none yet, in the order of the catalog.
        others: The routings of those that run already and make some of the streams.
        tied: These queries.
        rates: stream -> rows per second.
        shards: Of one step.
        most: How many steps there are; None: as many as are needed.
        why: Why one key does not go through all of them.

    Raises:
        Misfit: they cannot be in several steps, or nothing is won by it.
    """
    parts = [part for query in queries for part in parts_of(query)]
    if not any(reference.derived for part in parts for reference in part.streams):
        # What is made in one shard suits every query that comes later.
        raise why
    makers = _makers([*(part for query in tied for part in parts_of(query)), *parts])
    # Of those that run: each query under its own name, also where it stands behind a subquery.
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
    """The routing that a record has of a query of a chain in several steps."""
    found = {}
    for part in parts_of(query):
        step, *cut = record.steps[part.name]
        merged = part is query and record.merged
        if not cut:
            found[part.name] = _local(part, step, shards, merged)
            continue
        references = _references(part, rates)
        axes, (first, *shares) = axes_of(part, tuple(references), merged), cut
        if len(axes) != len(shares):
            raise PlanProblem(
                f"the routing of query {part.name} does not fit its record",
                detail=f"{len(axes)} attributes over {shards} shards, recorded shares {shares}",
                hint="start with the number of shards and the query text of the checkpoint",
            )
        found[part.name] = Routing(
            part.name, references, with_shares(axes, shares), shards, first, merged, stepped="they were", step=step
        )
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
    return Routing(part.name, {}, (Axis({}, shards),), shards, 0, merged, stepped="they were", step=step)


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
    """Whether each row of the one stream is a matter of its own."""
    return len(part.streams) == 1 and not (
        part.is_aggregate or part.ranking is not None or part.followed or part.pattern is not None
    )


def _needs_order(part: BoundQuery, source: str) -> bool:
    """Whether the results depend on the order of rows of a derived stream that have the same time."""
    if part.pattern is not None or part.ranking is not None or part.followed:
        return True
    above = [*(o.expression for o in part.outputs), *(() if part.having is None else (part.having,))]
    if any(isinstance(x, Aggregate) and x.function in IN_ORDER for e in above for x in walk(e)):
        return True
    mine = [r for r in part.streams if r.source == source]
    if any(isinstance(r.window, PartitionedRows) for r in mine):
        return True
    # The newer one of two rows is met; of one alone its stream's place decides.
    return len(mine) > 1 and any(isinstance(r.window, Now) for r in mine)


def _has_order(makers: Sequence[BoundQuery], routings: Mapping[str, Routing]) -> bool:
    """Whether rows of equal times have an order that all shards know: by a column, or by the newest rows of
    combinations of rows."""
    maker, stream = makers[0], makers[0].feeds
    if stream is not None and stream.sequence is not None:
        return True
    by_rows = (
        maker.is_aggregate
        or maker.pattern is not None
        or maker.ranking is not None
        or maker.keeping is not None
        or maker.followed
    )
    if len(makers) > 1 or by_rows or any(r.derived for r in maker.streams):
        return False
    # Combinations with one newest row are in one shard.
    return all(route.replication == 1 for route in routings[maker.name].routes.values())
