"""What a source and a sink promise.

Answer   A source hands out rows in source order with a position after each read; going back to a position repeats
         exactly what came after it. A sink takes results per epoch and can forget those of epochs after a checkpoint.
Limits   Neither knows event time beyond its validity: late, frontier and order are the pipeline's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import pyarrow as pa

from eddyline.model.records.records import Records
from eddyline.operators.sharing.skipping import Stretch

#: JSON-able: how far a source has been read.
Position = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one read brings."""

    #: In source order: the declared columns (or those that are read) with their declared Arrow types; the event time is
    #: never null and lies within years 1 to 9999.
    rows: pa.Table
    #: Rows that cannot be read: every declared column as text, plus `_reason`; None when there are none.
    bad: pa.Table | None = None
    #: The records between these rows: `number` counts `rows`.
    records: tuple[Records, ...] = ()
    #: An integer became an instant before 1971, and the stream does not say the unit of its integers.
    early: bool = False
    #: Rows that were not read, because no query can use them: then there is nothing else.
    skipped: Stretch | None = None


class Source(Protocol):
    """Rows of one stream, in order."""

    #: The source ends by itself: it is read once and has no tail to wait for.
    bounded: bool

    @property
    def finished(self) -> bool:
        """Bounded, and everything has been read. This reads nothing: it is known after each `read`."""

    def read(self, max_rows: int) -> Chunk | None:
        """The next rows, at most `max_rows` (bad ones included); None: nothing is there at the moment."""

    def position(self) -> dict[str, Any]:
        """Where the next read begins, as plain JSON."""

    def seek(self, position: Position) -> None:
        """Continue from a position that `position` gave, in this process or an earlier one."""

    def close(self) -> None: ...


class LoggedSource(Source, Protocol):
    """A source whose positions rest on a log beside the checkpoint."""

    def keep_log(self, folder: str) -> None:
        """Positions will be saved: keep what that needs, and write the log in a folder."""

    def saved(self, position: Position) -> dict[str, Any]:
        """A position for a later process. What it refers to is on the disk when this returns; its `log` is a file of
        the folder."""


def is_logged(source: Source) -> TypeGuard[LoggedSource]:
    """Whether a source is a `LoggedSource`."""
    return hasattr(source, "keep_log")


class ContinuedSource(Source, Protocol):
    """A source that may have more after its end."""

    def go_on(self) -> None:
        """After `close`: find rows that have come since; the next read begins where the last one ended."""


def is_continued(source: Source) -> TypeGuard[ContinuedSource]:
    """Whether a source is a `ContinuedSource`."""
    return hasattr(source, "go_on")


class Sink(Protocol):
    """Results of one query, in delivery order."""

    def open(self, schema: pa.Schema) -> None:
        """Called before the first write, again where the schema has grown (`FOR ALL`), and after `close` where a
        session goes on."""

    def write(self, epoch: int, table: pa.Table) -> None: ...

    def flush(self, epoch: int) -> None:
        """A checkpoint of this epoch follows: what was written up to it must survive a crash when this returns."""

    def truncate_after(self, epoch: int) -> None:
        """Remove what was written for epochs after this one: a resumed run writes it again."""

    def close(self) -> None: ...
