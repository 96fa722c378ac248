"""What travels from those who read to shards, and from shards to those of later steps: few, large packets.

Answer   A packet carries one shard's rows of one piece of a stream as an Arrow IPC blob. It also carries what every
         shard must know of the whole piece: its newest event time, how many rows it had, whether the stream ends with
         it. So the packets of a batch are its ticks too.
Limits   One packet holds at most what a packer read in one piece; see `PIECE_ROWS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from eddyline.model.records.records import Records

#: Rows of one piece: large enough to be worth a blob, small enough that a shard's blob stays a few megabytes.
PIECE_ROWS = 1 << 17
#: Packets of one piece of a file are numbered below this.
PACKETS_PER_PIECE = 1 << 24

#: Engine columns inside a packet's blob: the routes that sent a row here, and its number in its piece. The number is
#: left out where it says nothing new: times rise from row to row, and no ROWS window counts them.
ROUTES_COLUMN = "_routes"
NUMBER_COLUMN = "_number"


class Packet(NamedTuple):
    shard: int
    #: Its number in the layout.
    stream: int
    #: Orders the pieces of a stream: file number or partition, then piece number.
    place: int
    #: Of the whole piece, on every shard.
    newest: int | None
    rows: int
    closed: bool
    blob: bytes | None = None
    bad: bytes | None = None
    #: Event times of all rows of the piece, int64 each: only for streams that a ROWS window reads.
    census: bytes | None = None
    #: Records that speak of this stream or of another one, as `records_blob` has them; numbers count the rows of the
    #: piece.
    records: bytes | None = None
    #: Lines of the part of a text file that ends with this packet.
    lines: int = 0
    #: On the first shard: how many row groups were skipped, and read for each reason, as JSON; empty: there are none.
    row_groups: str = ""


#: Bits of the place of a packet with derived rows: the maker, the shard that made them, the piece.
_SHARD_BITS, _PIECE_BITS = 20, 24


def handed_place(maker: int, shard: int, piece: int) -> int:
    return (maker << _SHARD_BITS | shard) << _PIECE_BITS | piece


def maker_of(place: int) -> int:
    """The number of the maker of derived rows, by the place of their packet."""
    return place >> (_SHARD_BITS + _PIECE_BITS)


def records_blob(batches: Sequence[Records]) -> bytes | None:
    """Batches of records as one blob; None: there are none."""
    return (
        to_blob(pa.table({"batch": pa.array([to_blob(batch.table()) for batch in batches], pa.binary())}))
        if batches
        else None
    )


def records_from(blob: bytes | memoryview) -> list[Records]:
    return [Records.from_table(from_blob(batch.as_buffer())) for batch in from_blob(blob).column("batch")]


def to_blob(table: pa.Table | pa.RecordBatch) -> bytes:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def from_blob(blob: bytes | memoryview) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()
