"""One EVENT query above the kernel: which assignments are matches, which of them are results, and when.

Answer   `found` takes the assignments of its machines and tests on columns the conditions that keys cannot decide.
         `finish_slice`, at the end of a slice, makes one of equal maps, picks first matches, and hands results out in
         order. Matches of patterns that end with a NOT wait: `advance` gives those whose time has passed without an
         event that fills the gap. `finish_older` does the same in the middle of a slice.
State    Matches that wait, with an event index per name; -1 where a disjunct does not bind it.
Limits   A pattern with a NOT at the end hands out all its matches when time has passed them, so that they stay in
         order; its first matches only between two slices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.kernels.patterns.automaton_arrays import HELD, PEAK, MatchOutput
from eddyline.model.datatypes import TIMESTAMP, DataType
from eddyline.model.expressions.expression import ColumnKey, Expression, columns_of
from eddyline.model.patterns.pattern import TRACE
from eddyline.model.query import OutputColumn as Column
from eddyline.operators.expressions.evaluate import Issues, compile_expression, compile_predicate
from eddyline.operators.pattern.automaton import NEVER, Machine
from eddyline.operators.pattern.config import PatternConfig
from eddyline.operators.pattern.many import ManyMatches
from eddyline.operators.pattern.state import BookState
from eddyline.operators.pattern.waiting_matches import Matches, WaitingMatches, oldest, once
from eddyline.operators.project import result_schema
from eddyline.state.columns import Ints

Mask = np.ndarray
_NONE: Ints = np.empty(0, np.int64)
Ids = Mapping[Any, Ints]
#: Columns of events by (name, column), for the events of each name.
Gather = Callable[[frozenset[ColumnKey], Ids], dict[ColumnKey, pa.Array]]


class Raw:
    """The kernel's output for one slice, and the columns behind it."""

    def __init__(
        self, state: BookState, kept: Mapping[str, pa.Array], base: int, partition: Mapping[str, pa.Array]
    ) -> None:
        self.state, self.base = state, base
        self._partition = partition
        #: The event at which the kernel stands: of older ones it has found all matches.
        self.reached = base
        self._kept = kept

    def take(self, out: MatchOutput, matches: int, gaps: int) -> None:
        """Views of the output: they hold until the kernel goes on."""
        machine = out.machine[:matches]
        order: slice | Ints = slice(0, matches)
        if (machine[1:] < machine[:-1]).any():
            order = np.argsort(machine, kind="stable")
        self.machine = out.machine[order]
        self.events, self.row = out.events[order], out.row[order]
        self.serial, self.code = out.serial[order], out.code[order]
        place = np.empty(matches, np.int64)
        place[order] = np.arange(matches)
        self.gap_match, self.gap_leaf, self.gap_event = (
            place[out.gap_match[:gaps]],
            out.gap_leaf[:gaps],
            out.gap_event[:gaps],
        )

    def tails(self, out: MatchOutput, count: int) -> None:
        """The events that may fill a gap at the end, since the last call."""
        self.tail_machine, self.tail_leaf = out.tail_machine[:count], out.tail_leaf[:count]
        self.tail_event, self.tail_serial = self.base + out.tail_row[:count], out.tail_serial[:count]

    def partition_of(self, event: int) -> str:
        """The partition of an event of the slice, as messages name it."""
        named = [f"{name} = {values[event - self.base].as_py()!r}" for name, values in self._partition.items()]
        return f" with {' and '.join(named)}" if named else ""

    def gather(self, columns: frozenset[ColumnKey], ids: Ids) -> dict[ColumnKey, pa.Array]:
        """Columns of events by (name, column); NULL where the name is not bound."""
        return {(name, column): self._taken(column, ids[name]) for name, column in columns}

    def _taken(self, column: str, at: Ints) -> pa.Array:
        return self.state.values(column, at, self._kept[column])


