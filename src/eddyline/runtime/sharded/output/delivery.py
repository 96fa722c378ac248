"""Parcels of a batch to results: one order, once per batch.

Answer   `BatchDelivery` merges the shards' results of each query in the total order of newest rows, in pieces, and parts
         of groups to whole ones. The query's sinks get them under the batch id. Files that shards have written are
         adopted by their sinks; where there are some, the rest of the batch becomes one more such file, and sinks of
         other kinds get the rows read back. A batch that runs again after a failure leaves one copy. Before its first
         batch a run removes what the sinks have of that batch and later ones, without the files that it adopts anew.
         Rows of committed batches that are in no file wait in the outbox again.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable
from weakref import WeakValueDictionary

import pyarrow as pa

from eddyline.connectors.base import Sink
from eddyline.connectors.results.landing import FileTarget, landed_places, named_places, remove_landings
from eddyline.connectors.results.outbox import Outbox, encoder_of
from eddyline.connectors.results.output import FileSink
from eddyline.connectors.results.sinks import open_sink
from eddyline.language.catalog import DeclaredSink
from eddyline.model.clock import WALL, Clock
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.operators.expressions.evaluate import Issues
from eddyline.plan.shards.result_order import is_by_shard
from eddyline.runtime.driving.query_sinks import QuerySinks
from eddyline.runtime.engine.epoch import results_of
from eddyline.runtime.engine.unit import Merging
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch, note_pending, read_pending
from eddyline.runtime.sharded.output.landed import Landed, landed_run
from eddyline.runtime.sharded.output.merging import merged_in_pieces, parts_in_pieces
from eddyline.runtime.sharded.output.parcels import Parcel, opened, opened_run, remove_staged
from eddyline.settings import Settings
from eddyline.state.sealed import kept_in

#: Checkpoint -> the newest delivery of this process.
_LATEST: WeakValueDictionary[str, BatchDelivery] = WeakValueDictionary()
#: The form of the files from which rows are read back.
_READ_BACK = ".parquet"

#: By their target the files of a query and batch, in the order of shards.
Files = Mapping[FileTarget, Sequence[str]]


@runtime_checkable
class Adopting(Protocol):
    """A sink that takes whole files."""

    @property
    def target(self) -> FileTarget:
        """Where shards put them, and their form."""

    def adopt(self, epoch: int, landed: Sequence[str]) -> None:
        """Take all results of an epoch as files."""


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
        by_shard: bool = False,
    ):
        """
        Args:
            streams: Those of the job.
            staging: The folder where shards put what is too large to travel.
            out: Folder for results and dead letters.
            on_batch: Called with every batch.
            opened_sink: Makes declared sinks.
            settings: Of the job.
            clock: Gives the age of gathered rows.
            by_shard: What `output_order = 'auto'` means: large results become a file per shard.
        """
        self._clock = clock
        settings = settings or Settings()
        #: The checkpoint: staged results lie in a folder of a folder of it.
        self._checkpoint = os.path.dirname(os.path.dirname(os.path.abspath(staging)))
        outbox = Outbox(
            settings.output_files, settings.output_seconds, self._checkpoint, "eddyline", settings.tuning.output
        )
        super().__init__(out, outbox, opened_sink)
        self.streams = streams
        self._by_shard = by_shard
        #: Streams that queries make; their rows can be late for a query after a bounded run.
        self.derived: dict[str, Stream] = {}
        self.staging = staging
        #: For what no sink has as parquet.
        self._staged = FileTarget(os.path.dirname(staging), _READ_BACK)
        self.on_batch = on_batch
        #: Whether shards can write below a folder.
        self.is_shared: Callable[[str], bool] = lambda folder: True
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

    def files(self, queries: Iterable[BoundQuery]) -> dict[str, tuple[FileTarget, ...]]:
        """Where shards put large results of these queries, for those that deliver by shard."""
        found = {}
        for query in queries:
            if is_by_shard(query, self._by_shard) and query.name not in self.merging:
                targets = [sink.target for sink in self.sinks.get(query.name, ()) if isinstance(sink, Adopting)]
                if targets and all(target.suffix != _READ_BACK for target in targets):
                    targets.append(self._staged)
                # Rows are read back from the first one.
                targets.sort(key=lambda target: target.suffix != _READ_BACK)
                if targets and all(self.is_shared(target.folder) for target in targets):
                    found[query.name] = tuple(dict.fromkeys(targets))
        return found

    def untaken(self) -> frozenset[str]:
        """Queries whose results are for nobody; those of groups in parts are merged to know how many they are."""
        with self._lock:
            taken = {*self.sinks, *self.marked, *self.merging}
            return frozenset(name for name in list(self.schemas) if name not in taken)

    def _deliver(self, parcels: Iterable[Parcel], batch: int) -> None:
        pieces: dict[tuple[str, str], list[Parcel]] = {}
        delivered = Delivered(batch, results={name: 0 for name in self.schemas if name == results_of(name)})
        for parcel in sorted(parcels, key=lambda parcel: parcel.shard):
            if parcel.kind == "note":
                delivered.notes[parcel.shard] = json.loads(parcel.blob or b"")
            else:
                pieces.setdefault((parcel.kind, parcel.name), []).append(parcel)
        # Read once, for all sinks that take it.
        landed = {name: _by_target(found) for (kind, name), found in pieces.items() if kind == "file"}
        try:
            self._begin(batch - 1, landed)
            if self.failed is not None:
                raise self.failed
            self._write(batch, pieces, landed, delivered)
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
        remove_landings(self._staged.folder, batch)

    def _write(
        self,
        batch: int,
        pieces: Mapping[tuple[str, str], list[Parcel]],
        landed: Mapping[str, Files],
        delivered: Delivered,
    ) -> None:
        for name, files in landed.items():
            found = pieces["file", name], pieces.get(("result", name), [])
            delivered.results[name] = sum(parcel.rows for parcels in found for parcel in parcels)
            self._adopt(batch, name, files, found[1])
        for (kind, name), parcels in pieces.items():
            if kind == "result" and name in landed:
                # They are written.
                continue
            if kind == "result" and not self.sinks.get(name) and name in delivered.results and name not in self.merging:
                # Nobody takes them: they are counted and not read.
                delivered.results[name] += sum(parcel.rows for parcel in parcels)
            elif kind == "result":
                counted = [parcel for parcel in parcels if parcel.path is None and parcel.blob is None]
                delivered.results[name] = delivered.results.get(name, 0) + sum(parcel.rows for parcel in counted)
                parcels = [parcel for parcel in parcels if parcel not in counted]
                for table in self._results(name, parcels, delivered.issues):
                    if name == results_of(name):
                        delivered.results[name] = delivered.results.get(name, 0) + len(table)
                    for sink in self.sinks.get(name, ()):
                        sink.write(batch, table)
            elif kind == "answer":
                delivered.answers[name] = [opened(parcel.path, parcel.blob) for parcel in parcels]
            elif kind == "dead":
                self._write_dead(batch, name, parcels, delivered)
        self.end_marked()

    def _results(self, name: str, parcels: Iterable[Parcel], issues: Issues) -> Iterator[pa.Table]:
        """The results of a query and batch in their order, in pieces; of groups in parts, HAVING may leave none."""
        merging = self.merging.get(name)
        if merging is not None and not merging.in_slices:
            tables = iter([merging([opened(parcel.path, parcel.blob) for parcel in parcels], issues)])
        else:
            runs = [opened_run(parcel.path, parcel.blob) for parcel in parcels]
            if merging is None:
                tables = merged_in_pieces(runs)
            else:
                tables = (merging(piece, issues) for piece in parts_in_pieces(runs))
        yield from (table for table in tables if len(table))

    def _adopt(self, batch: int, name: str, files: Files, rest: Sequence[Parcel]) -> None:
        """Results of which some shards have written files, and others have sent rows."""
        runs = [landed_run(*_now(path, batch, part)) for part, path in enumerate(next(iter(files.values())))]
        if rest:
            small = Landed([*files], batch, "rest")
            for piece in merged_in_pieces([opened_run(parcel.path, parcel.blob) for parcel in rest], placed=True):
                small.write(piece)
            small.close()
            files = {target: [*paths, path] for (target, paths), path in zip(files.items(), small.paths, strict=True)}
            runs.append(landed_run(small.paths[0], landed_places(small.paths[0])))
        by_rows: list[Sink] = []
        left = {target for target in files if target != self._staged}
        for sink in self.sinks.get(name, ()):
            if isinstance(sink, Adopting) and sink.target in files:
                sink.adopt(batch, files[sink.target])
                left.discard(sink.target)
            else:
                by_rows.append(sink)
        for target in left:
            # The job no longer has this sink.
            gone = FileSink(target.folder, encoder_of(target.suffix))
            gone.open(self.schemas.get(name, pa.schema([])))
            gone.adopt(batch, files[target])
            gone.close()
        for table in merged_in_pieces(runs) if by_rows else ():
            for sink in by_rows:
                sink.write(batch, table)

    def _write_dead(self, batch: int, name: str, parcels: Sequence[Parcel], delivered: Delivered) -> None:
        delivered.dead[name] = sum(parcel.rows for parcel in parcels)
        tables = [opened(parcel.path, parcel.blob) for parcel in parcels]
        if self.on_dead is not None:
            self.on_dead({name: tables})
        for table in tables:
            self.write_dead(batch, self.streams.get(name) or self.derived[name], table)

    def close(self) -> None:
        """The run has ended: everything becomes files."""
        with self._lock:
            self.let_go()
            committed = committed_batch(self._checkpoint)
            self._begin(committed, {})
            self.outbox.close_up_to(committed)
            self.close_sinks()
            remove_staged(self.staging, committed + 1)
            remove_landings(self._staged.folder, committed + 1)
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

    def _begin(self, committed: int, landed: Mapping[str, Files]) -> None:
        """Before the first batch: what an earlier run wrote for batches that were not committed is made again; files
        that have landed for the next one may have their names by now."""
        if not self._began:
            self._began = True
            for name, files in landed.items():
                for sink in self.sinks.get(name, ()):
                    if isinstance(sink, FileSink):
                        sink.spare(committed + 1, files.get(sink.target, ()))
            self.resume_after(committed, read_pending(self._checkpoint, committed))


def _by_target(parcels: Iterable[Parcel]) -> Files:
    found: dict[FileTarget, list[str]] = {}
    for parcel in parcels:
        if parcel.path is not None:
            found.setdefault(FileTarget.of(parcel.path), []).append(parcel.path)
    return found


def _now(landed: str, batch: int, part: int) -> tuple[str, str]:
    """Where a file that has landed is now, and its places: an earlier attempt may have given it its name."""
    if os.path.exists(landed):
        return landed, landed_places(landed)
    path = FileTarget.of(landed).named(batch, part)
    return path, named_places(path)
