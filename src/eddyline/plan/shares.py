"""How rows find shards: one common key, or a hypercube of shares.

Answer   The shards are seen as a grid. Every axis of the grid belongs to a class of keys that a query holds equal, and
         has a share: the number of slices along it. A row of a reference knows its slice on the axes that its keys
         stand on and goes to every slice of the others, so the rows of one combination meet in exactly one cell. The
         shares are the integers that give a shard the fewest rows, given the rates of the streams.

             A.x = B.x AND B.y = C.y, six shards, x in 2 slices, y in 3

                        y=0   y=1   y=2
                 x=0  |  B  |  B  |  B  |  <- A rows of slice x=0 go to all three
                 x=1  |  B  |  B  |  B  |
                         ^ C rows of slice y=0 go to both

         One key common to all references is the grid with a single axis, and nothing is sent twice. A reference
         without any key (a filter, a cross product, an inequality) gets an axis of its own, cut by row number.
         An aggregate is cut along axes that its groups determine, so that each group lives in one cell; or, where that
         leaves a shard fewer rows and `whole_because` knows no reason against it, like the join below it: every cell
         then keeps a part of each group, and the parts are merged when its bucket closes.
         Queries over derived streams are cut by one key that goes through all of them (`chains.py`), or they are whole in one shard.
         A template is cut by its whole grouping key, and its streams of requests go to every cell: each answers from its rows,
         and the parts are merged.
Limits   Expected loads, not skew: a key with one very frequent value still lands in one slice. Static tables are on
         every shard and have no axis.
Reading  Afrati and Ullman, Optimizing joins in a map-reduce environment, EDBT 2010.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eddyline.errors import PlanProblem
from eddyline.model.arranged import IN_ORDER
from eddyline.model.expression import Aggregate, Call, ColumnRef, Expression, rename_refs, walk
from eddyline.model.monotone import trend_of
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.model.template import BoundRequests, BoundTemplate
from eddyline.plan.axes import Axis, axes_of
from eddyline.plan.chain_keys import Misfit
from eddyline.plan.chains import PartKeys, Placed, chains_of, parts_of, placed_again, placed_chain
from eddyline.plan.share_choice import choose_shares, load

Keys = tuple[ColumnRef, ...]
Hashes = npt.NDArray[np.int64]
Shards = npt.NDArray[np.int64]

#: A row's routes travel as the bits of one uint64. The last bit says which shard keeps the books for the row.
HOME_BIT = 63
ROUTES_PER_STREAM = HOME_BIT


@dataclass(frozen=True, slots=True)
class Route:
    """Where the rows of one reference go; equal routes of different queries are one.

    `slices` has per axis the share and the keys, or None where the row goes to every slice. Keys name the stream, not the
    alias: queries that call it differently have the same route.
    """

    stream: str
    slices: tuple[tuple[int, tuple[Expression, ...] | None], ...]
    first: int
    shards: int

    @property
    def replication(self) -> int:
        """To how many shards each row goes."""
        return math.prod(share for share, keys in self.slices if keys is None)

    @property
    def keys(self) -> tuple[tuple[Expression, ...], ...]:
        """Per axis that places rows by value, its keys: what `shards_of` wants hashes of."""
        return tuple(keys for _, keys in self.slices if keys)

    def shards_of(self, hashes: Sequence[Sequence[Hashes]], first_row: int, count: int) -> Shards:
        """The shards of each of `count` rows: shape (count, replication), all different within a row.

        Args:
            hashes: For each entry of `keys`, one column of 64-bit hashes per key.
            first_row: The number of the first row in its source; places rows that no key places.
            count: The number of rows.
        """
        place = np.zeros(count, dtype=np.int64)
        copies = np.zeros(1, dtype=np.int64)
        keyed = iter(hashes)
        stride = 1
        for share, keys in self.slices:
            if keys is None:
                copies = (copies[:, None] + stride * np.arange(share)).ravel()
            elif keys:
                place += stride * _slices(next(keyed), share)
            else:
                place += stride * (np.arange(first_row, first_row + count) % share)
            stride *= share
        return (place[:, None] + copies[None, :] + self.first) % self.shards


@dataclass(frozen=True, slots=True)
class Record:
    """What a checkpoint keeps of a query's routing: rows already stored were placed and marked by it."""

    shares: Sequence[int]
    bits: Mapping[str, int]
    merged: bool = False
    #: Of a query over derived streams that is spread: the keys of these streams.
    placed: Mapping[str, Placed] = field(default_factory=dict)


