"""Pieces that a process reads while nobody asks it for anything.

Answer   After a step, `ReadAhead.look` notes the pieces that the next batch is likely to begin with, and `fill` reads
         them one by one until somebody connects. `read` gives the packets of a piece: those that were read ahead, or
         it reads.
State    Packets of at most `ahead_bytes` bytes of text or row groups.
Limits   What was read ahead counts only where everything that decides about the packets of a piece is as it was assumed
         (`Phases.reading_of`): so it is what a read would give. A file that cannot be read is left to the batch.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.phases import Phases


class ReadAhead:
    def __init__(self) -> None:
        self._found: dict[Hashable, list[Packet]] = {}
        self._left: deque[FilePiece] = deque()
        self._assumed: tuple[Phases, BatchDocument] | None = None

    def read(self, phases: Phases, batch: BatchDocument, piece: FilePiece) -> list[Packet]:
        found = self._found.pop(phases.reading_of(batch, replace(piece, is_last=False)), None)
        if found is None:
            return list(phases.read(batch, piece))
        if piece.is_last:
            last = max(packet.place for packet in found)
            found = [packet._replace(closed=True) if packet.place == last else packet for packet in found]
        return found

    def look(
        self, phases: Phases, batch: BatchDocument, shard: int, late_below: Mapping[str, int | None], share: int
    ) -> None:
        """A shard has stepped.

        Args:
            phases: What tasks do.
            batch: The one that it stepped.
            shard: Which shard.
            late_below: Where rows of the next batch are late, as this shard knows it.
            share: How many shards share the pieces of a batch.
        """
        if self._assumed is None or self._assumed[1].number != batch.number:
            self._found.clear()
            self._left.clear()
        self._assumed = phases, replace(batch, control=(), late_below=late_below, before={shard: ""})
        size = 0
        for piece in batch.likely[shard % share :: share]:
            size += piece.size
            if size <= phases.layout(batch).settings.tuning.input.ahead_bytes:
                self._left.append(piece)

    def fill(self, is_wanted: Callable[[], bool]) -> None:
        """Read what is likely to come, until somebody wants something else."""
        while self._left and not is_wanted():
            assert self._assumed is not None
            phases, batch = self._assumed
            piece = self._left.popleft()
            with contextlib.suppress(Exception):
                self._found[phases.reading_of(batch, piece)] = list(phases.read(batch, piece))
