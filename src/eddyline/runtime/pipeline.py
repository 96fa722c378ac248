"""The engine of one process or shard: epochs in, results out, the same under every driver.

Answer   `step` takes what arrived and returns every result that is now certain, per query in total order.

             arrivals ─► intake ─► stores ─► join groups ─► queries ─► results
                          │ late, bad          │ purge by the frontier
                          └► dead letters

State    One intake and one store per stream, one filter group per stream, one join group per signature, one standing query
         per name. What cannot be derived from the live rows is in the snapshot; the rest is rebuilt.
Limits   No clock, no file, no thread: drivers have those. Queries may be added and dropped between two epochs.
Reading  docs/life-of-a-row.md
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from time import perf_counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import DataProblem
from eddyline.kernels.order import count_upto, merge_order, running_count
from eddyline.model.joining import Tree
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.model.window import Rows
from eddyline.operators.evaluate import Issues
from eddyline.operators.intake import Intake, Released
from eddyline.operators.join.group import JoinConfig, JoinGroup
from eddyline.operators.join.port import LONG_AGO, Membership
from eddyline.operators.join.sharing.shared_probes import SharedProbes
from eddyline.operators.sharing.filter_group import FilterGroup
from eddyline.operators.stream import ALWAYS, StreamState, whole_columns
from eddyline.plan.lower import Lowered
from eddyline.plan.prepare import prepare
from eddyline.plan.tree_choice import Orders, positions_of
from eddyline.runtime.epoch import Arrival, Epoch, Outcome
from eddyline.runtime.forgetting import close_gaps, drop_unwanted
from eddyline.runtime.handout import HandOut
from eddyline.runtime.memory import keep_freed_memory
from eddyline.runtime.planner import Planner
from eddyline.runtime.spilling import Spilling
from eddyline.runtime.standing import AnyQuery, FilterQuery, StandingQuery, standing_query
from eddyline.settings import Settings
from eddyline.state.columns import Ints
from eddyline.state.segment import SegmentList

#: About so many results are made in one go: an epoch that would make more is worked off in slices of its rows.
_RESULTS_AT_ONCE = 2_000_000
#: Where results are released in portions, a slice may make so many times as many: rows of the next one would wait for its largest windows.
_IN_PORTIONS = 2


@dataclass(slots=True)
class Slice:
    """A stretch of the total order: per stream its rows, and the ranks of all its rows in the epoch."""

    tables: dict[str, pa.Table]
    ts: dict[str, Ints]
    seq: dict[str, Ints]
    num: dict[str, Ints]
    routes: dict[str, npt.NDArray[np.uint64] | None]
    first: int
    rows: int


class Pipeline:
    #: Whether results of filter queries stay together, many queries to a table; otherwise they are handed out one by one.
    bundles = False

    def __init__(self, streams: Iterable[Stream], settings: Settings | None = None) -> None:
        keep_freed_memory()
        self.settings = settings or Settings()
        self.streams: dict[str, StreamState] = {}
        self.intakes: dict[str, Intake] = {}
        self.tables: dict[str, pa.Table] = {}
        self.table_schemas: dict[str, Table] = {}
        self.segments: dict[str, SegmentList] = {}
        self.groups: dict[str, JoinGroup] = {}
        #: What several groups would probe alike.
        self.probes = SharedProbes()
        #: Per stream the queries that only filter it.
        self.filters: dict[str, FilterGroup] = {}
        self.queries: dict[str, AnyQuery] = {}
        #: Queries with a join group, by group: an epoch asks them one by one.
        self._members: dict[JoinGroup, dict[str, StandingQuery]] = {}
        #: Queries that have been dropped and still have results to come.
        self._stopping: set[str] = set()
        self.issues = Issues()
        self.handout = HandOut(self.issues)
        self.frontier: int | None = None
        self.next_seq = 0
        self.epochs = 0
        self.peak_rows = 0
        self.peak_bytes = 0
        self._results_per_row = 0.0
        #: Of the epoch at hand: its first rank, the ranks of each stream's rows, how many of them there are up to each rank (where
        #: somebody asked), and how many rows came before it.
        self._first_rank = 0
        self._all_ranks: dict[str, Ints] = {}
        self._running: dict[str, Ints] = {}
        self._rows_before: dict[str, int] = {}
        self.planner = Planner(self)
        self.spilling = Spilling(self)
        for stream in sorted(streams, key=lambda s: s.position):
            self.add_stream(stream)

    def add_stream(self, stream: Stream) -> None:
        self.intakes[stream.name] = Intake(stream, self.settings.on_late)
        self.streams[stream.name] = state = StreamState(stream.name, {c.name: c.type for c in stream.schema.columns})
        self.segments[stream.name] = SegmentList(state.store)

    def add_table(self, table: Table, rows: pa.Table) -> None:
        """A static table, read as it is now."""
        self.table_schemas[table.name] = table
        self.tables[table.name] = rows.combine_chunks()

    # -- queries

    def add_query(self, query: BoundQuery, start: int = LONG_AGO, slot: int | None = None) -> AnyQuery:
        """Register a query; it sees the rows after `start`. A restored query gets the slot that it had."""
        lowered = prepare(query)
        if len(lowered.seats) == 1 and not query.is_aggregate and query.settings.share == "on":
            return self._add_filter(query, lowered, start, slot)
        group = self._group_for(lowered)
        slot = group.free_slot() if slot is None else slot
        for position, window in enumerate(lowered.windows):
            if isinstance(window, Rows):
                group.bases[position].stream.need_row_numbers()
        times = {name: intake.stream.time for name, intake in self.intakes.items()}
        standing = standing_query(query, lowered, group, slot, start, times)
        starts = [LONG_AGO if seat.is_table else start for seat in lowered.seats]
        group.join([Membership(slot, *of) for of in zip(lowered.filters, lowered.windows, starts, strict=True)])
        self._load_tables(group)
        self.queries[query.name] = standing
        self._members.setdefault(group, {})[query.name] = standing
        self.handout.changed(group)
        return standing

    def _add_filter(self, query: BoundQuery, lowered: Lowered, start: int, slot: int | None) -> FilterQuery:
        source = lowered.seats[0].source
        group = self.filters.get(source)
        if group is None:
            group = self.filters[source] = FilterGroup(source, self.issues)
        slot = group.free_slot() if slot is None else slot
        standing = FilterQuery(query, lowered, group, slot, start, self._route_of(lowered))
        self.queries[query.name] = standing
        return standing

    def _route_of(self, lowered: Lowered) -> int | None:
        """Which route sends rows to a query over one stream; None: all rows are for it."""
        return lowered.seats[0].route

    def _load_tables(self, group: JoinGroup) -> None:
        """Put a group's static tables into its stores, anew: another member may want other rows of them."""
        loaded = False
        for base in group.bases.values():
            if base.stream.is_table:
                rows = self.tables[base.stream.name]
                base.store.forget_before(base.store.end)
                always = np.full(len(rows), ALWAYS)
                base.stream.admit(rows, always, np.full(len(rows), -1), None, None)
                loaded = True
        if loaded:
            self.replant(group, group.tree)

    def newest(self) -> int | None:
        """The newest event time of any stream: the start of a query that is added now, the stop of one that is dropped."""
        return max((i.newest for i in self.intakes.values() if i.newest is not None), default=None)

    def stop_query(self, name: str, stop: int | None) -> bool:
        """Drop a query at an instant: results up to it are still delivered, then it goes. Whether it has gone already."""
        self.queries[name].stop = stop
        if stop is None or (self.frontier is not None and self.frontier > stop):
            self.drop_query(name)
            return True
        self._stopping.add(name)
        return False

    def drop_query(self, name: str) -> None:
        """Remove a query at once; whatever it still had to say is not said."""
        standing = self.queries.pop(name)
        self._stopping.discard(name)
        if isinstance(standing, FilterQuery):
            standing.group.remove(name)
            if not len(standing.group):
                del self.filters[standing.group.stream]
            return
        standing.group.leave(standing.slot)
        self.handout.dropped(standing)
        del self._members[standing.group][name]
        if not self._members[standing.group]:
            del self._members[standing.group]
            standing.group.close()
            signature = next(s for s, g in self.groups.items() if g is standing.group)
            del self.groups[signature]
        drop_unwanted([base.stream for base in standing.group.bases.values()])

    def _group_for(self, lowered: Lowered) -> JoinGroup:
        if lowered.signature not in self.groups:
            choice = self.planner.choose(lowered)
            tree = positions_of(choice.tree, lowered)
            # Named by what it is, so that stored lineage words find their group again after a restart.
            name = "g" + blake2b(lowered.signature.encode(), digest_size=5).hexdigest()
            sources = dict(self.streams)
            wishes = lowered.query.settings
            config = JoinConfig(
                name,
                lowered.seats,
                lowered.equalities,
                lowered.residuals,
                tree,
                wishes.probe == "loop",
                wishes.jit,
                wishes.jit_control,
                orders=choice.orders,
                lottery_seed=wishes.seed if wishes.route == "lottery" else None,
            )
            for seat in lowered.seats:
                if seat.is_table:
                    schema = self.table_schemas[seat.source].schema
                    sources[seat.source] = StreamState(seat.source, {c.name: c.type for c in schema.columns}, is_table=True)
                    for name in schema.names:
                        sources[seat.source].need_column(name)
            self.groups[lowered.signature] = config.build(sources, self.issues)
            self.groups[lowered.signature].share_probes(self.probes)
            self.planner.watch(self.groups[lowered.signature], lowered, choice)
        return self.groups[lowered.signature]

    def replant(self, group: JoinGroup, tree: Tree, orders: Orders | None = None) -> None:
        """Change a group's tree between two epochs; intermediate stores are built from the streams' stores."""
        group.config = replace(group.config, tree=tree, orders=group.config.orders if orders is None else orders)
        group.plant(tree)
        group.rebuild()
        self.handout.changed(group)

    # -- an epoch

    def step(self, epoch: Epoch) -> Outcome:
        apart = self.queries if not self.bundles else [name for members in self._members.values() for name in members]
        outcome = Outcome(results={name: [] for name in apart})
        began = self.frontier
        self.handout.begin()
        for name, arrival in epoch.arrivals.items():
            self._take(name, arrival, began, outcome)
        self.frontier = self._advanced(epoch)
        self._all_ranks, self._rows_before, self._running = {}, {}, {}
        if self.frontier is not None:
            released = {name: rows for name, intake in self.intakes.items() if (rows := intake.release(self.frontier)) is not None}
            came = partial(self._came, released)
            for part in self._slices(released):
                self._run(part, outcome)
            self._purge(self.frontier, self.next_seq)
            for name, rows in released.items():
                # The next epoch is likely to be like this one: room for it is made while nobody waits.
                self.streams[name].store.tidy(len(rows.ts))
            for members in self._members.values():
                for query in members.values():
                    made = query.advance(self.frontier, epoch.closing, self.issues, came)
                    outcome.results[query.name].extend(made if query.stop is None else _until(query.stop, made))
            for name in [n for n in self._stopping if self.frontier > (self.queries[n].stop or 0)]:
                self.drop_query(name)
                outcome.gone.append(name)
        self.epochs += 1
        close_gaps(self)
        self.spilling.after_epoch()
        if not epoch.closing:
            self.planner.after_epoch()
        outcome.frontier = self.frontier
        outcome.waiting = sum(intake.waiting for intake in self.intakes.values())
        return outcome

    def _take(self, name: str, arrival: Arrival, frontier: int | None, outcome: Outcome) -> None:
        intake = self.intakes[name]
        if arrival.bad is not None and len(arrival.bad):
            intake.bad += len(arrival.bad)
            intake.rows_in += len(arrival.bad)
            if self.settings.on_bad == "error":
                raise DataProblem(
                    f"a row of stream {name} cannot be read",
                    detail=str(arrival.bad.column("_reason")[0]),
                    hint="mend the source, or SET on_bad = 'dead-letter'",
                )
            outcome.dead.setdefault(name, []).append(arrival.bad)
        late = intake.take(
            arrival.rows,
            frontier,
            newest=arrival.newest,
            routes=arrival.routes,
            total=arrival.total,
            places=arrival.places,
            census=arrival.census,
        )
        if late is not None and len(late):
            outcome.dead.setdefault(name, []).append(late)
        intake.closed = intake.closed or arrival.closed
        self.handout.arrived(name, intake.arrived)

    def _advanced(self, epoch: Epoch) -> int | None:
        """The frontier at the end of this epoch; it never moves back."""
        if epoch.closing:
            newest = [i.newest for i in self.intakes.values() if i.newest is not None]
            moved = max(newest) + 1 if newest else None
        else:
            read = [i for n, i in self.intakes.items() if self._is_read(n) and not i.closed and n not in epoch.idle]
            horizons = [i.horizon for i in read]
            known = [h for h in horizons if h is not None]
            moved = min(known) if known and len(known) == len(horizons) else None
        if moved is None or self.frontier is None:
            return moved if self.frontier is None else self.frontier
        return max(moved, self.frontier)

    def _is_read(self, stream: str) -> bool:
        return bool(self.streams[stream].ports) or stream in self.filters

    def _slices(self, released: dict[str, Released]) -> Iterable[Slice]:
        """The released rows in total order, cut so that no slice is expected to make too many results."""
        names = [n for n in released if self._is_read(n)]
        if not names:
            return
        times = [released[n].times for n in names]
        total = sum(len(t) for t in times)
        rank = np.arange(self.next_seq, self.next_seq + total)
        if len(names) > 1:
            # The streams stand in catalog order: rows of equal time keep the total order.
            order = merge_order(*times) if len(names) == 2 else np.argsort(np.concatenate(times), kind="stable")
            rank[order] = rank.copy()
        ranks: dict[str, Ints] = {}
        offset = 0
        for name, stamps in zip(names, times, strict=True):
            ranks[name] = rank[offset : offset + len(stamps)]
            offset += len(stamps)
        self._all_ranks = ranks
        self._rows_before = {n: self.intakes[n].released - len(released[n].times) for n in names}
        self.handout.released(self.next_seq, total, released, ranks, self.intakes)
        first, end = self.next_seq, self.next_seq + total
        self._first_rank, self.next_seq = first, end
        in_portions = not self.filters and self.handout.by_strips(self._members, total)
        at_once = _RESULTS_AT_ONCE * (_IN_PORTIONS if in_portions else 1)
        while first < end:
            most = int(at_once / self._results_per_row) if self._results_per_row else 65_536
            stop = min(end, first + max(most, 16))
            yield self._slice(released, ranks, first, stop)
            first = stop

    def _slice(self, released: dict[str, Released], ranks: dict[str, Ints], first: int, stop: int) -> Slice:
        part = Slice({}, {}, {}, {}, {}, first, stop - first)
        for name, all_ranks in ranks.items():
            rows = released[name]
            mine = all_ranks if rows.place is None else all_ranks[rows.place]
            a, b = int(np.searchsorted(mine, first)), int(np.searchsorted(mine, stop))
            if a == b:
                continue
            part.tables[name] = rows.table.slice(a, b - a)
            part.ts[name] = rows.ts[a:b]
            part.seq[name] = mine[a:b]
            part.routes[name] = None if rows.routes is None else rows.routes[a:b]
            place = np.arange(a, b) if rows.place is None else rows.place[a:b]
            part.num[name] = place + self._rows_before[name]
        return part

    def _run(self, part: Slice, outcome: Outcome) -> None:
        fresh: dict[str, tuple[int, int]] = {}
        made = 0
        for name, table in part.tables.items():
            if name in self.filters:
                made += self._filter(self.filters[name], table, part.ts[name], part.seq[name], part.routes[name], outcome)
            if self.streams[name].ports:
                fresh[name] = self.streams[name].admit(table, part.ts[name], part.seq[name], part.num[name], part.routes[name])
        self._note_peak()
        self.probes.begin(fresh)
        for group in self.groups.values():
            ranks = range(part.first, part.first + part.rows)
            made += self.handout.deliver(group, self._members[group], fresh, partial(self._rows_seen, group), ranks, outcome)
        per_row = made / part.rows
        self._results_per_row = per_row if not self._results_per_row else 0.5 * (self._results_per_row + per_row)
        self._note_peak()
        if part.ts:
            self._purge(int(max(t[-1] for t in part.ts.values())), part.first + part.rows)

    def _filter(
        self, group: FilterGroup, table: pa.Table, ts: Ints, seq: Ints, routes: npt.NDArray[np.uint64] | None, outcome: Outcome
    ) -> int:
        began = perf_counter()
        bundles = group.match(whole_columns(table), ts, routes)
        group.seconds += perf_counter() - began
        if self.bundles:
            outcome.bundles += bundles
        else:
            if self.handout.places is not None:
                bundles = [replace(b, table=self.handout.places.told(b.table, seq[b.rows])) for b in bundles]
            for bundle in bundles:
                for name, piece in bundle.pieces():
                    outcome.results[name].append(piece)
        return sum(len(bundle.table) for bundle in bundles)

    def _rows_seen(self, group: JoinGroup, reference: int, ranks: Ints) -> Ints:
        """How many rows of the reference's stream there are at or before each place of the total order."""
        source = group.config.seats[reference].source
        if source not in self._all_ranks:
            return np.full(len(ranks), self._rows_before.get(source, self.intakes[source].released))
        total = self.next_seq - self._first_rank
        if source not in self._running:
            self._running[source] = running_count(self._all_ranks[source], self._first_rank, total)
        here: Ints = count_upto(self._running[source], self._first_rank, ranks)
        return here + self._rows_before[source]

    def _came(self, released: dict[str, Released], source: str) -> tuple[int, Ints]:
        """How many rows of a stream came before this epoch, and the event times of those released in it."""
        times = released[source].times if source in released else np.empty(0, np.int64)
        return self.intakes[source].released - len(times), times

    def _purge(self, now: int, rank: int) -> None:
        """Rows still to come are at or after `now` and `rank`; what none of them can meet is forgotten."""
        for name, stream in self.streams.items():
            seen = self.intakes[name].released
            if name in self._all_ranks:
                seen = self._rows_before[name] + int(np.searchsorted(self._all_ranks[name], rank))
            stream.purge(now, seen)
        for group in self.groups.values():
            group.purge(now)

    def _note_peak(self) -> None:
        rows = sum(s.store.live for s in self.streams.values())
        size = sum(s.store.nbytes for s in self.streams.values())
        for group in self.groups.values():
            for kept in group.intermediates():
                rows += kept.store.live
                size += kept.store.nbytes
        self.peak_rows = max(self.peak_rows, rows)
        self.peak_bytes = max(self.peak_bytes, size)


def _until(stop: int, tables: list[pa.Table]) -> list[pa.Table]:
    """The part of results that is not after an instant."""
    limit = pa.scalar(stop, pa.timestamp("us"))
    return [t for table in tables if len(t := table.filter(pc.less_equal(table.column("_ts"), limit)))]
