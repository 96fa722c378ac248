"""Any streaming DataFrame as a stream of a job.

Answer   `packed_frame` packs the rows of a DataFrame where Spark has them: Kafka, files, rate, Delta, a Python data
         source. Rows that do not fit the declared types are bad rows, as from our own sources.
State    None.
Limits   The order of rows of equal time is (partition, place in the partition): repeatable for logs, not for sources
         that cut their partitions anew. Such a stream cannot say that it has ended; a bounded run closes it when Spark
         is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.functions import current_timestamp

from eddyline.connectors.formats.conform import conform
from eddyline.connectors.formats.valid_text import with_valid_text
from eddyline.connectors.future_rows import limit_at, within
from eddyline.errors import BindingProblem
from eddyline.model.datatypes import from_arrow
from eddyline.model.schema import Column, Schema
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.ingest.needed import without_unneeded
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.job.layout import PackedLayout
from eddyline.runtime.sharded.phases import left_out_of, packer_of
from eddyline.runtime.spark.ingest.sources import PACKETS
from eddyline.runtime.spark.job.failure import reported

#: The column with the wall clock when the batch was planned; no stream declares it.
_PLANNED = "_planned"
#: The local property of Spark's with what tasks must know of the batch at hand.
BATCH = "eddyline.batch"
_SCHEMA = pa.schema(
    zip(
        Packet._fields,
        [pa.int32()] * 2 + [pa.int64()] * 3 + [pa.bool_()] + [pa.binary()] * 4 + [pa.int64(), pa.string()],
        strict=True,
    )
)
#: Pieces of one partition are numbered below this.
_PIECES_PER_PARTITION = 1 << 40


def frame_schema(name: str, frame: DataFrame) -> Schema:
    """The declared columns of a stream that is given as a DataFrame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    columns = []
    for field in to_arrow_schema(frame.schema, timezone="UTC"):
        kind = from_arrow(field.type)
        if kind is None:
            raise BindingProblem(
                f"column {field.name} of stream {name} has the type {field.type}",
                hint="select or cast what queries need before handing it over",
            )
        columns.append(Column(field.name, kind))
    return Schema(tuple(columns))


def said_of(batch: BatchDocument) -> str:
    """What tasks that pack rows of DataFrames must know of a batch."""
    known = (bool(batch.control), bool(batch.before), batch.late_below)
    return json.dumps([batch.layout, *known])


def _heard(said: str | None, packed: PackedLayout) -> BatchDocument:
    """The same as a document; where nothing was said, nothing is known of the batch."""
    layout, control, before, late_below = json.loads(said) if said else (packed.digest, True, True, {})
    return BatchDocument(0, layout, control=({},) * control, late_below=late_below, before={0: ""} if before else {})


def packed_frame(frame: DataFrame, name: str, packed: PackedLayout) -> DataFrame:
    """The packets of a streaming DataFrame."""
    if not frame.isStreaming:
        raise BindingProblem(
            f"the DataFrame of stream {name} is not streaming", hint="spark.readStream makes streaming ones"
        )

    layout = packed.open()
    timed = layout.streams[layout.numbers[name]].most_ahead is not None

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with reported("the layout of the job"):
            context = TaskContext.get()
            assert context is not None
            batch = _heard(context.getLocalProperty(BATCH), packed)
            now = packed.named(batch.layout)
            layout, packer = now.open(), packer_of(now)
        stream = layout.streams[layout.numbers[name]]
        columns, wanted = left_out_of(now, stream, batch)
        bound = batch.late_below.get(name)
        partition = context.partitionId()
        row = 0
        for number, found in enumerate(batches):
            with reported(f"stream {name}, partition {partition}"):
                rows = with_valid_text(pa.Table.from_batches([found]))
                limit = (
                    limit_at(stream, rows.column(_PLANNED)[0].cast(pa.int64()).as_py())
                    if timed and found.num_rows
                    else None
                )
                chunk = within(conform(rows, stream, f"partition {partition}", row), stream, limit)
                place = partition * _PIECES_PER_PARTITION + number
                needed = without_unneeded(chunk.rows, stream, columns, bound)
                fields = zip(*packer.pack(name, needed, chunk.bad, place, False, row, wanted=wanted), strict=True)
                yield pa.record_batch([pa.array(v, f.type) for v, f in zip(fields, _SCHEMA, strict=True)], _SCHEMA)
            row += found.num_rows

    if timed:
        # Spark keeps this instant with the offsets of the batch: a batch that runs again has the same.
        frame = frame.withColumn(_PLANNED, current_timestamp())
    return frame.mapInArrow(pack, PACKETS)