@dataclass(frozen=True)
class Routing:
    """The grid of one query over the shards."""

    query: str
    #: alias -> (stream, rows per second)
    references: Mapping[str, tuple[str, float]]
    axes: tuple[Axis, ...]
    shards: int
    #: The shard of cell 0; spreads queries with few cells.
    first: int = 0
    #: Of an aggregate: cells keep parts of groups, which are merged where the results of all shards come together.
    merged: bool = False
    #: Why they do not, where they could have fewer rows.
    whole: str = ""
    #: The query is a stream of requests.
    requests: bool = False
    #: Of a query over derived streams: the keys of these streams, or why all of it is in one shard.
    placed: Mapping[str, Placed] = field(default_factory=dict)
    chain: str = ""

    @property
    def cells(self) -> int:
        return math.prod(axis.share for axis in self.axes)

    @cached_property
    def routes(self) -> dict[str, Route]:
        """alias -> where its rows go."""
        # Axes of one slice place nothing: without them queries with the same placement have equal routes.
        cut = [axis for axis in self.axes if axis.share > 1]
        return {
            alias: Route(stream, tuple((axis.share, _plain(axis.keys.get(alias), alias, stream)) for axis in cut), self.first, self.shards)
            for alias, (stream, _) in self.references.items()
        }

    @property
    def rows_per_shard(self) -> float:
        """Expected rows per second that one used shard receives."""
        return load(self.axes, {alias: rate for alias, (_, rate) in self.references.items()})

    def uses(self, shard: int) -> bool:
        """Whether a shard is one of the cells. The others hold nothing of the query and stay silent about it."""
        return (shard - self.first) % self.shards < self.cells

    def record(self) -> list[int]:
        """The first shard and the share of every axis."""
        return [self.first, *(axis.share for axis in self.axes)]

    def explain(self) -> str:
        """The routing as EXPLAIN shows it."""
        used = [axis for axis in self.axes if axis.share > 1]
        lines = [f"shards: {self.cells} of {self.shards}" + (f", from {self.first}" if self.first else "")]
        lines += [f"  attribute {axis}  share {axis.share}" for axis in used]
        for alias, (stream, rate) in self.references.items():
            name = alias if alias == stream else f"{stream} {alias}"
            lines.append(f"  {name}: replication {self.routes[alias].replication}, {rate:g} rows/s")
        if self.requests:
            lines += ["  answers: each shard answers every request from its rows; the parts are merged"] if self.merged else []
        if self.placed and not self.chain:
            keys = [f"{name} by {', '.join(map(str, of.keys)) or 'any key'}" for name, of in self.placed.items()]
            lines.append(f"  chain: derived rows stay in the shards that make them, {'; '.join(keys)}")
        elif self.chain:
            lines.append(f"  chain: in one shard, as {self.chain}")
        if not self.requests and (self.merged or self.whole):
            merged = "each shard keeps a part of every group; the parts are merged when its bucket closes"
            lines.append(f"  groups: {merged if self.merged else f'each lives in one shard, {self.whole}'}")
        lines.append(f"  expected rows per shard: {self.rows_per_shard:g}/s")
        return "\n".join(lines)


def route(query: BoundQuery, rates: Mapping[str, float], shards: int, *, first: int = 0, record: Record | None = None) -> Routing:
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
    asks = isinstance(query, BoundRequests)
    if record is None:
        axes, merged, whole = _chosen_axes(query, {alias: rate for alias, (_, rate) in references.items()}, shards)
        return Routing(query.name, references, axes, shards, first % shards, merged, whole, asks)
    axes = axes_of(query, tuple(references), record.merged)
    first, shares = record.shares[0], tuple(record.shares[1:])
    if len(shares) != len(axes) or math.prod(shares) > shards:
        raise PlanProblem(
            f"the routing of query {query.name} does not fit its record",
            detail=f"{len(axes)} attributes over {shards} shards, recorded shares {list(shares)}",
            hint="start with the number of shards and the query text of the checkpoint",
        )
    return Routing(query.name, references, _with_shares(axes, shares), shards, first % shards, record.merged, requests=asks)


def _references(query: BoundQuery, rates: Mapping[str, float]) -> dict[str, tuple[str, float]]:
    """The references whose rows come from outside, those of subqueries under the names of their queries: alias -> stream and its rate."""
    own = [(r.alias, r.source) for r in query.streams if not r.derived]
    own += [(f"{maker.name}.{r.alias}", r.source) for maker in query.makers for r in maker.streams if not r.derived]
    return {alias: (source, float(rates.get(source, 1.0))) for alias, source in own}


