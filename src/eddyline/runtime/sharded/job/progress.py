"""The shards' notes, summed up: what reports of the job are made of.

Answer   The statistics of the run: rows, results, frontier, seconds by stage.
State    The last note of each shard, sums over batches, and the newest 1,000 batches one by one.
Limits   Numbers of a batch that runs again are counted once: by batch id.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eddyline.connectors.future_rows import FutureWatch
from eddyline.model.clock import WALL
from eddyline.model.schema import Stream
from eddyline.runtime.figures.epoch_times import NEWEST
from eddyline.runtime.figures.histogram import SecondsHistogram
from eddyline.runtime.figures.report import query_operator
from eddyline.runtime.figures.response import Times
from eddyline.runtime.sharded.output.delivery import Delivered

log = logging.getLogger("eddyline.results")


@dataclass
class StreamProgress:
    #: Those that the job reads.
    streams: Sequence[Stream] = ()
    results: dict[str, int] = field(default_factory=dict)
    rows_in: dict[str, int] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)
    notes: dict[int, dict[str, Any]] = field(default_factory=dict)
    #: Queries that a shard has warned of: each is said once.
    warned: set[str] = field(default_factory=set)
    frontier: int | None = None
    #: By timeline.
    frontiers: dict[str, int | None] = field(default_factory=dict)
    waiting: int = 0
    batches: int = 0
    last_batch: int = -1
    closed: bool = False
    #: Where shards found their pipelines: memory, state, nothing.
    came_from: dict[str, int] = field(default_factory=dict)
    #: Longest shard's seconds per stage, summed over batches.
    seconds: dict[str, float] = field(default_factory=dict)
    #: Of the newest batches, the memory of the largest Python worker at the end of its epoch.
    worker_bytes: deque[int] = field(default_factory=lambda: deque(maxlen=NEWEST))

    #: Sums over shards and batches: partials_produced, probes, visited, and what just-in-time joins held back and
    #: resumed.
    counts: dict[str, int] = field(default_factory=dict)
    #: What could not be computed and became null, by function, on all shards.
    null_results: dict[str, int] = field(default_factory=dict)
    #: operator -> rows in, rows out, seconds, summed over shards and batches.
    operators: dict[str, dict[str, float]] = field(default_factory=dict)
    #: Operator -> the unit that it works for.
    operator_units: dict[str, str] = field(default_factory=dict)
    #: query -> response times of its results in this run.
    responses: dict[str, Times] = field(default_factory=dict)
    #: Response times of all queries of this run together.
    histogram: SecondsHistogram = field(default_factory=SecondsHistogram)
    _future: FutureWatch = field(default_factory=FutureWatch)

    @property
    def late(self) -> dict[str, int]:
        """stream -> late rows since the checkpoint began; each is counted by its home shard."""
        found: dict[str, int] = {}
        for note in self.notes.values():
            for name, rows in note["statistics"].get("late", {}).items():
                found[name] = found.get(name, 0) + rows
        return found

    @property
    def newest(self) -> dict[str, int]:
        """stream -> its newest event time; ticks make that the same on all shards."""
        found: dict[str, int] = {}
        for note in self.notes.values():
            for name, instant in note["statistics"].get("newest", {}).items():
                found[name] = max(found.get(name, instant), instant)
        return found

    def peak(self, name: str) -> int:
        """The sum of the shards' peaks: at least what they held at any one time."""
        return sum(note["statistics"].get(name, 0) for note in self.notes.values())

    def peaks(self, name: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for note in self.notes.values():
            for store, rows in note["statistics"].get(name, {}).items():
                found[store] = found.get(store, 0) + rows
        return found

    def take(self, delivered: Delivered) -> None:
        if delivered.batch <= self.last_batch:
            return
        self.last_batch = delivered.batch
        self.batches += 1
        for total, fresh in ((self.results, delivered.results), (self.dead, delivered.dead)):
            for name, rows in fresh.items():
                total[name] = total.get(name, 0) + rows
        _add(self.null_results, delivered.issues.counts)
        longest: dict[str, float] = {}
        for note in delivered.notes.values():
            self.came_from[note["came_from"]] = self.came_from.get(note["came_from"], 0) + 1
            self.closed = self.closed or note["closing"]
            for stage, seconds in note["seconds"].items():
                longest[stage] = max(longest.get(stage, 0.0), seconds)
            _add(self.counts, note["statistics"].get("counts", {}))
            _add(self.null_results, note["statistics"].get("null_results", {}))
            for name, figures in note["statistics"].get("operators", {}).items():
                _add(self.operators.setdefault(name, {}), figures)
            for name, text in note["statistics"].get("warnings", {}).items():
                if name not in self.warned:
                    self.warned.add(name)
                    log.warning("%s", text)
            self.operator_units.update(note["statistics"].get("operator_units", {}))
            # From the end of the shard's epoch to the delivery of its results, by the clocks of both machines.
            delay = max(0.0, time.time() - note.get("released", time.time()))
            for name, pairs in note["statistics"].get("response", {}).items():
                seconds_of, counts = (
                    np.array([value for value, _ in pairs]),
                    np.array([count for _, count in pairs], np.int64),
                )
                self.responses.setdefault(name, Times()).add(seconds_of + delay, counts)
                self.histogram.add(seconds_of + delay, counts)
            for name, rows in note["bad"].items():
                self.bad[name] = self.bad.get(name, 0) + rows
        if delivered.notes:
            self.worker_bytes.append(max(note["worker_bytes"] for note in delivered.notes.values()))
        for stage, seconds in longest.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        self.notes.update(delivered.notes)
        if delivered.notes:
            # Ticks reach every shard: what one says of whole streams, all say.
            first = min(delivered.notes.items())[1]
            for name, rows in first["rows_in"].items():
                self.rows_in[name] = self.rows_in.get(name, 0) + rows
            self.frontier, self.frontiers = first["frontier"], first["frontiers"]
            self.waiting = sum(n["waiting"] for n in delivered.notes.values())
        newest = self.newest
        for stream in self.streams:
            if stream.name in newest:
                self._future.warn_of_future(stream, newest[stream.name], WALL.instant())

    def forget_oldest(self, live: Collection[str]) -> None:
        """Of queries that have gone, the figures of the newest thousand stay."""
        gone = [name for name in self.results if name not in live]
        for name in gone[:-NEWEST]:
            del self.results[name]
            self.operators.pop(query_operator(name), None)
        self.responses = {name: times for name, times in self.responses.items() if name in live}


def _add(total: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value
