"""Sinks that Spark writes: Delta tables, Kafka topics, and every other format that the session knows.

Answer   `open_spark_sink` makes the sink of a CREATE SINK statement on Spark: files, memory and console as everywhere,
         the rest through Spark's writers, one write per batch.
State    The results of the batch at hand: the files of its shards, or rows. Rows beyond a bound go to a file, too, and
         Spark's tasks read these files: this process holds none of their rows.
Limits   Delta writes a batch once: its log knows the batch id. Kafka and other formats may get a batch twice after a
         crash; `check_sink` says so before the start. Rows of Kafka are JSON texts in `value`, as a jsonl sink writes
         them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from eddyline.connectors.base import Sink
from eddyline.connectors.formats.encoders import json_rows
from eddyline.connectors.results.landing import FileTarget
from eddyline.connectors.results.sinks import SINK_FORMATS, SPARK_FORMATS, open_sink, sink_format
from eddyline.errors import SourceProblem
from eddyline.language.catalog import DeclaredSink
from eddyline.runtime.sharded.output.landed import Landed
from eddyline.runtime.spark.job.guest import data_source_is_there

#: Rows of a batch that are held before they go to a file.
_HELD_BYTES = 32 << 20
#: What brings a format to Spark.
_PACKAGES = {
    "delta": "io.delta:delta-spark_2.13:<the version for Spark {version}>",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
}


def open_spark_sink(spark: SparkSession, sink: DeclaredSink, checkpoint: str) -> Sink:
    """The sink of a CREATE SINK statement."""
    if sink_format(sink.options) in SINK_FORMATS:
        return open_sink(sink.options, sink.name)
    return TableSink(spark, sink.name, sink.options, checkpoint)


def check_sink(spark: SparkSession, sink: DeclaredSink) -> str | None:
    """Refuse a sink that cannot be written; the warning that one deserves that can."""
    kind = sink_format(sink.options)
    if kind in SINK_FORMATS:
        open_sink(sink.options, sink.name)
        return None
    if not data_source_is_there(spark, kind):
        if kind not in SPARK_FORMATS:
            formats = ", ".join([*SINK_FORMATS, *SPARK_FORMATS])
            raise SourceProblem(
                f"sink {sink.name} has the unknown format {kind!r}",
                hint=f"formats are {formats}, and those that Spark knows",
            )
        package = _PACKAGES[kind].format(version=spark.version)
        raise SourceProblem(
            f"sink {sink.name} has the format {kind}, which this Spark session does not know",
            hint=f"start Spark with --packages {package}, or spark.jars.packages of the session's builder",
        )
    for option in ("topic", "servers") if kind == "kafka" else ("path",):
        if not sink.options.get(option, "").strip() and not (
            option == "servers" and "kafka.bootstrap.servers" in sink.options
        ):
            raise SourceProblem(f"sink {sink.name} has no {option}", hint=f"WITH (format = '{kind}', {option} = '…')")
    if kind == "delta":
        return None
    return f"sink {sink.name} ({kind}) cannot take back what it has written: after a crash it may get the results of one batch twice"


class TableSink:
    def __init__(self, spark: SparkSession, name: str, options: Mapping[str, str], checkpoint: str):
        self._spark = spark
        self._name = name
        self._format = sink_format(options)
        self._options = dict(options)
        self._checkpoint = checkpoint
        #: Rows of the batch at hand, and its files.
        self._tables: list[pa.Table] = []
        self._landed: list[str] = []
        self._spill: Landed | None = None

    @property
    def target(self) -> FileTarget:
        """Where shards put files of results that Spark is to write."""
        return FileTarget(os.path.join(self._checkpoint, "eddyline"), ".parquet")

    def adopt(self, epoch: int, landed: Sequence[str]) -> None:
        """Take all results of a batch as parquet files."""
        self._landed = [*landed]

    def open(self, schema: pa.Schema) -> None:
        """Formats take their columns from what is written."""

    def write(self, epoch: int, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self._tables.append(table)
        if self._spill is not None or sum(one.nbytes for one in self._tables) > _HELD_BYTES:
            if self._spill is None:
                self._spill = Landed([self.target], epoch, "rows")
            # A sink FOR ALL may have got further columns since the first of these came.
            for one in self._tables:
                self._spill.write(one)
            self._tables = []

    def flush(self, epoch: int) -> None:
        tables, landed, spill = self._tables, self._landed, self._spill
        self._tables, self._landed, self._spill = [], [], None
        if spill is not None:
            spill.close()
            landed = [*landed, *spill.paths]
        if landed:
            self._written(self._frame(landed), epoch)
        elif tables:
            whole = pa.concat_tables(tables, promote_options="default")
            frame = self._spark.createDataFrame(
                _messages(whole, self._key) if self._format == "kafka" else _in_utc(whole)
            )
            self._written(frame, epoch)

    def _frame(self, landed: Sequence[str]) -> DataFrame:
        """The rows of some files, as the format takes them."""
        schema = parquet.read_schema(landed[0])
        paths = [f"file://{path}" for path in landed]
        if self._format != "kafka":
            return self._spark.read.schema(from_arrow_schema(schema, prefer_timestamp_ntz=False)).parquet(*paths)
        columns = from_arrow_schema(_messages(schema.empty_table(), self._key).schema)
        return self._spark.read.parquet(*paths).mapInArrow(partial(_all_messages, self._key), columns)

    @property
    def _key(self) -> str | None:
        return self._options.get("key")

    def truncate_after(self, epoch: int) -> None:
        self._tables, self._landed, self._spill = [], [], None

    def close(self) -> None:
        return None

    def _written(self, frame: DataFrame, epoch: int) -> None:
        writer: DataFrameWriter = frame.write.format(self._format).mode("append")
        for name, value in self._options.items():
            if "." in name or name == "topic":
                writer = writer.option(name, value)
        if "servers" in self._options:
            writer = writer.option("kafka.bootstrap.servers", self._options["servers"])
        if self._format == "delta":
            # Delta's log remembers the last version of an application: a batch that comes again is passed over.
            writer = writer.option("txnAppId", f"{run_id(self._checkpoint)}-{self._name}").option(
                "txnVersion", str(epoch)
            )
        if self._format == "kafka":
            writer.save()
        else:
            writer.save(self._options["path"])


def run_id(checkpoint: str) -> str:
    """What distinguishes this checkpoint from an earlier one in the same folder: Spark's own id of the query."""
    with open(os.path.join(checkpoint, "metadata"), encoding="utf-8") as text:
        return str(json.load(text)["id"])


def _in_utc(table: pa.Table) -> pa.Table:
    """Times as instants: Spark's TIMESTAMP, not its TIMESTAMP_NTZ."""
    zoned = [pa.field(f.name, pa.timestamp("us", "UTC")) if pa.types.is_timestamp(f.type) else f for f in table.schema]
    return table.cast(pa.schema(zoned))


def _all_messages(key: str | None, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from _messages(pa.Table.from_batches([batch]), key).to_batches()


def _messages(table: pa.Table, key: str | None) -> pa.Table:
    """Results as the rows that Kafka's writer takes."""
    columns = {"value": pa.chunked_array([json_rows(batch) for batch in table.to_batches()], pa.string())}
    if key is not None:
        if key not in table.column_names:
            raise SourceProblem(
                f"results have no column {key} for the key of a topic",
                detail=f"columns are {', '.join(table.column_names)}",
            )
        columns["key"] = table.column(key).cast(pa.string())
    return pa.table(columns)
