"""What a book remembers: traces, runs, chains and events, as arrays that grow.

Answer   `room` makes place for what a slice can bring; `kernel` groups the arrays for the kernel; `keep_referenced`
         keeps the events of a slice that some run holds and closes the holes of older ones; `saved` and `restore` write
         everything down and bring it back.
State    Arrays by code of the trace, by run, by link, by event; the payload of events as an Arrow table with one row
         per event.
Limits   Events keep their order: a larger index is a newer event.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from eddyline.kernels.patterns.automaton_arrays import (
    BLOCKS,
    COUNTS,
    FREE_LINK,
    FREE_RUN,
    LINKS,
    RUNS,
    Events,
    Links,
    PatternRuns,
    Traces,
)
from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.state.columns import Ints
from eddyline.tuning import PatternTuning

#: The first size of arrays that grow.
_LEAST = 64


def _filled(fill: int, size: int = _LEAST) -> Ints:
    return np.full(size, fill, np.int64)


class BookState:
    def __init__(self, width: int, tuning: PatternTuning) -> None:
        self.width = width
        self.tuning = tuning
        self.traces = Traces(
            np.zeros(_LEAST, np.int8),
            np.zeros(_LEAST, np.bool_),
            _filled(0),
            _filled(-1),
            np.zeros((_LEAST, width), np.uint64),
            np.zeros((_LEAST, width), np.uint64),
            _filled(-1),
        )
        self.runs = PatternRuns(
            _filled(-1),
            _filled(0),
            np.zeros(_LEAST, np.uint64),
            np.zeros(_LEAST, np.uint64),
            np.zeros(_LEAST, np.int8),
            _filled(0),
            _filled(-1),
            _filled(-1, 66),
        )
        self.links = Links(_filled(0), _filled(-1), _filled(-1), _filled(0), _filled(0))
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
        self.payload: pa.Table | None = None
        self.stored = 0

    # -- room

    def room(self, codes: int, rows: int, keys: int, links: int, runs: int, blocks: int) -> None:
        """Place for these numbers of codes of traces, rows of a slice, new links, new runs, and heads."""
        self.traces = Traces(
            *(grown(a, codes, -1 if name in ("serial", "run") else 0) for name, a in self.traces._asdict().items())
        )
        runs += int(self.count[RUNS]) + 1
        heads = int(self.count[BLOCKS]) + blocks + 1
        fields = self.runs._asdict()
        sizes = {"heads": heads, "free_block": 66}
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

    # -- after a slice

    def keep_referenced(self, rows: int, columns: Mapping[str, pa.Array], holders: list[Ints]) -> None:
        """Keep the rows of a slice to which a run or a waiting match refers. `holders` are more arrays of event ids,
        changed in place."""
        base, end = self.stored, self.stored + rows
        refs = self.events.refs[:end]
        kept_new = np.flatnonzero(refs[base:] > 0)
        kept_old = np.flatnonzero(refs[:base] > 0) if base else np.empty(0, np.int64)
        whole = base - len(kept_old) > len(kept_old) + self.tuning.most_holes
        if whole:
            self._move(np.concatenate([kept_old, base + kept_new]), 0, end, holders)
            self.stored = len(kept_old) + len(kept_new)
        else:
            if len(kept_new):
                self._move(base + kept_new, base, end, holders)
            self.stored = base + len(kept_new)
        if not len(kept_new) and not whole and self.payload is not None:
            return
        at = pa.array(kept_new)
        fresh = pa.table({name: column.take(at) for name, column in columns.items()})
        if self.payload is None:
            self.payload = fresh
            return
        payload = self.payload.take(pa.array(kept_old)) if whole else self.payload
        if len(fresh):
            # Columns that only a dropped pattern wanted are null from then on.
            for name in set(payload.column_names) - set(fresh.column_names):
                fresh = fresh.append_column(name, pa.nulls(len(fresh), payload.schema.field(name).type))
            payload = pa.concat_tables([payload, fresh.select(payload.column_names)])
        if payload.num_columns and payload.column(0).num_chunks > self.tuning.most_chunks:
            payload = payload.combine_chunks()
        self.payload = payload

    def _move(self, chosen: Ints, first: int, end: int, holders: list[Ints]) -> None:
        """Of the events first … end-1 the chosen ones stay, at the places from `first` on; all that refers to them
        follows."""
        moved = np.zeros(end - first, np.int64)
        moved[chosen - first] = first + np.arange(len(chosen))
        # Free links may refer to anything.
        for refers in (self.links.event[: int(self.count[LINKS])], *holders):
            here = (refers >= first) & (refers < end)
            refers[here] = moved[refers[here] - first]
        for array in (*self.events, self.numbers):
            array[first : first + len(chosen)] = array[chosen]

    def need(self, columns: Mapping[str, pa.DataType]) -> None:
        """Payload has these columns; events that are older than the wish have none of the new ones."""
        if self.payload is None:
            return
        for name, kind in columns.items():
            if name not in self.payload.column_names:
                self.payload = self.payload.append_column(name, pa.nulls(self.stored, kind))

    # -- written down

    def saved(self) -> tuple[dict[str, np.ndarray], pa.Table | None]:
        """The used part of every array, by name, and the payload."""
        used = {
            **{
                f"runs.{n}": a[: int(self.count[RUNS])]
                for n, a in self.runs._asdict().items()
                if n not in ("heads", "free_block")
            },
            "runs.heads": self.runs.heads[: int(self.count[BLOCKS])],
            "runs.free_block": self.runs.free_block,
            **{f"links.{n}": a[: int(self.count[LINKS])] for n, a in self.links._asdict().items()},
            **{f"events.{n}": a[: self.stored] for n, a in self.events._asdict().items()},
            **{f"traces.{n}": a for n, a in self.traces._asdict().items()},
            "numbers": self.numbers[: self.stored],
            "count": self.count,
        }
        return used, self.payload

    def restore(self, used: dict[str, np.ndarray], payload: pa.Table | None) -> None:
        def group(prefix: str, kind: type, least: int) -> object:
            return kind(*(grown(used[f"{prefix}.{n}"].copy(), least) for n in kind._fields))  # type: ignore[attr-defined]

        self.count = used["count"].copy()
        self.traces = group("traces", Traces, _LEAST)  # type: ignore[assignment]
        self.runs = group("runs", PatternRuns, _LEAST)  # type: ignore[assignment]
        used = _older_links(used) | used
        self.links = group("links", Links, _LEAST)  # type: ignore[assignment]
        self.stored = len(used["numbers"])
        self.events = group("events", Events, _LEAST)  # type: ignore[assignment]
        self.numbers = grown(used["numbers"].copy(), _LEAST)
        self.payload = payload


def _older_links(used: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What checkpoints of older versions lack: they get links without jumps, and every event may begin its match."""
    none = np.full(len(used["links.next"]), -1, np.int64)
    events, ts = used["links.event"], used["events.ts"]
    start = ts[np.clip(events, 0, len(ts) - 1)] if len(ts) else none
    return {"links.jump": none, "links.depth": np.zeros_like(none), "links.start": start}
