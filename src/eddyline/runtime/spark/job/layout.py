"""What every task of a job must know, made once by the driver.

Answer   Streams, tables, queries, their routing, the shard labels and the folders. It lies in the checkpoint under its digest;
         tasks get the name, and each worker process opens it once. Another set of queries is another layout: the book beside
         them says from which batch on which one holds, so that all tasks of a batch, repeated ones too, use the same.
State    `layouts/<digest>.pickle` and `layouts/book.json` below the checkpoint.
Limits   The checkpoint must be a folder that the driver and all workers see under the same path.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.model.window import Rows
from eddyline.plan.shares import RoutingTable
from eddyline.settings import Settings
from eddyline.state.whole_file import write_whole

if TYPE_CHECKING:
    from eddyline.runtime.spark.shard.pipeline import Engine


@dataclass(frozen=True)
class Layout:
    #: In catalog order.
    streams: tuple[Stream, ...]
    queries: tuple[BoundQuery, ...]
    routing: RoutingTable
    #: Of each shard, the value that groups its packets.
    labels: tuple[int, ...]
    checkpoint: str
    #: Local folder of spooled segments.
    spool: str
    #: What a shard's worker keeps, as module:class; see `shard.Engine`. By name, because the processes in which Spark plans
    #: open layouts too, and loading an engine takes a second that they have no use for.
    engine: str = "eddyline.runtime.spark.shard.pipeline:ShardPipeline"
    tables: tuple[tuple[Table, pa.Table], ...] = ()
    settings: Settings = field(default_factory=Settings)
    #: The queries that a shard without any state begins with; None: all. The others wait for their control record.
    initial: frozenset[str] | None = None

    @property
    def shards(self) -> int:
        return len(self.labels)

    @property
    def staging(self) -> str:
        """Where shards put results that are too large to travel through Spark."""
        return os.path.join(self.checkpoint, "eddyline", "staged")

    def open_engine(self, header: dict[str, Any] | None, load: Callable[[str], pa.Table]) -> Engine:
        module, _, name = self.engine.partition(":")
        found: Engine = getattr(importlib.import_module(module), name).open(self, header, load)
        return found

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {stream.name: number for number, stream in enumerate(self.streams)}

    @cached_property
    def by_name(self) -> dict[str, BoundQuery]:
        return {query.name: query for query in self.queries}

    @cached_property
    def counted(self) -> frozenset[str]:
        """The streams that a ROWS window reads, numbered by the event times of all their rows, which every shard is told."""
        return self._read_by_rows - self.whole

    @cached_property
    def whole(self) -> frozenset[str]:
        """The same with a `sequence`: times do not tell the order of rows of equal time, so every shard sees every row."""
        return frozenset(stream.name for stream in self.streams if stream.sequence is not None) & self._read_by_rows

    @cached_property
    def _read_by_rows(self) -> frozenset[str]:
        return frozenset(r.source for query in self.queries for r in query.references if isinstance(r.window, Rows))


@dataclass(frozen=True)
class PackedLayout:
    """A layout as it is named to tasks."""

    digest: str
    path: str

    @staticmethod
    def of(layout: Layout) -> PackedLayout:
        data = pickle.dumps(layout)
        digest = hashlib.sha256(data).hexdigest()[:32]
        path = os.path.join(layout.checkpoint, "eddyline", "layouts", f"{digest}.pickle")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".part", "wb") as file:
            file.write(data)
        os.replace(path + ".part", path)
        return PackedLayout(digest, path)

    def open(self) -> Layout:
        return _open(self)

    # -- the book

    def begin(self) -> None:
        """From the next batch on this layout holds, whatever was said before: a run begins."""
        self._write([(0, self.digest)])

    def follow(self, batch: int) -> PackedLayout:
        """From a batch on this layout holds. To be called before that batch begins."""
        # The last one may still be read by tasks of its batch, and the first one is what tasks are given.
        book = self._book()
        self._write([*book[:1], *book[1:][-1:], (batch, self.digest)])
        return self

    def at(self, batch: int) -> PackedLayout:
        """The layout that holds in a batch; this one outside of batches and where there is no book."""
        held = [digest for first, digest in self._book() if first <= batch]
        return PackedLayout(held[-1], self._named(held[-1])) if held else self

    def _book(self) -> list[tuple[int, str]]:
        try:
            with open(self._named("book"), encoding="utf-8") as text:
                return [(first, digest) for first, digest in json.load(text)]
        except FileNotFoundError:
            return []

    def _write(self, entries: list[tuple[int, str]]) -> None:
        write_whole(self._named("book"), json.dumps(entries))
        kept = {"book.json", *(f"{digest}.pickle" for _, digest in entries)}
        folder = os.path.dirname(self.path)
        for name in os.listdir(folder):
            if name not in kept:
                os.unlink(os.path.join(folder, name))

    def _named(self, name: str) -> str:
        return os.path.join(os.path.dirname(self.path), "book.json" if name == "book" else f"{name}.pickle")


@lru_cache(maxsize=4)
def _open(packed: PackedLayout) -> Layout:
    with open(packed.path, "rb") as file:
        layout: Layout = pickle.load(file)
    return layout


def with_absolute_paths(streams: Iterable[Stream]) -> tuple[Stream, ...]:
    """Streams whose files are found from any working directory."""
    found: list[Stream] = []
    for stream in streams:
        path = stream.options.get("path")
        found.append(stream if path is None else replace(stream, options={**stream.options, "path": os.path.abspath(path)}))
    return tuple(found)


def batch_id() -> int:
    """The micro-batch that this task works for; -1 outside of one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    found = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    return int(found) if found is not None else -1
