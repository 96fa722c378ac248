"""What travels between packers, shards and sinks: few, large rows.

Answer   A packet carries one shard's rows of one piece of a stream as an Arrow IPC blob. It also carries what every
         shard must know of the whole piece: its newest event time, how many rows it had, whether the stream ends with
         it. So the packets of a batch are its ticks too. A parcel carries results, dead letters or notes from a shard to the
         driver.
Limits   One packet holds at most what a packer read in one piece; see `PIECE_ROWS`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eddyline.model.records.records import Records

#: Rows of one piece: large enough to be worth a blob, small enough that a shard's blob stays a few megabytes.
PIECE_ROWS = 1 << 17

#: Stream number of packets that carry a control record.
CONTROL = -1

#: Engine columns inside a packet's blob: the routes that sent a row here, and its number in its piece. The number is
#: left out where it says nothing new: times rise from row to row, and no ROWS window counts them.
ROUTES_COLUMN = "_routes"
NUMBER_COLUMN = "_number"

PACKET = pa.schema(
    [
        ("shard", pa.int32()),
        ("stream", pa.int32()),
        # Orders the pieces of a stream: file number or partition, then piece number.
        ("place", pa.int64()),
        # Of the whole piece, on every shard.
        ("newest", pa.int64()),
        ("rows", pa.int64()),
        ("closed", pa.bool_()),
        ("blob", pa.binary()),
        ("bad", pa.binary()),
        # Event times of all rows of the piece, int64 each: only for streams that a ROWS window reads.
        ("census", pa.binary()),
        # Records that speak of this stream or of another one, as `records_blob` has them; numbers count the rows of the
        # piece.
        ("records", pa.binary()),
    ]
)

PARCEL = pa.schema(
    [
        # result | dead | note
        ("kind", pa.string()),
        # Query or stream.
        ("name", pa.string()),
        ("shard", pa.int32()),
        ("rows", pa.int64()),
        # An Arrow IPC file, where the rows are too many to travel through Spark.
        ("path", pa.string()),
        ("blob", pa.binary()),
    ]
)

#: Between two stateful steps: packets for later steps, and parcels on their way out, which have a `kind` and the number
#: of their shard as `stream`; `shard` is a label of the next step.
CARRIED = pa.schema([*PACKET, ("kind", pa.string()), ("name", pa.string()), ("path", pa.string())])

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
