"""A book in snapshots: what its events have changed.

Answer   `BookBlocks.snapshot` gives a JSON value and named blocks: of traces, runs, links, events, waiting matches and
         interned texts those that have changed since the last snapshot. `restore` brings a book with the same rules and
         queries to that state.
State    Which texts were written. The rest is with the book.
Limits   Queries that have gone since are left out; machines are found again by the names of their queries, key columns by
         their expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.kernels.patterns.automaton_arrays import (
    BLOCKS,
    FREE_LINK,
    FREE_RUN,
    HELD,
    LINKS,
    OPEN_RUNS,
    PEAK,
    PROBES,
    PRUNED,
    RUNS,
    SERIAL,
)
from eddyline.kernels.patterns.automaton_chains import join_chains
from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.operators.aggregate.tables import TextBlocks, arrays_of, as_table, plain_of
from eddyline.operators.pattern.book import TraceBook
from eddyline.operators.row_blocks import ROW_NUMBER
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints

#: What is counted over the whole run.
_TOTALS = {"serial": SERIAL, "peak": PEAK, "probes": PROBES, "pruned": PRUNED}
#: Fields of traces; runs say the rest.
_TRACES = ("open", "whole", "last", "serial", "seen", "closed")
#: Begins the names of payload columns, beside those of the book's own.
_PAYLOAD = "="


class BookBlocks:
    def __init__(self, book: TraceBook) -> None:
        self.book = book
        self._texts = TextBlocks(book.encoder)

    # -- written down

    def snapshot(self, name: str) -> tuple[dict[str, Any], Blocks]:
        """`name` begins the names of blocks; no other state has it."""
        book, state = self.book, self.book.state
        state.note_changes()
        parts = {
            "texts": self._texts.snapshot(f"{name}-texts"),
            "traces": book.codes.snapshot(f"{name}-traces", self._of_traces),
            "runs": state.run_blocks.snapshot(f"{name}-runs", self._runs, self._of_runs),
            "links": state.link_blocks.snapshot(f"{name}-links", self._links, self._of_links),
            "events": state.event_blocks.snapshot(f"{name}-events", state.stored, self._of_events),
        }
        waiting = {
            query.config.name: query.waiting.snapshot(f"{name}-waiting")
            for query in book.queries.values()
            if query.waiting is not None
        }
        blocks = {block: make for _, made in (*parts.values(), *waiting.values()) for block, make in made.items()}
        return {
            **{part: saved for part, (saved, _) in parts.items()},
            "waiting": {query: saved for query, (saved, _) in waiting.items()},
            "totals": {total: int(state.count[place]) for total, place in _TOTALS.items()},
            "columns": list(book.table.columns.numbers),
            "machines": {q.config.name: [q.machines.start, len(q.machines)] for q in book.queries.values()},
            "violations": book.violations,
            "rows_in": book.rows_in,
            "candidates": {q.config.name: q.candidates for q in book.queries.values()},
        }, blocks

    def _of_traces(self, codes: Ints) -> dict[str, Any]:
        traces = self.book.state.traces
        return {field: grown(getattr(traces, field), int(codes.max(initial=-1)) + 1)[codes] for field in _TRACES}

    def _runs(self) -> Ints:
        state = self.book.state
        return np.flatnonzero(state.runs.trace[: int(state.count[RUNS])] >= 0)

    def _of_runs(self, numbers: Ints) -> pa.Table:
        runs = self.book.state.runs
        machine = runs.machine[numbers]
        sizes = self.book.table.kernel.size[machine] if len(machine) else machine
        ends = np.cumsum(sizes)
        heads = runs.heads[np.arange(int(sizes.sum())) + np.repeat(runs.block[numbers] - (ends - sizes), sizes)]
        fields = {name: getattr(runs, name)[numbers] for name in ("trace", "machine", "reached", "dead", "done")}
        chains = pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), pa.array(heads))
        return as_table(fields).append_column("heads", chains)

    def _links(self) -> Ints:
        state = self.book.state
        return np.flatnonzero(state.links.event[: int(state.count[LINKS])] >= 0)

    def _of_links(self, numbers: Ints) -> pa.Table:
        links = self.book.state.links
        return as_table({name: getattr(links, name)[numbers] for name in ("event", "next", "start")})

    def _of_events(self, places: Ints) -> pa.Table:
        state = self.book.state
        events = state.events
        arrays = {"ts": events.ts, "rank": events.rank, "keys": events.keys, "nulls": events.nulls}
        table = as_table({name: values[places] for name, values in arrays.items()} | {"number": state.numbers[places]})
        if state.payload.parts:
            for name, column in zip(*_columns(state.payload.take(places)), strict=True):
                table = table.append_column(_PAYLOAD + name, column)
        return table

    # -- and back

    def restore(self, saved: Any, load: Load) -> None:
        book, state = self.book, self.book.state
        self._texts.restore(saved["texts"], load)
        moved, gone = self._moved(saved["machines"])
        codes, arrays = book.codes.load(saved["traces"], load)
        state.room(book.codes.capacity, 0, 0, 0, 0, 0)
        for field in _TRACES:
            getattr(state.traces, field)[codes] = arrays[field]
        if book.silent is not None:
            book.silent.push(state.traces.last[codes], codes)
        for total, place in _TOTALS.items():
            state.count[place] = saved["totals"][total]
        self._restore_events(saved, load)
        runs = state.run_blocks.restore(saved["runs"], load)
        links = state.link_blocks.restore(saved["links"], load)
        self._restore_links(links)
        self._restore_runs(runs, moved)
        refs = state.links.event[state.links.event >= 0]
        for query in book.queries.values():
            if query.waiting is not None and query.config.name in saved["waiting"]:
                query.waiting.restore(saved["waiting"][query.config.name], load, moved)
                held = query.waiting.at(query.waiting.every()).ids
                refs = np.concatenate([refs, held[held >= 0]])
            query.candidates = saved["candidates"].get(query.config.name, query.candidates)
        state.events.refs[: state.stored] = np.bincount(refs, minlength=state.stored)
        state.count[HELD] = np.count_nonzero(state.events.refs[: state.stored])
        if gone or (moved != np.arange(len(moved))).any():
            state.run_blocks.renew()
            state.link_blocks.renew()
        book.violations, book.rows_in = saved["violations"], saved["rows_in"]
        state.need({name: book.config.columns[name].arrow for name in book.needed()})

    def _moved(self, machines: Mapping[str, list[int]]) -> tuple[Ints, bool]:
        """Old numbers of machines to new ones, -1 for those of queries that have gone; and whether there are any."""
        moved = np.full(max((first + count for first, count in machines.values()), default=0), -1)
        for name, (first, count) in machines.items():
            if name in self.book.queries:
                now = self.book.queries[name].machines
                moved[first : first + count] = np.arange(now.start, now.stop)
        return moved, any(name not in self.book.queries for name in machines)

    def _restore_events(self, saved: Any, load: Load) -> None:
        state, numbers = self.book.state, self.book.table.columns.numbers
        state.wide(len(numbers))
        table = state.event_blocks.restore(saved["events"], load)
        payload = [name for name in table.column_names if name.startswith(_PAYLOAD)]
        arrays = arrays_of(table.drop_columns(payload))
        rows = len(table)
        state.room(0, rows, 0, 0, 0, 0)
        events = state.events
        events.ts[:rows], events.rank[:rows], state.numbers[:rows] = arrays["ts"], arrays["rank"], arrays["number"]
        events.nulls[:rows] = True
        for was, text in enumerate(saved["columns"]):
            if text in numbers and "keys" in arrays:
                events.keys[:rows, numbers[text]] = arrays["keys"][:, was]
                events.nulls[:rows, numbers[text]] = arrays["nulls"][:, was]
        if saved["columns"] != list(numbers):
            state.event_blocks.renew()
        state.stored = rows
        if payload:
            named = table.select(payload)
            state.payload.append(named.rename_columns([name[len(_PAYLOAD) :] for name in payload]).combine_chunks())

    def _restore_links(self, table: pa.Table) -> None:
        state, numbers = self.book.state, plain_of(table, ROW_NUMBER)
        count = int(numbers.max(initial=-1)) + 1
        state.room(0, 0, 0, count, 0, 0)
        for name in ("event", "next", "start"):
            getattr(state.links, name)[numbers] = plain_of(table, name)
        state.count[LINKS] = count

    def _restore_runs(self, table: pa.Table, moved: Ints) -> None:
        """Runs, the chains of each, and what is free. Links of machines that are gone become free."""
        state, numbers = self.book.state, plain_of(table, ROW_NUMBER)
        machine = moved[plain_of(table, "machine")] if len(table) else numbers
        if (machine < 0).any():
            table = table.filter(pa.array(machine >= 0))
            numbers, machine = numbers[machine >= 0], machine[machine >= 0]
        count = int(numbers.max(initial=-1)) + 1
        chains = table.column("heads").combine_chunks()
        heads = np.array(chains.flatten())
        state.room(0, 0, 0, 0, count, len(heads))
        runs, links = state.runs, state.links
        for name in ("trace", "reached", "dead", "done"):
            getattr(runs, name)[numbers] = plain_of(table, name)
        runs.machine[numbers] = machine
        sizes = np.array(chains.value_lengths()).astype(np.int64)
        runs.block[numbers] = np.cumsum(sizes) - sizes
        runs.heads[: len(heads)] = heads
        state.count[RUNS], state.count[BLOCKS], state.count[OPEN_RUNS] = count, len(heads), len(numbers)
        is_held = np.zeros(len(links.event), np.bool_)
        join_chains(numbers, heads, state.traces, runs, links, is_held)
        links.event[~is_held] = -1
        state.count[FREE_RUN] = _chained(runs.next, runs.trace[:count] < 0)
        state.count[FREE_LINK] = _chained(links.next, ~is_held[: int(state.count[LINKS])])


def _chained(following: Ints, free: np.ndarray) -> int:
    """Chain what is free; returns the first, or -1."""
    numbers = np.flatnonzero(free)
    following[numbers] = np.append(numbers[1:], -1)[: len(numbers)]
    return int(numbers[0]) if len(numbers) else -1


def _columns(table: pa.Table) -> tuple[list[str], list[pa.ChunkedArray]]:
    return table.column_names, table.columns
