"""The engine of one process or shard: epochs in, results out, the same under every driver.

Answer   `step` takes what arrived and returns every result that is now certain, per query in total order.

             arrivals ─► intakes ─► timelines (queues ─► stores ─► units) ─► results
                          │ late, bad
                          └► dead letters

State    One intake and one store per stream, one timeline per set of streams that queries read, one registered query per
         name. What cannot be derived from the live rows is in the snapshot; the rest is rebuilt.
Limits   No clock, no file, no thread: drivers have those. Queries may be added and dropped between two epochs.
Reading  docs/life-of-a-row.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from eddyline.errors import DataProblem
from eddyline.model.joining import Tree
from eddyline.model.query import BoundQuery, UnnestedTable
from eddyline.model.schema import Stream, Table
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.port import LONG_AGO
from eddyline.operators.stream.gate import Census
from eddyline.operators.stream.intake import DerivedIntake, Intake
from eddyline.operators.stream.stream import StreamState
from eddyline.operators.stream.waiting import Waiting, WaitingRows
from eddyline.plan.tree.tree_choice import Orders
from eddyline.runtime.engine.derived import DerivedLevel, DerivedStreams, one_per_element
from eddyline.runtime.engine.epoch import Arrival, Epoch, Outcome, results_of
from eddyline.runtime.engine.forgetting import close_gaps, make_room
from eddyline.runtime.engine.gating import Gating
from eddyline.runtime.engine.handout import HandOut, PipelineHooks
from eddyline.runtime.engine.lateness import TimelineReader, late_letters
from eddyline.runtime.engine.routes import Everything, Routes
from eddyline.runtime.engine.spilling import Spilling
from eddyline.runtime.engine.supply import Supply
from eddyline.runtime.engine.table_versions import TableVersions
from eddyline.runtime.engine.timeline import Timeline
from eddyline.runtime.engine.triggers import PipelineTriggers
from eddyline.runtime.engine.unit import Registered, Unit
from eddyline.runtime.engine.units.kinds import Kinds
from eddyline.runtime.figures.held_state import HeldState
from eddyline.runtime.figures.response import Responses
from eddyline.runtime.planning.planner import Planner
from eddyline.settings import Settings
from eddyline.state.store import Store


class Pipeline:
    def __init__(
        self,
        streams: Iterable[Stream],
        settings: Settings | None = None,
        routes: Routes | None = None,
        hooks: PipelineHooks | None = None,
    ) -> None:
        self.routes = routes or Everything()
        self.settings = settings or Settings()
        self.intakes: dict[str, Intake] = {}
        self.tables: dict[str, pa.Table] = {}
        self.table_schemas: dict[str, Table] = {}
        self.queries: dict[str, Registered] = {}
        #: Queries that have been dropped and still have results to come.
        self.stopping: set[str] = set()
        self.issues = Issues()
        self.derived = DerivedStreams(self)
        hooks = hooks or PipelineHooks()
        self.handout = HandOut(self.settings.tuning, hooks, self._leave, self.derived.whose, self.derived.feed_readers)
        #: Whether results of filter queries stay together, many queries to a table; otherwise they are handed out one
        #: by one.
        self.bundles = hooks.bundles
        self._on_part: Callable[[Outcome], None] | None = None
        self.supplies: dict[str, Supply] = {}
        #: By the streams that its units read.
        self.timelines: dict[frozenset[str], Timeline] = {}
        self.epochs = self.changes = 0
        #: Whether the streams have ended: there is no further epoch.
        self.over = False
        self.held = HeldState()
        #: Of the epoch at hand: the units, by the streams that they read.
        self.units: dict[frozenset[str], list[Unit]] = {}
        self.gating = Gating(self)
        self.kinds = Kinds(self)
        self.versions = TableVersions(self)
        self.planner = Planner(self)
        self.spilling = Spilling(self)
        self.triggers = PipelineTriggers(self)
        for stream in sorted(streams, key=lambda s: s.position):
            self.add_stream(stream)

    def add_stream(self, stream: Stream) -> None:
        self.intakes[stream.name] = DerivedIntake(stream) if stream.is_derived else Intake(stream)
        self.supplies[stream.name] = Supply(stream, self.settings.tuning.zones)
        self.gating.declare(stream)
        if self.handout.places is not None:
            self.handout.places.add(stream)
        for kind in self.kinds.all:
            kind.add_stream(stream)

    def drop_stream(self, name: str) -> None:
        """A stream that no query reads is gone."""
        del self.intakes[name], self.supplies[name]
        self.gating.forget(name)
        self.timelines = {streams: timeline for streams, timeline in self.timelines.items() if name not in streams}

    def add_table(self, table: Table, rows: pa.Table, name: str = "") -> None:
        """A static table, read as it is now; `name` is that of the file that keeps a version of a table that
        changes."""
        if table.refresh is not None:
            self.versions.add(table, rows, name)
            return
        self.table_schemas[table.name] = table
        self.tables[table.name] = rows.combine_chunks()

    def _unnest(self, made: UnnestedTable) -> None:
        """A table of a query's own: that of another one, with a row per element of its arrays."""
        if made.name not in self.tables:
            self.table_schemas[made.name] = Table(made.name, made.schema)
            self.tables[made.name] = one_per_element(self.tables[made.source], made, self.issues)

    # -- queries

    @property
    def groups(self) -> dict[str, JoinGroup]:
        """The join groups, by signature."""
        return dict(chain.from_iterable(kind.groups() for kind in self.kinds.all))

    def timeline(self, streams: frozenset[str]) -> Timeline:
        """The timeline of units that read these streams; it exists while one of them does."""
        if streams not in self.timelines:
            made = Timeline([self.supplies[name] for name in streams], self.handout, self.settings.tuning)
            made.follows = self.gating.follows(streams)
            self.timelines[streams] = made
        return self.timelines[streams]

    def timeline_of(self, query: str) -> Timeline:
        return self.timelines[self.queries[query].unit.streams]

    def stores(self) -> Iterator[StreamState]:
        """The stores of the streams that queries read."""
        read = frozenset[str]().union(*self.timelines)
        return (supply.state for name, supply in self.supplies.items() if name in read)

    @property
    def frontiers(self) -> dict[str, int | None]:
        """Per query: event times strictly below are answered."""
        return {name: self.timelines[query.unit.streams].frontier for name, query in self.queries.items()}

    @property
    def frontier(self) -> int | None:
        """The smallest frontier of all queries; None: there is no query, or one has none yet."""
        found = [timeline.frontier for timeline in self.timelines.values()]
        known = [frontier for frontier in found if frontier is not None]
        return min(known) if known and len(known) == len(found) else None

    def add_query(
        self,
        query: BoundQuery,
        start: int = LONG_AGO,
        slot: int | None = None,
        saved: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Registered:
        """Register a query and those behind its subqueries; they see the rows after `start`. A restored query gets the
        slot that it
        had, and those behind its subqueries get what the snapshot has of them."""
        if saved is not None:
            for kind in self.kinds.all:
                kind.before_restore(saved)
        begun: list[BoundQuery] = []
        try:
            for maker in query.makers:
                self.add_query(maker, start, None if saved is None else saved[maker.name]["slot"])
                begun.append(maker)
            return self._add(query, start, slot)
        except BaseException:
            for maker in reversed(begun):
                self.drop_query(maker.name)
            raise

    def _add(self, query: BoundQuery, start: int, slot: int | None) -> Registered:
        for table in query.unnested:
            self._unnest(table)
        self.derived.begin(query)
        try:
            registered = self.queries[query.name] = self.kinds.of(query, start).register(query, start, slot)
            self.timeline(registered.unit.streams)
            self.changes += 1
        except BaseException:
            self.derived.end(query)
            raise
        finally:
            self._forget_timelines()
        return registered

    def _forget_timelines(self) -> None:
        """A timeline goes when no unit follows it and no port reads its stores."""
        read = {unit.streams for unit in self.kinds.units()}
        self.timelines = {
            streams: timeline for streams, timeline in self.timelines.items() if streams in read or timeline.readers()
        }

    def newest(self, query: BoundQuery) -> int | None:
        """The newest event time of the streams that a query reads: its start if it is added now, its stop if it is
        dropped."""
        found = []
        for reference in query.streams:
            if reference.derived:
                found += [self.newest(maker) for maker in self._makers_of(reference.source, query)]
            else:
                found.append(self.intakes[reference.source].newest)
        return max((newest for newest in found if newest is not None), default=None)

    def _makers_of(self, stream: str, query: BoundQuery) -> list[BoundQuery]:
        """The queries that make a derived stream: they are registered, or come with the query that reads it."""
        coming = [maker for maker in query.makers if maker.feeds is not None and maker.feeds.name == stream]
        return [replace(m, makers=query.makers) for m in coming] or [
            self.queries[name].query for name in self.derived.makers[stream]
        ]

    def stop_query(self, name: str, stop: int | None) -> bool:
        """Drop a query at an instant: results up to it are still delivered, then it goes. Whether it has gone
        already."""
        for kind in self.kinds.all:
            kind.before_drop(name)
        self.queries[name].stop = stop
        if (stop is None and not self.derived.is_read(self.queries[name].query)) or self._has_passed(name):
            self.drop_query(name)
            return True
        self.stopping.add(name)
        return False

    def _has_passed(self, name: str) -> bool:
        """Whether a query that stops has given its last result."""
        frontier, stop = self.timeline_of(name).frontier, self.queries[name].stop
        if self.derived.is_read(self.queries[name].query):
            return False
        return frontier is not None and stop is not None and frontier > stop

    def drop_query(self, name: str) -> None:
        """Remove a query at once; its undelivered results are discarded."""
        for kind in self.kinds.all:
            kind.before_drop(name)
        registered = self.queries.pop(name)
        self.triggers.forget(name)
        self.stopping.discard(name)
        registered.unit.leave(name)
        self.changes += 1
        self._forget_timelines()
        self.derived.end(registered.query)
        for maker in reversed(registered.query.makers):
            self.drop_query(maker.name)
        for table in registered.query.unnested:
            self.tables.pop(table.name, None)
            self.table_schemas.pop(table.name, None)

    def replant(self, group: JoinGroup, tree: Tree, orders: Orders | None = None) -> None:
        """Change a group's tree between two epochs; intermediate stores are built from the streams' stores."""
        group.config = replace(group.config, tree=tree, orders=group.config.orders if orders is None else orders)
        group.plant(tree)
        group.rebuild()
        for kind in self.kinds.all:
            kind.replanted(group)

    # -- an epoch

    def step(self, epoch: Epoch, on_part: Callable[[Outcome], None] | None = None) -> Outcome:
        """Work an epoch off.

        Args:
            on_part: Takes results before the epoch is done; None: the outcome holds all of them.
        """
        self._on_part = on_part
        outcome = Outcome()
        self.units = {}
        for kind in self.kinds.all:
            for unit in kind.units.values():
                self.units.setdefault(unit.streams, []).append(unit)
                if not (self.bundles and kind.in_bundles):
                    outcome.results |= {name: [] for name in unit.queries}
        self.handout.begin()
        has_records = bool(epoch.records) or any(arrival.records for arrival in epoch.arrivals.values())
        if self.gating.gates or has_records:
            self.gating.begin(epoch)
        before = self.fronts()
        for name, arrival in epoch.arrivals.items():
            self.take(name, arrival, before, outcome)
        if has_records:
            self.gating.announce(epoch.records)
            self.gating.arrive()
        levels = self.derived.levels() if self.derived.makers else [DerivedLevel(list(self.timelines.values()), [])]
        for timeline in levels[0].timelines:
            timeline.move(self.intakes, epoch)
        if self.gating.gates:
            self.gating.release(epoch, before, outcome)
        self.held.begin([*(state.store for state in self.stores()), *chain(*self.units.values())])
        for level in levels:
            if level is not levels[0]:
                for timeline in level.timelines:
                    # Its streams have come further in this epoch: past rows, perhaps, that wait at a gate.
                    timeline.move(self.intakes, epoch)
                if self.gating.gates:
                    self.gating.release(epoch, before, outcome)
            fronts = self.fronts()
            for supply in self.supplies.values():
                supply.begin(fronts, self.queues_of)
            for timeline in level.timelines:
                self.work(timeline, epoch.closing, outcome)
                if epoch.final:
                    timeline.end(self.units.get(timeline.reads, []), self.intakes, outcome)
            for stream in level.made:
                self.derived.hand_over(stream, epoch, outcome)
        while passed := [n for n in self.stopping if self._has_passed(n)]:
            # The last reader of a derived stream lets its makers go.
            for name in passed:
                self.drop_query(name)
                outcome.gone.append(name)
        if self.handout.responses is not None and self.handout.responses.mixed:
            self._forget_arrivals(self.handout.responses)
        self.epochs, self.over = self.epochs + 1, epoch.final
        if any(supply.state.store.dropped for supply in self.supplies.values()):
            close_gaps(self)
        if self.spilling.budget is not None:
            self.spilling.after_epoch()
        if self.planner.follows and not epoch.closing:
            self.planner.after_epoch()
        outcome.frontier = self.frontier
        outcome.frontiers = self.fronts()
        outcome.waiting = self.waiting
        return outcome

    def work(self, timeline: Timeline, closing: bool, outcome: Outcome) -> None:
        """A timeline, whose frontier has moved, works on what lies below it."""
        mine = self.units.get(timeline.reads, [])
        worked_on: list[Store | Unit] = [*(self.supplies[name].state.store for name in timeline.reads), *mine]
        timeline.step(mine, closing, outcome, partial(self.held.count, worked_on, notes_peak=True))
        self.held.count(worked_on)

    def _leave(self, outcome: Outcome, names: Iterable[str] | None) -> int:
        """Results of some queries and all bundles leave the outcome; how many rows they have. Without names these are
        all queries whose results no other query reads."""
        if self._on_part is None:
            return 0
        if names is None:
            makers = {*chain(*self.derived.makers.values())}
            names = [name for name in outcome.results if results_of(name) not in makers]
        leaving = Outcome({name: tables for name in names if (tables := outcome.results[name])})
        leaving.bundles, outcome.bundles = outcome.bundles, []
        outcome.results |= {name: [] for name in leaving.results}
        self._on_part(leaving)
        tables = [*chain(*leaving.results.values()), *(bundle.table for bundle in leaving.bundles)]
        return sum(len(table) for table in tables)

    def rest(self) -> None:
        """Nothing comes in: what runs then."""
        self.triggers.rest()
        close_gaps(self)

    def take(self, name: str, arrival: Arrival, fronts: Mapping[str, int | None], outcome: Outcome) -> None:
        """What a stream brings goes to the queues of its readers, whose frontiers are given by name."""
        intake = self.intakes[name]
        if arrival.bad is not None and len(arrival.bad):
            intake.refuse(len(arrival.bad))
            if self.settings.on_bad == "error":
                raise DataProblem(
                    f"a row of stream {name} cannot be read",
                    detail=str(arrival.bad.column("_reason")[0]),
                    hint="mend the source, or SET on_bad = 'dead-letter'",
                )
            outcome.dead.setdefault(name, []).append(arrival.bad)
        horizon = intake.horizon
        heartbeats = self.gating.take(name, arrival.records, intake.arrived) if arrival.records else None
        taken = intake.take(
            arrival.rows,
            newest=arrival.newest,
            routes=arrival.routes,
            total=arrival.total,
            places=arrival.places,
            census=arrival.census,
            heartbeats=heartbeats,
            skipped=arrival.skipped,
        )
        if taken.broken is not None:
            self.gating.broke(name, taken.broken.table, taken.broken.routes, outcome)
        readers = [timeline for streams, timeline in self.timelines.items() if name in streams]
        chunk = taken.chunk
        if taken.late is not None or (
            chunk is not None and any(t.frontier is not None and int(chunk.ts[0]) < t.frontier for t in readers)
        ):
            letters = late_letters(
                intake, horizon, taken, [self._reader(timeline) for timeline in readers], self.settings.on_late
            )
            if letters:
                outcome.dead.setdefault(name, []).extend(letters)
        if name in self.gating.gates:
            self.gating.gates[name].receive(chunk, taken.census)
        else:
            self.pass_on(name, chunk, taken.census, fronts)
        intake.closed = intake.closed or arrival.closed
        if self.handout.responses is not None:
            self.handout.responses.arrived(name, intake.arrived)

    def pass_on(
        self, name: str, chunk: Waiting | None, census: Census | None, fronts: Mapping[str, int | None]
    ) -> None:
        """Rows of a stream, to the timelines that read it, whose frontiers are given by name, and to its store."""
        for timeline in self.timelines.values():
            if name in timeline.queues:
                timeline.queues[name].receive(chunk, census, fronts[timeline.name])
        moved = self.supplies[name].receive(chunk, fronts)
        if moved is not None:
            make_room(self, self.supplies[name], moved)

    def queues_of(self, stream: str) -> list[WaitingRows]:
        """The queues of the timelines that follow a stream."""
        return [timeline.queues[stream] for timeline in self.timelines.values() if stream in timeline.queues]

    def fronts(self) -> dict[str, int | None]:
        """The frontiers of timelines, by name."""
        return {timeline.name: timeline.frontier for timeline in self.timelines.values()}

    def _reader(self, timeline: Timeline) -> TimelineReader:
        streams = frozenset(timeline.queues)
        return TimelineReader(
            timeline.frontier, [query for query in self.queries.values() if query.unit.streams == streams]
        )

    def _forget_arrivals(self, responses: Responses) -> None:
        """Arrival times of rows that wait no longer are forgotten."""
        for name in responses.mixed & self.intakes.keys():
            queues = [*self.queues_of(name), *([self.gating.gates[name].queue] if name in self.gating.gates else [])]
            waiting = (chunk.first for queue in queues for chunk in queue.chunks)
            responses.forget(name, min(waiting, default=self.intakes[name].arrived))

    @property
    def waiting(self) -> int:
        """Rows that wait for the frontier of some query; each is counted once."""
        longest: dict[str, int] = {}
        for timeline in self.timelines.values():
            for name, queue in timeline.queues.items():
                longest[name] = max(longest.get(name, 0), len(queue))
        return sum(longest.values()) + sum(len(gate.queue) for gate in self.gating.gates.values())