def _route_chain(
    queries: Sequence[BoundQuery], rates: Mapping[str, float], shards: int, records: Mapping[str, Record]
) -> dict[str, Routing]:
    """The routings of queries that derived streams tie together: by one key through all of them, or all in one shard."""
    spread = {query.name: records[query.name].placed for query in queries if query.name in records and len(records[query.name].shares) > 1}
    known = {name: found for placed in spread.values() for name, found in placed.items()}
    standing = [query for query in queries if query.name in spread]
    found: dict[str, Routing] = {}
    for query in standing:
        merged = records[query.name].merged
        keys = placed_again(query, spread[query.name], merged, standing)
        found[query.name] = replace(_spread(query, keys, known, rates, shards), merged=merged)
    coming = [query for query in queries if query.name not in records]
    whole = [query.name for query in queries if query.name in records and query.name not in spread]
    try:
        if whole and spread:
            raise Misfit(f"{', '.join(whole)} and what it makes are in one shard, {', '.join(spread)} in several")
        if whole or not coming or shards == 1:
            raise Misfit(f"{', '.join(whole)} is" if whole else "there is one")
        chain = placed_chain(coming, whole_because, known, standing)
        for query in coming:
            routing = _spread(query, chain.keys, {**known, **chain.streams}, rates, shards)
            found[query.name] = replace(routing, merged=query.name in chain.merged)
    except Misfit as misfit:
        found |= _in_one_shard([query for query in queries if query.name not in found], bool(spread), misfit, rates, shards)
    return found


def _in_one_shard(queries: Sequence[BoundQuery], is_tied: bool, why: Misfit, rates: Mapping[str, float], shards: int) -> dict[str, Routing]:
    """Routings of queries over derived streams that are not spread; `is_tied` says that they read streams that are."""
    if queries and is_tied:
        raise PlanProblem(
            f"query {queries[-1].name} does not fit the shards of the job that runs",
            detail=str(why),
            hint="write the SELECT of the stream in parentheses in the place of its name, or start the job with this query in its file, "
            "with a new checkpoint",
        ) from why
    return {query.name: Routing(query.name, _references(query, rates), (), shards, 0, chain=str(why)) for query in queries}


def _spread(
    query: BoundQuery, keys: Mapping[str, PartKeys], placed: Mapping[str, Placed], rates: Mapping[str, float], shards: int
) -> Routing:
    """The routing of a query over derived streams over all shards."""
    axis: dict[str, tuple[Expression, ...]] = {}
    touched: dict[str, Placed] = {}
    for part in parts_of(query):
        for alias, of_alias in keys[part.name].items():
            name = alias if part is query else f"{part.name}.{alias}"
            axis[name] = tuple(rename_refs(key, {alias: name}) for key in of_alias)
        named = [r.source for r in part.streams if r.derived] + ([] if part.feeds is None else [part.feeds.name])
        touched |= {name: placed[name] for name in named}
    return Routing(query.name, _references(query, rates), (Axis(axis, shards),), shards, 0, placed=touched)


def _chosen_axes(query: BoundQuery, rates: Mapping[str, float], shards: int) -> tuple[tuple[Axis, ...], bool, str]:
    """The axes with their shares, whether groups are merged, and if not: why not, where that would leave a shard fewer rows."""

    def chosen(merged: bool) -> tuple[Axis, ...]:
        axes = axes_of(query, tuple(rates), merged)
        return _with_shares(axes, choose_shares(axes, rates, shards))

    axes = chosen(merged=False)
    if isinstance(query, BoundRequests):
        return axes, math.prod(axis.share for axis in axes) > 1, ""
    if not query.is_aggregate or isinstance(query, BoundTemplate):
        return axes, False, ""
    cut = chosen(merged=True)
    # Rows of one moment are in one bucket of time: cutting by it spreads nothing.
    spread = [axis for axis in axes if not all(_is_bucket(key) for keys in axis.keys.values() for key in keys)]
    if load(cut, rates) >= load(spread, rates) * (1 - 1e-9):
        return axes, False, ""
    whole = whole_because(query)
    return (axes, False, whole) if whole else (cut, True, "")


def whole_because(query: BoundQuery) -> str:
    """Why the groups of an aggregate cannot be kept in parts; empty: they can."""
    if query.emit.kind != "close":
        # A change is a difference from the result before it, and merged parts keep no earlier result.
        return "as only EMIT ON CLOSE merges them"
    if query.group_window is not None and query.group_window.kind == "session":
        return "as all rows of a group make its sessions"
    above = [*(o.expression for o in query.outputs), *(() if query.having is None else (query.having,))]
    above += [] if query.ranking is None else [o.expression for o in query.ranking.order]
    if any(isinstance(x, Aggregate) and x.function in IN_ORDER for e in above for x in walk(e)):
        return "as its values are put in the order of rows"
    if query.settings.propagate != "off":
        return "as the end of a group is announced where all its rows are"
    if query.by_promises:
        return "as punctuations close them where all their rows are"
    return ""


