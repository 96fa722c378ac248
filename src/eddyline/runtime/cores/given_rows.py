"""Rows that this process reads itself, for processes that have the slices.

Answer   `read` takes what the sources of a program have: pushed rows, rows of its own sources. `packets` places them.
State    What the batch at hand has read; a batch that failed before it counted is given the same again.
Limits   Streams of files are not among them: workers read those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from eddyline.connectors.base import Chunk, Source
from eddyline.connectors.future_rows import limit_at, within
from eddyline.connectors.memory import MemorySource
from eddyline.model.schema import Stream
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.job.layout import PackedLayout
from eddyline.runtime.sharded.phases import packer_of


class _Read(NamedTuple):
    stream: Stream
    chunk: Chunk


class GivenRows:
    def __init__(self) -> None:
        #: By stream.
        self._sources: dict[str, tuple[Stream, Source]] = {}
        self._held: list[_Read] = []
        #: Where each source stands after what is held.
        self.positions: dict[str, Mapping[str, Any]] = {}

    def take_over(self, sources: Mapping[str, tuple[Stream, Source]]) -> None:
        self._sources = dict(sources)

    @property
    def is_read(self) -> bool:
        """Whether all sources have ended, and nothing is held."""
        return not self._held and all(source.finished for _, source in self._sources.values())

    @property
    def is_waiting(self) -> bool:
        """Whether rows that were pushed are not in a batch that counts."""
        pushed = (source for _, source in self._sources.values() if isinstance(source, MemorySource))
        return bool(self._held) or any(source.waiting_rows for source in pushed)

    def seek(self, positions: Mapping[str, Mapping[str, Any]]) -> None:
        """Go on where a checkpoint says that the sources were."""
        for name, position in positions.items():
            if name in self._sources:
                self._sources[name][1].seek(position)

    def read(self, most: int) -> bool:
        """Hold what there is, and at most so many rows of each stream; whether there is anything."""
        if not self._held:
            for stream, source in self._sources.values():
                chunk = source.read(most)
                if chunk is not None:
                    self._held.append(_Read(stream, chunk))
        self.positions = {name: source.position() for name, (_, source) in self._sources.items()}
        return bool(self._held)

    def packets(self, batch: BatchDocument, packed: PackedLayout) -> Iterator[Packet]:
        packer = packer_of(packed)
        for stream, chunk in self._held:
            kept = within(chunk, stream, limit_at(stream, batch.at))
            yield from packer.pack(stream.name, kept.rows, kept.bad, 0, False, 0, kept.records)

    def counted(self) -> None:
        """The batch with what is held counts."""
        self._held = []


def of_sources(streams: Sequence[Stream], sources: Mapping[str, Source]) -> dict[str, tuple[Stream, Source]]:
    return {stream.name: (stream, sources[stream.name]) for stream in streams if stream.name in sources}
