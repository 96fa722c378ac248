"""What every task of a job must know, made once by the driver.

Answer   Streams, tables, queries, their routing, the shard labels and the folders. It lies in the checkpoint under its digest;
         tasks get the name, and each worker process opens it once.
Limits   Frozen: another set of queries is another layout, with another digest. The checkpoint must be a folder that the
         driver and all workers see under the same path.
"""

from __future__ import annotations

import hashlib
import importlib
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

if TYPE_CHECKING:
    from eddyline.runtime.spark.shard import Engine


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
    engine: str = "eddyline.runtime.spark.shard:ShardPipeline"
    tables: tuple[tuple[Table, pa.Table], ...] = ()
    settings: Settings = field(default_factory=Settings)

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
