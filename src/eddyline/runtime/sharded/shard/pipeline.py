"""What a worker keeps of one shard: a pipeline whose references get only the rows that were routed to them.

Answer   `ShardPipeline.open` makes a shard's pipeline, new or as a header says; `control` carries out the records of a
         batch before its rows; `step` runs an epoch; `snapshot` gives what is to be kept. Queries come and go only by
         control records, at the newest event time seen, which ticks make the same on all shards. Plans too change only
         by control records: a shard says what it saw, the driver decides for all of them.
State    The pipeline, and the trees that its join groups were moved to.
Limits   Queries of equal joins but different routes do not share a join: rows that meet by chance under two routings
         would repeat results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.clock import WALL
from eddyline.model.expressions.expression import Expression, columns_of, rename_refs
from eddyline.model.patterns.constraint import EventBook
from eddyline.model.query import BoundQuery
from eddyline.model.template import Template
from eddyline.operators.expressions.evaluate import Issues, compile_expression
from eddyline.operators.join.port import LONG_AGO
from eddyline.operators.stream.keys import keys_of
from eddyline.plan.lower import Lowered
from eddyline.plan.shards.decided import deciding
from eddyline.plan.shards.routing import Route, Routing
from eddyline.plan.shards.shares import book_route
from eddyline.plan.tree.migration import Migration, plan_document, plan_from
from eddyline.runtime.engine.epoch import Epoch, Outcome
from eddyline.runtime.engine.lateness import late_below
from eddyline.runtime.engine.newest import NewestPlaces
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.routes import Homes
from eddyline.runtime.engine.unit import UnitFigures
from eddyline.runtime.figures.figures import (
    avoided,
    counts,
    demand,
    further,
    held_rows,
    operator_units,
    operators,
    stored_rows,
    units_of,
)
from eddyline.runtime.figures.memory import without_collection
from eddyline.runtime.figures.response import Responses
from eddyline.runtime.planning.planner import running_orders
from eddyline.runtime.recovery.snapshot import Snapshot, restore, saved_queries, take_snapshot
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.sharded.job.ledger import tables_folder
from eddyline.runtime.sharded.job.static_table import version_of
from eddyline.runtime.sharded.shard.requests import ShardRequests
from eddyline.state.columns import Ints

Load = Callable[[str], pa.Table]


class ShardEngine(Protocol):
    """What the processor asks of a shard's engine."""

    #: Its number; None: it is not known yet.
    shard: int | None

    @classmethod
    @without_collection()
    def open(cls, layout: JobLayout, header: dict[str, Any] | None, load: Load) -> ShardEngine: ...

    def bounds(self) -> dict[str, int | None]:
        """stream -> the event time below which a row of the next epoch is late."""

    def late_below(self) -> dict[str, int | None]:
        """stream -> the event time from which on no row of the next epoch is late, for any query."""

    def control(self, layout: JobLayout, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Carry out the control records of a batch under the layout that holds in it; what came of them, as JSON
        values."""

    def step(self, epoch: Epoch, on_part: Callable[[Outcome], None] | None = None) -> Outcome:
        """Run an epoch; `on_part` takes results that leave it before it is done."""

    def snapshot(self) -> Snapshot: ...

    def statistics(self) -> dict[str, Any]: ...

    def observed(self) -> dict[str, Any]:
        """What the planner of the job may want to know of the last epoch, as JSON values."""


class LayoutRoutes:
    """The routes of a layout: each reference takes the rows that its route sent."""

    def __init__(self, layout: JobLayout, shard: int | None = None) -> None:
        self._routings = layout.routing.routings
        #: None: it is not known, as in the pipeline of the driver.
        self.shard = shard
        self._bits: dict[str, Mapping[str, int]] = {
            query.name: layout.routing.bits(query.name) for query in layout.queries
        }
        self._parts: dict[str, Routing] = {}
        read: set[str] = set()
        for query in layout.queries:
            routing = self._routings[query.name]
            for maker in query.makers:
                prefix, bits = f"{maker.name}.", self._bits[query.name]
                self._bits[maker.name] = {
                    alias.removeprefix(prefix): bit for alias, bit in bits.items() if alias.startswith(prefix)
                }
            for part in (*query.makers, query):
                self._parts[part.name] = routing.parts.get(part.name, routing)
                read |= {r.source for r in part.streams if r.derived and r.alias not in self._bits[part.name]}
        self._handed, self._read = frozenset(layout.handed), frozenset(read)
        self._routes = layout.routing.routes
        self._books = {
            s.book: book_route(s.book.stream, s.keys, layout.width)
            for stream in layout.streams
            for s in stream.constraints
        }
        self._merged = {name for name, routing in layout.routing.routings.items() if routing.merged}

    def routed(self, lowered: Lowered) -> Lowered:
        bits = [self._bits[lowered.query.name].get(alias) for alias in lowered.aliases]
        seats = tuple(replace(seat, route=bit) for seat, bit in zip(lowered.seats, bits, strict=True))
        return replace(lowered, seats=seats, signature=f"{lowered.signature} routes={bits}")

    def is_merged(self, query: str) -> bool:
        return query in self._merged

    def makes(self, query: str) -> bool:
        return self.shard is None or self._parts[query].uses(self.shard)

    def hands_on(self, stream: str) -> bool:
        return stream in self._handed

    def has_readers(self, stream: str) -> bool:
        return stream in self._read

    def homes(self, query: str, columns: Collection[tuple[str, str]]) -> Homes | bool:
        routing = self._routings.get(query)
        if routing is None:
            # The query behind a subquery: all of it is in one shard.
            return True
        route = deciding(routing, columns)
        return False if route is None else partial(self._at_home, route)

    def _at_home(self, route: Route, values: pa.Array) -> npt.NDArray[np.bool_]:
        hashes = [[_keys(key, values) for key in keys] for keys in route.keys]
        found: npt.NDArray[np.bool_] = route.shards_of(hashes, 0, len(values))[:, 0] == self.shard
        return found

    def book(self, book: EventBook) -> int | None:
        route = self._books.get(book)
        return None if route is None else self._routes[book.stream].index(route)

    def pattern(self, query: BoundQuery) -> int | None:
        return self._bits[query.name].get(query.references[0].alias)

    def here(self, template: Template, key_columns: Sequence[Ints]) -> npt.NDArray[np.bool_] | None:
        alias = template.query.references[0].alias
        route = self._routings[template.name].routes[alias]
        known = [rename_refs(key.expression, {alias: template.source}) for key in template.keys]
        if self.shard is None or not route.keys or any(key not in known for keys in route.keys for key in keys):
            return None
        hashes = [[key_columns[known.index(key)] for key in keys] for keys in route.keys]
        places = route.shards_of(hashes, 0, len(key_columns[0]))
        found: npt.NDArray[np.bool_] = (places == self.shard).any(axis=1)
        return found


def _keys(key: Expression, values: pa.Array) -> Ints:
    """The 64-bit values of a key expression over one column, as those that pack rows compute them."""
    compiled = compile_expression(key)
    return keys_of(compiled(dict.fromkeys(columns_of(key), values), len(values), Issues()), key.type)


def routed_pipeline(layout: JobLayout) -> Pipeline:
    """A pipeline in which each reference takes the rows that its route sent, without queries."""
    pipeline = Pipeline(layout.streams, layout.settings, LayoutRoutes(layout))
    pipeline.spilling.parts = layout.shards
    if layout.shards > 1:
        pipeline.handout.places = NewestPlaces(layout.streams)
    # The driver has checked the budgets before a shard gets a query.
    pipeline.planner.refuses = False
    tables = {kept.table.name: kept for kept in layout.tables}
    pipeline.versions.files = lambda name, digest: version_of(
        tables_folder(layout.checkpoint), tables[name].table, digest
    ).rows()
    for kept in layout.tables:
        pipeline.add_table(kept.table, kept.rows(), kept.digest)
    return pipeline


@without_collection()
def model_pipeline(layout: JobLayout, known: Container[str] = ()) -> Pipeline:
    """A pipeline with all queries of a layout and no rows: what the driver knows of schemas and plans.

    Raises:
        PlanProblem: a query exceeds its budget that is not among the `known`, which run already.
    """
    pipeline = routed_pipeline(layout)
    for query in layout.queries:
        pipeline.planner.refuses = query.name not in known
        pipeline.add_query(query)
    pipeline.planner.refuses = True
    return pipeline


class ShardPipeline:
    def __init__(self, pipeline: Pipeline, layout: JobLayout):
        self.pipeline = pipeline
        self.layout = layout
        pipeline.planner.autonomous = False
        #: Requests that other processes sent to the job.
        self.requests = ShardRequests(pipeline)
        #: Signature of a join group -> the tree and the probe orders that a control record gave it.
        self.moved: dict[str, dict[str, Any]] = {}
        #: What the last epoch added: counts that no header keeps.
        self._added: dict[str, Any] = {}
        self._looks: dict[str, int] = {}
        self._shard: int | None = None
        self._responses = Responses(WALL)
        pipeline.handout.measure(self._responses)
        #: What there is to warn of since the last epoch, by query: the driver says it.
        self._warnings: dict[str, str] = {}
        pipeline.handout.warn = self._warnings.__setitem__

    @classmethod
    @without_collection()
    def open(cls, layout: JobLayout, header: dict[str, Any] | None, load: Load) -> ShardPipeline:
        pipeline = routed_pipeline(layout)
        shard = cls(pipeline, layout)
        if header is None:
            for query in layout.queries:
                if layout.initial is None or query.name in layout.initial:
                    pipeline.add_query(query)
        else:
            saved = saved_queries(header)
            for query in layout.queries:
                if query.name in saved:
                    pipeline.add_query(query, saved[query.name]["start"], saved[query.name]["slot"], saved)
            shard.moved = dict(header.get("moved", {}))
            for signature, plan in shard.moved.items():
                if signature in pipeline.groups:
                    tree, orders = plan_from(plan)
                    pipeline.replant(pipeline.groups[signature], tree, orders)
            restore(pipeline, header, load)
            pipeline.planner.resume(header.get("planner", {}))
            shard._looks = {signature: watch.samples for signature, watch in pipeline.planner.watches.items()}
            shard.requests.restore(header.get("asked", {}))
        shard._forget_moves()
        return shard

    @property
    def shard(self) -> int | None:
        return self._shard

    @shard.setter
    def shard(self, number: int | None) -> None:
        self._shard = number
        self.pipeline.routes = LayoutRoutes(self.layout, number)

    def control(self, layout: JobLayout, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if layout is not self.layout:
            before = {stream.name: stream for stream in self.layout.streams}
            promising = [stream for stream in layout.streams if stream != before[stream.name]]
            if promising:
                # All shards read the rows of this batch, and none before it, as the new layout says.
                self.pipeline.gating.promise(promising)
            self.layout = layout
            self.pipeline.routes = LayoutRoutes(layout, self._shard)
        changed: dict[str, Any] = {"started": {}, "stopped": {}, "gone": [], "moved": []}
        for record in records:
            self.requests.take(record)
            for name in record.get("start", ()):
                self._start(name, changed)
            for name in record.get("stop", ()):
                self._stop(name, changed)
            if "refresh" in record:
                self._refresh(record["refresh"])
            if "set" in record and record["set"][0] in self.pipeline.queries:
                # The driver has checked it, under the settings of that run.
                self.pipeline.triggers.resume(*record["set"])
            if "move" in record:
                self._move(record["move"], changed)
        return {what: found for what, found in changed.items() if found}

    def _start(self, name: str, changed: dict[str, Any]) -> None:
        # A driver that was interrupted may say it twice.
        if name not in self.pipeline.queries:
            newest = self.pipeline.newest(self.layout.by_name[name])
            self.pipeline.add_query(self.layout.by_name[name], LONG_AGO if newest is None else newest)
            changed["started"][name] = newest

    def _stop(self, name: str, changed: dict[str, Any]) -> None:
        registered = self.pipeline.queries.get(name)
        if registered is not None and registered.stop is None:
            changed["stopped"][name] = self.pipeline.newest(registered.query)
            if self.pipeline.stop_query(name, changed["stopped"][name]):
                changed["gone"].append(name)
                self._forget_moves()

    def _refresh(self, record: Mapping[str, Any]) -> None:
        versions, name = self.pipeline.versions, record["table"]
        if name not in versions.tables or versions.files is None:
            return
        if "problem" in record:
            versions.fail(name, str(record["problem"]))
        else:
            versions.take(name, versions.files(name, str(record["digest"])), str(record["digest"]))

    def _move(self, record: Mapping[str, Any], changed: dict[str, Any]) -> None:
        signature, planner = record["group"], self.pipeline.planner
        if signature in self.pipeline.groups:
            migration = Migration.from_document(record)
            planner.carry_out(signature, migration)
            self.moved[signature] = plan_document(migration.tree, migration.orders)
            changed["moved"].append(planner.migrations.pop() | {"group": signature})

    def _forget_moves(self) -> None:
        """A group that has gone and comes again begins with the planner's choice."""
        self.moved = {signature: plan for signature, plan in self.moved.items() if signature in self.pipeline.groups}

    def observed(self) -> dict[str, Any]:
        """What the last epoch let the planner see, by group, with the plan that runs."""
        found = {}
        for signature, watch in self.pipeline.planner.watches.items():
            if watch.seen is not None and watch.samples != self._looks.get(signature, 0):
                self._looks[signature] = watch.samples
                plan = plan_document(watch.group.tree, running_orders(watch.group))
                found[signature] = {"seen": watch.seen.to_document(), "plan": plan}
        return found

    def bounds(self) -> dict[str, int | None]:
        found = {}
        for name, intake in self.pipeline.intakes.items():
            fronts = [timeline.frontier for streams, timeline in self.pipeline.timelines.items() if name in streams]
            passed = [front for front in fronts if front is not None]
            # A row that one timeline has not passed is taken there: only the copies of rows that all have passed are
            # left out.
            lowest = min(passed) if passed and len(passed) == len(fronts) else None
            found[name] = max((b for b in (intake.horizon, lowest) if b is not None), default=None)
        return found

    def late_below(self) -> dict[str, int | None]:
        return {name: late_below(self.pipeline, name) for name in self.pipeline.intakes}

    def step(self, epoch: Epoch, on_part: Callable[[Outcome], None] | None = None) -> Outcome:
        for name, arrival in epoch.arrivals.items():
            # A stream that ended with an earlier bounded run speaks again.
            self.pipeline.intakes[name].closed = False
            self.pipeline.intakes[name].row_groups.update(arrival.row_groups)
        units = units_of(self.pipeline)
        before = _counts(units), operators(self.pipeline, units), dict(self.pipeline.issues.counts)
        outcome = self.pipeline.step(epoch, on_part)
        self.requests.answer(epoch.closing, outcome)
        if outcome.gone:
            self._forget_moves()
        units = units_of(self.pipeline)
        self._added = {
            "counts": {name: count - before[0][name] for name, count in _counts(units).items()},
            "operators": {
                name: {key: value - before[1].get(name, {}).get(key, 0) for key, value in seen.items()}
                for name, seen in operators(self.pipeline, units).items()
            },
            "null_results": {
                kind: count - before[2].get(kind, 0) for kind, count in self.pipeline.issues.counts.items()
            },
            "operator_units": operator_units(self.pipeline, units),
            "response": self._responses.drained(),
            "warnings": dict(self._warnings),
        }
        self._warnings.clear()
        return outcome

    def snapshot(self) -> Snapshot:
        taken = take_snapshot(self.pipeline)
        return replace(
            taken,
            header={
                **taken.header,
                "moved": self.moved,
                "planner": self.pipeline.planner.marks(),
                "asked": self.requests.waiting,
            },
        )

    def statistics(self) -> dict[str, Any]:
        pipeline = self.pipeline
        units = units_of(pipeline)
        edges = demand(units)
        return {
            "late": {name: intake.late for name, intake in pipeline.intakes.items() if intake.late},
            "live_rows": sum(stream.store.live for stream in pipeline.stores()),
            "live_bytes": sum(stream.store.nbytes for stream in pipeline.stores()),
            "stored_rows": stored_rows(pipeline, units),
            "held_rows": held_rows(pipeline),
            "newest": {name: intake.newest for name, intake in pipeline.intakes.items() if intake.newest is not None},
            "peak_stored_rows": pipeline.held.peak_rows,
            "peak_state_bytes": pipeline.held.peak_bytes,
            "state_bytes": pipeline.spilling.held,
            "spilled_bytes": pipeline.spilling.spilled(),
            "suspended_peak": sum(edge["suspended_peak"] for edge in edges.values()),
            "demand": edges,
            "further": further(pipeline, units),
            "versions": {
                name: [version.name for version in known.versions] for name, known in pipeline.versions.tables.items()
            },
            **self._added,
        }


def _counts(units: Sequence[UnitFigures]) -> dict[str, int]:
    return {**counts(units), "partials_avoided": avoided(units)}
