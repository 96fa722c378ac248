"""What every task of a job must know, made once by the driver.

Answer   Streams, tables, queries, their routing, the number of shards and the folders. It lies in the checkpoint under
         its digest; tasks get the name, and each process opens it once. Another set of queries is another layout: the
         document of a batch names the one that holds in it, so that all tasks of a batch, repeated ones too, use the
         same.
State    `layouts/<digest>.json` below the checkpoint. A layout is JSON (see `document`): opening it makes objects of a
         fixed list of classes and runs nothing. Its digest is compared.
Limits   The checkpoint must be a folder that the driver and all workers see under the same path.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from eddyline.connectors.results.landing import FileTarget
from eddyline.errors import CheckpointProblem
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.model.template import BoundRequests, BoundTemplate
from eddyline.model.window import Rows
from eddyline.plan.shards.routing import RoutingTable
from eddyline.runtime.sharded.job.document import from_document, to_document
from eddyline.runtime.sharded.job.shipped import Shipped
from eddyline.runtime.sharded.job.static_table import StaticTable, digest_of
from eddyline.settings import Settings
from eddyline.state.whole_file import make_folder, remove_others, write_whole

_AGAIN = "stop the job and start it again: the driver writes layouts anew"


@dataclass(frozen=True)
class JobLayout:
    #: In catalog order.
    streams: tuple[Stream, ...]
    #: A document makes only the classes that are named here.
    queries: tuple[BoundQuery | BoundTemplate | BoundRequests, ...]
    routing: RoutingTable
    #: The shards of one step.
    width: int
    checkpoint: str
    tables: tuple[StaticTable, ...] = ()
    settings: Settings = field(default_factory=Settings)
    #: The queries that a shard without any state begins with; None: all. The others wait for their control record.
    initial: frozenset[str] | None = None
    #: How many steps there are, one after the other.
    steps: int = 1
    #: Query -> where its shards put large results; the first target is parquet. The others' go through the driver.
    files: Mapping[str, tuple[FileTarget, ...]] = field(default_factory=dict)

    @property
    def shards(self) -> int:
        """Of all steps."""
        return self.width * self.steps

    @property
    def staging(self) -> str:
        """Where shards put results that are too large to travel to the driver."""
        return os.path.join(self.checkpoint, "eddyline", "staged")

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {stream.name: number for number, stream in enumerate(self.streams)}

    @cached_property
    def handed(self) -> dict[str, Stream]:
        """The derived streams whose rows go on to a further step."""
        made = {
            part.feeds.name: part.feeds
            for query in self.queries
            for part in (*query.makers, query)
            if part.feeds is not None
        }
        return {name: made[name] for name in self.routing.routes if name in made}

    def stream_of(self, number: int) -> Stream:
        """The stream with a number in packets: those from outside come first."""
        return (
            self.streams[number]
            if number < len(self.streams)
            else list(self.handed.values())[number - len(self.streams)]
        )

    @cached_property
    def by_name(self) -> dict[str, BoundQuery]:
        return {query.name: query for query in self.queries}

    @cached_property
    def counted(self) -> frozenset[str]:
        """The streams that a ROWS window reads, or whose records count rows: numbered by the event times of all their
        rows, which every
        shard gets."""
        from eddyline.runtime.engine.records.kinds import (
            is_counted,
        )  # processes that plan batches have no use for what this loads

        return (self._read_by_rows | {stream.name for stream in self.streams if is_counted(stream)}) - self.whole

    @cached_property
    def whole(self) -> frozenset[str]:
        """Streams that a ROWS window reads and whose times do not determine the numbers of their rows, so that every
        shard sees every row:
        they have a `sequence`, or records may take rows out."""
        from eddyline.runtime.engine.records.kinds import is_concerned  # as above

        return (
            frozenset(stream.name for stream in self.streams if stream.sequence is not None or is_concerned(stream))
            & self._read_by_rows
        )

    @cached_property
    def _read_by_rows(self) -> frozenset[str]:
        parts = (part for query in self.queries for part in (*query.makers, query))
        return frozenset(
            r.source for part in parts for r in part.references if isinstance(r.window, Rows) and not r.derived
        )


@dataclass(frozen=True)
class PackedLayout:
    """A layout as it is named to tasks."""

    digest: str
    path: str
    #: They are known where this arrives.
    functions: Shipped = field(default_factory=Shipped, compare=False, repr=False)

    @staticmethod
    def of(layout: JobLayout) -> PackedLayout:
        data = json.dumps(to_document(layout)).encode()
        digest = digest_of(data)
        path = os.path.join(layout.checkpoint, "eddyline", "layouts", f"{digest}.json")
        make_folder(os.path.dirname(path))
        write_whole(path, data)
        return PackedLayout(digest, path)

    def open(self) -> JobLayout:
        return _open(self)

    def named(self, digest: str) -> PackedLayout:
        """Another layout of the same checkpoint and functions."""
        path = os.path.join(os.path.dirname(self.path), f"{digest}.json")
        return replace(self, digest=digest, path=path)

    def keep(self, *others: PackedLayout) -> None:
        """Remove all layouts but this one and some others."""
        remove_others(os.path.dirname(self.path), {os.path.basename(one.path) for one in (self, *others)})


@lru_cache(maxsize=4)
def _open(packed: PackedLayout) -> JobLayout:
    try:
        with open(packed.path, "rb") as file:
            data = file.read()
        if digest_of(data) != packed.digest:
            raise ValueError("the digest does not fit the content")
        layout: JobLayout = from_document(JobLayout, json.loads(data))
    except (OSError, ValueError) as problem:
        raise CheckpointProblem(
            f"{packed.path} is damaged", detail=f"it held the layout of the job; {problem}", hint=_AGAIN
        ) from problem
    return layout


def with_absolute_paths(streams: Iterable[Stream]) -> tuple[Stream, ...]:
    """Streams whose files are found from any working directory."""
    found: list[Stream] = []
    for stream in streams:
        path = stream.options.get("path")
        found.append(
            stream if path is None else replace(stream, options={**stream.options, "path": os.path.abspath(path)})
        )
    return tuple(found)


def parsing_folder(checkpoint: str) -> str:
    """Where processes note what they are parsing."""
    return os.path.join(checkpoint, "eddyline", "parsing")
