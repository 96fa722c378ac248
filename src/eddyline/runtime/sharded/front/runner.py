"""A session's job on several shards, whoever runs its tasks.

Answer   `ShardedRunner` is what the `Runner`s of Spark and of several cores have in common. Every run settles the job
         with its checkpoint and makes a driver; between two runs anything may be declared, while one runs queries come
         and go.
State    The sinks that this program added, and the driver of the last run.
Limits   Where a job has no checkpoint of its own, its folder goes with the session.
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
from typing import Any, Generic, TypeVar
from uuid import uuid4

import pyarrow as pa

from eddyline.connectors.base import Sink
from eddyline.connectors.files.files import checked_source
from eddyline.connectors.results.request_files import write_requests
from eddyline.connectors.results.results_folder import needed_places, prepare_output
from eddyline.errors import Unsupported, UserError
from eddyline.language import Job
from eddyline.language.catalog import DeclaredSink
from eddyline.model.clock import Clock
from eddyline.model.query import BoundQuery
from eddyline.model.records.records import Records
from eddyline.model.schema import Stream, Table
from eddyline.model.template import BoundRequests, BoundTemplate, Request
from eddyline.plan.prepare import shape
from eddyline.plan.shape import Part
from eddyline.runtime.control.control_fold import is_first
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.figures.publication import Publication
from eddyline.runtime.figures.report import Report, query_operator
from eddyline.runtime.front.own_functions import codes
from eddyline.runtime.front.runner import Handle, Observer
from eddyline.runtime.recovery.checkpoint_identity import Claim, claim
from eddyline.runtime.reporting.reporter import Reporter
from eddyline.runtime.sharded.front.driver import ShardedDriver
from eddyline.runtime.sharded.front.explaining import explained
from eddyline.runtime.sharded.front.figures import job_report
from eddyline.runtime.sharded.front.watched import WatchedShards
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.sharded.job.ledger import FORMAT, Ledger, LedgerEntry, same_text
from eddyline.runtime.sharded.job.progress import StreamProgress
from eddyline.runtime.sharded.job.reconciling import reconciled
from eddyline.runtime.sharded.job.saying import say, say_now
from eddyline.runtime.sharded.job.shipped import Shipped
from eddyline.runtime.sharded.job.wholeness import check_whole
from eddyline.runtime.sharded.output.delivery import Delivered
from eddyline.state.sealed import kept_in

Driver = TypeVar("Driver", bound=ShardedDriver)


class ShardedRunner(Generic[Driver]):
    #: The kind of checkpoint.
    engine: str
    #: Where the job runs, as messages say it.
    where: str
    #: What `output_order = 'auto'` means: large results become a file per shard.
    by_shard: bool

    def __init__(
        self,
        job: Job,
        *,
        out: str | None = None,
        checkpoint: str | None = None,
        overwrite: bool = False,
        keep_results: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self.job = job
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
        self._own: dict[str, list[Sink]] = {}
        self._claim: Claim | None = None
        self._driver: Driver | None = None
        self._in_background = False
        #: Ends a job in the background that a function has stopped which is called with results.
        self._ending: threading.Thread | None = None
        #: The answers of REQUEST statements, once the run has ended.
        self.answered: list[pa.Table] = []

    # -- what an engine adds

    @property
    def usual_shards(self) -> int:
        """How many there are if neither the job nor the checkpoint says it."""
        raise NotImplementedError

    def declare(self, stream: Stream, given: object = None) -> None:
        raise NotImplementedError

    def is_given(self, stream: Stream) -> bool:
        """Whether the program gives the rows of a stream, so that no files are looked for."""
        raise NotImplementedError

    def _check_query(self, query: BoundQuery) -> None:
        """Refuse what cannot be answered here."""

    def _check_sink(self, sink: DeclaredSink) -> str | None:
        raise NotImplementedError

    def _handle(self, query: BoundQuery) -> Handle:
        raise NotImplementedError

    def _made_driver(self, layout: JobLayout) -> Driver:
        """A driver that knows nothing of queries yet."""
        raise NotImplementedError

    def _before_build(self) -> None:
        """The checkpoint is claimed: refuse what could not run."""

    # --

    @property
    def begun(self) -> bool:
        return self._driver is not None and self._driver.is_running

    @property
    def is_running(self) -> bool:
        return self.begun

    @property
    def driver(self) -> Driver:
        """The driver of the last run."""
        if self._driver is None:
            raise UserError("the session has not run yet", hint="run() or start() comes first")
        return self._driver

    # -- saying what there is

    def _refuse_new_stream(self) -> None:
        if self.begun:
            raise Unsupported(
                "streams cannot be added to a running job",
                hint="stop it, declare the stream, and start with a new checkpoint",
            )

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
        self._check_query(query)
        known = self.entry(query.name) if self.begun else None
        # A query that an earlier run of the program added goes on where it was.
        is_known = known is not None and not known.is_leaving and same_text(known.text, query.identity)
        self.handles[query.name] = self._handle(query)
        if self.begun and not is_known and is_first(query):
            try:
                self.driver.changes.add(query)
            except BaseException:
                del self.handles[query.name]
                raise

    def drop(self, name: str) -> None:
        if self.begun:
            roster = self.driver.roster
            known = None if roster is None else roster.layout.by_name.get(name)
            if isinstance(known, BoundTemplate | BoundRequests):
                raise Unsupported(f"{name} cannot be dropped while the job runs", hint=f"stop(), drop {name}, start()")
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
        if kind == "table" and self._driver is not None:
            # The copy that earlier runs of this session used.
            Ledger.read(self.checkpoint).forget_table(name)

    def check_sink(self, sink: DeclaredSink) -> str | None:
        if self.begun:
            raise UserError("sinks are created before the start", hint="stop(), CREATE SINK, start()")
        return self._check_sink(sink)

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

    def schema_of_results(self, query: BoundQuery) -> pa.Schema:
        if isinstance(query, BoundRequests) and query.request_stream is not None:
            return query.request_stream.schema
        #: The derived streams that it reads by name.
        known = self.job.catalog.streams
        read = (r.source for part in (*query.makers, query) for r in part.streams if r.derived)
        derived = {name: known[name] for name in read if name in known}
        streams = [stream for stream in self.job.streams if stream.name not in derived]
        pipeline = Pipeline((*streams, *derived.values()), self.job.settings)
        for table in self.job.tables:
            pipeline.add_table(table, table.schema.arrow.empty_table())
        return pipeline.add_query(query).schema

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

    # -- running

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

    def _refuse_final(self, final: bool | None) -> None:
        if final:
            raise Unsupported(f"a run {self.where} does not end its streams", hint="leave final=True out")

    def _end(self) -> None:
        try:
            if self._driver is not None and self._driver.is_running:
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
        """A batch is left to finish."""
        return None

    def abandon(self) -> None:
        try:
            if self.begun:
                self.driver.abandon()
        finally:
            self._release()

    # -- looking in

    def explain(self, query: BoundQuery) -> str:
        return explained(self.checkpoint, self.job, query, self.usual_shards, self.by_shard)

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
            found = claim(self.checkpoint, self.engine, FORMAT)
            try:
                check_whole(self.checkpoint, found.has_saved(), metadata=self.engine == "spark")
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

    def _build(self, follow: bool) -> Driver:
        if self.begun:
            raise UserError("the session is running already", hint="stop() first")
        if not self.job.queries:
            raise UserError("the job has no query", hint="CREATE QUERY name AS SELECT …")
        for stream in self.job.streams:
            if not self.is_given(stream):
                checked_source(stream, follow)
        self._claimed()
        self._before_build()
        with kept_in(self.checkpoint):
            return self._built()

    def _built(self) -> Driver:
        self.prepare_out()
        job, functions = self.job, tuple(self.job.catalog.functions.values())
        layout = reconciled(
            self.checkpoint, job.streams, job.queries, job.tables, job.settings, self.usual_shards, functions
        )
        say(self.checkpoint, job.records)
        driver = self._made_driver(layout)
        for sink in job.sinks:
            self._check_sink(sink)
        driver.on_batch = self._on_batch
        driver.functions = Shipped(codes(functions))
        driver.add_queries(job.catalog, self._sinks_of)
        driver.publication = Publication(partial(job_report, driver))
        driver.be_watched(Reporter(WatchedShards(driver), self.checkpoint, job.settings.tuning.reports))
        driver.last_requests, driver.on_answers = job.requests, self._answered
        return driver

    def _sinks_of(self, name: str, schema: pa.Schema) -> Sequence[Sink]:
        """What the program wants of a query, or of the punctuations of its results."""
        return self._own.get(name, ())

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
