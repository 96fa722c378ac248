"""How rows find shards: one common key, or a hypercube of shares.

Answer   The shards are seen as a grid. Every axis of the grid belongs to a class of keys that a query holds equal, and
         has a share: the number of slices along it. The keys of a row give its slice on their axes; on the other axes
         the row goes to every slice. So the rows of one combination meet in exactly one cell. The shares are the
         integers that give a shard the fewest rows, given the rates of the streams.

             A.x = B.x AND B.y = C.y, six shards, x in 2 slices, y in 3

                        y=0   y=1   y=2
                 x=0  |  B  |  B  |  B  |  <- A rows of slice x=0 go to all three
                 x=1  |  B  |  B  |  B  |
                         ^ C rows of slice y=0 go to both

         One key common to all references is the grid with a single axis, and nothing is sent twice. A reference
         without any key (a filter, a cross product, an inequality) gets an axis of its own, cut by row number.
         An aggregate is cut along axes that its groups determine, so that each group is in one cell. If shards have fewer
         rows that way, and `whole_because` has no reason against it, the aggregate is cut like the join below it. Every
         cell then keeps a part of each group, and the parts are merged when its bucket closes.
         Queries over derived streams are cut by one key that goes through all of them (`chains.py`), or in several
         steps (`steps.py`), or they are whole in one shard.
         A template is cut by its whole grouping key, and its streams of requests go to every cell: each answers from
         its rows, and the parts are merged.
Limits   Expected loads, not skew: a key with one very frequent value still lands in one slice. Static tables are on
         every shard and have no axis.
Reading  Afrati and Ullman, Optimizing joins in a map-reduce environment, EDBT 2010.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from eddyline.errors import PlanProblem
from eddyline.model.expressions.expression import Expression, rename_refs
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.model.template import BoundRequests
from eddyline.plan.shards.axes import Axis
from eddyline.plan.shards.chain_keys import Misfit
from eddyline.plan.shards.chain_parts import parts_of
from eddyline.plan.shards.chains import PartKeys, PlacedKeys, chains_of, placed_again, placed_chain
from eddyline.plan.shards.routing import ROUTES_PER_STREAM, Keys, Record, Route, Routing, RoutingTable
from eddyline.plan.shards.share_choice import chosen_axes, recorded_axes, whole_because, with_shares
from eddyline.plan.shards.steps import in_steps, steps_again


def route(
    query: BoundQuery, rates: Mapping[str, float], shards: int, *, first: int = 0, record: Record | None = None
) -> Routing:
    """The routing of one query.

    Args:
        query: The bound query.
        rates: stream -> rows per second; streams that are missing count as 1.
        shards: The number of shards.
        first: The shard of the first cell.
        record: `RoutingTable.record` of a checkpoint; the shares are then taken, not chosen.
    """
    if query.is_composed:
        return _route_chain([query], rates, shards, {} if record is None else {query.name: record})[query.name]
    references = _references(query, rates)
    if record is None:
        axes, merged, whole = chosen_axes(query, {alias: rate for alias, (_, rate) in references.items()}, shards)
    else:
        merged, whole = record.merged, ""
        first, *shares = record.shares
        axes = recorded_axes(query, tuple(references), merged, shares, shards)
    is_requests = isinstance(query, BoundRequests)
    return Routing(query.name, references, axes, shards, first % shards, merged, whole, is_requests)


def _references(query: BoundQuery, rates: Mapping[str, float]) -> dict[str, tuple[str, float]]:
    """alias -> stream and its rate, for all references but those of derived streams. An alias of a query behind a
    subquery has the name of that query before it."""
    own = [(r.alias, r.source) for r in query.streams if not r.derived]
    own += [(f"{maker.name}.{r.alias}", r.source) for maker in query.makers for r in maker.streams if not r.derived]
    return {alias: (source, float(rates.get(source, 1.0))) for alias, source in own}


def _route_chain(
    queries: Sequence[BoundQuery],
    rates: Mapping[str, float],
    shards: int,
    records: Mapping[str, Record],
    most: int | None = None,
) -> dict[str, Routing]:
    """The routings of the queries of a chain: by one key through all of them, in several steps, or all in one shard."""
    placed = [(query, records[query.name]) for query in queries if query.name in records]
    spread = [query for query, record in placed if len(record.shares) > 1 and not record.steps]
    known = {name: keys for query in spread for name, keys in records[query.name].placed.items()}
    found: dict[str, Routing] = {}
    for query in spread:
        record = records[query.name]
        keys = placed_again(query, record.placed, record.merged, spread)
        found[query.name] = replace(_spread(query, keys, known, rates, shards), merged=record.merged)
    stepped = [query for query, record in placed if record.steps]
    found |= {query.name: steps_again(query, records[query.name], rates, shards) for query in stepped}
    coming = [query for query in queries if query.name not in records]
    whole = [query.name for query, _ in placed if query.name not in found]
    try:
        if whole and found:
            raise Misfit(f"{', '.join(whole)} and what it makes are in one shard, {', '.join(found)} in several")
        if whole or not coming or shards == 1:
            raise Misfit(f"{', '.join(whole)} is" if whole else "there is one")
        found |= _coming_chain(coming, [*spread, *stepped], found, known, rates, shards, most)
    except Misfit as misfit:
        rest = [query for query in queries if query.name not in found]
        found |= _in_one_shard(rest, bool(found), misfit, rates, shards)
    return found


def _coming_chain(
    coming: Sequence[BoundQuery],
    tied: Sequence[BoundQuery],
    routings: Mapping[str, Routing],
    known: Mapping[str, PlacedKeys],
    rates: Mapping[str, float],
    shards: int,
    most: int | None,
) -> dict[str, Routing]:
    """The routings of the new queries of a chain. `tied` are its other queries, `routings` are theirs, and `known` are
    the keys of their streams.

    Raises:
        Misfit: they can only be in one shard.
    """
    found = {}
    try:
        if any(routings[query.name].stepped for query in tied):
            raise Misfit(f"{', '.join(query.name for query in tied)} are")
        chain = placed_chain(coming, whole_because, known, tied)
    except Misfit as misfit:
        return in_steps(coming, routings, tied, rates, shards, most, misfit)
    for query in coming:
        routing = _spread(query, chain.keys, {**known, **chain.streams}, rates, shards)
        found[query.name] = replace(routing, merged=query.name in chain.merged)
    return found


def _in_one_shard(
    queries: Sequence[BoundQuery], is_tied: bool, why: Misfit, rates: Mapping[str, float], shards: int
) -> dict[str, Routing]:
    """Routings of queries that are in one shard with all their streams; `is_tied`: some of these streams are in several
    shards already, so that the queries are refused."""
    if queries and is_tied:
        raise PlanProblem(
            f"query {queries[-1].name} does not fit the shards of the job that runs",
            detail=str(why),
            hint="write the SELECT of the stream in parentheses in the place of its name, or start the job with this query in its file, "
            "with a new checkpoint",
        ) from why
    return {
        query.name: Routing(query.name, _references(query, rates), (), shards, 0, chain=str(why)) for query in queries
    }


def _spread(
    query: BoundQuery,
    keys: Mapping[str, PartKeys],
    placed: Mapping[str, PlacedKeys],
    rates: Mapping[str, float],
    shards: int,
) -> Routing:
    """The routing of a query over derived streams over all shards."""
    axis: dict[str, tuple[Expression, ...]] = {}
    touched: dict[str, PlacedKeys] = {}
    for part in parts_of(query):
        for alias, of_alias in keys[part.name].items():
            name = alias if part is query else f"{part.name}.{alias}"
            axis[name] = tuple(rename_refs(key, {alias: name}) for key in of_alias)
        named = [r.source for r in part.streams if r.derived] + ([] if part.feeds is None else [part.feeds.name])
        touched |= {name: placed[name] for name in named}
    return Routing(query.name, _references(query, rates), (Axis(axis, shards),), shards, 0, placed=touched)


def declared_rates(streams: Iterable[Stream]) -> dict[str, float]:
    """Rows per second, as WITH (rate = …) says; without it all streams count alike."""
    return {stream.name: float(stream.options.get("rate", 1.0)) for stream in streams}


def route_all(
    queries: Sequence[BoundQuery],
    streams: Sequence[str],
    rates: Mapping[str, float],
    shards: int,
    records: Mapping[str, Record] | None = None,
    books: Mapping[str, Sequence[Keys]] | None = None,
    steps: int | None = None,
) -> RoutingTable:
    """The routings of a job's queries; `steps` says how many stateful steps the job has, None: as many as are needed.

    A stream has a limited number of different routes. A query that needs one more is placed in one shard, and has the
    same route as every other query in that shard.
    """
    records = records or {}
    routings: dict[str, Routing] = {}
    taken: dict[str, dict[int, Route]] = {name: {} for name in streams}
    for stream, wanted in (books or {}).items():
        for number, keys in enumerate(wanted):
            # From the last bit downwards: a book keeps its bit whatever queries come and go.
            taken[stream][ROUTES_PER_STREAM - 1 - number] = book_route(stream, keys, shards)
    chains = [(chain, _route_chain(chain, rates, shards, records, steps)) for chain in chains_of(queries)]
    chained = {name: routing for _, found in chains for name, routing in found.items()}
    # Derived rows that go on to a further step have routes too.
    taken |= {
        one.stream: {} for routing in chained.values() for one in routing.routes.values() if one.stream not in taken
    }
    for query in queries:
        if query.name in records:
            record = records[query.name]
            routings[query.name] = chained.get(query.name) or route(query, rates, shards, record=record)
            for alias, one in routings[query.name].routes.items():
                taken[one.stream][record.bits[alias]] = one
    for chain, found in chains:
        coming = [query for query in chain if query.name not in records]
        fresh = {one for query in coming for one in found[query.name].routes.values()}
        if any(_is_full(taken[one.stream], one, max(len(coming), len(fresh))) for one in fresh):
            chained |= _in_one_shard(
                coming, len(coming) < len(chain), Misfit("too many queries read its streams"), rates, shards
            )
    # Chains first, while there are routes. Streams of requests last: they take the shares of their templates.
    for query in sorted(queries, key=lambda query: (isinstance(query, BoundRequests), query.name not in chained)):
        if query.name not in records:
            routing = chained.get(query.name) or route(query, rates, shards)
            if isinstance(query, BoundRequests) and query.request_stream is not None:
                routing = _as_template(routing, routings[query.request_stream.template.name])
            if any(_is_full(taken[one.stream], one) for one in routing.routes.values()):
                if routing.requests:
                    raise PlanProblem(
                        f"too many queries read {query.name}",
                        hint="requests are answered where they find a route of their own",
                    )
                routing = replace(routing, axes=tuple(replace(axis, share=1) for axis in routing.axes))
            for one in routing.routes.values():
                if one not in taken[one.stream].values():
                    bit = next(bit for bit in range(ROUTES_PER_STREAM) if bit not in taken[one.stream])
                    taken[one.stream][bit] = one
            routings[query.name] = routing
    return RoutingTable(
        {q.name: routings[q.name] for q in queries},
        {name: tuple(found.get(bit) for bit in range(max(found, default=-1) + 1)) for name, found in taken.items()},
    )


def _as_template(routing: Routing, template: Routing) -> Routing:
    """The routing of a stream of requests with the shares of its template, which may be in one shard."""
    axes = with_shares(routing.axes, [axis.share for axis in template.axes])
    return replace(routing, axes=axes, first=template.first, merged=template.cells > 1)


def book_route(stream: str, keys: Keys, shards: int) -> Route:
    """Where the rows of a book go: by the hash of its partition columns, all rows to one shard where it has none."""
    return Route(stream, ((shards, tuple(keys)),) if keys and shards > 1 else (), 0, shards)


def books_of(streams: Iterable[Stream]) -> dict[str, list[Keys]]:
    """stream -> the partition columns of its books with constraints, each once."""
    return {s.name: list(dict.fromkeys(found.keys for found in s.constraints)) for s in streams if s.constraints}


def _is_full(taken: Mapping[int, Route], wanted: Route, more: int = 1) -> bool:
    """Whether a stream has no bit for `more` further routes; one bit is left for queries in one shard."""
    return wanted not in taken.values() and len(taken) + more >= ROUTES_PER_STREAM
