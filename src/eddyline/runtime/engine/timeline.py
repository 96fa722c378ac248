"""A timeline: the time of all queries that read the same set of streams.

Answer   The frontier of a timeline is the smallest horizon of its streams: nothing else holds it back or moves it on.
         Rows wait in its queues until the frontier passes; then its stores admit what its units want, and its units
         take the rows in slices.

             arrivals ─► queues ─► stores ─► units ─► results
                          │ frontier  │ purge

State    The frontier; per stream a queue of rows that wait; the next rank. Ranks are places in the total order of the
         timeline's streams.
Limits   Units over other sets of streams have timelines of their own: what waits for a slow stream in one of them is no
         concern of the others. All timelines read the same stores, each up to a position of its own (`supply.py`), and
         their queues hold the same chunks.
Reading  docs/semantics.md, "The frontier"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from eddyline.kernels.order import count_upto, merge_order, running_count
from eddyline.model.records.herald import KIND as HERALD
from eddyline.operators.promises.closings import Closings
from eddyline.operators.stream.intake import Intake
from eddyline.operators.stream.reading import ReadPosition, timeline_name
from eddyline.operators.stream.record_queue import RecordQueue
from eddyline.operators.stream.stream import StreamState
from eddyline.operators.stream.waiting import Released, WaitingRows
from eddyline.runtime.engine.epoch import Epoch, Outcome
from eddyline.runtime.engine.handout import HandOut
from eddyline.runtime.engine.records.ranked import RankedRecords, between, ranked_records
from eddyline.runtime.engine.supply import Supply
from eddyline.runtime.engine.unit import EpochEnd, Slice, StreamsEnd, Unit
from eddyline.state.columns import Ints
from eddyline.tuning import Tuning


class Timeline:
    def __init__(self, supplies: Iterable[Supply], handout: HandOut, tuning: Tuning) -> None:
        sources = sorted(supplies, key=lambda supply: supply.stream.position)
        ordered = [supply.stream for supply in sources]
        self.handout = handout
        self.tuning = tuning
        self.name = timeline_name(s.name for s in ordered)
        #: The streams of its units.
        self.reads = frozenset(s.name for s in ordered)
        self.frontier: int | None = None
        self.next_rank = 0
        #: All in catalog order.
        self.queues = {s.name: WaitingRows(s) for s in ordered}
        #: Records that the gates of its streams have let through.
        self.records = {s.name: RecordQueue(s) for s in ordered}
        #: Streams that no unit reads here and whose records are about those that are read: their horizons hold the
        #: frontier back too.
        self.follows: frozenset[str] = frozenset()
        #: What is promised of its streams.
        self.closings = Closings(ordered)
        self.supplies = {supply.stream.name: supply for supply in sources}
        self._results_per_row = 0.0
        #: Of the epoch at hand: its first rank, the ranks of each stream's rows, and how many rows there are up to each
        #: rank (where a unit needs that). Then the rows that came before it, and the rows that were released.
        self._first_rank = 0
        self._all_ranks: dict[str, Ints] = {}
        self._running: dict[str, Ints] = {}
        self._rows_before: dict[str, int] = {}
        self._released: dict[str, Released] = {}
        self._ranked: dict[str, list[RankedRecords]] = {}
        #: The timeline's read positions in the stores that its units read, as the epoch begins.
        self._reading: list[tuple[Supply, ReadPosition]] = []

    # -- time

    def move(self, intakes: Mapping[str, Intake], epoch: Epoch) -> None:
        """The frontier at the end of an epoch; it never moves back."""
        mine = {name: intakes[name] for name in self.queues}
        if epoch.closing:
            reached = [i.reached for i in mine.values() if i.reached is not None]
            moved = max(reached) + 1 if reached else None
        else:
            mine |= {name: intakes[name] for name in self.follows if name in intakes}
            horizons = [i.horizon for name, i in mine.items() if not i.closed and name not in epoch.idle]
            known = [h for h in horizons if h is not None]
            moved = min(known) if known and len(known) == len(horizons) else None
        if moved is not None:
            self.frontier = moved if self.frontier is None else max(moved, self.frontier)

    @property
    def streams(self) -> dict[str, StreamState]:
        """The streams' stores, which other timelines read too."""
        return {name: supply.state for name, supply in self.supplies.items()}

    def readers(self) -> list[tuple[Supply, ReadPosition]]:
        """This timeline's read positions in the stores that its units read."""
        found = [(supply, supply.state.readers.get(self.name)) for supply in self.supplies.values()]
        return [(supply, reader) for supply, reader in found if reader is not None]

    # -- an epoch

    def step(self, units: list[Unit], closing: bool, outcome: Outcome, note_peak: Callable[[], None]) -> None:
        """Work on everything that the frontier has passed."""
        self._all_ranks, self._rows_before, self._running, self._released = {}, {}, {}, {}
        if self.frontier is None:
            return
        released = {
            name: rows for name, queue in self.queues.items() if (rows := queue.release(self.frontier)) is not None
        }
        self._released = released
        records = {
            name: found
            for name, queue in self.records.items()
            if queue.held and (found := queue.release(self.frontier))
        }
        self._ranked = (
            ranked_records([q.stream for q in self.queues.values()], released, records, self.next_rank)
            if records
            else {}
        )
        if self._ranked:
            self.closings.expect(
                {name: [(one.records, one.ranks) for one in found] for name, found in self._ranked.items()}
            )
        # Streams of which something is promised are stored first: rows of the others can then be refused.
        self._reading = self.readers()
        if self.closings.closed:
            self._reading.sort(key=lambda one: not self.closings.is_closing(one[0].stream.name))
        for supply, _ in self._reading:
            supply.offer(released.get(supply.stream.name))
        for part in self._slices(units):
            self._run(part, units, outcome, note_peak)
        for supply, reader in self._reading:
            supply.pass_to(reader, self.frontier)
        self._purge(units, self.frontier, self.next_rank)
        for name, rows in released.items():
            # The next epoch is likely to be like this one: room for it is made while nothing waits.
            self.supplies[name].state.store.tidy(len(rows.ts))
        records_after = between(self._ranked, self.next_rank, None) if self._ranked else {}
        end = EpochEnd(self.frontier, closing, self._came, records_after)
        if self._ranked:
            self._cut(self._ranked, self.next_rank)
            self.closings.take({name: [one.records for one in found] for name, found in self._ranked.items()})
        for unit in units:
            unit.advance(end, outcome)
        # Not before all units have: copies take what others have put out.
        self.handout.part_with(outcome)
        if self.closings.closed:
            self.closings.end_epoch(self.frontier)
        self._released, self._ranked = {}, {}

    def end(self, units: list[Unit], intakes: Mapping[str, Intake], outcome: Outcome) -> None:
        """After the last step: the streams end, and what is open is closed."""
        if self.frontier is None:
            return
        now = self.frontier - 1
        self.closings.end(now, [name for name in self.queues if intakes[name].stream.is_punctuated])
        for unit in units:
            unit.end(StreamsEnd(now, self._came), outcome)
        self.handout.part_with(outcome)

    def _slices(self, units: list[Unit]) -> Iterator[Slice]:
        """The released rows in total order, cut so that no slice is expected to make too many results."""
        released = self._released
        if not released:
            return
        times = [rows.times for rows in released.values()]
        total = sum(len(t) for t in times)
        first, end = self.next_rank, self.next_rank + total
        rank = np.arange(first, end)
        if len(times) > 1:
            # The streams are in catalog order: rows of equal time keep the total order.
            order = merge_order(*times) if len(times) == 2 else np.argsort(np.concatenate(times), kind="stable")
            rank[order] = rank.copy()
        offset = 0
        for name, stamps in zip(released, times, strict=True):
            self._all_ranks[name] = rank[offset : offset + len(stamps)]
            self._rows_before[name] = self.queues[name].released - len(stamps)
            offset += len(stamps)
        self.handout.released(first, total, released, self._all_ranks)
        self._first_rank, self.next_rank = first, end
        in_portions = all(unit.in_portions(total) for unit in units)
        at_once = self.tuning.results_at_once * (self.tuning.in_portions if in_portions else 1)
        while first < end:
            most = int(at_once / self._results_per_row) if self._results_per_row else 65_536
            stop = min(end, first + max(most, 16))
            yield self._slice(first, stop)
            first = stop

    def _slice(self, first: int, stop: int) -> Slice:
        part = Slice(
            {},
            {},
            {},
            {},
            {},
            {},
            range(first, stop),
            self._rows_seen,
            records=between(self._ranked, first, stop) if self._ranked else {},
        )
        for name, all_ranks in self._all_ranks.items():
            rows = self._released[name]
            mine = all_ranks if rows.place is None else all_ranks[rows.place]
            a, b = mine.searchsorted((first, stop)).tolist()
            if a == b:
                continue
            part.tables[name] = rows.table if b - a == len(rows.ts) else rows.table.slice(a, b - a)
            part.ts[name] = rows.ts[a:b]
            part.ranks[name] = mine[a:b]
            part.routes[name] = None if rows.routes is None else rows.routes[a:b]
            place = np.arange(a, b) if rows.place is None else rows.place[a:b]
            part.numbers[name] = place + self._rows_before[name]
            part.arrival[name] = rows.number[a:b]
        return part

    def _run(self, part: Slice, units: list[Unit], outcome: Outcome, note_peak: Callable[[], None]) -> None:
        self.closings.stored = {name for name in self.queues if name not in part.tables}
        for supply, reader in self._reading:
            name = supply.stream.name
            if name in part.tables:
                part.fresh[name] = supply.take(
                    reader, part.ts[name], part.arrival[name], part.ranks[name], part.numbers[name]
                )
            self.closings.stored.add(name)
        if part.records:
            self._cut(part.records, part.span.start)
        note_peak()
        made = sum(unit.take(part, outcome) for unit in units)
        self.handout.part_with(outcome)
        per_row = made / len(part.span)
        self._results_per_row = per_row if not self._results_per_row else 0.5 * (self._results_per_row + per_row)
        note_peak()
        # After the last slice the end of the epoch does that.
        if part.ts and part.span.stop < self.next_rank:
            self._purge(units, max(int(ts[-1]) for ts in part.ts.values()), part.span.stop)

    def _cut(self, ranked: Mapping[str, list[RankedRecords]], first: int) -> None:
        """Zones of stores end at the heralds among the rows with ranks from `first` on, which have just been stored or
        come next."""
        for supply, reader in self._reading:
            store = reader.store
            for batch in ranked.get(supply.stream.name, ()):
                if batch.records.kind == HERALD:
                    ranks = batch.ranks[batch.ranks.searchsorted(first) :]
                    store.zones.cut(store.first + store.column(reader.order).searchsorted(ranks))

    def _rows_seen(self, source: str, ranks: Ints) -> Ints:
        """How many rows of a stream there are at or before each place of the total order."""
        if source not in self._all_ranks:
            return np.full(len(ranks), self.queues[source].released)
        total = self.next_rank - self._first_rank
        if source not in self._running:
            self._running[source] = running_count(self._all_ranks[source], self._first_rank, total)
        here: Ints = count_upto(self._running[source], self._first_rank, ranks)
        return here + self._rows_before[source]

    def _came(self, source: str) -> tuple[int, Ints]:
        """How many rows of a stream came before this epoch, and the event times of those released in it."""
        times = self._released[source].times if source in self._released else np.empty(0, np.int64)
        return self.queues[source].released - len(times), times

    def came_before(self, instant: int, source: str) -> tuple[int, Ints]:
        """The same, of those released in it the ones before an instant."""
        rows, times = self._came(source)
        return rows, times[: times.searchsorted(instant)]

    def _purge(self, units: list[Unit], now: int, rank: int) -> None:
        """Rows still to come are at or after `now` and `rank`; what none of them can meet is forgotten."""
        for supply, reader in self._reading:
            name = supply.stream.name
            seen = self.queues[name].released
            if name in self._all_ranks:
                seen = self._rows_before[name] + int(self._all_ranks[name].searchsorted(rank))
            supply.state.purge(reader, now, seen)
        for unit in units:
            unit.purge(now)