@dataclass(frozen=True)
class Made:
    """Results in order, with their newest events' places of arrival."""

    table: pa.Table
    numbers: Ints
    waits: Mask
    sequence: pa.Array | None


class PatternMatcher:
    def __init__(
        self,
        config: PatternConfig,
        outputs: tuple[Column, ...],
        machines: range,
        built: list[Machine],
        types: Mapping[str, DataType],
        issues: Issues | None,
        sequence: str | None,
        many_matches: int,
    ) -> None:
        self.config = config
        self.machines = machines
        self.built = built
        self.names = config.pattern.names
        self.issues = issues
        self.stop: int = NEVER
        self.results = 0
        self.candidates = 0
        self.schema = result_schema(outputs)
        self.many = ManyMatches(config, many_matches)
        self._outputs = [compile_expression(o.expression) for o in outputs]
        self._read = frozenset(at for compiled in self._outputs for at in compiled.columns)
        conditions = [e for m in built for e in (*m.rest, *(x for some in m.gap_rest.values() for x in some))]
        self._tests = {e: compile_predicate(e) for e in conditions}
        #: Column that orders events of equal time in other shards' results; None: no caller needs it.
        self.sequence = sequence
        self._own_columns = frozenset(column for _, column in self._read.union(*(columns_of(e) for e in conditions)))
        self._fresh = Matches.none(len(self.names))
        #: None: no match of the pattern waits.
        self.waiting = WaitingMatches(len(self.names)) if config.pattern.waits else None
        self._ready: list[Made] = []
        self._finished: list[tuple[Ints, Ints]] = []
        bound = [frozenset(config.pattern.names_of(m.disjunct)) for m in built]
        self._repeats = len(set(bound)) < len(bound)

    @property
    def columns(self) -> frozenset[str]:
        return self._own_columns if self.sequence is None else self._own_columns | {self.sequence}

    @property
    def is_open(self) -> bool:
        """Whether `finish_slice` has work to do."""
        return len(self._fresh.last) > 0 or self.waiting_count > 0

    @property
    def is_due(self) -> bool:
        """Whether time can bring a result."""
        return len(self._ready) > 0 or self.waiting_count > 0

    @property
    def waiting_count(self) -> int:
        return 0 if self.waiting is None else len(self.waiting)

    # -- assignments

    def found(self, raw: Raw) -> None:
        """The assignments of this pattern's machines among those that the kernel put out."""
        kept = []
        for number, machine in zip(self.machines, self.built, strict=True):
            a, b = np.searchsorted(raw.machine, [number, number + 1])
            if a < b:
                self.candidates += int(b - a)
                kept.append(self._kept(raw, number, machine, int(a), int(b)))
        newest = np.concatenate([matches.last for matches in kept])
        if len(newest):
            self.many.see(newest, raw.partition_of)
        self._fresh = reduce(Matches.also, kept, self._fresh)
        if self.config.pattern.first and not self.config.pattern.waits:
            self._fresh = oldest(self._fresh)

    def _kept(self, raw: Raw, number: int, machine: Machine, first: int, stop: int) -> Matches:
        events = raw.events[first:stop, : machine.events]
        names = self.config.pattern.names_of(machine.disjunct)
        ids = {name: np.ascontiguousarray(events[:, at]) for at, name in enumerate(names)}
        last = raw.base + raw.row[first:stop]
        ids[TRACE] = last
        keep = np.ones(stop - first, np.bool_)
        for part in machine.rest:
            keep &= self._true(part, raw, ids, stop - first)
        mine = (raw.gap_match >= first) & (raw.gap_match < stop)
        if mine.any():
            self._fill(raw, machine, ids, raw.gap_match[mine] - first, raw.gap_leaf[mine], raw.gap_event[mine], keep)
        whole = np.full((stop - first, len(self.names)), -1, np.int64)
        for at, name in enumerate(names):
            whole[:, self.names.index(name)] = events[:, at]
        times = raw.state.events.ts
        waits = machine.disjunct.waits
        within = self.config.pattern.within
        ts = times[events.min(axis=1)] + within if waits and within is not None else times[last]
        found = Matches(
            whole,
            last,
            ts,
            raw.serial[first:stop],
            raw.code[first:stop],
            np.full(stop - first, number),
            np.full(stop - first, waits),
        )
        return found.at(keep)

    def _fill(self, raw: Raw, machine: Machine, ids: Ids, match: Ints, leaf: Ints, event: Ints, keep: Mask) -> None:
        """Matches whose gap is filled by one of the candidate events are no matches."""
        for place, parts in machine.gap_rest.items():
            chosen = leaf == place
            if chosen.any():
                at = match[chosen]
                name = self.config.pattern.leaves[machine.gaps[place - machine.events].leaf].name
                here = {other: values[at] for other, values in ids.items()} | {name: event[chosen]}
                filled = np.ones(len(at), np.bool_)
                for part in parts:
                    filled &= self._true(part, raw, here, len(at))
                keep[at[filled]] = False

    def _true(self, part: Expression, raw: Raw, ids: Ids, rows: int) -> Mask:
        test = self._tests[part]
        found: Mask = test(raw.gather(frozenset(test.columns), ids), rows, self.issues)
        return found

    # -- the end of a slice

    def finish_slice(self, raw: Raw) -> None:
        """What the slice has brought: results, or matches that wait."""
        fresh, self._fresh = self._fresh, Matches.none(len(self.names))
        if len(fresh) and self._repeats:
            fresh = once(fresh)
        if self.waiting is not None:
            self._hold(fresh, raw.state, 1)
            self.waiting.add(fresh)
            self._fill_tails(raw, self.waiting)
            return
        if not len(fresh):
            return
        fresh = fresh.at(fresh.order(waits=False))
        if self.config.pattern.first:
            self._finished.append((fresh.code, fresh.serial))
        self._ready.append(self._made(fresh, raw.gather, raw.state))

    def finish_older(self, raw: Raw) -> None:
        """The slice goes on after the row `raw.reached`: matches with an older newest event are all there. They become
        results, or wait; what waits for a time before that row becomes results too. Of first matches the kernel must
        hear between two slices."""
        pattern = self.config.pattern
        if pattern.first and not pattern.waits:
            return
        fresh = self._fresh
        older = fresh.last < raw.reached
        if older.any() or pattern.waits:
            self._fresh = fresh.at(older)
            self.finish_slice(raw)
            self._fresh = fresh.at(~older)
        if pattern.waits and not pattern.first:
            self._ready += self._passed(int(raw.state.events.ts[raw.reached]), raw.state, raw.gather)

    def ready(self) -> list[Made]:
        """The results so far that wait for nothing, in order."""
        made, self._ready = self._ready, []
        self.results += sum(len(m.table) for m in made)
        return made

    def _fill_tails(self, raw: Raw, waiting: WaitingMatches) -> None:
        """Events of a NOT at the end take the matches of their trace that wait for it."""
        slots = waiting.of_traces(np.unique(raw.tail_serial))
        if not len(slots):
            return
        held = waiting.at(slots)
        keep = np.ones(len(held), np.bool_)
        times = raw.state.events.ts
        for number, machine in zip(self.machines, self.built, strict=True):
            for place, gap in enumerate(machine.gaps, machine.events):
                if gap.after:
                    continue
                tails = np.flatnonzero((raw.tail_machine == number) & (raw.tail_leaf == place))
                mine = np.flatnonzero((held.machine == number) & held.waits)
                if not len(tails) or not len(mine):
                    continue
                tails = tails[np.argsort(raw.tail_serial[tails], kind="stable")]
                low = np.searchsorted(raw.tail_serial[tails], held.serial[mine])
                high = np.searchsorted(raw.tail_serial[tails], held.serial[mine], side="right")
                match = np.repeat(mine, high - low)
                event = raw.tail_event[tails[_ranges(low, high)]]
                good = (event > held.last[match]) & (times[event] <= held.ts[match])
                match, event = match[good], event[good]
                name = self.config.pattern.leaves[gap.leaf].name
                ids = {other: held.ids[match, at] for at, other in enumerate(self.names)}
                ids |= {TRACE: held.last[match], name: event}
                filled = np.ones(len(match), np.bool_)
                for part in machine.gap_rest.get(place, ()):
                    filled &= self._true(part, raw, ids, len(match))
                keep[match[filled]] = False
        self._let_go(raw.state, waiting, slots[~keep])

    def _let_go(self, state: BookState, waiting: WaitingMatches, slots: Ints) -> None:
        self._hold(waiting.at(slots), state, -1)
        waiting.drop(slots)

    def _hold(self, matches: Matches, state: BookState, by: int) -> None:
        """Waiting matches hold their events."""
        if not len(matches):
            return
        ids = matches.ids[matches.ids >= 0]
        refs, count = state.events.refs, state.count
        touched = np.unique(ids)
        before = np.count_nonzero(refs[touched])
        np.add.at(refs, ids, by)
        count[HELD] += np.count_nonzero(refs[touched]) - before
        count[PEAK] = max(count[PEAK], count[HELD])

    # -- time

    def advance(self, frontier: int, state: BookState) -> list[Made]:
        """Results that are certain now, in order."""

        def gather(columns: frozenset[ColumnKey], ids: Ids) -> dict[ColumnKey, pa.Array]:
            return {(name, c): state.values(c, ids[name]) for name, c in columns}

        self._ready += self._passed(frontier, state, gather)
        return self.ready()

    def _passed(self, time: int, state: BookState, gather: Gather) -> list[Made]:
        """The matches that waited for an earlier time, as one table in order."""
        waiting = self.waiting
        slots = _NONE if waiting is None else waiting.due(time)
        if waiting is None or not len(slots):
            return []
        sure = waiting.at(slots)
        chosen = sure.at(sure.order(waits=True))
        if self.config.pattern.first:
            chosen = oldest(sure)
            chosen = chosen.at(chosen.order(waits=True))
            self._finished.append((chosen.code, chosen.serial))
            slots = np.union1d(slots, waiting.of_traces(np.unique(chosen.serial)))
        chosen = chosen.at(chosen.ts <= self.stop)
        made = [self._made(chosen, gather, state)] if len(chosen) else []
        self._let_go(state, waiting, slots)
        return made

    def _made(self, matches: Matches, gather: Gather, state: BookState) -> Made:
        ids = {name: matches.ids[:, at] for at, name in enumerate(self.names)} | {TRACE: matches.last}
        values = gather(self._read, ids)
        arrays = [
            compiled({at: values[at] for at in compiled.columns}, len(matches), self.issues)
            for compiled in self._outputs
        ]
        arrays.append(pa.array(matches.ts).cast(TIMESTAMP.arrow))
        sequence = None
        if self.sequence is not None:
            sequence = gather(frozenset({(TRACE, self.sequence)}), ids)[TRACE, self.sequence]
        return Made(
            pa.Table.from_arrays(arrays, schema=self.schema), state.numbers[matches.last], matches.waits, sequence
        )

    def finished(self) -> tuple[Ints, Ints] | None:
        """Codes and serials of traces whose first match is out; each once. None: there are none."""
        found, self._finished = self._finished, []
        if not found:
            return None
        return np.concatenate([c for c, _ in found]), np.concatenate([s for _, s in found])

    def forget(self, state: BookState) -> None:
        if self.waiting is not None:
            self._let_go(state, self.waiting, self.waiting.every())


def _ranges(low: Ints, high: Ints) -> Ints:
    """All numbers low[i] .. high[i] - 1, one range after the other."""
    counts = high - low
    return np.arange(int(counts.sum())) + np.repeat(low - (np.cumsum(counts) - counts), counts)
