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
from functools import partial

import numpy as np
import pyarrow as pa

from eddyline.errors import DataProblem
from eddyline.kernels.order import count_upto, merge_order, running_count
from eddyline.model.joining import Tree
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.operators.evaluate import Issues
from eddyline.operators.intake import Intake, Released
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.port import LONG_AGO
from eddyline.operators.sharing.filter_group import FilterGroup
from eddyline.operators.stream import StreamState
from eddyline.plan.tree_choice import Orders
from eddyline.runtime.epoch import Arrival, Epoch, Outcome
from eddyline.runtime.forgetting import close_gaps
from eddyline.runtime.handout import HandOut
from eddyline.runtime.memory import keep_freed_memory
from eddyline.runtime.planner import Planner
from eddyline.runtime.routes import Everything, Routes
from eddyline.runtime.spilling import Spilling
from eddyline.runtime.unit import Moment, Slice, Standing
from eddyline.runtime.units.kinds import Kinds
from eddyline.settings import Settings
from eddyline.state.columns import Ints
from eddyline.state.segment import SegmentList


class Pipeline:
    #: Whether results of filter queries stay together, many queries to a table; otherwise they are handed out one by one.
    bundles = False

    def __init__(self, streams: Iterable[Stream], settings: Settings | None = None, routes: Routes | None = None) -> None:
        keep_freed_memory()
        self.routes = routes or Everything()
        self.settings = settings or Settings()
        self.streams: dict[str, StreamState] = {}
        self.intakes: dict[str, Intake] = {}
        self.tables: dict[str, pa.Table] = {}
        self.table_schemas: dict[str, Table] = {}
        self.segments: dict[str, SegmentList] = {}
        self.queries: dict[str, Standing] = {}
        #: Queries that have been dropped and still have results to come.
        self._stopping: set[str] = set()
        self.issues = Issues()
        self.handout = HandOut(self.issues, self.settings.tuning)
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
        self.kinds = Kinds(self)
        self.planner = Planner(self)
        self.spilling = Spilling(self)
        for stream in sorted(streams, key=lambda s: s.position):
            self.add_stream(stream)

    def add_stream(self, stream: Stream) -> None:
        self.intakes[stream.name] = Intake(stream, self.settings.on_late)
        self.streams[stream.name] = state = StreamState(stream.name, {c.name: c.type for c in stream.schema.columns})
        self.segments[stream.name] = SegmentList(state.store)
        self.kinds.patterns.constrain(stream)

    def add_table(self, table: Table, rows: pa.Table) -> None:
        """A static table, read as it is now."""
        self.table_schemas[table.name] = table
        self.tables[table.name] = rows.combine_chunks()

    # -- queries

    @property
    def groups(self) -> dict[str, JoinGroup]:
        """The join groups, by signature."""
        return {signature: unit.group for signature, unit in self.kinds.joins.units.items()}

    @property
    def filters(self) -> dict[str, FilterGroup]:
        """Per stream the queries that only filter it."""
        return {stream: unit.group for stream, unit in self.kinds.filters.units.items()}

    def add_query(self, query: BoundQuery, start: int = LONG_AGO, slot: int | None = None) -> Standing:
        """Register a query; it sees the rows after `start`. A restored query gets the slot that it had."""
        standing = self.queries[query.name] = self.kinds.of(query).stand(query, start, slot)
        return standing

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
        standing.unit.leave(name)

    def replant(self, group: JoinGroup, tree: Tree, orders: Orders | None = None) -> None:
        """Change a group's tree between two epochs; intermediate stores are built from the streams' stores."""
        self.kinds.joins.replant(group, tree, orders)

    # -- an epoch

    def step(self, epoch: Epoch) -> Outcome:
        apart = [unit for kind in self.kinds.all if not (self.bundles and kind.in_bundles) for unit in kind.units.values()]
        outcome = Outcome(results={name: [] for unit in apart for name in unit.queries})
        began = self.frontier
        self.handout.begin()
        for name, arrival in epoch.arrivals.items():
            self._take(name, arrival, began, outcome)
        self.frontier = self._advanced(epoch)
        self._all_ranks, self._rows_before, self._running = {}, {}, {}
        if self.frontier is not None:
            released = {name: rows for name, intake in self.intakes.items() if (rows := intake.release(self.frontier)) is not None}
            for part in self._slices(released):
                self._run(part, outcome)
            self._purge(self.frontier, self.next_seq)
            for name, rows in released.items():
                # The next epoch is likely to be like this one: room for it is made while nobody waits.
                self.streams[name].store.tidy(len(rows.ts))
            moment = Moment(self.frontier, epoch.closing, partial(self._came, released))
            for unit in self.kinds.units():
                unit.advance(moment, outcome)
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
        return any(stream in unit.streams for unit in self.kinds.units())

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
        in_portions = all(unit.in_portions(total) for unit in self.kinds.units())
        at_once = self.settings.tuning.results_at_once * (self.settings.tuning.in_portions if in_portions else 1)
        while first < end:
            most = int(at_once / self._results_per_row) if self._results_per_row else 65_536
            stop = min(end, first + max(most, 16))
            yield self._slice(released, ranks, first, stop)
            first = stop

    def _slice(self, released: dict[str, Released], ranks: dict[str, Ints], first: int, stop: int) -> Slice:
        part = Slice({}, {}, {}, {}, {}, first, stop - first, self._rows_seen)
        for name, all_ranks in ranks.items():
            rows = released[name]
            mine = all_ranks if rows.place is None else all_ranks[rows.place]
            a, b = int(np.searchsorted(mine, first)), int(np.searchsorted(mine, stop))
            if a == b:
                continue
            part.tables[name] = rows.table.slice(a, b - a)
            part.ts[name] = rows.ts[a:b]
            part.ranks[name] = mine[a:b]
            part.routes[name] = None if rows.routes is None else rows.routes[a:b]
            place = np.arange(a, b) if rows.place is None else rows.place[a:b]
            part.numbers[name] = place + self._rows_before[name]
        return part

    def _run(self, part: Slice, outcome: Outcome) -> None:
        for name, table in part.tables.items():
            if self.streams[name].ports:
                part.fresh[name] = self.streams[name].admit(table, part.ts[name], part.ranks[name], part.numbers[name], part.routes[name])
        self._note_peak()
        made = sum(unit.take(part, outcome) for unit in self.kinds.units())
        per_row = made / part.rows
        self._results_per_row = per_row if not self._results_per_row else 0.5 * (self._results_per_row + per_row)
        self._note_peak()
        if part.newest is not None:
            self._purge(part.newest, part.first + part.rows)

    def _rows_seen(self, source: str, ranks: Ints) -> Ints:
        """How many rows of a stream there are at or before each place of the total order."""
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
        for unit in self.kinds.units():
            unit.purge(now)

    def _note_peak(self) -> None:
        rows = sum(s.store.live for s in self.streams.values())
        size = sum(s.store.nbytes for s in self.streams.values())
        for unit in self.kinds.units():
            held = unit.held()
            rows, size = rows + held[0], size + held[1]
        self.peak_rows = max(self.peak_rows, rows)
        self.peak_bytes = max(self.peak_bytes, size)
