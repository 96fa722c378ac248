"""The input of a batch as one document, fixed before its first task.

Answer   A `BatchDocument` says what tasks read, what all shards carry out before their rows, where the state before the batch
         lies, and which layout holds. Tasks know nothing else: a task that runs again, anywhere, does the same.
State    None.
Limits   Rows that a conductor has placed itself come beside it, as packets: it answers for handing out the same ones
         when the batch runs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eddyline.connectors.files.parts import FilePart


@dataclass(frozen=True)
class FilePiece:
    """A file of a stream, or a part of it."""

    stream: str
    #: Its place among the pieces of the stream.
    number: int
    name: str
    path: str
    #: How many bytes it has, about: tasks are given pieces by that.
    size: int
    #: Whether the stream ends with it.
    is_last: bool
    #: The bytes or row groups that it has (`connectors/files/parts.py`); without an end, those to the end of the file.
    begin: int = 0
    end: int | None = None
    #: The rows of the file before it, where they are known.
    first: int = 0

    @property
    def part(self) -> FilePart | None:
        """Which part of the file is read; None: all of it."""
        return FilePart(self.begin, self.end, self.first) if self.begin or self.end is not None else None

    def __str__(self) -> str:
        place = f" from {self.begin}" if self.begin else ""
        return f"stream {self.stream}, file {self.name}{place}"


@dataclass(frozen=True)
class BatchDocument:
    number: int
    #: The digest of the layout that holds in it.
    layout: str
    pieces: tuple[FilePiece, ...] = ()
    #: Control records in their order.
    control: tuple[Mapping[str, Any], ...] = ()
    #: Streams that end with this batch and have no piece in it.
    ended: tuple[str, ...] = ()
    #: Stream -> lines of its first file here that earlier batches have read.
    lines: Mapping[str, int] = field(default_factory=dict)
    #: Stream -> the event time from which on no row of the batch is late for any query; None: none is late.
    late_below: Mapping[str, int | None] = field(default_factory=dict)
    #: The wall clock when it was planned, in microseconds; 0: no row is too far ahead of it.
    at: int = 0
    #: Shard -> the object with the header of its state before the batch; none before the first one.
    before: Mapping[int, str] = field(default_factory=dict)
    #: Queries whose results nothing takes: they are counted.
    untaken: frozenset[str] = frozenset()
    #: Pieces that the next batch is likely to begin with, which nothing but the time of processes depends on.
    likely: tuple[FilePiece, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(piece.size for piece in self.pieces)
