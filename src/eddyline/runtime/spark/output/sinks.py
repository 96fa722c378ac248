"""Parcels of a micro-batch to results: one action, one order, once per batch id.

Answer   Collects the batch's parcels in a single Spark action, merges the shards' pieces of each query in the total
         order of newest rows, or parts of groups to whole ones, and hands them to the query's sinks under the batch id.
         A batch that runs again after a failure leaves one copy: before its first batch a run takes back what the sinks
         have of that batch and later ones, and rows of committed batches that are in no file wait in the outbox again.
State    The open sinks and the outbox, whose journal every batch writes before Spark commits it. Staged files are
         removed when their batch is written. Gathered rows become files once their batch is committed: at the next
         batch, by a timer where none comes, or when the run ends. So a file that has been seen stays as it is.
Limits   Sinks that cannot take back (console, callbacks)
         may see a batch twice. One delivery per checkpoint: a new one ends the timer of the one before it.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa
from pyspark.sql import DataFrame

from eddyline.connectors.base import Sink
from eddyline.connectors.results.dead_letter import DeadLetters
from eddyline.connectors.results.marked import MarkedSink, with_punctuations
from eddyline.connectors.results.outbox import Outbox
from eddyline.connectors.results.sinks import AllSink, ParquetSink, open_sink
from eddyline.language.catalog import DeclaredSink
from eddyline.model.clock import WALL, Clock
from eddyline.model.schema import Stream
from eddyline.operators.expressions.evaluate import Issues
from eddyline.runtime.engine.epoch import punctuations_of, results_of
from eddyline.runtime.engine.newest import merged
from eddyline.runtime.engine.unit import Merging
from eddyline.runtime.spark.job.failure import kept_in
from eddyline.runtime.spark.job.shard_report import committed_batch, note_pending, read_pending
from eddyline.runtime.spark.output.parcels import opened, staged_folder
from eddyline.settings import Settings

DEAD_LETTER = "_dead_letter"
#: How often the age of gathered results is looked at while no batch comes.
_LOOK_SECONDS = 0.25
#: Checkpoint -> the newest delivery of this process.
_LATEST: WeakValueDictionary[str, BatchDelivery] = WeakValueDictionary()


@dataclass
class Delivered:
    """What one batch brought."""

    batch: int
    #: query -> results, zeros too.
    results: dict[str, int] = field(default_factory=dict)
    #: stream -> dead letters.
    dead: dict[str, int] = field(default_factory=dict)
    #: token and template -> the parts of the answers to requests.
    answers: dict[str, list[pa.Table]] = field(default_factory=dict)
    #: shard -> its note.
    notes: dict[int, dict[str, Any]] = field(default_factory=dict)
    #: What could not be computed here, when groups were merged.
    issues: Issues = field(default_factory=Issues)
    #: Results of this batch and earlier ones that are in no file, as `Outbox.names` gives them.
    pending: dict[str, str] = field(default_factory=dict)


class BatchDelivery:
    """What `foreachBatch` calls."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        staging: str,
        out: str | None,
        on_batch: Callable[[Delivered], None],
        opened_sink: Callable[[DeclaredSink], Sink] = lambda sink: open_sink(sink.options, sink.name),
        settings: Settings | None = None,
        clock: Clock = WALL,
    ):
        self._clock = clock
        settings = settings or Settings()
        self.streams = streams
        #: Streams that queries make; their rows can be late for a query after a bounded run.
        self.derived: dict[str, Stream] = {}
        self.staging = staging
        self.out = out
        self.on_batch = on_batch
        self._opened_sink = opened_sink
        self.sinks: dict[str, list[Sink]] = {}
        #: Queries whose shards send parts of groups, and what merges them.
        self.merging: dict[str, Merging] = {}
        self.shared: dict[str, AllSink] = {}
        #: Query -> its sinks with results and punctuations of results.
        self.marked: dict[str, list[MarkedSink]] = {}
        #: Sinks of CREATE SINK, by name; of one FOR ALL, or with punctuations, the sink behind it.
        self.declared: dict[str, Sink] = {}
        self.dead = DeadLetters(os.path.join(out, DEAD_LETTER)) if out is not None else None
        #: Dead rows are kept in memory only where a session asks for them.
        self.kept_dead: dict[str, list[pa.Table]] | None = None
        #: Called with the dead rows of a batch, by stream.
        self.on_dead: Callable[[Mapping[str, list[pa.Table]]], None] | None = None
        #: What went wrong when results were handed over or the end of the batch was noted, if anything did.
        self.failed: Exception | None = None
        self._began = False
        self._thread: int | None = None
        #: The checkpoint: staged results lie in a folder of a folder of it.
        self._checkpoint = os.path.dirname(os.path.dirname(os.path.abspath(staging)))
        self.outbox = Outbox(
            settings.output_files, settings.output_seconds, self._checkpoint, "eddyline", settings.tuning.output
        )
        #: Held by the batch at hand, by the timer and by `close`: one of them at a time uses the outbox.
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        if (earlier := _LATEST.get(self._checkpoint)) is not None:
            earlier.let_go()
        _LATEST[self._checkpoint] = self

    def add_query(
        self,
        name: str,
        schema: pa.Schema,
        declared: Iterable[DeclaredSink] = (),
        own: Iterable[Sink] = (),
        merging: Merging | None = None,
        files: bool = True,
    ) -> None:
        """A query's results go to `--out` unless `files` is off, to its declared sinks, and to further ones; `merging`
        makes them of
        the shards' parts."""
        sinks: list[Sink] = [*own, *(marked.punctuations for marked in self.marked.get(results_of(name), ()))]
        if self.out is not None and files:
            sinks.append(ParquetSink(os.path.join(self.out, name)))
            self.outbox.adopt(sinks[-1], f"out/{name}")
        for sink in declared:
            if sink.query is None:
                if sink.name not in self.shared:
                    self._open(sink)
                    self.shared[sink.name] = AllSink(self.declared[sink.name])
                sinks.append(self.shared[sink.name].port(name))
            else:
                sinks.append(with_punctuations(self._open(sink), sink.options, self.marked.setdefault(name, [])))
        for one in sinks:
            one.open(schema)
        self.sinks[name] = sinks
        if merging is not None:
            self.merging[name] = merging

    def _open(self, sink: DeclaredSink) -> Sink:
        opened = self.declared[sink.name] = self._opened_sink(sink)
        self.outbox.adopt(opened, f"sink/{sink.name}")
        return opened

    def add_sink(self, name: str, schema: pa.Schema, sink: Sink) -> None:
        """One more sink for a query that is here already."""
        sink.open(schema)
        self.sinks[name] = [*self.sinks[name], sink]

    def remove_sink(self, name: str, sink: Sink) -> None:
        """A sink that `add_sink` brought gets nothing from here on."""
        if name in self.sinks:
            self.sinks[name] = [one for one in self.sinks[name] if one is not sink]

    def drop_query(self, name: str) -> None:
        """A query has gone: its own sinks are closed. One that it shares with others stays."""
        if punctuations_of(name) in self.sinks:
            self.drop_query(punctuations_of(name))
        self.merging.pop(name, None)
        self.marked.pop(name, None)
        with self._lock:
            for sink in self.sinks.pop(name, ()):
                sink.close()

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread is the one that delivers a batch."""
        return self._thread == threading.get_ident()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self._thread = threading.get_ident()
        try:
            with self._lock:
                self._stop_timer()
                self._deliver(frame, batch)
                self._start_timer()
        finally:
            self._thread = None

    def _deliver(self, frame: DataFrame, batch: int) -> None:
        pieces: dict[tuple[str, str], list[tuple[int, pa.Table]]] = {}
        delivered = Delivered(batch, results={name: 0 for name in self.sinks if name == results_of(name)})
        for row in frame.collect():
            if row["kind"] == "note":
                delivered.notes[row["shard"]] = json.loads(bytes(row["blob"]))
            else:
                pieces.setdefault((row["kind"], row["name"]), []).append(
                    (row["shard"], opened(row["path"], row["blob"]))
                )
        try:
            self._begin(batch - 1)
            if self.failed is not None:
                raise self.failed
            self._write(batch, pieces, delivered)
            self.outbox.end_epoch(batch, self._clock.now(), closable=batch - 1)
            self._flush(batch)
            self.outbox.committed(batch - 1)
            delivered.pending = self.outbox.names(batch)
            self.on_batch(delivered)
        except Exception as problem:
            # Spark would make a page of it.
            self.failed = problem
            raise
        pieces.clear()
        shutil.rmtree(staged_folder(self.staging, batch), ignore_errors=True)

    def _write(
        self, batch: int, pieces: Mapping[tuple[str, str], list[tuple[int, pa.Table]]], delivered: Delivered
    ) -> None:
        for (kind, name), found in pieces.items():
            if kind == "result":
                tables = [table for _, table in sorted(found, key=lambda piece: piece[0])]
                whole = whole_results(tables, self.merging.get(name), delivered.issues)
                if name == results_of(name):
                    delivered.results[name] = whole.num_rows
                # Of groups in parts, HAVING may leave none.
                for sink in self.sinks.get(name, ()) if whole.num_rows else ():
                    sink.write(batch, whole)
            elif kind == "answer":
                delivered.answers[name] = [table for _, table in found]
            else:
                delivered.dead[name] = sum(table.num_rows for _, table in found)
                if self.on_dead is not None:
                    self.on_dead({name: [table for _, table in found]})
                for _, table in sorted(found, key=lambda piece: piece[0]):
                    if self.dead is not None:
                        self.dead.write(batch, self.streams.get(name) or self.derived[name], table)
                    if self.kept_dead is not None:
                        self.kept_dead.setdefault(name, []).append(table)

        for marked in [marked for of_query in self.marked.values() for marked in of_query]:
            marked.end_epoch()

    def close(self) -> None:
        """The run has ended: everything becomes files."""
        with self._lock:
            self.let_go()
            committed = committed_batch(self._checkpoint)
            self._begin(committed)
            self.outbox.close_up_to(committed)
            for sinks in self.sinks.values():
                for sink in sinks:
                    sink.close()
            if self.dead is not None:
                self.dead.close()
            # The segments stay until the next batch: should the commit be lost, its batch runs again and finds what is
            # older than it.
            with kept_in(self._checkpoint):
                note_pending(self._checkpoint, committed, self.outbox.names(committed))

    def let_go(self) -> None:
        """Nothing is written any more, unless a batch or `close` asks for it."""
        with self._lock:
            self._stop_timer()

    # -- files that are closed while no batch comes

    def _start_timer(self) -> None:
        if not self.outbox.is_empty:
            self._timer = threading.Timer(_LOOK_SECONDS, self._look)
            self._timer.daemon = True
            self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        with self._lock:
            if self._timer is None or self._timer is not threading.current_thread():
                # A batch has begun, or the run has ended, while this waited for the lock.
                return
            try:
                committed = committed_batch(self._checkpoint)
                self.outbox.end_epoch(committed, self._clock.now(), closable=committed)
            except Exception as problem:
                # The next batch fails with it.
                self.failed = problem
                return
            self._start_timer()

    # -- one copy of each result

    def _begin(self, committed: int) -> None:
        """Before the first batch: what an earlier run wrote for batches that were not committed is made again."""
        if not self._began:
            self._began = True
            pending = read_pending(self._checkpoint, committed)
            self.outbox.check(committed, pending)
            self._truncate_after(committed)
            self.outbox.recover(committed, pending)

    def _truncate_after(self, batch: int) -> None:
        for sinks in self.sinks.values():
            for sink in sinks:
                sink.truncate_after(batch)
        if self.dead is not None:
            self.dead.truncate_after(batch)

    def _flush(self, batch: int) -> None:
        self.outbox.flush(batch, closable=batch - 1)
        for sinks in self.sinks.values():
            for sink in sinks:
                sink.flush(batch)
        if self.dead is not None:
            self.dead.flush(batch)


def whole_results(pieces: Sequence[pa.Table], merging: Merging | None, issues: Issues) -> pa.Table:
    """The results of a query and batch from what its shards sent."""
    return merged(pieces) if merging is None else merging(pieces, issues)
