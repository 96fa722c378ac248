"""The Spark driver: a streaming query that says when there is a batch; start, stop, end.

Answer   `run` reads everything there is and ends the streams in the same run; `start` follows the sources until `stop`.
         Structured Streaming decides about micro-batches, writes their offsets, and commits them. For each it calls
         this driver, which makes the batch's document, has it conducted unless it counts already, and delivers it.

             files, control ─ PacketSource: offsets ─┐
             any streaming DataFrame ─ pack: packets ┴ foreachBatch: document, conductor, manifest, delivery

State    Spark's checkpoint (offsets, commits), and below `eddyline/` in it all that is the job's own.
Limits   The number of shards, and of steps one after the other (`plan/shards/steps.py`), is fixed by the first run on a
         checkpoint.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from eddyline.connectors.base import Sink
from eddyline.connectors.results.sinks import hand_over_problem
from eddyline.errors import EddylineError
from eddyline.language.catalog import DeclaredSink
from eddyline.model.clock import Clock
from eddyline.runtime.sharded.front.driver import LOOK_SECONDS, ShardedDriver
from eddyline.runtime.sharded.ingest.control import ask_to_stop, forget_stop, write_control
from eddyline.runtime.sharded.ingest.file_log import take_warnings
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.job.progress import StreamProgress
from eddyline.runtime.sharded.output.delivery import Delivered
from eddyline.runtime.sharded.shard.pipeline import ShardEngine, ShardPipeline
from eddyline.runtime.spark.ingest.frames import packed_frame
from eddyline.runtime.spark.ingest.sources import PacketSource
from eddyline.runtime.spark.job.batches import SparkBatches
from eddyline.runtime.spark.job.failure import is_lost, readable
from eddyline.runtime.spark.job.guest import is_shared, job_settings
from eddyline.runtime.spark.job.helpers import quick_helpers
from eddyline.runtime.spark.job.stages import StageTimes
from eddyline.runtime.spark.output.table_sink import open_spark_sink
from eddyline.state.sealed import kept_in

#: Events are taken over after this number of batches; `session.py` has Spark keep twice as many.
_EVENTS_AT_ONCE = 32


class SparkDriver(ShardedDriver):
    name, by_shard = "spark", True

    def __init__(
        self,
        spark: SparkSession,
        layout: JobLayout,
        *,
        out: str | None = None,
        frames: Mapping[str, DataFrame] | None = None,
        on_batch: Callable[[Delivered, StreamProgress], None] | None = None,
        clock: Clock | None = None,
        engine: type[ShardEngine] = ShardPipeline,
    ):
        """
        Args:
            spark: The session.
            layout: What all tasks know.
            out: Folder for results and dead letters.
            frames: stream -> its streaming DataFrame, for streams that are not files.
            on_batch: Called with every micro-batch.
            clock: Gives the time for idle streams and for waiting.
            engine: What runs a shard; tests have others.
        """
        self.spark = spark
        self.frames = dict(frames or {})
        self.times = StageTimes()
        self._batches: SparkBatches | None = None
        #: What ended a batch before it was delivered.
        self._lost: Exception | None = None
        self.query: StreamingQuery | None = None
        super().__init__(layout, out=out, on_batch=on_batch, clock=clock, engine=engine)
        self.delivery.is_shared = partial(is_shared, spark)

    def run(self) -> StreamProgress:
        """Read what is there, end the streams, return when everything is written."""
        self.ticker.start(self._closing())
        try:
            self._run_all()
        finally:
            self.ticker.stop()
        self.ended = True
        if self.delivery.failed is not None:
            # Files could not be closed after the last batch.
            raise self._failed(self.delivery.failed)
        self.delivery.close()
        self._report_end()
        return self.progress

    def _run_all(self) -> None:
        self._run_once()
        if self.frames and not self._stopping:
            # Only Spark knows when they have nothing more, and it has just said so.
            write_control(self.layout.checkpoint, {"closing": True})
            self._run_once()
        if self.last_requests:
            pending = self._send_last_requests()
            self._run_once()
            self.on_answers(pending.tables)

    @property
    def is_running(self) -> bool:
        return self.query is not None and not self.ended

    def raise_failure(self) -> None:
        """Raise what ended the job in the background, if anything did."""
        failed: BaseException | None = None
        if self.query is not None:
            with self._maybe_gone():
                failed = self.query.exception()
            failed = self.delivery.failed if failed is None or (self._stopping and is_lost(failed)) else failed
        if failed is not None:
            self.ended = True
            problem = self._readable(failed)
            if self.query is not None and self.query.isActive:
                # Files could not be closed while no batch came.
                self.query.stop()
            self._report_end(problem)
            raise problem

    def abandon(self) -> None:
        """Stop at once; the checkpoint continues with the batch that was running."""
        self.ticker.stop()
        self.ended = True
        if self.query is not None:
            self.query.stop()
        self._report_end()

    def start(self) -> None:
        """Follow the sources until `stop`."""
        self.query = self._start(once=False)
        self.ticker.start(self._duties())

    def stop(self, patience: float = 60.0) -> StreamProgress:
        """End after the batch that is running, if any; the checkpoint then continues exactly there."""
        query = self.query
        assert query is not None
        self.ticker.stop()
        pending = self._send_last_requests() if self.last_requests and query.isActive else None
        self._note_stop()
        if pending is not None:
            limit = self.clock.now() + patience
            while query.isActive and self.clock.now() < limit and not pending.wait(LOOK_SECONDS):
                take_warnings(self.layout.checkpoint)
        self._finish_batch(query, patience)
        self.ended = True
        self._note_events(query)
        self.raise_failure()
        self.delivery.close()
        if pending is not None:
            self.on_answers(pending.tables)
        self._report_end()
        return self.progress

    def _finish_batch(self, query: StreamingQuery, patience: float = 60.0) -> None:
        """Let the batch at hand be committed, then stop. Our own source has nothing new by now, a DataFrame may never
        rest."""
        limit = self.clock.now() + patience
        last = self.progress.last_batch
        with self._maybe_gone():
            while query.isActive and self.clock.now() < limit:
                status = query.status
                if not (status["isTriggerActive"] and status["isDataAvailable"]):
                    break
                if (
                    self.progress.last_batch > last
                    and committed_batch(self.layout.checkpoint) >= self.progress.last_batch
                ):
                    break
                self.clock.sleep(0.02)
            query.stop()

    @contextlib.contextmanager
    def _maybe_gone(self) -> Iterator[None]:
        """A service manager may signal every process of a job, and the JVM ends too: what it has committed counts, the
        rest runs again."""
        try:
            yield
        except Exception as problem:
            if not (self._stopping and is_lost(problem)):
                raise

    def wait(self) -> StreamProgress:
        """After `start`: return when the job has failed or was asked to stop."""
        assert self.query is not None
        try:
            while not self._stopping and not self.query.awaitTermination(LOOK_SECONDS):
                take_warnings(self.layout.checkpoint)
                if self.delivery.failed is not None:
                    self.raise_failure()
        except EddylineError:
            raise
        except Exception as problem:
            if not (self._stopping and is_lost(problem)):
                self.ended = True
                self._note_events(self.query)
                raise self._failed(problem) from self.delivery.failed
        return self.stop()

    def stages(self) -> StageTimes:
        """Seconds per stage and micro-batch, as Spark measured them."""
        if self.query is not None:
            self._note_events(self.query)
        return self.times

    def _run_once(self) -> None:
        self.query = query = self._start(once=True)
        try:
            # In short turns, so that signals are handled in between.
            while not query.awaitTermination(LOOK_SECONDS):
                if self._stopping and self.frames:
                    self._finish_batch(query)
        except Exception as problem:
            if not (self._stopping and is_lost(problem)):
                self.ended = True
                raise self._failed(problem) from self.delivery.failed
        finally:
            self._note_events(query)

    def _start(self, once: bool) -> StreamingQuery:
        with job_settings(self.spark), kept_in(self.layout.checkpoint):
            try:
                return self._started(once)
            except (EddylineError, OSError):
                raise
            except Exception as problem:  # py4j hands over whatever the JVM threw
                raise readable(problem) from problem

    def _started(self, once: bool) -> StreamingQuery:
        forget_stop(self.layout.checkpoint)
        if self._stopping:
            # The request came before the start; the one of an earlier run has been forgotten.
            ask_to_stop(self.layout.checkpoint, self._last_control)
        with quick_helpers(self.spark.sparkContext):
            self.spark.dataSource.register(PacketSource)
        if self.roster is not None:
            self.roster.begin()
            self.layout = self.roster.layout
        packed = replace(PackedLayout.of(self.layout), functions=self.functions)
        self._batches = SparkBatches(self.spark, self.layout, packed, self._engine, self.roster, bool(self.frames))
        self._lost = None
        source = (
            self.spark.readStream.format(PacketSource.name())
            .option("digest", packed.digest)
            .option("layout", packed.path)
            .option("once", "true" if once else "false")
            .load()
        )
        with warnings.catch_warnings():
            # PySpark warns of newer versions of pandas, which nothing here touches.
            warnings.simplefilter("ignore", FutureWarning)
            for name, frame in self.frames.items():
                source = source.unionByName(packed_frame(frame, name, packed))
        writer = source.writeStream.foreachBatch(self._deliver).option(
            "checkpointLocation", f"file://{self.layout.checkpoint}"
        )
        return (writer.trigger(availableNow=True) if once else writer).start()

    def _deliver(self, frame: DataFrame, batch: int) -> None:
        assert self._batches is not None
        try:
            with kept_in(self.layout.checkpoint):
                parcels = self._batches.conduct(frame, batch)
        except Exception as problem:
            # Spark would make a page of it.
            self._lost = problem
            raise
        self.delivery(parcels, batch)

    def _readable(self, problem: BaseException) -> EddylineError:
        """What went wrong, in one message: in a sink or a callback of this process, or somewhere in Spark."""
        failed = self.delivery.failed
        return readable(self._lost or problem) if failed is None else hand_over_problem(failed)

    def _opened_sink(self, sink: DeclaredSink) -> Sink:
        return open_spark_sink(self.spark, sink, self.layout.checkpoint)

    def _take(self, delivered: Delivered) -> None:
        super()._take(delivered)
        if self.query is not None and self.progress.batches % _EVENTS_AT_ONCE == 0:
            self._note_events(self.query)

    def _note_events(self, query: StreamingQuery) -> None:
        """Take over what Spark measured, before it forgets the oldest events, and what planning had to warn of."""
        take_warnings(self.layout.checkpoint)
        self.times.take_from(query)
