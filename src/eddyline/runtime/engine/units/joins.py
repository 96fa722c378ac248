"""Queries over joins, and aggregates: all those with one join signature are one unit.

Answer   `JoinUnit.take` runs the group's tree over the new rows of a slice and hands each query its combinations;
         `advance` lets aggregates emit what the end of an epoch brings about.
State    The join group with its intermediate stores, and the queries, of which aggregates keep groups.
Limits   Rows lie in the streams' stores: the slice has the ids of new rows.
Reading  docs/operators/join.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.joining import joined_text
from eddyline.model.query import BoundQuery
from eddyline.model.records.punctuation import KIND
from eddyline.model.window import Rows
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.group import JoinConfig, JoinGroup
from eddyline.operators.join.join_slice import JoinSlice
from eddyline.operators.join.partitions import Partition, judging
from eddyline.operators.join.policy import WatchedEdge
from eddyline.operators.join.port import LONG_AGO, Membership, Port
from eddyline.operators.join.registry import join_group
from eddyline.operators.promises.closings import Closings
from eddyline.operators.promises.promises import Promises
from eddyline.operators.stream.stream import ALWAYS, StreamState
from eddyline.plan.lower import Lowered
from eddyline.plan.prepare import prepare
from eddyline.plan.ranges.implied import storing_windows
from eddyline.plan.ranges.predsat import conjuncts_of
from eddyline.plan.tree.tree_choice import positions_of
from eddyline.runtime.engine.epoch import Outcome, punctuations_of
from eddyline.runtime.engine.forgetting import drop_unwanted
from eddyline.runtime.engine.registered.forms import registered_query
from eddyline.runtime.engine.registered.query import RegisteredQuery, Registration
from eddyline.runtime.engine.unit import EpochEnd, Slice, StreamsEnd, UnitFigures
from eddyline.runtime.engine.units.base import QueryKind
from eddyline.runtime.engine.units.join_results import JoinResults
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints
from eddyline.state.renumbering import Renumbering

if TYPE_CHECKING:
    from eddyline.operators.join.punctuations.propagation import Homes
    from eddyline.runtime.engine.pipeline import Pipeline


class JoinUnit:
    def __init__(self, kind: JoinKind, lowered: Lowered, group: JoinGroup) -> None:
        self.kind = kind
        self.signature = lowered.signature
        self.name = group.config.name
        self.streams = frozenset(lowered.seats[position].source for position in lowered.moving)
        self.group = group
        self.queries: dict[str, RegisteredQuery] = {}
        self.results = JoinResults(group, self.queries, kind.pipeline.handout, kind.pipeline.issues)
        #: References whose window counts rows per partition.
        self.partitions = judging(group, lowered.windows)

    def leave(self, name: str) -> None:
        registered = self.queries.pop(name)
        self.group.leave(registered.slot)
        self.results.changed()
        self.kind.pipeline.handout.dropped(registered.query)
        if not self.queries:
            self.group.close()
            for partition in self.partitions:
                partition.close()
            del self.kind.units[self.signature]
        drop_unwanted([base.stream for base in self.group.bases.values()])

    # -- an epoch

    def take(self, part: Slice, outcome: Outcome) -> int:
        def rows_seen(reference: int, ranks: Ints) -> Ints:
            return part.rows_seen(self.group.config.seats[reference].source, ranks)

        for query in self.queries.values():
            if query.propagation is not None:
                query.propagation.see(part.fresh)
            if query.watch is not None:
                query.watch(part)
        for partition in self.partitions:
            source = partition.base.port.source
            partition.see(part.tables.get(source), part.ranks.get(source), part.span, part.fresh.get(source, (0, 0)))
        return self.results.deliver(JoinSlice(part.fresh, rows_seen), part.span, outcome)

    def advance(self, end: EpochEnd, outcome: Outcome) -> None:
        for query in self.queries.values():
            if query.advances:
                made = query.advance(end.frontier, end.closing, self.kind.pipeline.issues, end.came)
                made = made if query.stop is None else until(query.stop, made)
                outcome.results[query.name].extend(made)
                self.kind.pipeline.handout.hold(sum(len(table) for table in made))
            if query.announces and (finished := query.finished(end)) is not None:
                outcome.results.setdefault(punctuations_of(query.name), []).extend(finished)
        # After the queries have read the rows.
        self.group.epoch_ended(end.frontier, end.came, is_closing=end.closing)
        for partition in self.partitions:
            partition.sweep()

    def end(self, end: StreamsEnd, outcome: Outcome) -> None:
        for query in self.queries.values():
            made = query.end(end.now, self.kind.pipeline.issues, end.came)
            made = made if query.stop is None else until(query.stop, made)
            outcome.results[query.name].extend(made)
            self.kind.pipeline.handout.hold(sum(len(table) for table in made))

    def purge(self, now: int) -> None:
        self.group.purge(now)

    def rest(self, end: EpochEnd) -> None:
        self.group.epoch_ended(end.frontier, end.came, is_resting=True)

    def held(self) -> tuple[int, int]:
        rows = size = 0
        for kept in self.group.intermediates:
            rows += kept.store.live
            size += kept.store.nbytes
        return rows, size

    @property
    def steps_within(self) -> bool:
        return all(query.advances_within and query.propagation is None for query in self.queries.values())

    def in_portions(self, rows: int) -> bool:
        return self.results.is_scheduled(rows)

    # -- snapshots and figures

    def snapshot(self) -> dict[str, tuple[object, Blocks]]:
        found: dict[str, tuple[object, Blocks]] = {query.name: query.snapshot() for query in self.queries.values()}
        for partition in self.partitions:
            held = partition.snapshot(self.kind.pipeline.supplies[partition.base.port.source].segments.segments)
            found |= dict.fromkeys(_meanings(partition), held)
        return found

    def restore(self, states: Mapping[str, object], load: Load) -> None:
        for query in self.queries.values():
            query.restore(states[query.name], load)
        for partition in self.partitions:
            # Queries that share a join now may have had one each before: what they saved of a row is the same.
            names = _meanings(partition)
            if len(self.group.bases) == 1:
                # A filter, which another setting of `share` has left to the filters of its stream: it stores no row and
                # counts none.
                names = [name for name in names if name in states]
            saved = {str(state["run"]): state for name in names if isinstance(state := states[name], Mapping)}
            if saved:
                partition.restore([saved[run] for run in sorted(saved)], load)

    def report(self) -> UnitFigures:
        group, of_policies = self.group, self.group.figures()
        counters = list(group.counters.values())
        return UnitFigures(
            operators={
                **{
                    group.input_name(place): _passing(base.port)
                    for place, base in group.bases.items()
                    if not base.stream.is_table
                },
                **{
                    group.name_of(r): {"rows_in": c.rows_in, "rows_out": c.rows_out, "seconds": c.seconds}
                    for r, c in group.counters.items()
                },
            },
            stored={kept.store.name: kept.peak for kept in group.intermediates},
            partials=sum(c.partials for c in counters),
            probes=sum(c.probes for c in counters),
            probes_shared=sum(c.probes_shared for c in counters),
            visited=sum(c.visited for c in counters),
            zones_skipped=sum(c.zones_skipped for c in counters),
            zones_passed=sum(c.zones_passed for c in counters),
            conditions_avoided=sum(c.conditions_avoided for c in counters),
            edges={
                self._edge_name(e): {**e.as_json(), "unit": self.name, "node": joined_text(e.references)}
                for e in of_policies.edges
            },
            earlier_edges=tuple(of_policies.earlier_edges),
            counts=of_policies.counts,
        )

    def _edge_name(self, edge: WatchedEdge) -> str:
        """As `--stats` has it: the name of the node below, and the kind where that is not demand."""
        node = self.group.name_of(edge.references)
        return node if edge.kind == "demand" else f"{node} {edge.kind}"


def _meanings(partition: Partition) -> list[str]:
    """The names of a partition in a snapshot: one for each query and reference that it serves."""
    return [partition_state(member.query, member.reference) for member in partition.base.port.members.values()]


def partition_state(query: str, reference: str) -> str:
    """The name under which a snapshot has the counts of rows per partition, for one reference of a query."""
    return f"partition {query} {reference}"


def _passing(port: Port) -> dict[str, float]:
    """What the filters of all queries on one reference let through; their seconds are those of the store."""
    return {"rows_in": port.came, "rows_out": port.passed, "seconds": 0.0}


class JoinKind(QueryKind[JoinUnit]):
    """Its units have the signatures of their joins as names."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        #: What the policies of several groups share.
        self.commons = Commons()

    def groups(self) -> Iterator[tuple[str, JoinGroup]]:
        return ((signature, unit.group) for signature, unit in self.units.items())

    def serves(self, query: BoundQuery, start: int) -> bool:
        return True

    def replanted(self, group: JoinGroup) -> None:
        for unit in self.units.values():
            if unit.group is group:
                unit.results.changed()

    def renumber(self, old_to_new: Renumbering) -> None:
        for unit in self.units.values():
            unit.results.renumber(old_to_new)
            unit.group.renumber(old_to_new)

    @classmethod
    def block_content(cls, query: str, state: Mapping[str, Any], block: str) -> str | None:
        for held, what in ((state, "groups"), (state.get("ranked") or {}, "ranked groups")):
            if "prefix" in held and block.startswith(held["prefix"]):
                return f"{what} of query {query}"
        if block.startswith(state.get("waits", "-")):
            return f"rows of query {query} that may still find a partner"
        return None

    def register(self, query: BoundQuery, start: int, slot: int | None) -> RegisteredQuery:
        lowered = self.lowered(query)
        unit = self._unit_for(lowered)
        group = unit.group
        slot = group.free_slot() if slot is None or slot in group.bases[0].port.members else slot
        for position, window in enumerate(lowered.windows):
            if isinstance(window, Rows):
                group.bases[position].port.reader.need_numbers()
        times = {name: intake.stream.time for name, intake in self.pipeline.intakes.items()}
        merged = self.pipeline.routes.is_merged(query.name)
        closings = self._closings(unit.streams)
        propagates = query.announces and not query.is_aggregate
        crowds = self.pipeline.handout.crowds
        registered = registered_query(
            Registration(query, lowered, unit, group, slot, start, times, crowds, merged, closings)
        )
        if propagates:
            # What only some queries need is loaded with the first of them.
            from eddyline.operators.join.punctuations.propagation import Propagation

            registered.propagation = Propagation(
                group, closings, lowered.outputs, query.settings.propagate, self._homes(lowered)
            )
            for base in group.bases.values():
                base.port.lingers = LONG_AGO, 0
        group.watched |= registered.watch is not None or propagates
        starts = [LONG_AGO if seat.is_table else start for seat in lowered.seats]
        members = zip(lowered.filters, storing_windows(lowered, times), starts, lowered.aliases, strict=True)
        group.join(
            [Membership(slot, wanted, window, after, query.name, alias) for wanted, window, after, alias in members]
        )
        self._load_tables(group)
        unit.queries[query.name] = registered
        unit.results.changed()
        return registered

    def lowered(self, query: BoundQuery) -> Lowered:
        """The query as a group runs it, with the signature of the group."""
        lowered = self.pipeline.routes.routed(prepare(query))
        if query.feeds is not None and not (query.is_aggregate and query.emit.kind == "every"):
            # Its results stay in the pipeline: a unit of its own hands them out as they are. Changes of a table come
            # after all slices.
            lowered = replace(lowered, signature=f"{lowered.signature} feeds={query.feeds.name}")
        return lowered

    def _unit_for(self, lowered: Lowered) -> JoinUnit:
        if lowered.signature not in self.units:
            pipeline = self.pipeline
            choice = pipeline.planner.choose(lowered)
            config = JoinConfig(
                # Named by what it is, so that stored lineage words find their group again after a restart.
                "g" + blake2b(lowered.signature.encode(), digest_size=5).hexdigest(),
                lowered.seats,
                lowered.equalities,
                lowered.residuals,
                positions_of(choice.tree, lowered),
                choice.orders,
                lowered.query.settings,
                conjuncts_of((*lowered.residuals, *(e.condition for e in lowered.equalities))),
            )
            streams = frozenset(lowered.seats[position].source for position in lowered.moving)
            sources = {**pipeline.timeline(streams).streams, **self._table_states(lowered)}
            commons = Commons(self.commons)
            commons.share(self._closings(streams))
            group = join_group(config, sources, pipeline.issues, commons)
            self.units[lowered.signature] = JoinUnit(self, lowered, group)
            pipeline.planner.watch(group, lowered, choice)
        return self.units[lowered.signature]

    def _closings(self, streams: frozenset[str]) -> Closings:
        """What is promised of the streams of a timeline; all of it comes before the rows of a query that is added now."""
        gates = self.pipeline.gating.gates
        known = {name: gates[name].checkers.get(KIND) for name in streams if name in gates}
        closings = self.pipeline.timeline(streams).closings
        closings.want({name: promises.closed for name, promises in known.items() if isinstance(promises, Promises)})
        return closings

    def _homes(self, lowered: Lowered) -> Homes:
        """Which values of columns, by reference, have all their results here; the routes may change while the query
        is registered."""

        def homes(columns: Collection[tuple[int, str]]) -> Callable[[pa.Array], npt.NDArray[np.bool_]] | bool:
            named = {(lowered.aliases[position], column) for position, column in columns}
            return self.pipeline.routes.homes(lowered.query.name, named)

        return homes

    def _table_states(self, lowered: Lowered) -> dict[str, StreamState]:
        """A store for each static table of a query: a group has its own."""
        found = {}
        for seat in lowered.seats:
            if seat.is_table:
                schema = self.pipeline.table_schemas[seat.source].schema
                found[seat.source] = StreamState(
                    seat.source, {c.name: c.type for c in schema.columns}, True, self.pipeline.settings.tuning.zones
                )
                for name in schema.names:
                    found[seat.source].need_column(name)
                found[seat.source].changes = seat.source in self.pipeline.versions.tables
        return found

    def load_table(self, table: str) -> None:
        for unit in self.units.values():
            if any(base.stream.is_table and base.stream.name == table for base in unit.group.bases.values()):
                self._load_tables(unit.group)

    def _load_tables(self, group: JoinGroup) -> None:
        """Put a group's static tables into its stores, anew: another member may want other rows of them."""
        loaded = False
        for base in group.bases.values():
            if base.stream.is_table:
                rows = self.pipeline.tables[base.stream.name]
                base.store.forget_before(base.store.end)
                always = np.full(len(rows), ALWAYS)
                base.stream.admit(rows, always, np.arange(len(rows)), None)
                loaded = True
        if loaded:
            self.pipeline.replant(group, group.tree)


def until(stop: int, tables: list[pa.Table]) -> list[pa.Table]:
    """The part of results that is not after an instant."""
    limit = pa.scalar(stop, pa.timestamp("us"))
    return [t for table in tables if len(t := table.filter(pc.less_equal(table.column("_ts"), limit)))]
