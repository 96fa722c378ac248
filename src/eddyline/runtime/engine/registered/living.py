"""A registered aggregate of an outer join of live rows.

Answer   The one stream that it reads says which combinations there are, which rows have partners, and which rows were
         pushed out of their windows. `Guarded` works out when results count; they enter and leave the aggregation at
         these instants.

             results ─► accept                      ─┐
             partners, rows pushed out ─► watch     ─┴─►  Guarded ─► aggregation ─► changes

State    Results and partners until they end, and what is newer than the last instant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from time import perf_counter
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline.model.schema import ENDS, PART, ROW
from eddyline.model.window import PartitionedRows, Rows
from eddyline.operators.aggregate.accumulators.encoding import ALL
from eddyline.operators.aggregate.contributions import Batch
from eddyline.operators.aggregate.guarded import (
    LASTING,
    Changes,
    CountedMoves,
    Guarded,
    Members,
    PartnerAnswers,
    PartnerCondition,
)
from eddyline.operators.aggregate.instant_queue import InstantQueue
from eddyline.operators.aggregate.instants import DueInstants, changes_at
from eddyline.operators.aggregate.pushed import PushedNames, PushedOut, by_name
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.combination import Combinations
from eddyline.operators.project import gather
from eddyline.runtime.engine.registered.aggregate import AggregateQuery
from eddyline.runtime.engine.registered.leaving import at_or_after
from eddyline.runtime.engine.registered.query import Registration, Released, SelectQuery
from eddyline.runtime.engine.unit import Slice
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints

_NONE: Ints = np.empty(0, np.int64)


class PushedRows(SelectQuery):
    """The rows of one reference, each when it is pushed out of its window: their numbers alone."""

    advances = True

    def __init__(self, given: Registration) -> None:
        super().__init__(given)
        lowered, group = given.lowered, given.group
        window, types = lowered.windows[0], group.bases[0].stream.types
        assert isinstance(window, Rows | PartitionedRows)
        columns = window.columns if isinstance(window, PartitionedRows) else ()
        self.pushed = PushedOut(columns, [types[name] for name in columns], window.count)
        self.watch = self._see
        #: Begins the names of all blocks.
        self._name = f"pushed-{blake2b(self.name.encode(), digest_size=5).hexdigest()}-{uuid4().hex[:8]}"

    def _see(self, part: Slice) -> None:
        source = self.lowered.seats[0].source
        if source in part.tables:
            self.pushed.add(part.tables[source], part.ts[source], part.arrival[source])

    def accept(self, rows: Combinations, issues: Issues) -> list[pa.Table]:
        return []

    def advance(self, frontier: int, closing: bool, issues: Issues, released: Released) -> list[pa.Table]:
        names, times = self.pushed.out(frontier - 1)
        self.pushed.forget(frontier - 1)
        if not len(names):
            return []
        self.results += len(names)
        arrays = []
        for output in self.lowered.outputs:
            if output.name == f"{self.lowered.aliases[0]}.{ROW}":
                arrays.append(pa.array(names))
            elif output.name == PART:
                arrays.append(pa.array(np.full(len(names), output.expression.value)))  # type: ignore[union-attr]
            else:
                arrays.append(pa.nulls(len(names), output.type.arrow))
        return [pa.table([*arrays, pa.array(times).cast(pa.timestamp("us"))], schema=self.schema)]

    def snapshot(self) -> tuple[object, Blocks]:
        return self.pushed.snapshot(self._name)

    def restore(self, state: object, load: Load) -> None:
        assert isinstance(state, Mapping)
        self.pushed.restore(state, load)


class LivingAggregate(AggregateQuery):
    def __init__(self, given: Registration) -> None:
        super().__init__(given)
        living = given.query.living
        assert living is not None
        self.living = living
        self.row_columns = [f"{alias}.{ROW}" for alias in living.named]
        self._read = frozenset((0, name) for name in (PART, ENDS, *self.row_columns))
        for _, name in self._read:
            self.bases[0].stream.need_column(name)
        places = {alias: at for at, alias in enumerate(living.named)}
        self.anchors = np.array([places[alias] for alias in living.questions], np.int64)
        pushed = [places[alias] for alias in living.pushed]
        kinds = [[PartnerCondition(a.question, places[a.alias], a.wanted) for a in kind] for kind in living.kinds]
        self.width = len(self.keys) + 1 if self.keys else 1
        self.guarded = Guarded(self.width + len(self.arguments), kinds, pushed, len(places))
        self.partners = Guarded(0, [()] * len(living.questions), pushed, len(places))
        self.answers = PartnerAnswers()
        #: What is newer than the last instant: results, partners, and per alias the rows that were pushed out.
        self.coming, self.meeting = InstantQueue(Members), InstantQueue(Members)
        self.out = [InstantQueue(PushedNames) for _ in living.pushed]
        self.watch = self._see

    def begin_leaving(self, lasting: bool) -> None:
        self.ranges, self.counted, self.pushed = [], [], {}

    @property
    def queues(self) -> int:
        return 1

    @property
    def named(self) -> int:
        return 1

    def leaving(self, rows: Combinations) -> list[Ints]:
        return []

    # -- what comes

    def _see(self, part: Slice) -> None:
        source = self.lowered.seats[0].source
        if source not in part.tables:
            return
        table, ts = part.tables[source], part.ts[source]
        parts = _plain(table.column(PART).combine_chunks(), 0)
        questions, pushed = len(self.living.questions), len(self.living.pushed)
        met = np.flatnonzero((parts < 0) & (parts >= -questions))
        if len(met):
            rows, ends = self._named_rows({(0, name): table.column(name).combine_chunks() for _, name in self._read})
            self.meeting.append(Members(ts[met], -1 - parts[met], rows[met], ends[met], [], []))
        for at in range(pushed):
            gone = np.flatnonzero(parts == -1 - questions - at)
            if len(gone):
                names = _plain(table.column(f"{self.living.pushed[at]}.{ROW}").combine_chunks(), -1)
                self.out[at].append(PushedNames(ts[gone], names[gone]))

    def _named_rows(self, values: Mapping[tuple[Any, str], pa.Array]) -> tuple[Ints, Ints]:
        """The numbers of the rows of combinations, and until when windows of time hold them."""
        ends = _plain(values[0, ENDS], LASTING)
        if not self.row_columns:
            return np.zeros((len(ends), 0), np.int64), ends
        return np.stack([_plain(values[0, name], -1) for name in self.row_columns], axis=1), ends

    def accept(self, rows: Combinations, issues: Issues) -> list[pa.Table]:
        began = perf_counter()
        rows = self.mine(rows)
        self.rows_in += len(rows)
        if len(rows):
            batch = self._batch(rows, issues)
            values = gather(self._read, rows, self.bases)
            numbers, ends = self._named_rows(values)
            encoded = [np.ascontiguousarray(batch.groups[:, at]) for at in range(self.width)]
            valid = [*([ALL] * self.width), *batch.valid]
            self.coming.append(
                Members(batch.clock, _plain(values[0, PART], 0), numbers, ends, [*encoded, *batch.encoded], valid)
            )
        self.seconds += perf_counter() - began
        return []

    # -- instants

    def _emitted(self, now: int, issues: Issues, released: Released) -> pa.Table | None:
        if not self._has_begun(now, released):
            return None
        opening = now if self.aggregation.touched.count else None
        return self._step(now, lambda times: np.full(len(times), now, np.int64), opening, issues)

    def _changes_until(
        self, first: int, final: int, opening: int | None, issues: Issues, released: Released
    ) -> pa.Table | None:
        period = self.query.emit.period
        return self._step(final, lambda times: np.maximum(at_or_after(times, period), first), opening, issues)

    def _step(
        self, final: int, instant: Callable[[Ints], Ints], opening: int | None, issues: Issues
    ) -> pa.Table | None:
        pushed = [by_name(names.until(final)) for names in self.out]
        for guarded, waiting in ((self.guarded, self.coming), (self.partners, self.meeting)):
            if parts := waiting.until(final):
                taken = Members.joined(parts)
                guarded.add(taken, instant(taken.clock), self.answers)
        met = self.partners.step(Changes.none(), pushed, final, instant)
        changes = self.answers.step(*self._partner_counts(met))
        self.partners.forget()
        moves = self.guarded.step(changes, pushed, final, instant)
        batch = self._begun(moves)
        self.guarded.forget()
        order = np.argsort(moves.ceased_names)
        names, when = moves.ceased_names[order], moves.ceased_when[order]
        due_now = DueInstants([names], [lambda keys: when[np.searchsorted(names, keys)]])
        return changes_at(self.aggregation, batch, moves.begun_when, due_now, opening, issues)

    def _partner_counts(self, met: CountedMoves) -> tuple[Ints, Ints, Ints, Ints]:
        """Partners that begin and cease as counts of rows: question, row, by how much, when."""
        held = self.partners.members
        slots = np.concatenate([met.begun, met.ceased])
        questions = held.codes[slots]
        rows = np.zeros(len(slots), np.int64)
        for column in np.unique(self.anchors[questions]):
            mine = self.anchors[questions] == column
            rows[mine] = held.encoded[column][slots[mine]]
        by = np.append(np.ones(len(met.begun), np.int64), np.full(len(met.ceased), -1, np.int64))
        return questions, rows, by, np.concatenate([met.begun_when, met.ceased_when])

    def _begun(self, moves: CountedMoves) -> Batch:
        """Results that begin to count."""
        held, slots = self.guarded.members, moves.begun
        groups = np.stack([held.encoded[at][slots] for at in range(self.width)], axis=1)
        arguments = range(self.width, self.width + len(self.arguments))
        encoded, valid = [held.encoded[at][slots] for at in arguments], [held.valid_at(at, slots) for at in arguments]
        return Batch(moves.begun_when, groups, encoded, valid, [moves.begun_names])

    def held_batches(self) -> list[Batch]:
        held = self.guarded.members
        live = held.live()
        parts = [([held.encoded[at][live] for at in range(len(held.encoded))], len(live))]
        parts += [(part.encoded, len(part)) for part in self.coming.parts]
        arguments = slice(self.width, self.width + len(self.arguments))
        found = []
        for encoded, rows in parts:
            groups = np.stack(encoded[: self.width], axis=1)
            found.append(Batch(np.zeros(rows, np.int64), groups, encoded[arguments], [ALL] * len(self.arguments), []))
        return found

    # -- snapshots

    def snapshot(self) -> tuple[object, Blocks]:
        state, blocks = super().snapshot()
        assert isinstance(state, dict)
        parts: dict[str, tuple[Any, Blocks]] = {
            "results": self.guarded.snapshot(f"{self._name}-results"),
            "partners": self.partners.snapshot(f"{self._name}-partners"),
            "answers": self.answers.snapshot(f"{self._name}-answers"),
        }
        parts |= {part: queue.snapshot(f"{self._name}-{part}") for part, queue in self._queues().items()}
        blocks |= {name: block for _, made in parts.values() for name, block in made.items()}
        return {**state, **{part: saved for part, (saved, _) in parts.items()}}, blocks

    def _queues(self) -> dict[str, InstantQueue[Any]]:
        return {"coming": self.coming, "meeting": self.meeting, **{f"out-{at}": out for at, out in enumerate(self.out)}}

    def restore(self, state: object, load: Load) -> None:
        super().restore(state, load)
        saved: dict[str, Any] = dict(state)  # type: ignore[call-overload]
        self.guarded.restore(saved["results"], load)
        self.partners.restore(saved["partners"], load)
        self.answers.restore(saved["answers"], load)
        for part, queue in self._queues().items():
            queue.restore(saved[part], load)


def _plain(values: pa.Array, missing: int) -> Ints:
    """Whole numbers, with one in the place of NULL."""
    filled = values.fill_null(missing) if values.null_count else values
    return np.array(filled, np.int64)
