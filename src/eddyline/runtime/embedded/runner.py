"""A session's job in this process: sources, pipeline and delivery are made when the first row asks for them.

Answer   `EmbeddedRunner` is the `Runner` of sessions without Spark.
State    The sources, results until a caller takes them, and a driver from the first row on.
Limits   Used from one thread at a time, apart from `push`.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from eddyline.connectors.base import Sink, Source
from eddyline.connectors.dead_letter import text_rows
from eddyline.connectors.files import open_source, read_table
from eddyline.connectors.memory import MemorySource, Rows
from eddyline.connectors.outbox import Outbox
from eddyline.connectors.request_files import write_requests
from eddyline.connectors.results_folder import needed_places
from eddyline.connectors.sinks import CallbackSink, open_sink
from eddyline.errors import BindingProblem, UserError
from eddyline.language import Job
from eddyline.language.catalog import Sink as DeclaredSink
from eddyline.model.clock import WALL, Clock
from eddyline.model.query import BoundQuery
from eddyline.model.records import Records
from eddyline.model.schema import Schema, Stream, Table
from eddyline.model.template import BoundRequests, Request
from eddyline.plan.prepare import shape
from eddyline.plan.shape import Part
from eddyline.plan.template_text import plan_text
from eddyline.runtime.answers import unanswered
from eddyline.runtime.control import ControlFolder
from eddyline.runtime.embedded.checkpoint import Checkpoint, Saved
from eddyline.runtime.embedded.delivery import Delivery
from eddyline.runtime.embedded.driver import EmbeddedDriver
from eddyline.runtime.embedded.kept_results import KeptResults
from eddyline.runtime.embedded.opening import opened
from eddyline.runtime.embedded.roster import Roster
from eddyline.runtime.embedded.watched import WatchedDriver
from eddyline.runtime.pipeline import Pipeline
from eddyline.runtime.recovery.folder_lock import temporary_folder
from eddyline.runtime.report import Report
from eddyline.runtime.reporting.reporter import Reporter
from eddyline.runtime.requests import answers, hold, is_ahead, release
from eddyline.runtime.runner import Handle, Observer
from eddyline.runtime.unit import Standing

#: Seconds that a call for results leaves to the thread in the background.
_BREATH = 0.0005
#: Seconds between two looks of a request that waits for the frontier.
_LOOK = 0.005


class EmbeddedRunner:
    def __init__(
        self,
        job: Job,
        *,
        out: str | None = None,
        checkpoint: str | None = None,
        overwrite: bool = False,
        follow: bool = False,
        keep_results: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self.job = job
        self.handles: dict[str, Handle] = {}
        self.observers: list[Observer] = []
        self._sources: dict[str, Source] = {}
        self._own: dict[str, list[Sink]] = {}
        self._out = out
        self._checkpoint = Checkpoint(checkpoint) if checkpoint is not None else None
        #: Where reports are written and control records are read; None: neither.
        self._folder = None if checkpoint is None else checkpoint
        self._overwrite = overwrite
        self._follow = follow
        self._keep_results = keep_results
        self._clock = clock or WALL
        self._driver: EmbeddedDriver | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        #: Asked to stop while the driver was made.
        self._asked = False
        #: Streams of requests that were dropped and still have answers to give.
        self._leaving: set[str] = set()
        #: The answers of REQUEST statements, once the run has ended.
        self.answered: list[pa.Table] = []

    @property
    def begun(self) -> bool:
        return self._driver is not None

    @property
    def driver(self) -> EmbeddedDriver:
        if self._driver is None:
            self._driver = self._build()
            if self._asked:
                self._driver.stop()
        return self._driver

    # -- saying what there is

    def schema_of(self, name: str, given: object) -> Schema | None:
        if hasattr(given, "isStreaming"):
            raise BindingProblem(f"stream {name} is a DataFrame", hint="DataFrames are read by Session(spark=…)")
        declared = getattr(given, "schema", None)
        return declared if isinstance(declared, Schema) else None

    def declare(self, stream: Stream, given: object = None) -> None:
        if hasattr(given, "read"):
            self._sources[stream.name] = given  # type: ignore[assignment]
        if stream.name not in self._sources:
            if stream.options.get("format", "parquet" if "path" in stream.options else "memory") == "memory":
                self._sources[stream.name] = MemorySource(stream)
            elif self._driver is not None:
                self._source_of(stream)
        if self._driver is not None:
            with self._driver.changing():
                self._driver.pipeline.add_stream(stream)
                self._driver.add_stream(stream, self._sources[stream.name])

    def load(self, table: Table) -> None:
        if self._driver is not None:
            rows = read_table(table)
            with self._driver.changing():
                self._driver.pipeline.add_table(table, rows)

    def register(self, query: BoundQuery) -> None:
        if self._driver is None:
            self.handles[query.name] = KeptResults(self, query.name)
        else:
            with self._driver.changing():
                self._driver.roster.add(query)

    def drop(self, name: str) -> None:
        if self._driver is not None:
            with self._driver.changing():
                asks = isinstance(self._driver.pipeline.queries[name].query, BoundRequests)
                self._driver.roster.drop(name)
                if asks:
                    # No request comes any more: those that wait are answered as the template's stream moves on.
                    self._driver.pipeline.intakes[name].closed = True
                    self._leaving.add(name)
                    self._forget_requests()
        self.handles.pop(name, None)
        self._own.pop(name, None)

    def _forget_requests(self) -> None:
        """The streams of requests that were dropped go when their last answer is out."""
        assert self._driver is not None
        for name in [name for name in self._leaving if name not in self._driver.pipeline.queries]:
            self._leaving.discard(name)
            self.forget("stream", name)

    def forget(self, kind: str, name: str) -> None:
        if self._driver is None:
            self._sources.pop(name, None) if kind == "stream" else None
            return
        with self._driver.changing():
            if kind == "sink":
                self._driver.delivery.drop_sink(name)
                return
            for query in self._driver.pipeline.queries.values():
                if any(reference.source == name for reference in query.query.references):
                    raise UserError(
                        f"{kind} {name} is read by query {query.name}, which has been dropped and still has results to give",
                        detail=f"it goes when every stream has passed {query.stop}",
                        hint=f"drop the {kind} once it has gone",
                    )
            if kind == "table":
                self._driver.pipeline.versions.drop(name)
            if kind == "stream":
                self._driver.drop_stream(name)
                self._sources.pop(name, None)

    def check_sink(self, sink: DeclaredSink) -> str | None:
        if self.begun:
            raise UserError("sinks are created before the first row", hint="CREATE SINK before push, start or run")
        open_sink(sink.options, sink.name)
        return None

    def add_sink(self, query: str, sink: Sink) -> None:
        self._own.setdefault(query, []).append(sink)
        if self._driver is not None:
            self._driver.delivery.add_sink(query, sink, self._driver.pipeline.queries[query].schema)

    def sink(self, name: str) -> Sink:
        return self.driver.delivery.declared[name]

    # -- running

    def push(self, stream: Stream, rows: Rows) -> int:
        self._raise_failure()
        if self._closed:
            raise UserError("the session has ended", hint="rows are pushed before run(once=True) or stop(); a new session takes more")
        source = self._sources.get(stream.name)
        if not isinstance(source, MemorySource):
            raise BindingProblem(f"rows cannot be pushed to {stream.name}", hint="declare it with format = 'memory', or without a format")
        return source.push(rows)

    def push_record(self, stream: Stream, kind: str, body: Mapping[str, Any] | pa.Table) -> None:
        """Records that stand right after the newest row pushed so far."""
        self._raise_failure()
        source = self._sources.get(stream.name)
        if self._closed or not isinstance(source, MemorySource):
            raise BindingProblem(
                f"nothing stands after the newest row pushed to {stream.name}",
                detail="the session has ended" if self._closed else "its rows are not pushed",
                hint="name an instant: at=…",
            )
        source.push_record(kind, body)

    def promise(self, streams: Sequence[Stream]) -> None:
        with self.driver.changing():
            self.driver.promise(streams)

    def announce(self, records: Sequence[Records]) -> None:
        """Records with places of their own, for the next epoch."""
        self._raise_failure()
        self.driver.announce(records)

    def step(self) -> None:
        self.driver.step()

    def step_pending(self) -> None:
        """Process what has been pushed, unless a thread does that already."""
        self._raise_failure()
        if self._thread is not None:
            # A program that polls in a tight loop leaves the interpreter to the thread that makes the results.
            time.sleep(_BREATH)
        elif not self._closed:
            while any(isinstance(s, MemorySource) and s.waiting_rows for s in self._sources.values()):
                self.driver.step()
            if self._driver is not None and self._driver.has_announced:
                self.driver.step()

    def run(self, once: bool) -> None:
        driver = self.driver
        if once:
            for source in self._sources.values():
                if isinstance(source, MemorySource):
                    source.end()
        self._closed = once
        driver.run(once)

    def start(self) -> None:
        self._raise_failure()
        driver = self.driver

        def work() -> None:
            try:
                driver.run(once=False)
            except BaseException as problem:  # every later call of the session raises it
                driver.failure = problem

        self._thread = threading.Thread(target=work, name="eddyline", daemon=True)
        self._thread.start()

    def request(self, requests: Sequence[Request], timeout: float | None) -> list[pa.Table]:
        """Answer requests after everything that was pushed; one for an instant ahead waits where a thread runs the job."""
        self._raise_failure()
        driver = self.driver
        limit = None if timeout is None else self._clock.now() + timeout
        self.step_pending()
        token = "" if self._thread is None else uuid.uuid4().hex
        if self._thread is not None:
            with driver.changing():
                hold(driver.pipeline, token, requests)
        try:
            while self._thread is not None and not self._can_answer(driver, requests):
                self._raise_failure()
                if limit is not None and self._clock.now() > limit:
                    raise unanswered(timeout)
                time.sleep(_LOOK)
            with driver.changing():
                return answers(driver.pipeline, requests)
        finally:
            if self._thread is not None:
                with driver.changing():
                    release(driver.pipeline, token)

    def _can_answer(self, driver: EmbeddedDriver, requests: Sequence[Request]) -> bool:
        """Whether what was pushed before has been processed, and the frontier has passed every instant."""
        if any(isinstance(source, MemorySource) and source.waiting_rows for source in self._sources.values()):
            return False
        with driver.lock:
            return not any(is_ahead(driver.pipeline, request) for request in requests)

    def stop(self) -> None:
        if self._thread is not None:
            self.driver.stop()
            self._thread.join()
            self._thread = None
            self._closed = True
        self._raise_failure()
        if self._driver is not None and not self._closed:
            self._driver.finish()
            self._closed = True

    def ask_to_stop(self) -> None:
        self._asked = True
        if self._driver is not None:
            self._driver.stop()

    def abandon(self) -> None:
        self.ask_to_stop()
        # A thread in the background ends its epoch and lets go by itself.
        if self._driver is not None and self._thread is None:
            self._driver.let_go()

    # -- looking in

    def explain(self, query: BoundQuery) -> str:
        if self._driver is not None and query.name in self._driver.pipeline.queries:
            return self._driver.pipeline.queries[query.name].plan(self._driver.pipeline)
        return plan_text(query, {**self.job.catalog.streams, **self.job.catalog.tables})

    def plan(self, query: BoundQuery) -> tuple[str, Part]:
        text = self.explain(query)
        if self._driver is not None and query.name in self._driver.pipeline.queries:
            return text, self._driver.pipeline.queries[query.name].shape(text)
        return text, shape(query, {**self.job.catalog.streams, **self.job.catalog.tables}, text)

    def analysis(self, name: str) -> str:
        # Between two epochs: the figures of all operators are those of one moment.
        with self.driver.lock:
            query = self.driver.pipeline.queries[name]
            results = f"results: {query.results:,} of {query.rows_in:,} combinations, {query.seconds:.3f} s"
            return "\n".join([query.plan(), *query.analysis(), results])

    def stats(self) -> dict[str, Any]:
        return self.driver.publication.now().as_json()

    def dead_letters(self, stream: Stream) -> list[pa.Table]:
        kept: Mapping[str, list[pa.Table]] = self.driver.delivery.kept_dead or {}
        return [text_rows(stream.schema, table) for table in kept.get(stream.name, [])]

    # -- inside

    def _answer_asked(self) -> None:
        """Answer the REQUEST statements of the job as the run ends; each run writes the answers anew."""
        if self.job.asked and self._driver is not None:
            self.answered = answers(self._driver.pipeline, self.job.asked)
            if self._out is not None:
                write_requests(self._out, self.answered)

    def _source_of(self, stream: Stream) -> Source:
        """The source of a stream, opened when it is first asked for."""
        if stream.name not in self._sources:
            tuning = self.job.settings.tuning.input
            self._sources[stream.name] = open_source(stream, follow=self._follow, clock=self._clock, tuning=tuning)
        return self._sources[stream.name]

    def _own_sinks(self, standing: Standing) -> list[Sink]:
        """What this session wants of a query that now stands."""
        known = self.handles.get(standing.name)
        if not isinstance(known, KeptResults) or known.standing is not None:
            known = self.handles[standing.name] = KeptResults(self, standing.name)
        known.standing = standing
        own = [*self._own.get(standing.name, [])]
        if self._keep_results:
            own.append(CallbackSink(known.keep))
        return own

    def _punctuation_sinks(self, name: str) -> list[Sink]:
        """What this session wants of the punctuations of a query's results."""
        known = self.handles.get(name)
        return [CallbackSink(known.add_punctuations)] if self._keep_results and isinstance(known, KeptResults) else []

    def _build(self) -> EmbeddedDriver:
        needed = needed_places(self.job.streams, self.job.tables, self._folder)
        return opened(self._checkpoint, self._out, self._overwrite, needed, self._built)

    def _built(self, saved: Saved | None, again: bool = False) -> EmbeddedDriver:
        """The driver, at the point where an earlier run was saved.

        Args:
            again: an earlier run has ended before its first checkpoint; what it has written is removed.
        """
        pipeline = Pipeline(self.job.streams, self.job.settings)
        for table in self.job.tables:
            was_read = saved is not None and table.name in saved.header.get("tables", {})
            pipeline.add_table(table, table.schema.arrow.empty_table() if was_read else read_table(table))
        sources = {stream.name: self._source_of(stream) for stream in self.job.streams}
        settings = self.job.settings
        folder = None if self._checkpoint is None else self._checkpoint.folder
        outbox = Outbox(settings.output_files, settings.output_seconds, folder, tuning=settings.tuning.output)
        delivery = Delivery(self._out, outbox)
        if self._keep_results:
            delivery.kept_dead = {}
        streams = {s.name: s for s in self.job.streams}
        driver = EmbeddedDriver(pipeline, sources, streams, delivery, settings, self._clock, self._checkpoint)
        driver.observers = [self._observed]
        driver.before_finish = self._answer_asked
        control = None if self._folder is None else ControlFolder(self._folder)
        driver.roster = Roster(self.job, pipeline, delivery, self._own_sinks, control, self._clock)
        driver.roster.punctuation_sinks = self._punctuation_sinks
        driver.roster.promise = driver.promise
        later = driver.roster.open(None if saved is None else saved.header, None if saved is None else saved.control)
        if driver.roster.folded.promised:
            # What control records said of streams in an earlier run.
            driver.promise([stream for stream in self.job.streams if stream.promised or stream.promising])
        if saved is not None:
            driver.resume(saved)
        elif again:
            delivery.resume_after(0)
        driver.refreshing.begin(resumed=saved is not None)
        for query in later:
            driver.roster.add(query)
        driver.announce(self.job.records)
        driver.roster.announce()
        driver.roster.fold(at_once=True)
        self._watch(driver)
        return driver

    def _watch(self, driver: EmbeddedDriver) -> None:
        if self._folder is not None:
            driver.be_watched(Reporter(WatchedDriver(driver), self._folder, self.job.settings.tuning.reports))

    def latest_report(self) -> dict[str, Any] | None:
        reporter = None if self._driver is None else self._driver.reporter
        return None if reporter is None else reporter.latest

    def report_folder(self) -> str:
        if self._folder is None:
            self._folder, self._lock = temporary_folder(self)
            if self._driver is not None:
                with self._driver.changing():
                    self._driver.roster.be_controlled(ControlFolder(self._folder))
                    self._watch(self._driver)
        return self._folder

    def _observed(self, look: Callable[[], Report]) -> None:
        if self._leaving:
            self._forget_requests()
        for observer in tuple(self.observers):
            observer(look)

    def _raise_failure(self) -> None:
        if self._driver is not None:
            self._driver.raise_failure()
