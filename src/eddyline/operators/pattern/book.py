"""All event patterns and constraints over one stream, its column of types and its traces: one pass per slice.

Answer   `take` processes rows in total order: traces are cut, violations found, matches handed to their queries.
         `advance` gives what the frontier alone brings about. `purge` forgets traces that silence has ended and events
         that lie WITHIN no match to come.

             rows ─► trace codes ─► type codes ─┐
                └──► grouped filter ─► pairs ───┴─► kernel ─► matches ─► queries
                                                       └────► violations ─► dead letters

State    Codes of traces that are open, `BookState`, machines, the queries' waiting matches.
Limits   Rows come in total order. Constraints hold for the whole run; patterns come and go between two slices.
Reading  docs/operators/patterns.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter

import numpy as np
import pyarrow as pa

from eddyline.errors import DataProblem
from eddyline.kernels.patterns import automaton_sweep as kernels
from eddyline.kernels.patterns.automaton import process
from eddyline.kernels.patterns.automaton_arrays import (
    ENDED,
    GAPS,
    HELD,
    MATCHING,
    OPEN_RUNS,
    OUT,
    PEAK,
    PROBES,
    PRUNED,
    TAIL,
    TAILS,
    VIOLATIONS,
    EventSlice,
    Machines,
    MatchOutput,
    Scratch,
)
from eddyline.kernels.patterns.automaton_matches import DONE, FULL, PAUSED, PLACES, ROW, STEPS
from eddyline.model.query import OutputColumn as Column
from eddyline.model.window import FOREVER
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder
from eddyline.operators.aggregate.accumulators.groups import Dictionary
from eddyline.operators.aggregate.expiry import ExpiryQueue
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.pattern.automaton import MachineTable
from eddyline.operators.pattern.config import BookConfig, PatternConfig
from eddyline.operators.pattern.matcher import Made, PatternMatcher, Raw
from eddyline.operators.pattern.monitor import MonitorTable
from eddyline.operators.pattern.state import BookState
from eddyline.operators.stream.stream import whole_columns
from eddyline.state.columns import Ints
from eddyline.tuning import PatternTuning

#: The first size of a buffer that doubles as it fills.
_GAPS = 1 << 12


class TraceBook:
    def __init__(self, config: BookConfig, issues: Issues | None = None, tuning: PatternTuning | None = None) -> None:
        self.config = config
        self.issues = issues
        self.monitor = MonitorTable(config.rules)
        self.table = MachineTable(self.monitor, issues)
        tuning = tuning or PatternTuning()
        self.state = BookState(self.monitor.width, tuning)
        self.encoder = ValueEncoder()
        self.codes = Dictionary(len(config.key.partition) + 1)
        self.queries: dict[str, PatternMatcher] = {}
        #: Queries by the numbers of their machines.
        self._owners: dict[int, PatternMatcher] = {}
        self._needed: list[str] | None = None
        self.violations = 0
        self.rows_in = 0
        self.seconds = 0.0
        self._many = tuning.many_matches
        self._most, self._steps = tuning.matches_at_once, tuning.most_steps
        self._gap_room = _GAPS
        self._least_swept = tuning.least_swept
        self._swept = 0
        #: Open traces by their newest events, which may be out of date; None: no silence ends a trace.
        self.silent = None if config.rules.end_after is None else ExpiryQueue()

    # -- patterns

    def add(
        self, config: PatternConfig, outputs: tuple[Column, ...], start: int, sequence: str | None = None
    ) -> PatternMatcher:
        """A pattern joins; rows at or before `start` do not exist for it. Results carry the column `sequence` where
        there is one."""
        machines = self.table.add(config, start)
        found = [self.table.machines[number] for number in machines]
        query = PatternMatcher(
            config,
            outputs,
            machines,
            [m for m in found if m is not None],
            self.config.columns,
            self.issues,
            sequence,
            self._many,
        )
        self.queries[config.name] = query
        self._owners.update(dict.fromkeys(machines, query))
        self._needed = None
        self.state.need({name: self.config.columns[name].arrow for name in query.columns or self.needed()})
        self.state.wide(len(self.table.columns))
        return query

    def remove(self, name: str) -> None:
        query = self.queries.pop(name)
        self._needed = None
        for number in query.machines:
            del self._owners[number]
        gone = np.zeros(len(self.table.machines), np.bool_)
        gone[query.machines.start : query.machines.stop] = True
        kernels.drop_machines(self._open(), gone, *self._arrays())
        query.forget(self.state)
        self.table.remove(query.machines)

    def stop(self, name: str, stop: int) -> None:
        self.queries[name].stop = stop
        self.table.stop(self.queries[name].machines, stop)

    def needed(self) -> list[str]:
        """The columns that stored events must have: where there are patterns at least one, since a table without
        columns has no rows."""
        if self._needed is None:
            read: set[str] = set().union(*(q.columns for q in self.queries.values()))
            self._needed = sorted(read) if read or not self.queries else [self.config.key.type]
        return self._needed

    # -- rows

    def take(
        self, table: pa.Table, ts: Ints, rank: Ints, number: Ints, on_many: Callable[[], None] = lambda: None
    ) -> pa.Table | None:
        """Rows in total order; returns those that break a constraint, with their reasons. `on_many` is called when
        queries have many results ready, in the middle of the rows."""
        began = perf_counter()
        self.rows_in += len(ts)
        columns = whole_columns(table.select(self._read()))
        types = self.monitor.codes(columns[self.config.key.type])
        chosen, pair_first, pair_slot = self._pairs(columns, types)
        if chosen is not None:
            columns = {name: column.take(pa.array(chosen)) for name, column in columns.items()}
            types, ts, rank, number = types[chosen], ts[chosen], rank[chosen], number[chosen]
        rows = len(ts)
        code = self._codes(columns, rows)
        machines = self.table.kernel
        hits = np.diff(machines.target_first)[pair_slot].sum() if len(pair_slot) else 0
        state = self.state
        self._room(rows, int(hits))
        base = state.stored
        self._store(columns, base, rows, ts, rank, number)
        kept = {name: columns[name] for name in self.needed()}
        raw = Raw(state, kept, base, {name: columns[name] for name in self.config.key.partition})
        violations = self._run(EventSlice(base, code, types, pair_first, pair_slot), machines, int(hits), raw, on_many)
        for query in self.queries.values():
            if query.is_open:
                query.finish_slice(raw)
        broken = self._violations(table, chosen, violations)
        state.keep_referenced(
            rows, kept, [query.waiting for query in self.queries.values() if query.waiting is not None]
        )
        if self.silent is not None:
            traces = np.unique(code[code >= 0])
            self.silent.push(state.traces.last[traces], traces)
        self._finish()
        self._forget_codes(code)
        self.seconds += perf_counter() - began
        return broken

    def _room(self, rows: int, hits: int) -> None:
        """Room for rows that leaves take so many times. A trace has at most one run of each machine at a time."""
        sizes, codes = self.table.kernel.size, self.codes.capacity
        runs = min(hits, codes * len(sizes))
        blocks = min(hits * int(sizes.max(initial=1)), codes * int(sizes.sum()))
        self.state.room(codes, rows, len(self.table.columns), hits, runs, blocks)

    def _read(self) -> list[str]:
        """The columns of the stream that a slice needs."""
        key = self.config.key
        return sorted(
            {key.type, *key.partition, *self.needed(), *self.table.filter.columns(), *self.table.columns.names}
        )

    def _codes(self, columns: Mapping[str, pa.Array], rows: int) -> Ints:
        names = self.config.key.partition
        if not names:
            return self.codes.codes(np.zeros((1, 1), np.int64)).repeat(rows)
        encoded = self.encoder.encode_rows([columns[n] for n in names], [self.config.columns[n] for n in names])
        there = encoded[:, -1] == 0
        if there.all():
            return self.codes.codes(encoded)
        found = np.full(rows, -1, np.int64)
        found[there] = self.codes.codes(encoded[there])
        return found

    def _pairs(self, columns: Mapping[str, pa.Array], types: Ints) -> tuple[Ints | None, Ints, Ints]:
        """The rows that count (None: all), where the filter slots of each begin, and those slots.

        A row that no leaf takes and whose type no rule names changes nothing, unless any row at all begins a trace or
        keeps it open.
        """
        rules, rows = self.config.rules, len(types)
        slots, at = self.table.filter.match_pairs(columns, rows)
        counts = np.bincount(at, minlength=rows)
        chosen = None
        if not rules.begin and rules.end_after is None:
            chosen = np.flatnonzero((counts > 0) | (types >= 0) if self.monitor.types else counts)
            counts, chosen = (counts, None) if len(chosen) == rows else (counts[chosen], chosen)
        first = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=first[1:])
        return chosen, first, slots[np.argsort(at, kind="stable")]

    def _store(self, columns: Mapping[str, pa.Array], base: int, rows: int, ts: Ints, rank: Ints, number: Ints) -> None:
        events = self.state.events
        here = slice(base, base + rows)
        events.refs[here] = 0
        events.ts[here], events.rank[here], self.state.numbers[here] = ts, rank, number
        if len(self.table.columns):
            events.keys[here], events.nulls[here] = self.table.columns.keys(columns, rows, self.issues)

    def _run(
        self, part: EventSlice, machines: Machines, hits: int, raw: Raw, on_many: Callable[[], None]
    ) -> tuple[Ints, np.ndarray, np.ndarray]:
        """The kernel over a slice, with stops where its output is full."""
        state, count = self.state, self.state.count
        rows = len(part.code)
        tails = hits if (machines.kind == TAIL).any() else 0
        scratch = Scratch(
            np.zeros(len(machines.size), np.uint64),
            np.zeros(len(machines.size), np.int64),
            np.zeros(len(machines.size), np.int64),
            np.zeros(len(machines.size), np.uint64),
            *(np.zeros(64, np.int64) for _ in range(3)),
        )
        out = self._output(rows, tails)
        for counter in (VIOLATIONS, ENDED, OUT, GAPS, TAILS, MATCHING):
            count[counter] = 0
        resume = np.zeros(PLACES, np.int64)
        resume[STEPS] = self._steps
        while True:
            ended = process(
                part,
                state.traces,
                state.runs,
                state.links,
                state.events,
                machines,
                self.monitor.kernel,
                scratch,
                out,
                count,
                resume,
            )
            if ended == PAUSED:
                # Python runs the handlers of signals before the next call.
                continue
            if ended == FULL and not count[OUT]:
                self._gap_room *= 2
                more = self._output(rows, tails)
                kept = {n: a for n, a in out._asdict().items() if not n.startswith("gap_")}
                out = more._replace(**kept)
                continue
            raw.take(out, int(count[OUT]), int(count[GAPS]))
            for query in dict.fromkeys(self._owners[number] for number in np.unique(raw.machine).tolist()):
                query.found(raw)
            raw.tails(out, int(count[TAILS]))
            count[OUT] = count[GAPS] = count[TAILS] = 0
            if ended == DONE:
                break
            raw.reached = part.base + int(resume[ROW])
            for query in self.queries.values():
                query.finish_older(raw)
            on_many()
        broken = int(count[VIOLATIONS])
        return out.violation_row[:broken], out.violation_seen[:broken], out.violation_whole[:broken]

    def _output(self, rows: int, tails: int) -> MatchOutput:
        machines = self.table.kernel
        widest = int(machines.size.max()) if len(machines.size) else 1
        most = self._most if len(machines.size) else 0
        checked = rows if self.config.rules.checks else 0
        sizes = {"gap": self._gap_room, "tail": tails, "violation": checked, "ended": rows}
        made = {name: np.empty(sizes.get(name.partition("_")[0], most), np.int64) for name in MatchOutput._fields}
        made["events"] = np.empty((most, widest), np.int64)
        made["violation_seen"] = np.empty((checked, self.monitor.width), np.uint64)
        made["violation_whole"] = np.empty(checked, np.bool_)
        return MatchOutput(**made)

    def _violations(
        self, table: pa.Table, chosen: Ints | None, found: tuple[Ints, np.ndarray, np.ndarray]
    ) -> pa.Table | None:
        rows, seen, whole = found
        if not len(rows):
            return None
        self.violations += len(rows)
        taken = table.take(pa.array(rows if chosen is None else chosen[rows]))
        types = taken.column(self.config.key.type).to_pylist()
        names = self.config.key.partition
        traces = list(zip(*(taken.column(n).to_pylist() for n in names), strict=True)) if names else [()] * len(rows)
        reasons = []
        for at, kind in enumerate(types):
            rule = self.monitor.reason(self.monitor.set_of(seen[at]), kind, bool(whole[at]))
            trace = f", trace {', '.join(map(str, traces[at]))}" if names else ""
            reasons.append(f"violation: {rule}{trace}")
        if self.config.on_violation == "error":
            raise DataProblem(
                f"an event of stream {self.config.key.stream} breaks a constraint",
                detail=reasons[0],
                hint="mend the source or the constraint, or SET on_violation = 'dead-letter'",
            )
        return taken.append_column("_reason", pa.array(reasons, pa.string()))

    def _finish(self) -> None:
        """Traces that have had the first match of a pattern take no more events for it."""
        for query in self.queries.values():
            if query.config.pattern.first and (ended := query.finished()) is not None:
                codes, serials = ended
                first = np.full(len(codes), query.machines.start)
                runs = len(codes) * len(query.machines)
                self.state.room(self.codes.capacity, 0, 0, 0, runs, runs * int(self.table.kernel.size.max()))
                kernels.finish(codes, serials, first, first + len(query.machines), *self._arrays())

    # -- time

    def advance(self, frontier: int) -> dict[str, list[Made]]:
        """What is certain now that everything below the frontier has been taken: the queries' results in order."""
        made = {name: query.advance(frontier, self.state) for name, query in self.queries.items() if query.is_due}
        self._finish()
        return made

    def purge(self, frontier: int) -> None:
        """Rows still to come are at or after the frontier."""
        if self.silent is not None and self.config.rules.end_after is not None:
            last, ended = self.silent.pop_pairs(frontier - self.config.rules.end_after)
            traces = self.state.traces
            ended = np.unique(ended[(traces.open[ended] != 0) & (traces.last[ended] == last)])
            if len(ended):
                kernels.end_traces(ended, *self._arrays())
                self.codes.release(ended)
        machines = self.table.kernel
        can_end = len(machines.within) and (int(machines.within.min()) < FOREVER or machines.plain_gap.any())
        if can_end and int(self.state.count[HELD]) > 2 * self._swept + self._least_swept:
            open_traces = self._open()
            kernels.sweep(open_traces, frontier, *self._arrays())
            self._swept = int(self.state.count[HELD])
            self._forget_codes(open_traces)
        if self.encoder.is_full:
            self.encoder.sweep(
                [
                    self.codes.keys[self.codes.live()][:, at]
                    for at, n in enumerate(self.config.key.partition)
                    if self._is_text(n)
                ]
            )

    def _is_text(self, name: str) -> bool:
        return self.config.columns[name].name in ("STRING", "DECIMAL")

    def _forget_codes(self, codes: Ints) -> None:
        """Traces that have ended give their codes back. Where no rule says when traces end, traces without a run do so
        too."""
        traces = self.state.traces
        # Rows without a trace have the code -1.
        found = np.unique(codes[codes >= 0])
        if self.config.rules.types or self.config.rules.end_after is not None:
            gone = found[traces.open[found] == 0]
        else:
            gone = found[traces.run[found] < 0]
            # The trace of a match that waits is the same until it is decided.
            for query in self.queries.values() if len(gone) else ():
                if query.waiting is not None and len(query.waiting):
                    serials = np.sort(traces.serial[gone])
                    waited = query.waiting.at(query.waiting.of_traces(serials)).code
                    gone = gone[~np.isin(gone, waited)]
            traces.open[gone] = 0
        if len(gone):
            self.codes.release(gone)

    def _open(self) -> Ints:
        return np.flatnonzero(self.state.traces.open).astype(np.int64)

    def _arrays(self) -> tuple[object, ...]:
        s = self.state
        return s.traces, self.table.kernel, s.runs, s.links, s.events, s.count

    # -- figures

    def report(self) -> dict[str, int]:
        count = self.state.count
        return {
            "events_held": int(count[HELD]),
            "peak_events_held": int(count[PEAK]),
            "probes": int(count[PROBES]),
            "runs": int(count[OPEN_RUNS]),
            "pruned": int(count[PRUNED]),
            "traces": self.codes.held,
            "violations": self.violations,
        }
