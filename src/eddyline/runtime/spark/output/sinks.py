"""Parcels of a micro-batch to results: one action, one order, once per batch id.

Answer   Collects the batch's parcels in a single Spark action, merges the shards' pieces of each query in the total order of
         newest rows, or parts of groups to whole ones, and hands them to the query's sinks under the batch id. A batch that runs
         again after a failure leaves one copy: before its first batch a run takes back what the sinks have of that batch and
         later ones.
State    The open sinks. Staged files are removed when their batch is written.
Limits   Sinks that cannot take back (console, callbacks)
         may see a batch twice.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from eddyline.connectors.base import Sink
from eddyline.connectors.dead_letter import DeadLetters
from eddyline.connectors.sinks import AllSink, ParquetSink, open_sink
from eddyline.language.catalog import Sink as DeclaredSink
from eddyline.model.schema import Stream
from eddyline.operators.aggregate.aggregation import merged_parts
from eddyline.operators.aggregate.config import AggregateConfig
from eddyline.operators.evaluate import Issues
from eddyline.runtime.newest import merged
from eddyline.runtime.spark.output.parcels import opened, staged_folder

DEAD_LETTER = "_dead_letter"


@dataclass
class Delivered:
    """What one batch brought."""

    batch: int
    #: query -> results, zeros too.
    results: dict[str, int] = field(default_factory=dict)
    #: stream -> dead letters.
    dead: dict[str, int] = field(default_factory=dict)
    #: shard -> its note.
    notes: dict[int, dict[str, Any]] = field(default_factory=dict)
    #: What could not be computed here, when groups were merged.
    issues: Issues = field(default_factory=Issues)


class Delivery:
    """What `foreachBatch` calls."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        staging: str,
        out: str | None,
        told: Callable[[Delivered], None],
        opened_sink: Callable[[DeclaredSink], Sink] = lambda sink: open_sink(sink.options, sink.name),
    ):
        self.streams = streams
        self.staging = staging
        self.out = out
        self.told = told
        self._opened_sink = opened_sink
        self.sinks: dict[str, list[Sink]] = {}
        #: Queries whose shards send parts of groups.
        self.merging: dict[str, AggregateConfig] = {}
        self.shared: dict[str, AllSink] = {}
        #: Sinks of CREATE SINK, by name; of one FOR ALL the sink behind it.
        self.declared: dict[str, Sink] = {}
        self.dead = DeadLetters(os.path.join(out, DEAD_LETTER)) if out is not None else None
        #: Dead rows are kept in memory only where somebody asks for them.
        self.kept_dead: dict[str, list[pa.Table]] | None = None
        #: What went wrong when results were handed over or the end of the batch was noted, if anything did.
        self.failed: Exception | None = None
        self._began = False
        self._thread: int | None = None

    def add_query(
        self,
        name: str,
        schema: pa.Schema,
        declared: Iterable[DeclaredSink] = (),
        own: Iterable[Sink] = (),
        merging: AggregateConfig | None = None,
    ) -> None:
        """A query's results go to `--out`, to its declared sinks, and to further ones; `merging` makes them of parts of groups."""
        sinks: list[Sink] = [*own]
        if self.out is not None:
            sinks.append(ParquetSink(os.path.join(self.out, name)))
        for sink in declared:
            if sink.query is None:
                if sink.name not in self.shared:
                    self.declared[sink.name] = self._opened_sink(sink)
                    self.shared[sink.name] = AllSink(self.declared[sink.name])
                sinks.append(self.shared[sink.name].port(name))
            else:
                self.declared[sink.name] = self._opened_sink(sink)
                sinks.append(self.declared[sink.name])
        for one in sinks:
            one.open(schema)
        self.sinks[name] = sinks
        if merging is not None:
            self.merging[name] = merging

    def add_sink(self, name: str, schema: pa.Schema, sink: Sink) -> None:
        """One more sink for a query that is here already."""
        sink.open(schema)
        self.sinks[name] = [*self.sinks[name], sink]

    def drop_query(self, name: str) -> None:
        """A query has gone: its own sinks are closed. One that it shares with others stays."""
        self.merging.pop(name, None)
        for sink in self.sinks.pop(name, ()):
            sink.close()

    @property
    def is_mine(self) -> bool:
        """Whether whoever asks is called by a batch that is being delivered."""
        return self._thread == threading.get_ident()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self._thread = threading.get_ident()
        try:
            self._deliver(frame, batch)
        finally:
            self._thread = None

    def _deliver(self, frame: DataFrame, batch: int) -> None:
        pieces: dict[tuple[str, str], list[tuple[int, pa.Table]]] = {}
        delivered = Delivered(batch, results=dict.fromkeys(self.sinks, 0))
        for row in frame.collect():
            if row["kind"] == "note":
                delivered.notes[row["shard"]] = json.loads(bytes(row["blob"]))
            else:
                pieces.setdefault((row["kind"], row["name"]), []).append((row["shard"], opened(row["path"], row["blob"])))
        if not self._began:
            # What an earlier run wrote for this batch without committing it is made again now.
            self._began = True
            self._truncate_after(batch - 1)
        try:
            self._write(batch, pieces, delivered)
            self._flush(batch)
            self.told(delivered)
        except Exception as problem:
            # Spark would make a page of it.
            self.failed = problem
            raise
        pieces.clear()
        shutil.rmtree(staged_folder(self.staging, batch), ignore_errors=True)

    def _write(self, batch: int, pieces: Mapping[tuple[str, str], list[tuple[int, pa.Table]]], delivered: Delivered) -> None:
        for (kind, name), found in pieces.items():
            if kind == "result":
                tables = [table for _, table in sorted(found, key=lambda piece: piece[0])]
                whole = whole_results(tables, self.merging.get(name), delivered.issues)
                delivered.results[name] = whole.num_rows
                # Of groups in parts, HAVING may leave none.
                for sink in self.sinks[name] if whole.num_rows else ():
                    sink.write(batch, whole)
            else:
                delivered.dead[name] = sum(table.num_rows for _, table in found)
                for _, table in sorted(found, key=lambda piece: piece[0]):
                    if self.dead is not None:
                        self.dead.write(batch, self.streams[name], table)
                    if self.kept_dead is not None:
                        self.kept_dead.setdefault(name, []).append(table)

    def close(self) -> None:
        for sinks in self.sinks.values():
            for sink in sinks:
                sink.close()
        if self.dead is not None:
            self.dead.close()

    def _truncate_after(self, batch: int) -> None:
        for sinks in self.sinks.values():
            for sink in sinks:
                sink.truncate_after(batch)
        if self.dead is not None:
            self.dead.truncate_after(batch)

    def _flush(self, batch: int) -> None:
        for sinks in self.sinks.values():
            for sink in sinks:
                sink.flush(batch)
        if self.dead is not None:
            self.dead.flush(batch)


def whole_results(pieces: Sequence[pa.Table], merging: AggregateConfig | None, issues: Issues) -> pa.Table:
    """The results of a query and batch from what its shards sent."""
    return merged(pieces) if merging is None else merged_parts(merging, pieces, issues)
