"""A job on Spark: source, stateful step, delivery; start, stop, end.

Answer   `run` reads everything there is and ends the streams in the same run; `start` follows the sources until `stop`.
         Results of each micro-batch are written under its id before Spark commits it.

             files, control ─ PacketSource ─┐
             any streaming DataFrame ─ pack ┴ groupBy(shard) ─ ShardProcessor ─ foreachBatch(Delivery)

State    Spark's checkpoint (offsets, commits, state), and below `eddyline/` in it: the ledger, the list of files, control
         records, layouts, staged results.
Limits   The number of shards is fixed by the first run on a checkpoint.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from eddyline.connectors.base import Sink
from eddyline.connectors.files import read_table
from eddyline.language.catalog import Catalog
from eddyline.language.catalog import Sink as DeclaredSink
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.plan.shares import route_all
from eddyline.runtime.spark.control import write_control
from eddyline.runtime.spark.failure import readable
from eddyline.runtime.spark.frames import packed_frame
from eddyline.runtime.spark.idle import IdleWatch
from eddyline.runtime.spark.layout import Layout, PackedLayout, with_absolute_paths
from eddyline.runtime.spark.ledger import Ledger
from eddyline.runtime.spark.packet import PARCEL, spark_schema
from eddyline.runtime.spark.processor import ShardProcessor
from eddyline.runtime.spark.progress import Progress, stage_seconds
from eddyline.runtime.spark.session import prepare_session, shard_labels
from eddyline.runtime.spark.shard import result_schemas
from eddyline.runtime.spark.sinks import Delivered, Delivery
from eddyline.runtime.spark.sources import PacketSource
from eddyline.runtime.spark.spool import spool_folder
from eddyline.settings import Settings


def make_layout(
    spark: SparkSession,
    checkpoint: str,
    streams: Sequence[Stream],
    queries: Sequence[BoundQuery],
    tables: Sequence[Table] = (),
    settings: Settings | None = None,
    engine: str = "eddyline.runtime.spark.shard:ShardPipeline",
) -> Layout:
    """The layout of a job over a checkpoint, new or continued; refuses what does not fit the checkpoint."""
    settings = settings or Settings()
    checkpoint = os.path.abspath(checkpoint)
    ledger = Ledger.read(checkpoint)
    shards = settings.shards or ledger.shards or spark.sparkContext.defaultParallelism
    records = ledger.settle(streams, queries, shards)
    rates = {stream.name: float(stream.options.get("rate", 1.0)) for stream in streams}
    routing = route_all(queries, [s.name for s in streams], rates, shards, records)
    ledger.write(streams, queries, routing, shards)
    return Layout(
        streams=with_absolute_paths(streams),
        queries=tuple(queries),
        routing=routing,
        labels=shard_labels(spark, shards),
        checkpoint=checkpoint,
        spool=spool_folder(checkpoint),
        engine=engine,
        tables=tuple((table, ledger.table(table, read_table)) for table in tables),
        settings=settings,
    )


class SparkJob:
    def __init__(
        self,
        spark: SparkSession,
        layout: Layout,
        *,
        out: str | None = None,
        frames: Mapping[str, DataFrame] | None = None,
        told: Callable[[Delivered, Progress], None] | None = None,
    ):
        """
        Args:
            spark: The session.
            layout: What all tasks know.
            out: Folder for results and dead letters.
            frames: stream -> its streaming DataFrame, for streams that are not files.
            told: Hears of every micro-batch.
        """
        self.spark = spark
        self.layout = layout
        self.frames = dict(frames or {})
        self.told = told
        self.progress = Progress()
        self.delivery = Delivery({s.name: s for s in layout.streams}, layout.staging, out, self._delivered)
        self.idle = IdleWatch(layout.streams, layout.checkpoint)
        self.query: StreamingQuery | None = None
        self.events: list[dict[str, Any]] = []

    def add_query(self, name: str, schema: pa.Schema, declared: Sequence[DeclaredSink] = (), own: Sequence[Sink] = ()) -> None:
        """Say where a query's results go; before `run` or `start`."""
        self.delivery.add_query(name, schema, declared, own)

    def add_queries(self, catalog: Catalog, own: Mapping[str, Sequence[Sink]] | None = None) -> None:
        """All queries of the layout, with the sinks that the catalog declares for them."""
        for name, schema in result_schemas(self.layout).items():
            self.add_query(name, schema, catalog.sinks_of(name), (own or {}).get(name, ()))

    def run(self) -> Progress:
        """Read what is there, end the streams, return when everything is written."""
        self._run_once()
        if self.frames:
            # Only Spark knows when they have nothing more, and it has just said so.
            write_control(self.layout.checkpoint, {"closing": True})
            self._run_once()
        self.delivery.close()
        return self.progress

    def start(self) -> None:
        """Follow the sources until `stop`."""
        self.query = self._start(once=False)
        self.idle.start()

    def stop(self, patience: float = 60.0) -> Progress:
        """End after the batch that is running, if any; the checkpoint then continues exactly there."""
        query = self.query
        assert query is not None
        self.idle.stop()
        limit = time.monotonic() + patience
        while query.isActive and query.status["isTriggerActive"] and query.status["isDataAvailable"] and time.monotonic() < limit:
            time.sleep(0.02)
        query.stop()
        self._note_events(query)
        failed = query.exception()
        if failed is not None:
            raise readable(failed)
        self.delivery.close()
        return self.progress

    def stages(self) -> dict[str, list[float]]:
        """Seconds per stage and micro-batch, as Spark measured them."""
        return stage_seconds(self.events)

    def _run_once(self) -> None:
        self.query = query = self._start(once=True)
        try:
            query.awaitTermination()
        except Exception as problem:
            raise readable(problem) from None
        finally:
            self._note_events(query)

    def _start(self, once: bool) -> StreamingQuery:
        prepare_session(self.spark, self.layout.shards)
        self.spark.dataSource.register(PacketSource)
        packed = PackedLayout.of(self.layout)
        source = (
            self.spark.readStream.format(PacketSource.name())
            .option("digest", packed.digest)
            .option("layout", packed.path)
            .option("tasks", str(self.spark.sparkContext.defaultParallelism))
            .option("once", "true" if once else "false")
            .load()
        )
        for name, frame in self.frames.items():
            source = source.unionByName(packed_frame(frame, name, packed))
        with warnings.catch_warnings():
            # PySpark warns of newer versions of pandas, which nothing here touches.
            warnings.simplefilter("ignore", FutureWarning)
            stepped = source.groupBy("shard").transformWithState(ShardProcessor(packed), spark_schema(PARCEL), "Append", "None")
        writer = stepped.writeStream.foreachBatch(self.delivery).option("checkpointLocation", self.layout.checkpoint)
        return (writer.trigger(availableNow=True) if once else writer).start()

    def _delivered(self, delivered: Delivered) -> None:
        self.progress.take(delivered)
        for note in delivered.notes.values():
            self.idle.heard([name for name, rows in note["rows_in"].items() if rows])
        if self.told is not None:
            self.told(delivered, self.progress)

    def _note_events(self, query: StreamingQuery) -> None:
        self.events += [json.loads(event.json) if hasattr(event, "json") else event for event in query.recentProgress]
