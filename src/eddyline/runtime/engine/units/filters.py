"""Queries that filter and project one stream: all those over one stream are one unit.

Answer   `FilterUnit.take` gives the results of a slice, of all queries together. A row is its own newest row, so there
         is nothing to keep and nothing to advance.
State    The filter group.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow as pa

from eddyline.model.query import BoundQuery
from eddyline.operators.sharing.filter_group import FilterGroup
from eddyline.operators.stream.stream import whole_columns
from eddyline.operators.worth import Worth
from eddyline.plan.lower import Lowered
from eddyline.plan.prepare import prepare
from eddyline.plan.shape import Part, query_shape
from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.engine.registered.base import StoppedQuery
from eddyline.runtime.engine.unit import Slice, UnitFigures
from eddyline.runtime.engine.units.base import QueryKind, UnitBase
from eddyline.runtime.figures.plan_text import plan_text
from eddyline.runtime.figures.report import query_operator
from eddyline.runtime.figures.response import Responses, SlotTimes

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline


class FilterQuery(StoppedQuery):
    """A query over one stream without aggregates: its group answers it together with all others of its kind."""

    is_timed = True

    def __init__(
        self, query: BoundQuery, lowered: Lowered, unit: FilterUnit, slot: int, start: int, route: int | None
    ) -> None:
        super().__init__(query, unit, slot, start, unit.group.stop)
        self.lowered = lowered
        self.group = unit.group
        projection = self.group.add(slot, query.name, lowered.filters[0], lowered.outputs, start, route)
        self.schema: pa.Schema = projection.schema

    @property
    def results(self) -> int:
        return int(self.group.counts[self.slot])

    @results.setter
    def results(self, count: int) -> None:
        self.group.counts[self.slot] = count

    @property
    def rows_in(self) -> int:
        return self.results

    def plan(self, pipeline: Pipeline | None = None) -> str:
        return plan_text(
            self.lowered,
            self.group.tree,
            None if pipeline is None else pipeline.planner.lines(self.group, self.lowered),
        )

    def shape(self, text: str) -> Part:
        return query_shape(self.lowered, self.group.tree, passing=(self.unit.name, query_operator(self.name)))


class FilterUnit(UnitBase):
    steps_within = True

    def __init__(self, kind: FilterKind, stream: str, key: str, uses_zones: bool) -> None:
        self.kind = kind
        self.pipeline = pipeline = kind.pipeline
        self.name = f"filters of {key}"
        #: Its name in the kind: filters that use no zones have a unit of their own.
        self.key = key
        self.stream = stream
        self.streams = frozenset([stream])
        worth = Worth(pipeline.settings.tuning.zones, pipeline.settings.heralds == "auto")
        self.group = FilterGroup(stream, pipeline.issues, pipeline.settings.tuning.sharing, uses_zones, worth)
        self.queries: dict[str, FilterQuery] = {}

    def enter(self, query: FilterQuery) -> None:
        self.queries[query.name] = query
        responses = self.pipeline.handout.responses
        if responses is not None:
            self._times(responses).clear(query.slot)

    def _times(self, responses: Responses) -> SlotTimes:
        return responses.filters(self.name, self.group.slots)

    def leave(self, name: str) -> None:
        del self.queries[name]
        self.group.remove(name)
        if not self.queries:
            del self.kind.units[self.key]
            if self.pipeline.handout.responses is not None:
                self.pipeline.handout.responses.forget_filters(self.name)

    def take(self, part: Slice, outcome: Outcome) -> int:
        if self.stream not in part.tables:
            return 0
        began = perf_counter()
        bundles = self.group.match(
            whole_columns(part.tables[self.stream]), part.ts[self.stream], part.routes[self.stream]
        )
        self.group.seconds += perf_counter() - began
        responses = self.pipeline.handout.responses
        if responses is not None:
            for bundle in bundles:
                assert bundle.rows is not None
                responses.note_filtered(
                    self._times(responses), bundle.slots, bundle.edges, part.ranks[self.stream], bundle.rows
                )
        self.pipeline.handout.hold(sum(len(bundle.table) for bundle in bundles))
        if self.pipeline.bundles:
            outcome.bundles += bundles
        else:
            places = self.pipeline.handout.places
            if places is not None:
                bundles = [replace(b, table=places.placed(b.table, part.ranks[self.stream][b.rows])) for b in bundles]
            for bundle in bundles:
                for name, piece in bundle.pieces():
                    outcome.results[name].append(piece)
        return sum(len(bundle.table) for bundle in bundles)

    def report(self) -> UnitFigures:
        group = self.group
        return UnitFigures(
            operators={self.name: {"rows_in": group.rows_in, "rows_out": group.rows_out, "seconds": group.seconds}},
            zones_skipped=group.filter.slots_skipped,
            zones_passed=group.filter.slots_passed,
        )


class FilterKind(QueryKind[FilterUnit]):
    """Its units have the names of their streams; the filters that use no zones are a unit of their own."""

    in_bundles = True

    def serves(self, query: BoundQuery, start: int) -> bool:
        # Results that make a derived stream are not bundled with those of others, nor are those that announce
        # finished values.
        alone = query.settings.share == "off" or query.feeds is not None or query.settings.propagate != "off"
        alone = alone or query.ranking is not None or bool(query.followed)
        return len(query.references) == 1 and not query.is_aggregate and not alone

    def register(self, query: BoundQuery, start: int, slot: int | None) -> FilterQuery:
        lowered = self.pipeline.routes.routed(prepare(query))
        source = lowered.seats[0].source
        uses_zones = query.settings.heralds != "off"
        key = source if uses_zones else f"{source} without zones"
        unit = self.units.get(key)
        if unit is None:
            unit = self.units[key] = FilterUnit(self, source, key, uses_zones)
            self.pipeline.timeline(unit.streams)
        slot = unit.group.free_slot() if slot is None or slot in unit.group.filter else slot
        registered = FilterQuery(query, lowered, unit, slot, start, lowered.seats[0].route)
        unit.enter(registered)
        return registered