def _is_bucket(key: Expression) -> bool:
    return isinstance(key, Call) and trend_of(key) is not None


@dataclass(frozen=True)
class RoutingTable:
    """The routings of all queries of a job, with one bit per different route of a stream."""

    routings: Mapping[str, Routing]
    #: stream -> its different routes; the position is the bit. None: no reference uses the bit at the moment.
    routes: Mapping[str, tuple[Route | None, ...]]

    def bits(self, query: str) -> dict[str, int]:
        """alias -> the bit that is set where a row was sent for this reference."""
        found = self.routings[query].routes
        return {alias: self.routes[route.stream].index(route) for alias, route in found.items()}

    def record(self, query: str) -> Record:
        routing = self.routings[query]
        return Record(routing.record(), self.bits(query), routing.merged, routing.placed)


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
) -> RoutingTable:
    """The routings of a job's queries.

    A stream has room for a limited number of different routes. A query that would exceed it is placed whole on one
    shard: that is always right, and shares its route with every other query placed there.
    """
    records = records or {}
    routings: dict[str, Routing] = {}
    taken: dict[str, dict[int, Route]] = {name: {} for name in streams}
    for stream, wanted in (books or {}).items():
        for number, keys in enumerate(wanted):
            # From the last bit downwards: a book keeps its bit whatever queries come and go.
            taken[stream][ROUTES_PER_STREAM - 1 - number] = book_route(stream, keys, shards)
    chains = [(chain, _route_chain(chain, rates, shards, records)) for chain in chains_of(queries)]
    chained = {name: routing for _, found in chains for name, routing in found.items()}
    for query in queries:
        if query.name in records:
            record = records[query.name]
            routings[query.name] = chained.get(query.name) or route(query, rates, shards, record=record)
            for alias, one in routings[query.name].routes.items():
                taken[one.stream][record.bits[alias]] = one
    for chain, found in chains:
        coming = [query for query in chain if query.name not in records]
        if any(_is_full(taken[one.stream], one, len(coming)) for query in coming for one in found[query.name].routes.values()):
            chained |= _in_one_shard(coming, len(coming) < len(chain), Misfit("too many queries read its streams"), rates, shards)
    # Those that come together first, while there is room. Streams of requests last: their templates have been routed then.
    for query in sorted(queries, key=lambda query: (isinstance(query, BoundRequests), query.name not in chained)):
        if query.name not in records:
            routing = chained.get(query.name) or route(query, rates, shards)
            if isinstance(query, BoundRequests) and query.asking is not None:
                routing = _as_template(routing, routings[query.asking.template.name])
            if any(_is_full(taken[one.stream], one) for one in routing.routes.values()):
                if routing.requests:
                    raise PlanProblem(
                        f"too many queries read {query.name}", hint="requests are answered where they find a route of their own"
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
    """The routing of a stream of requests with the shares of its template, which may have been placed whole."""
    axes = _with_shares(routing.axes, [axis.share for axis in template.axes])
    return replace(routing, axes=axes, first=template.first, merged=template.cells > 1)


def book_route(stream: str, keys: Keys, shards: int) -> Route:
    """Where the rows of a book go: by the hash of its partition columns, all rows to one shard where it has none."""
    return Route(stream, ((shards, tuple(keys)),) if keys and shards > 1 else (), 0, shards)


def books_of(streams: Iterable[Stream]) -> dict[str, list[Keys]]:
    """stream -> the partition columns of its books with constraints, each once."""
    return {s.name: list(dict.fromkeys(found.keys for found in s.constraints)) for s in streams if s.constraints}


def _is_full(taken: Mapping[int, Route], wanted: Route, more: int = 1) -> bool:
    """One bit is left for the route of queries that are placed whole; `more` is how many routes are wanted."""
    return wanted not in taken.values() and len(taken) + more >= ROUTES_PER_STREAM


def _plain(keys: tuple[Expression, ...] | None, alias: str, stream: str) -> tuple[Expression, ...] | None:
    return None if keys is None else tuple(rename_refs(key, {alias: stream}) for key in keys)


def _with_shares(axes: Sequence[Axis], shares: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(replace(axis, share=share) for axis, share in zip(axes, shares, strict=True))


def _slices(columns: Sequence[Hashes], share: int) -> Shards:
    """The slice of each row: the hashes of its keys, mixed, as a number below the share."""
    mixed = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        mixed ^= column.view(np.uint64)
        # The finaliser of splitmix64: stores hash the same keys, and slices must not follow their buckets.
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return ((mixed >> np.uint64(1)) % np.uint64(share)).astype(np.int64)
