"""Parcels of a batch to results: one order, once per batch.

Answer   `BatchDelivery` merges the shards' pieces of each query in the total order of newest rows, and parts of groups
         to whole ones. The query's sinks get them under the batch id. A batch that runs again after a failure leaves
         one copy. Before its first batch a run removes what the sinks have of that batch and later ones. Rows of
         committed batches that are in no file wait in the outbox again.
State    The open sinks and the outbox, whose journal every batch writes before it is committed. Staged files are
         removed when their batch is committed. Gathered rows become files once their batch is committed: at the next
         batch, by the ticker where none comes, or when the run ends. So a file that has been seen stays as it is.
Limits   Sinks that cannot take back (console, callbacks) may see a batch twice. One delivery per checkpoint: a new one
         keeps the one before it from closing files.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa

from eddyline.connectors.base import Sink
from eddyline.connectors.results.outbox import Outbox
from eddyline.connectors.results.sinks import open_sink
from eddyline.language.catalog import DeclaredSink
from eddyline.model.clock import WALL, Clock
from eddyline.model.schema import Stream
from eddyline.operators.expressions.evaluate import Issues
from eddyline.runtime.driving.query_sinks import QuerySinks
from eddyline.runtime.engine.epoch import results_of
from eddyline.runtime.engine.newest import merged
from eddyline.runtime.engine.unit import Merging
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch, note_pending, read_pending
from eddyline.runtime.sharded.output.parcels import Parcel, opened, remove_staged
from eddyline.settings import Settings
from eddyline.state.sealed import kept_in

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


class BatchDelivery(QuerySinks):
    """What a conductor calls with the parcels of a batch."""

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
        #: The checkpoint: staged results lie in a folder of a folder of it.
        self._checkpoint = os.path.dirname(os.path.dirname(os.path.abspath(staging)))
        outbox = Outbox(
            settings.output_files, settings.output_seconds, self._checkpoint, "eddyline", settings.tuning.output
        )
        super().__init__(out, outbox, opened_sink)
        self.streams = streams
        #: Streams that queries make; their rows can be late for a query after a bounded run.
        self.derived: dict[str, Stream] = {}
        self.staging = staging
        self.on_batch = on_batch
        #: Queries whose shards send parts of groups, and what merges them.
        self.merging: dict[str, Merging] = {}
        #: Called with the dead rows of a batch, by stream.
        self.on_dead: Callable[[Mapping[str, list[pa.Table]]], None] | None = None
        #: What went wrong when results were handed over or the end of the batch was noted, if anything did.
        self.failed: Exception | None = None
        self._began = False
        self._thread: int | None = None
        #: Held by the batch at hand, by the ticker and by `close`: one of them at a time uses the outbox.
        self._lock = threading.RLock()
        #: A batch has been delivered, and neither the next one nor the end of the run has begun.
        self._is_at_rest = False
        if (earlier := _LATEST.get(self._checkpoint)) is not None:
            earlier.let_go()
        _LATEST[self._checkpoint] = self

    def drop_query(self, name: str) -> None:
        self.merging.pop(name, None)
        with self._lock:
            super().drop_query(name)

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread is the one that delivers a batch."""
        return self._thread == threading.get_ident()

    def __call__(self, parcels: Iterable[Parcel], batch: int) -> None:
        self._thread = threading.get_ident()
        try:
            with self._lock:
                self._is_at_rest = False
                self._deliver(parcels, batch)
                self._is_at_rest = True
        finally:
            self._thread = None

    def _deliver(self, parcels: Iterable[Parcel], batch: int) -> None:
        pieces: dict[tuple[str, str], list[tuple[int, pa.Table]]] = {}
        delivered = Delivered(batch, results={name: 0 for name in self.schemas if name == results_of(name)})
        for parcel in parcels:
            if parcel.kind == "note":
                delivered.notes[parcel.shard] = json.loads(parcel.blob or b"")
            else:
                pieces.setdefault((parcel.kind, parcel.name), []).append(
                    (parcel.shard, opened(parcel.path, parcel.blob))
                )
        try:
            self._begin(batch - 1)
            if self.failed is not None:
                raise self.failed
            self._write(batch, pieces, delivered)
            self.outbox.end_epoch(batch, self._clock.now(), closable=batch - 1)
            self.outbox.flush(batch, closable=batch - 1)
            self.flush_sinks(batch)
            self.outbox.committed(batch - 1)
            delivered.pending = self.outbox.names(batch)
            self.on_batch(delivered)
        except Exception as problem:
            # Spark would make a page of it.
            self.failed = problem
            raise
        pieces.clear()
        # Those of this batch may be asked for again until it is committed.
        remove_staged(self.staging, batch)

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
                    self.write_dead(batch, self.streams.get(name) or self.derived[name], table)
        self.end_marked()

    def close(self) -> None:
        """The run has ended: everything becomes files."""
        with self._lock:
            self.let_go()
            committed = committed_batch(self._checkpoint)
            self._begin(committed)
            self.outbox.close_up_to(committed)
            self.close_sinks()
            remove_staged(self.staging, committed + 1)
            # The segments stay until the next batch: should the commit be lost, its batch runs again and finds what is
            # older than it.
            with kept_in(self._checkpoint):
                note_pending(self._checkpoint, committed, self.outbox.names(committed))

    def let_go(self) -> None:
        """Nothing is written any more, unless a batch or `close` asks for it."""
        with self._lock:
            self._is_at_rest = False

    # -- files that are closed while no batch comes

    def close_ripe_files(self) -> None:
        """Rows that have waited long enough become files; called by the ticker. A batch at hand does this itself."""
        if self._lock.acquire(blocking=False):
            try:
                if self._is_at_rest and not self.outbox.is_empty:
                    committed = committed_batch(self._checkpoint)
                    self.outbox.end_epoch(committed, self._clock.now(), closable=committed)
            except Exception as problem:
                # The next batch fails with it.
                self.failed, self._is_at_rest = problem, False
            finally:
                self._lock.release()

    # -- one copy of each result

    def _begin(self, committed: int) -> None:
        """Before the first batch: what an earlier run wrote for batches that were not committed is made again."""
        if not self._began:
            self._began = True
            self.resume_after(committed, read_pending(self._checkpoint, committed))


def whole_results(pieces: Sequence[pa.Table], merging: Merging | None, issues: Issues) -> pa.Table:
    """The results of a query and batch from what its shards sent."""
    return merged(pieces) if merging is None else merging(pieces, issues)
