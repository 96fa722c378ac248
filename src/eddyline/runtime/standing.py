"""A standing query above its join group: what it wants of the group's combinations, and what it makes of them.

Answer   `accept` turns the complete combinations of a slice into result tables; `advance` gives what the frontier alone
         brings about (windows that slide, buckets that close). A select answers at once and has nothing to advance.
State    Counts; for aggregates what the aggregation keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter

import numpy as np
import pyarrow as pa

from eddyline.model.query import BoundQuery
from eddyline.operators.evaluate import Issues
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.project import Projection
from eddyline.operators.sharing.filter_group import FilterGroup
from eddyline.plan.lower import Lowered
from eddyline.runtime.newest import NewestPlaces
from eddyline.state.columns import Ints

#: A stream's name to how many of its rows came before this epoch, and the event times of those released in it.
Released = Callable[[str], tuple[int, Ints]]


class StandingQuery:
    def __init__(self, query: BoundQuery, lowered: Lowered, group: JoinGroup, slot: int, start: int) -> None:
        self.query = query
        self.name = query.name
        self.lowered = lowered
        self.group = group
        self.slot = slot
        self.start = start
        #: Results after this instant are not delivered; None: the query has not been dropped.
        self.stop: int | None = None
        self.results = 0
        self.rows_in = 0
        self.seconds = 0.0
        self.bases = {base.port.alias: base for base in group.bases.values()}
        #: Told of results as they are released; for response times.
        self.heard: Callable[[str, Combinations], None] | None = None
        #: Says of results where their newest rows stand; None: nobody asks.
        self.places: NewestPlaces | None = None

    @property
    def schema(self) -> pa.Schema:
        raise NotImplementedError

    def mine(self, rows: Combinations) -> Combinations:
        """The combinations that carry this query's bit."""
        if rows.words is not None and len(self.group.members) > 1:
            bit = (rows.words[:, self.slot // 64] >> np.uint64(self.slot % 64)) & np.uint64(1)
            if not bit.all():
                rows = rows.take(bit.astype(np.bool_))
        if self.stop is not None and len(rows):
            rows = rows.take(rows.clock <= self.stop)
        return rows

    def accept(self, rows: Combinations, issues: Issues) -> list[pa.Table]:
        """Results that the complete combinations of a slice make at once, in order."""
        raise NotImplementedError

    def advance(self, frontier: int, closing: bool, issues: Issues, released: Released) -> list[pa.Table]:
        """Results that the end of an epoch makes: everything below the frontier has been accepted."""
        return []

    def snapshot(self) -> tuple[object, dict[str, Callable[[], pa.Table]]]:
        """What cannot be recomputed from live rows: a JSON value, and named blocks. A select has nothing."""
        return None, {}

    def restore(self, state: object, load: Callable[[str], pa.Table]) -> None:
        """The reverse of `snapshot`."""


class SelectQuery(StandingQuery):
    """A join without aggregates."""

    def __init__(self, query: BoundQuery, lowered: Lowered, group: JoinGroup, slot: int, start: int) -> None:
        super().__init__(query, lowered, group, slot, start)
        self.projection = Projection(lowered.outputs, (), self.bases)

    @property
    def schema(self) -> pa.Schema:
        return self.projection.schema

    def accept(self, rows: Combinations, issues: Issues) -> list[pa.Table]:
        began = perf_counter()
        rows = self.mine(rows)
        self.rows_in += len(rows)
        if not len(rows):
            return []
        self.results += len(rows)
        made = [self.projection.table(rows, issues)]
        if self.places is not None:
            made = [self.places.told(made[0], rows.rank)]
        self.seconds += perf_counter() - began
        if self.heard is not None:
            self.heard(self.name, rows)
        return made


class FilterQuery:
    """A query over one stream without aggregates: its group answers it together with all others of its kind."""

    def __init__(self, query: BoundQuery, lowered: Lowered, group: FilterGroup, slot: int, start: int, route: int | None) -> None:
        self.query = query
        self.name = query.name
        self.lowered = lowered
        self.group = group
        self.slot = slot
        self.start = start
        self.seconds = 0.0
        self._stop: int | None = None
        projection = group.add(slot, query.name, lowered.filters[0], lowered.seats[0].alias, lowered.outputs, start, route)
        self.schema = projection.schema

    @property
    def stop(self) -> int | None:
        return self._stop

    @stop.setter
    def stop(self, stop: int | None) -> None:
        self._stop = stop
        if stop is not None:
            self.group.stop(self.name, stop)

    @property
    def results(self) -> int:
        return int(self.group.counts[self.slot])

    @results.setter
    def results(self, count: int) -> None:
        self.group.counts[self.slot] = count

    @property
    def rows_in(self) -> int:
        return self.results

    def snapshot(self) -> tuple[object, dict[str, Callable[[], pa.Table]]]:
        return None, {}

    def restore(self, state: object, load: Callable[[str], pa.Table]) -> None:
        """Nothing is kept that cannot be derived."""


AnyQuery = StandingQuery | FilterQuery


def standing_query(query: BoundQuery, lowered: Lowered, group: JoinGroup, slot: int, start: int, times: Mapping[str, str]) -> StandingQuery:
    """The standing form of a query with a join group; `times` are the event-time columns of the streams."""
    if query.is_aggregate:
        from eddyline.runtime.standing_aggregate import AggregateQuery

        return AggregateQuery(query, lowered, group, slot, start, times)
    return SelectQuery(query, lowered, group, slot, start)
