"""A session's job on Spark: the caller's Spark session, streams from files or DataFrames, results in files.

Answer   `SparkRunner` is the `Runner` of sessions with `spark=…`. Every run settles the job with its checkpoint and
         makes a driver; between two runs anything may be declared, while one runs queries come and go.
State    The DataFrames of streams, the sinks that this program added, and the driver of the last run.
Limits   Spark decides about micro-batches: there is no `step`, and rows are not pushed. Results wait in files, in `out`
         or below the checkpoint; without either they only go to sinks and callbacks.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame, SparkSession

from eddyline.connectors.base import Sink
from eddyline.connectors.files.files import checked_source
from eddyline.connectors.results.output import result_files
from eddyline.connectors.results.request_files import write_requests
from eddyline.connectors.results.results_folder import needed_places, prepare_output
from eddyline.errors import Unsupported, UserError
from eddyline.language import Job
from eddyline.language.catalog import DeclaredSink
from eddyline.model.clock import Clock
from eddyline.model.query import BoundQuery
from eddyline.model.records.records import Records
from eddyline.model.schema import Schema, Stream, Table
from eddyline.model.template import BoundRequests, BoundTemplate, Request
from eddyline.plan.prepare import shape
from eddyline.plan.shape import Part
from eddyline.runtime.control.control_fold import is_first
from eddyline.runtime.driving.query_sinks import DEAD_LETTER
from eddyline.runtime.figures.publication import Publication
from eddyline.runtime.figures.report import Report, query_operator
from eddyline.runtime.front.own_functions import codes
from eddyline.runtime.front.runner import Handle, Observer
from eddyline.runtime.recovery.checkpoint_identity import Claim, claim
from eddyline.runtime.reporting.reporter import Reporter
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch
from eddyline.runtime.sharded.job.ledger import FORMAT, Ledger, LedgerEntry, same_text
from eddyline.runtime.sharded.job.progress import StreamProgress
from eddyline.runtime.sharded.job.saying import say, say_now
from eddyline.runtime.sharded.job.shipped import Shipped
from eddyline.runtime.sharded.output.delivery import Delivered
from eddyline.runtime.spark.file_results import FileResults
from eddyline.runtime.spark.ingest.frames import frame_schema
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.runtime.spark.job.explaining import explained
from eddyline.runtime.spark.job.figures import job_report, make_layout
from eddyline.runtime.spark.job.guest import check_session, check_workers
from eddyline.runtime.spark.job.query_check import check_query
from eddyline.runtime.spark.job.watched import WatchedSparkDriver
from eddyline.runtime.spark.job.wholeness import check_whole
from eddyline.runtime.spark.output.table_sink import check_sink
from eddyline.state.sealed import kept_in


class SparkRunner:
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
        self.job = job
        self.spark = spark
        self.handles: dict[str, Handle] = {}
        self.observers: list[Observer] = []
        self.checkpoint = os.path.abspath(checkpoint or tempfile.mkdtemp(prefix="eddyline-"))
        if checkpoint is None:
            # Not with the run: DataFrames over results outlive it.
            weakref.finalize(self, shutil.rmtree, self.checkpoint, ignore_errors=True)
        self._out = out
        self._keep_results = keep_results
        self._clock = clock
        self._overwrite = overwrite
        self._prepared = self._asked = False
        self._frames: dict[str, DataFrame] = {}
        self._own: dict[str, list[Sink]] = {}
        self._claim: Claim | None = None
        self._driver: SparkDriver | None = None
        self._in_background = False
        #: Ends a job in the background that a function has stopped which is called with results.
        self._ending: threading.Thread | None = None
        #: The answers of REQUEST statements, once the run has ended.
        self.answered: list[pa.Table] = []

    @property
    def begun(self) -> bool:
        return self._driver is not None and self._driver.is_running

    @property
    def is_running(self) -> bool:
        return self.begun

    @property
    def driver(self) -> SparkDriver:
        """The driver of the last run."""
        if self._driver is None:
            raise UserError("the session has not run yet", hint="run() or start() comes first")
        return self._driver

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
        if self.begun:
            raise Unsupported(
                "streams cannot be added to a running job",
                hint="stop it, declare the stream, and start with a new checkpoint",
            )
        if isinstance(given, DataFrame):
            self._frames[stream.name] = given

    def load(self, table: Table) -> None:
        if self.begun:
            raise Unsupported(
                "tables cannot be added to a running job", hint="stop it, and start it again with the table"
            )

    def request(self, requests: Sequence[Request], timeout: float | None) -> list[pa.Table]:
        if not self.begun:
            raise UserError(
                "the session does not run",
                detail="the rows of templates live in the workers of a running job",
                hint="start() first; REQUEST … in execute() is answered when the run ends",
            )
        if self.driver.delivery.is_mine:
            raise UserError(
                "requests are answered between two batches",
                detail="the caller is called with results",
                hint="ask from another thread",
            )
        return self.driver.request(requests, timeout)

    def register(self, query: BoundQuery) -> None:
        if self.begun and isinstance(query, BoundTemplate | BoundRequests):
            raise Unsupported(
                f"{query.name} cannot be created while the job runs", hint="stop(), CREATE TEMPLATE, start()"
            )
        check_query(query, self.job.catalog.streams, self._frames)
        known = self.entry(query.name) if self.begun else None
        # A query that an earlier run of the program added goes on where it was.
        is_known = known is not None and not known.is_leaving and same_text(known.text, query.identity)
        if self.begun and not is_known and is_first(query):
            self.driver.changes.add(query)
        self.handles[query.name] = FileResults(self, query)

    def drop(self, name: str) -> None:
        if self.begun:
            if isinstance(self.driver.layout.by_name.get(name), BoundTemplate | BoundRequests):
                raise Unsupported(f"{name} cannot be dropped while the job runs", hint=f"stop(), drop {name}, start()")
            roster = self.driver.roster
            known = None if roster is None else roster.layout.by_name.get(name)
            if known is None or is_first(known):
                # The record of a derived stream drops all its makers.
                self.driver.changes.drop(name if known is None or known.feeds is None else known.feeds.name)
        self.handles.pop(name, None)
        self._own.pop(name, None)

    def forget(self, kind: str, name: str) -> None:
        if self.begun:
            raise UserError(
                f"a {kind} cannot be dropped while the job runs", hint=f"stop(), DROP {kind.upper()} {name}, start()"
            )
        if kind == "stream":
            self._frames.pop(name, None)
        elif kind == "table" and self._driver is not None:
            # The copy that earlier runs of this session used.
            Ledger.read(self.checkpoint).forget_table(name)

    def check_sink(self, sink: DeclaredSink) -> str | None:
        if self.begun:
            raise UserError("sinks are created before the start", hint="stop(), CREATE SINK, start()")
        return check_sink(self.spark, sink)

    def add_sink(self, query: str, sink: Sink) -> None:
        if self.begun:
            self.driver.delivery.add_sink(query, sink, self.handles[query].schema)
        self._own.setdefault(query, []).append(sink)

    def entry(self, name: str) -> LedgerEntry | None:
        """What became of a query, as far as is known."""
        roster = self._driver.roster if self._driver is not None else None
        return None if roster is None else roster.ledger.queries.get(name)

    def sink(self, name: str) -> Sink:
        return self.driver.delivery.declared[name]

    # -- running

    def push(self, stream: Stream, rows: object) -> int:
        raise Unsupported(
            f"rows cannot be pushed to {stream.name} on Spark",
            hint="stream(name, df, time=…) reads any streaming DataFrame; format = 'parquet', path = '…' reads files",
        )

    def push_record(self, stream: Stream, kind: str, body: object) -> None:
        raise Unsupported(f"rows are not pushed to {stream.name} on Spark", hint="name an instant: at=…")

    def promise(self, streams: Sequence[Stream]) -> None:
        # The newest one is the one that has just been declared.
        self.driver.changes.promise(streams[0].promised[-1])

    def announce(self, records: Sequence[Records]) -> None:
        """A control record brings them to every shard with one of the next batches."""
        if self.begun:
            say_now(self.driver.layout, records)
        else:
            for batch in records:
                # Every run of this session writes what is said, unless an earlier one has.
                self.job.take_records(replace(batch, once=batch.once or uuid4().hex))

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

    @staticmethod
    def _refuse_final(final: bool | None) -> None:
        if final:
            raise Unsupported("a run on Spark does not end its streams", hint="leave final=True out")

    def start(self) -> None:
        try:
            self._driver = self._build(follow=True)
            self._in_background = True
            self._driver.start()
        except BaseException:
            self._release()
            raise

    def stop(self, final: bool | None = None) -> None:
        self._refuse_final(final)
        if self.begun and self.driver.delivery.is_mine:
            # The batch at hand waits for the caller. Where no `run` waits for the job, a thread ends it.
            self.ask_to_stop()
            if self._in_background and self._ending is None:
                self._ending = threading.Thread(target=self._end, name="eddyline-stop", daemon=True)
                self._ending.start()
            return
        if self._ending is not None:
            self._ending.join()
            self._ending = None
        self._end()

    def _end(self) -> None:
        try:
            if self._driver is not None and self._driver.query is not None and not self._driver.ended:
                self._driver.stop()
                self._note_saved()
        finally:
            self._release()

    def ask_to_stop(self) -> None:
        # Also for a run whose driver is still being made.
        self._asked = True
        if self._driver is not None:
            self._driver.ask_to_stop()

    def give_up(self, anything: bool = False) -> str | None:
        """A micro-batch is left to finish."""
        return None

    def abandon(self) -> None:
        try:
            if self.begun:
                self.driver.abandon()
        finally:
            self._release()

    # -- looking in

    def explain(self, query: BoundQuery) -> str:
        return explained(self.spark, self.checkpoint, self.job, query)

    def plan(self, query: BoundQuery) -> tuple[str, Part]:
        text = self.explain(query)
        return text, shape(query, {**self.job.catalog.streams, **self.job.catalog.tables}, text)

    def analysis(self, name: str) -> str:
        lines = [self.explain(self.job.catalog.query(name))]
        for operator, node in self._report().nodes.items():
            own = operator == query_operator(name)
            if own or node.unit:
                # The time of filters is that of the store, which counts none.
                took = f", {node.seconds:.3f} s" if node.seconds else ""
                lines.append(
                    f"{'results' if own else operator}: {node.rows_in:,} rows in, {node.rows_out:,} out{took} on all shards"
                )
        return "\n".join(lines)

    def stats(self) -> dict[str, Any]:
        return self._report().as_json()

    def latest_report(self) -> dict[str, Any] | None:
        reporter = None if self._driver is None else self._driver.reporter
        return None if reporter is None else reporter.latest

    def report_folder(self) -> str:
        return self.checkpoint

    def _report(self) -> Report:
        publication = self.driver.publication
        return job_report(self.driver) if publication is None else publication.now()

    def dead_letters(self, stream: Stream) -> list[pa.Table]:
        return [
            parquet.read_table(path)
            for _, _, path in result_files(os.path.join(self.results, DEAD_LETTER, stream.name))
        ]

    # -- inside

    def prepare_out(self) -> None:
        """Make the folder for results; once, for from then on it is in use."""
        if self._out is not None and not self._prepared:
            claimed = self._claimed()
            has_begun = claimed.has_begun([self._out]) or Ledger.read(self.checkpoint).exists
            prepare_output(
                self._out, self._overwrite, has_begun, needed_places(self.job.streams, self.job.tables, self.checkpoint)
            )
            claimed.begin([self._out])
        self._prepared = True

    def _claimed(self) -> Claim:
        """The checkpoint, for this session alone until the run has ended."""
        if self._claim is None:
            found = claim(self.checkpoint, "spark", FORMAT)
            try:
                check_whole(self.checkpoint, found.has_saved())
            except BaseException:
                found.release()
                raise
            self._claim = found
            self._note_saved()
        return self._claim

    def _note_saved(self) -> None:
        """From the first committed batch on, a checkpoint without offsets and commits has lost them."""
        if self._claim is not None and committed_batch(self.checkpoint) >= 0:
            self._claim.note_saved()

    def _release(self) -> None:
        if self._claim is not None and not self.begun:
            self._claim.release()
            self._claim = None

    def _build(self, follow: bool) -> SparkDriver:
        if self.begun:
            raise UserError("the session is running already", hint="stop() first")
        if not self.job.queries:
            raise UserError("the job has no query", hint="CREATE QUERY name AS SELECT …")
        for stream in self.job.streams:
            if stream.name in self._frames:
                continue
            if "path" not in stream.options:
                raise UserError(
                    f"stream {stream.name} has no source on Spark",
                    hint="stream(name, df, time=…) reads any streaming DataFrame; WITH (format = 'parquet', path = '…') reads files",
                )
            checked_source(stream, follow)
        self._claimed()
        check_workers(self.spark, self.checkpoint)
        with kept_in(self.checkpoint):
            return self._built()

    def _built(self) -> SparkDriver:
        self.prepare_out()
        job, functions = self.job, tuple(self.job.catalog.functions.values())
        layout = make_layout(self.spark, self.checkpoint, job.streams, job.queries, job.tables, job.settings, functions)
        out = self.results if self._keep_results or self._out is not None else None
        say(self.checkpoint, self.job.records)
        driver = SparkDriver(
            self.spark, layout, out=out, frames=self._frames, on_batch=self._on_batch, clock=self._clock
        )
        for sink in self.job.sinks:
            check_sink(self.spark, sink)
        driver.functions = Shipped(codes(functions))
        driver.add_queries(self.job.catalog, self._own)
        driver.publication = Publication(partial(job_report, driver))
        driver.be_watched(Reporter(WatchedSparkDriver(driver), self.checkpoint, self.job.settings.tuning.reports))
        driver.last_requests, driver.on_answers = self.job.requests, self._answered
        return driver

    def _answered(self, tables: list[pa.Table]) -> None:
        """The answers of the REQUEST statements: each run writes them anew."""
        self.answered = tables
        if self._out is not None:
            write_requests(self._out, tables)

    def _on_batch(self, delivered: Delivered, progress: StreamProgress) -> None:
        if delivered.batch == 1:
            self._note_saved()
        for observer in tuple(self.observers):
            observer(partial(job_report, self.driver, plans=False))
