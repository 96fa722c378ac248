"""Routes: the shards of the rows of references, the grid of a query over the shards, and the record of a checkpoint.

Answer   `Route.shards_of` gives the shards of rows; `Routing` is the grid of one query; `RoutingTable` has those of a
         job, with one bit per different route of a stream. `shares.py` chooses them. A job of several stateful steps
         (`steps.py`) has as many grids, one after the other: the shards of step 1 follow on those of step 0.
State    None.
Limits   63 different routes per stream.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eddyline.model.expressions.expression import ColumnRef, Expression, rename_refs
from eddyline.plan.shards.axes import Axis
from eddyline.plan.shards.chains import PlacedKeys
from eddyline.plan.shards.share_choice import load

Keys = tuple[ColumnRef, ...]
Hashes = npt.NDArray[np.int64]
Shards = npt.NDArray[np.int64]

#: A row's routes travel as the bits of one uint64. The last bit is set in the shard that counts the row.
HOME_BIT = 63
ROUTES_PER_STREAM = HOME_BIT


@dataclass(frozen=True, slots=True)
class Route:
    """The shards of the rows of one reference; equal routes of different queries are one.

    `slices` has per axis the share and the keys, or None if the row goes to every slice. Keys name the stream, not the
    alias: queries with other aliases have the same route.
    """

    stream: str
    slices: tuple[tuple[int, tuple[Expression, ...] | None], ...]
    first: int
    #: Of one step.
    shards: int
    step: int = 0

    @property
    def replication(self) -> int:
        """To how many shards each row goes."""
        return math.prod(share for share, keys in self.slices if keys is None)

    @property
    def keys(self) -> tuple[tuple[Expression, ...], ...]:
        """Per axis that places rows by value, its keys; `shards_of` takes their hashes."""
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
        return (place[:, None] + copies[None, :] + self.first) % self.shards + self.step * self.shards


@dataclass(frozen=True, slots=True)
class Record:
    """What a checkpoint keeps of a query's routing, by which stored rows were placed and got their bits."""

    shares: Sequence[int]
    bits: Mapping[str, int]
    merged: bool = False
    #: Of a query over derived streams in several shards: the keys of these streams.
    placed: Mapping[str, PlacedKeys] = field(default_factory=dict)
    #: Of a chain in several steps: for the query and those behind its subqueries, the step, the first shard and the
    #: shares. A query that stays in the shards that make its rows has the step alone.
    steps: Mapping[str, Sequence[int]] = field(default_factory=dict)


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
    #: The reason against merging, if shards would have fewer rows with it.
    whole: str = ""
    #: The query is a stream of requests.
    requests: bool = False
    #: Of a query over derived streams: the keys of these streams, or why all of it is in one shard.
    placed: Mapping[str, PlacedKeys] = field(default_factory=dict)
    chain: str = ""
    #: The reason why the queries of its chain are in several steps; empty: they are in one.
    stepped: str = ""
    #: The step that computes it, and of a chain in several steps the routings of the queries behind its subqueries.
    step: int = 0
    parts: Mapping[str, Routing] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        return math.prod(axis.share for axis in self.axes)

    @cached_property
    def routes(self) -> dict[str, Route]:
        """alias -> where its rows go."""
        # Axes of one slice place nothing: without them queries with the same placement have equal routes.
        cut = [axis for axis in self.axes if axis.share > 1]
        found = {}
        for alias, (stream, _) in self.references.items():
            slices = tuple((axis.share, _over_stream(axis.keys.get(alias), alias, stream)) for axis in cut)
            found[alias] = Route(stream, slices, self.first, self.shards, self.step)
        for name, part in self.parts.items():
            found |= {f"{name}.{alias}": route for alias, route in part.routes.items()}
        return found

    @property
    def rows_per_shard(self) -> float:
        """Expected rows per second that one used shard receives."""
        return load(self.axes, {alias: rate for alias, (_, rate) in self.references.items()})

    def uses(self, shard: int) -> bool:
        """Whether a shard is one of the cells; the other shards hold no state of the query and report nothing."""
        return shard // self.shards == self.step and (shard - self.first) % self.shards < self.cells

    def record(self) -> list[int]:
        """The first shard and the share of every axis."""
        return [self.first, *(axis.share for axis in self.axes)]

    @property
    def steps(self) -> dict[str, list[int]]:
        """The steps of a record."""
        if not self.stepped:
            return {}
        mine = [self.step, *self.record()] if self.references else [self.step]
        return {**{name: found for part in self.parts.values() for name, found in part.steps.items()}, self.query: mine}

    def explain(self) -> str:
        """The routing as EXPLAIN shows it."""
        used = [axis for axis in self.axes if axis.share > 1]
        lines = [f"shards: {self.cells} of {self.shards}" + (f", from {self.first}" if self.first else "")]
        lines += [f"  attribute {axis}  share {axis.share}" for axis in used if axis.keys]
        for alias, (stream, rate) in self.references.items():
            name = alias if alias == stream else f"{stream} {alias}"
            lines.append(f"  {name}: replication {self.routes[alias].replication}, {rate:g} rows/s")
        if self.requests and self.merged:
            lines.append("  answers: each shard answers every request from its rows; the parts are merged")
        if self.placed and not self.chain:
            keys = [f"{name} by {', '.join(map(str, of.keys)) or 'any key'}" for name, of in self.placed.items()]
            lines.append(f"  chain: derived rows stay in the shards that make them, {'; '.join(keys)}")
        elif self.chain:
            lines.append(f"  chain: in one shard, as {self.chain}")
        elif self.stepped:
            lines.append(self._explained_steps())
        if not self.requests and (self.merged or self.whole):
            merged = "each shard keeps a part of every group; the parts are merged when its bucket closes"
            lines.append(f"  groups: {merged if self.merged else f'each lives in one shard, {self.whole}'}")
        lines.append(f"  expected rows per shard: {self.rows_per_shard:g}/s")
        return "\n".join(lines)

    def _explained_steps(self) -> str:
        where = []
        for name, part in [*self.parts.items(), (self.query, self)]:
            by = [str(axis) for axis in part.axes if axis.share > 1 and axis.keys]
            place = f"by {', '.join(by)}" if by else "in one shard"
            place = place if part.references else "where its rows are made"
            where.append(f"{name} in step {part.step + 1} {place}")
        return f"  chain: {'; '.join(where)}; derived rows go on from step to step, as {self.stepped}"


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
        return Record(routing.record(), self.bits(query), routing.merged, routing.placed, routing.steps)

    @property
    def steps(self) -> int:
        """How many stateful steps the job needs."""
        return 1 + max((part.step for one in self.routings.values() for part in (one, *one.parts.values())), default=0)


def _over_stream(keys: tuple[Expression, ...] | None, alias: str, stream: str) -> tuple[Expression, ...] | None:
    return None if keys is None else tuple(rename_refs(key, {alias: stream}) for key in keys)


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
