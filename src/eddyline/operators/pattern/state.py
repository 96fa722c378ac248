"""What a book remembers: traces, runs, chains and events, as arrays that grow.

Answer   `room` makes place for what a slice can bring; the kernel changes the arrays. `keep_referenced` keeps the events
         of a slice that some run or waiting match holds, and closes the holes of older ones. `values` gives columns of
         events. `saved.py` writes everything down.
State    Arrays by code of the trace, by run, by link, by event; the payload of events, one row per event. The numbers of
         the runs and links that have changed since the last snapshot.
Limits   Events keep their order: a larger index is a newer event. When events get other indexes, the next snapshot writes
         all events, links and waiting matches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from eddyline.kernels.patterns.automaton_arrays import (
    BLOCKS,
    COUNTS,
    FREE_LINK,
    FREE_RUN,
    HELD,
    LINKS,
    NOTED_LINKS,
    NOTED_RUNS,
    RUNS,
    Events,
    Links,
    PatternRuns,
    Traces,
)
from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.operators.row_blocks import GrownBlocks, RowBlocks
from eddyline.state.columns import Ints
from eddyline.state.growing_table import GrowingTable
from eddyline.tuning import PatternTuning

#: The first size of arrays that grow.
_LEAST = 64
#: Heads by the number of leaves of a machine, which is at most 64.
_SIZES = 66


class EventHolder(Protocol):
    """Holds events by their indexes."""

    def move(self, first: int, moved: Ints, *, every: bool) -> None:
        """The events from `first` on have the indexes `moved`; without `every` only what has come since the last call
        refers to them."""


def _filled(fill: int, size: int = _LEAST) -> Ints:
    return np.full(size, fill, np.int64)


def _none(size: int = _LEAST) -> np.ndarray:
    return np.zeros(size, np.bool_)


class BookState:
    def __init__(self, width: int, tuning: PatternTuning) -> None:
        self.width = width
        self.tuning = tuning
        words = np.zeros((_LEAST, width), np.uint64)
        self.traces = Traces(
            np.zeros(_LEAST, np.int8), _none(), _filled(0), _filled(-1), words, words.copy(), _filled(-1)
        )
        bits = np.zeros(_LEAST, np.uint64)
        self.runs = PatternRuns(
            _filled(-1),
            _filled(-1),
            _filled(0),
            bits,
            bits.copy(),
            np.zeros(_LEAST, np.int8),
            _filled(0),
            _filled(-1),
            _filled(-1, _SIZES),
            _none(),
            _filled(0),
        )
        self.links = Links(_filled(-1), _filled(-1), _filled(-1), _filled(0), _filled(0), _none(), _filled(0))
        self.events = Events(
            np.zeros(_LEAST, np.int32),
            _filled(0),
            _filled(0),
            np.zeros((_LEAST, 0), np.int64),
            np.zeros((_LEAST, 0), np.bool_),
        )
        #: Of each event its place of arrival in the stream.
        self.numbers: Ints = _filled(0)
        self.count: Ints = np.zeros(COUNTS, np.int64)
        self.count[FREE_RUN] = self.count[FREE_LINK] = -1
        self.payload = GrowingTable()
        self.stored = 0
        self.run_blocks, self.link_blocks, self.event_blocks = RowBlocks(), RowBlocks(), GrownBlocks()

    # -- room

    def room(self, codes: int, rows: int, keys: int, links: int, runs: int, blocks: int) -> None:
        """Place for these numbers of codes of traces, rows of a slice, new links, new runs, and heads."""
        self.traces = Traces(
            *(grown(a, codes, -1 if name in ("serial", "run") else 0) for name, a in self.traces._asdict().items())
        )
        runs += int(self.count[RUNS]) + 1
        heads = int(self.count[BLOCKS]) + blocks + 1
        fields = self.runs._asdict()
        sizes = {"heads": heads, "free_block": _SIZES}
        self.runs = PatternRuns(*(grown(a, sizes.get(name, runs)) for name, a in fields.items()))
        self.links = Links(*(grown(a, int(self.count[LINKS]) + links + 1) for a in self.links))
        self.wide(keys)
        self.events = Events(*(grown(a, self.stored + rows) for a in self.events))
        self.numbers = grown(self.numbers, self.stored + rows)

    def wide(self, keys: int) -> None:
        """Set the number of key columns per event; older events have none of the new ones."""
        have = self.events.keys.shape[1]
        if have < keys:
            size = len(self.events.refs)
            more = np.zeros((size, keys - have), np.int64)
            nothing = np.ones((size, keys - have), np.bool_)
            self.events = self.events._replace(
                keys=np.hstack([self.events.keys, more]), nulls=np.hstack([self.events.nulls, nothing])
            )
            self.event_blocks.renew()

    # -- after a slice

    def keep_referenced(self, rows: int, columns: Mapping[str, pa.Array], holders: Sequence[EventHolder]) -> None:
        """Keep the rows of a slice to which a run or a waiting match refers."""
        base, end = self.stored, self.stored + rows
        kept_new = np.flatnonzero(self.events.refs[base:end] > 0)
        older = int(self.count[HELD]) - len(kept_new)
        # Only links that were noted can refer to events of the slice.
        links = self.note_changes()
        whole = base - older > older + self.tuning.most_holes
        if whole:
            kept_old = np.flatnonzero(self.events.refs[:base] > 0)
            self._move(np.concatenate([kept_old, base + kept_new]), 0, end, np.arange(self.count[LINKS]), holders)
            self.link_blocks.renew()
            self.event_blocks.renew()
            payload, self.payload = self.payload, GrowingTable()
            if len(kept_old):
                self.payload.append(payload.take(kept_old))
        else:
            self._move(base + kept_new, base, end, links, holders)
        if not len(kept_new):
            return
        fresh = pa.table({name: column.take(pa.array(kept_new)) for name, column in columns.items()})
        # Columns that only a dropped pattern wanted are null from then on.
        for name, kind in self.payload.missing(fresh.column_names):
            fresh = fresh.append_column(name, pa.nulls(len(fresh), kind))
        self.payload.append(fresh)

    def _move(self, chosen: Ints, first: int, end: int, links: Ints, holders: Sequence[EventHolder]) -> None:
        """Of the events first … end-1 the chosen ones stay, at the places from `first` on; these links and all holders
        follow."""
        self.stored = first + len(chosen)
        moved = np.zeros(end - first, np.int64)
        moved[chosen - first] = first + np.arange(len(chosen))
        events = self.links.event[links]
        links = links[events >= first]
        self.links.event[links] = moved[events[events >= first] - first]
        for holder in holders:
            holder.move(first, moved, every=first == 0)
        for array in (*self.events, self.numbers):
            array[first : self.stored] = array[chosen]

    def note_changes(self) -> Ints:
        """Tell the blocks which runs and links the kernel has changed; returns these links."""
        links, runs = self.links.noted[: self.count[NOTED_LINKS]].copy(), self.runs.noted[: self.count[NOTED_RUNS]]
        self.links.is_noted[links] = self.runs.is_noted[runs] = False
        self.count[NOTED_LINKS] = self.count[NOTED_RUNS] = 0
        for blocks, numbers, owner in (
            (self.link_blocks, links, self.links.event),
            (self.run_blocks, runs, self.runs.trace),
        ):
            here = owner[numbers] >= 0
            blocks.note(numbers[here])
            blocks.note(numbers[~here], gone=True)
        return links

    def need(self, columns: Mapping[str, pa.DataType]) -> None:
        """Payload has these columns; events that are older than the wish have none of the new ones."""
        if self.payload.widen(columns):
            self.event_blocks.renew()

    # -- columns of events

    def values(self, name: str, at: Ints, fresh: pa.Array | None = None) -> pa.Array:
        """Values of a column at events; NULL at a negative index. `fresh` are those of the events of the slice at hand,
        which follow the stored ones."""
        old, new = np.flatnonzero((at >= 0) & (at < self.stored)), np.flatnonzero(at >= self.stored)
        parts = [self.payload.take(at[old], [name]).column(0).combine_chunks()] if len(old) else []
        if fresh is not None and (len(new) or not parts):
            parts.append(fresh.take(pa.array(at[new] - self.stored)))
        if len(parts) == 1 and len(parts[0]) == len(at):
            return parts[0]
        if not parts:
            return pa.nulls(len(at), self.payload.parts[0].schema.field(name).type)
        place = np.full(len(at), -1)
        place[old], place[new] = np.arange(len(old)), len(old) + np.arange(len(new))
        return pa.concat_arrays(parts).take(pa.array(place, mask=place < 0))
