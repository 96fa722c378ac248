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


@dataclass(frozen=True)
class FilePiece:
    """A file of a stream."""

    stream: str
    #: Its place among the files of the stream.
    number: int
    name: str
    path: str
    size: int
    #: Whether the stream ends with it.
    is_last: bool

    def __str__(self) -> str:
        return f"stream {self.stream}, file {self.name}"


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
    #: The wall clock when it was planned, in microseconds; 0: no row is too far ahead of it.
    at: int = 0
    #: Shard -> the object with the header of its state before the batch; none before the first one.
    before: Mapping[int, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(piece.size for piece in self.pieces)
