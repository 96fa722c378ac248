"""A session's job on Spark: the caller's Spark session, streams from files or DataFrames, results in files.

Answer   `SparkRunner` is the `Runner` of sessions with `spark=…`.
State    The DataFrames of streams, beside what every `ShardedRunner` has.
Limits   Spark decides about micro-batches: there is no `step`, and rows are not pushed. Results wait in files, in `out`
         or below the checkpoint; without either they only go to sinks and callbacks.
"""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame, SparkSession

from eddyline.connectors.results.output import result_files
from eddyline.errors import Unsupported, UserError
from eddyline.language import Job
from eddyline.language.catalog import DeclaredSink
from eddyline.model.clock import Clock
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Schema, Stream
from eddyline.runtime.driving.query_sinks import DEAD_LETTER
from eddyline.runtime.front.runner import Handle
from eddyline.runtime.sharded.front.query_check import check_query
from eddyline.runtime.sharded.front.runner import ShardedRunner
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.spark.file_results import FileResults
from eddyline.runtime.spark.ingest.frames import frame_schema
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.runtime.spark.job.guest import check_session, check_workers
from eddyline.runtime.spark.output.table_sink import check_sink


class SparkRunner(ShardedRunner[SparkDriver]):
    engine, where, by_shard = "spark", "on Spark", True

    def __init__(
        self,
        job: Job,
        spark: SparkSession,
        *,
        out: str | None = None,
        checkpoint: str | None = None,
        overwrite: bool = False,
        keep_results: bool = True,
        clock: Clock | None = None,
    ) -> None:
        check_session(spark)
        self.spark = spark
        self._frames: dict[str, DataFrame] = {}
        super().__init__(
            job, out=out, checkpoint=checkpoint, overwrite=overwrite, keep_results=keep_results, clock=clock
        )

    @property
    def usual_shards(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    @property
    def keeps_files(self) -> bool:
        return self._out is not None or self._keep_results

    @property
    def results(self) -> str:
        """The folder of results, by query."""
        if self._out is not None:
            return self._out
        if self._keep_results:
            return os.path.join(self.checkpoint, "eddyline", "results")
        raise UserError("the session keeps no results", hint="Session(spark=…, out='…') writes them to files")

    # -- saying what there is

    def schema_of(self, name: str, given: object) -> Schema | None:
        return frame_schema(name, given) if isinstance(given, DataFrame) else None

    def declare(self, stream: Stream, given: object = None) -> None:
        self._refuse_new_stream()
        if isinstance(given, DataFrame):
            self._frames[stream.name] = given

    def forget(self, kind: str, name: str) -> None:
        super().forget(kind, name)
        if kind == "stream":
            self._frames.pop(name, None)

    def is_given(self, stream: Stream) -> bool:
        if stream.name not in self._frames and "path" not in stream.options:
            raise UserError(
                f"stream {stream.name} has no source on Spark",
                hint="stream(name, df, time=…) reads any streaming DataFrame; WITH (format = 'parquet', path = '…') reads files",
            )
        return stream.name in self._frames

    def _check_query(self, query: BoundQuery) -> None:
        check_query(query, self.job.catalog.streams, self._frames)

    def _check_sink(self, sink: DeclaredSink) -> str | None:
        return check_sink(self.spark, sink)

    def _handle(self, query: BoundQuery) -> Handle:
        return FileResults(self, query)

    # -- running

    def push(self, stream: Stream, rows: object) -> int:
        raise Unsupported(
            f"rows cannot be pushed to {stream.name} on Spark",
            hint="stream(name, df, time=…) reads any streaming DataFrame; format = 'parquet', path = '…' reads files",
        )

    def push_record(self, stream: Stream, kind: str, body: object) -> None:
        raise Unsupported(f"rows are not pushed to {stream.name} on Spark", hint="name an instant: at=…")

    def step(self) -> None:
        raise Unsupported(
            "Spark decides about its micro-batches", hint="run() reads what is there; start() follows the sources"
        )

    def step_pending(self) -> None:
        """Nothing is pushed; but a job that failed in the background says so here."""
        if self._driver is not None:
            self._driver.raise_failure()

    def run(self, once: bool, final: bool | None = None) -> None:
        self._refuse_final(final)
        try:
            self._driver = driver = self._build(follow=not once)
            self._in_background = False
            if self._asked:
                driver.ask_to_stop()
            if once:
                driver.run()
            else:
                driver.start()
                driver.wait()
            self._note_saved()
        finally:
            self._asked = False
            self._release()

    def dead_letters(self, stream: Stream) -> list[pa.Table]:
        return [
            parquet.read_table(path)
            for _, _, path in result_files(os.path.join(self.results, DEAD_LETTER, stream.name))
        ]

    # -- inside

    def _before_build(self) -> None:
        check_workers(self.spark, self.checkpoint)

    def _made_driver(self, layout: JobLayout) -> SparkDriver:
        out = self.results if self._keep_results or self._out is not None else None
        return SparkDriver(self.spark, layout, out=out, frames=self._frames, clock=self._clock)
