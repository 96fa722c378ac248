"""A standing query above its join group: what it wants of the group's combinations, and what it makes of them.

Answer   `accept` turns the complete combinations of a slice into result tables; `advance` gives what the frontier alone
         brings about (windows that slide, buckets that close). A select answers at once and has nothing to advance.
State    Counts; for aggregates what the aggregation keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
import pyarrow as pa

from eddyline.model.query import BoundQuery
from eddyline.operators.evaluate import Issues
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.project import Projection
from eddyline.plan.lower import Lowered


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
        by_alias = {base.port.alias: base for base in group.bases.values()}
        self.projection = Projection(lowered.outputs, (), by_alias)

    @property
    def schema(self) -> pa.Schema:
        return self.projection.schema

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
        began = perf_counter()
        rows = self.mine(rows)
        self.rows_in += len(rows)
        if not len(rows):
            return []
        self.results += len(rows)
        made = [self.projection.table(rows, issues)]
        self.seconds += perf_counter() - began
        return made

    def advance(self, frontier: int, closing: bool, issues: Issues) -> list[pa.Table]:
        return []

    def snapshot(self) -> tuple[object, dict[str, Callable[[], pa.Table]]]:
        """What cannot be recomputed from live rows: a JSON value, and named blocks. A select has nothing."""
        return None, {}

    def restore(self, state: object, load: Callable[[str], pa.Table]) -> None:
        """The reverse of `snapshot`."""


def standing_query(query: BoundQuery, lowered: Lowered, group: JoinGroup, slot: int, start: int) -> StandingQuery:
    return StandingQuery(query, lowered, group, slot, start)
