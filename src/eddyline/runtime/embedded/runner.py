"""A session's job in this process: sources, pipeline and delivery are made with the first row.

Answer   `EmbeddedRunner` is the `Runner` of sessions without Spark.
State    The sources, results until a caller takes them, and a driver from the first row on.
Limits   Used from one thread at a time, apart from `push`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import pyarrow as pa

from eddyline.connectors.base import Sink
from eddyline.connectors.files.files import read_table
from eddyline.connectors.pushed_rows import Rows
from eddyline.connectors.results.outbox import Outbox
from eddyline.connectors.results.results_folder import needed_places
from eddyline.connectors.results.sinks import open_sink
from eddyline.errors import BindingProblem, UserError
from eddyline.language import Job
from eddyline.language.catalog import DeclaredSink
from eddyline.model.clock import WALL, Clock
from eddyline.model.query import BoundQuery
from eddyline.model.records.records import Records
from eddyline.model.schema import Schema, Stream, Table
from eddyline.model.template import BoundRequests, Request
from eddyline.plan.shape import Part
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.driving.kept_results import KeptResults, kept_figures, own_sinks
from eddyline.runtime.driving.session_sources import SessionSources
from eddyline.runtime.embedded.checkpoint import Checkpoint, Saved
from eddyline.runtime.embedded.delivery import Delivery
from eddyline.runtime.embedded.driver import EmbeddedDriver
from eddyline.runtime.embedded.dropping import forget
from eddyline.runtime.embedded.ending import Ending, refuse_over
from eddyline.runtime.embedded.giving_up import give_up
from eddyline.runtime.embedded.looking import analysis, dead_letters, explained, planned
from eddyline.runtime.embedded.opening import begin, new_pipeline, opened
from eddyline.runtime.embedded.watched import WatchedEmbeddedDriver
from eddyline.runtime.engine.handout import PipelineHooks
from eddyline.runtime.front.runner import Handle, Observer
from eddyline.runtime.recovery.folder_lock import temporary_folder
from eddyline.runtime.reporting.reporter import Reporter

#: Seconds that a call for results leaves to the thread in the background.
_BREATH = 0.0005


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
        self._kept = lambda name: KeptResults(name, lambda: self.driver.pipeline.queries[name].schema)
        self._own: dict[str, list[Sink]] = {}
        self._out, self._overwrite, self._keep_results = out, overwrite, keep_results
        self._checkpoint = Checkpoint(checkpoint) if checkpoint is not None else None
        #: Where reports are written and control records are read; None: neither.
        self._folder = checkpoint
        self._clock = clock or WALL
        self._sources = SessionSources(job, follow, self._clock)
        self._driver: EmbeddedDriver | None = None
        self._thread: threading.Thread | None = None
        #: Everything is written; the next run goes on.
        self._closed = False
        #: Pushed rows are refused: a run reads its sources to their end, or the session was stopped.
        self._ended = False
        #: `ask_to_stop` was called while the driver was made.
        self._asked = False
        #: Stopped by a function that is called with results, and with which word on the end of the streams.
        self._asked_inside = False
        self._final: bool | None = None
        #: `stop` has done what it does, and nothing has run since.
        self._stopped = False
        #: Streams of requests that were dropped and still have answers to give.
        self._leaving: set[str] = set()
        #: The answers of REQUEST statements, once the run has ended.
        self.answered: list[pa.Table] = []

    @property
    def begun(self) -> bool:
        return self._driver is not None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def driver(self) -> EmbeddedDriver:
        if self._driver is None:
            needed = needed_places(self.job.streams, self.job.tables, self._folder)
            # A job that is refused here leaves nothing to stop.
            stopped, self._stopped = self._stopped, True
            self._driver = opened(self._checkpoint, self._out, self._overwrite, needed, self._built)
            self._stopped = stopped
            if self._asked:
                self._driver.stop()
        return self._driver

    @property
    def _is_inside(self) -> bool:
        """Whether the caller is called with results, or handles a signal, in the middle of an epoch."""
        return self._driver is not None and self._driver.is_mine

    # -- declarations

    def schema_of(self, name: str, given: object) -> Schema | None:
        if hasattr(given, "isStreaming"):
            raise BindingProblem(f"stream {name} is a DataFrame", hint="DataFrames are read by Session(spark=…)")
        declared = getattr(given, "schema", None)
        return declared if isinstance(declared, Schema) else None

    def declare(self, stream: Stream, given: object = None) -> None:
        self._sources.declare(stream, given)
        if self._driver is not None:
            self._driver.between_epochs(partial(self._driver.add_stream, stream, self._sources.of(stream)))

    def load(self, table: Table) -> None:
        if self._driver is not None:
            self._driver.between_epochs(partial(self._driver.pipeline.add_table, table, self._read(table)))

    def _read(self, table: Table) -> pa.Table:
        return read_table(table, None if self._checkpoint is None else self._checkpoint.marks)

    def register(self, query: BoundQuery) -> None:
        refuse_over(self._driver)
        if self._driver is not None and self._is_inside:
            self._driver.roster.check_free(query.name)
        if self._driver is None or self._is_inside:
            self.handles[query.name] = self._kept(query.name)
        if self._driver is not None:
            self._driver.between_epochs(partial(self._driver.roster.add, query))

    def drop(self, name: str) -> None:
        if self._driver is not None:
            self._driver.between_epochs(partial(self._drop, self._driver, name))
        self.handles.pop(name, None)
        self._own.pop(name, None)

    def _drop(self, driver: EmbeddedDriver, name: str) -> None:
        is_requests = isinstance(driver.pipeline.queries[name].query, BoundRequests)
        driver.roster.drop(name)
        if is_requests:
            # No request comes any more: those that wait are answered as the template's stream moves on.
            driver.pipeline.intakes[name].closed = True
            self._leaving.add(name)
            if name not in driver.pipeline.queries:
                self._forget_requests((name,))

    def _forget_requests(self, gone: Collection[str]) -> None:
        """The streams of requests that were dropped go when their last answer is out."""
        for name in self._leaving.intersection(gone):
            self._leaving.discard(name)
            self._forget("stream", name)

    def forget(self, kind: str, name: str) -> None:
        self._refuse_inside(f"a {kind} cannot be dropped")
        self._forget(kind, name)

    def _forget(self, kind: str, name: str) -> None:
        with nullcontext() if self._driver is None else self._driver.changing():
            if self._driver is not None:
                forget(self._driver, kind, name)
            if kind == "stream":
                self._sources.forget(name)

    def check_sink(self, sink: DeclaredSink) -> str | None:
        if self.begun:
            raise UserError("sinks are created before the first row", hint="CREATE SINK before push, start or run")
        open_sink(sink.options, sink.name)
        return None

    def add_sink(self, query: str, sink: Sink) -> None:
        self._own.setdefault(query, []).append(sink)
        if self._driver is not None and (self._is_inside or query in self._driver.pipeline.queries):
            self._driver.between_epochs(partial(self._take_sink, self._driver, query, sink))

    def _take_sink(self, driver: EmbeddedDriver, query: str, sink: Sink) -> None:
        if sink not in driver.delivery.sinks.get(query, ()):
            driver.delivery.add_sink(query, sink, driver.pipeline.queries[query].schema)

    def sink(self, name: str) -> Sink:
        return self.driver.delivery.declared[name]

    # -- running

    def push(self, stream: Stream, rows: Rows) -> int:
        self._raise_failure()
        refuse_over(self._driver)
        if self._ended:
            raise UserError(
                "the session has ended",
                hint="rows are pushed before stop(), or once run() or start() has been called again",
            )
        source = self._sources.pushed.get(stream.name)
        if source is None:
            raise BindingProblem(
                f"rows cannot be pushed to {stream.name}", hint="declare it with format = 'memory', or without a format"
            )
        return source.push(rows)

    def push_record(self, stream: Stream, kind: str, body: Mapping[str, Any] | pa.Table) -> None:
        """Push records, which follow the newest row pushed so far."""
        self._raise_failure()
        refuse_over(self._driver)
        source = self._sources.pushed.get(stream.name)
        if self._ended or source is None:
            raise BindingProblem(
                f"nothing stands after the newest row pushed to {stream.name}",
                detail="the session has ended" if self._ended else "its rows are not pushed",
                hint="name an instant: at=…",
            )
        source.push_record(kind, body)

    def promise(self, streams: Sequence[Stream]) -> None:
        self.driver.between_epochs(partial(self.driver.promise, streams))

    def announce(self, records: Sequence[Records]) -> None:
        """Records with places of their own, for the next epoch."""
        self._raise_failure()
        refuse_over(self._driver)
        self.driver.announce(records)

    def step(self) -> None:
        self._refuse_inside("the session is in the middle of an epoch")
        self._stepped()

    def _stepped(self) -> None:
        self._going_on().step()
        if self._asked_inside:
            # The function that was called with results has stopped the session.
            self.stop(self._final)

    def step_pending(self) -> None:
        """Process what has been pushed, unless a thread does that already."""
        self._raise_failure()
        if self._thread is not None:
            # A program that polls in a tight loop leaves the interpreter to the thread that makes the results.
            time.sleep(_BREATH)
        elif not self._ended and not self._is_inside:
            while not self._ended and self._has_waiting():
                self._stepped()
            if not self._ended and self._driver is not None and self._driver.has_announced:
                self._stepped()

    def run(self, once: bool, final: bool | None = None) -> None:
        self._refuse_second()
        if final and not once:
            raise UserError("run(once=False, final=True) has no end", hint="run(final=True), or stop(final=True)")
        driver = self._going_on()
        if once:
            for source in self._sources.pushed.values():
                source.end()
        self._ended = once
        driver.run(once, once and self._ends(final))
        self._closed, self._ended = True, self._asked_inside or driver.pipeline.over
        self._stopped = self._asked_inside

    def _ends(self, final: bool | None) -> bool:
        """Whether the streams end: without a word of the caller, where no later run can go on."""
        return self._checkpoint is None if final is None else final

    def _going_on(self) -> EmbeddedDriver:
        """The driver. After a run or `stop` it goes on where it was: it finds new files, and takes what was pushed
        since."""
        refuse_over(self._driver)
        driver = self.driver
        if self._closed:
            driver.go_on()
        self._closed = self._ended = self._asked_inside = self._stopped = False
        return driver

    def start(self) -> None:
        self._raise_failure()
        self._refuse_second()
        driver = self._going_on()

        def work() -> None:
            try:
                driver.run(once=False)
            except BaseException as problem:  # every later call of the session raises it
                driver.failure = problem

        self._thread = threading.Thread(target=work, name="eddyline", daemon=True)
        self._thread.start()

    def request(self, requests: Sequence[Request], timeout: float | None) -> list[pa.Table]:
        """Answer requests after everything that was pushed; one for a later instant waits where a thread runs the
        job."""
        self._raise_failure()
        self._refuse_inside("requests are answered between two epochs")
        driver = self.driver
        self.step_pending()
        from eddyline.runtime.embedded.requests import answered

        return answered(driver, requests, timeout, self._thread is not None, self._has_waiting, self._clock)

    def _has_waiting(self) -> bool:
        """Whether rows that were pushed are not processed: they wait in their source, or an epoch has read and not
        taken them."""
        readers = {} if self._driver is None else self._driver.readers
        pushed = self._sources.pushed.items()
        return any(source.waiting_rows or (name in readers and readers[name].pieces) for name, source in pushed)

    def _refuse_inside(self, message: str) -> None:
        if self._is_inside:
            raise UserError(
                message,
                detail="the caller is called with results",
                hint="call it when step(), run() or results() has returned",
            )

    def _refuse_second(self) -> None:
        if self._is_inside or (self._thread is not None and self._thread.is_alive()):
            raise UserError("the session is running already", hint="stop() first")

    def stop(self, final: bool | None = None) -> None:
        self._ended, ends = True, self._ends(final)
        if self._driver is not None and self._is_inside:
            self._asked_inside, self._final = True, final
            self._driver.stop(Ending(ends, takes_pushed=False))
            return
        ending = Ending(ends, takes_pushed=not self._asked_inside)
        is_done = False
        if self._thread is not None:
            self.driver.stop(ending)
            self._thread.join()
            self._thread = None
            self._closed, is_done = True, not self.driver.forget_stop()
        self._raise_failure()
        if self._stopped and final is None:
            return
        self._stopped = True
        waits = ending.takes_pushed and self._has_waiting()
        # What a checkpoint has open ends too, and unread files are warned of, though nothing has run here.
        driver = self.driver if waits or final else self._driver
        if driver is None or driver.pipeline.over or is_done or (self._closed and not (ends or waits)):
            return
        if self._closed:
            driver.go_on()
        driver.finish(ending)
        self._closed = True

    def ask_to_stop(self) -> None:
        self._asked = True
        if self._driver is not None:
            self._driver.stop()

    def give_up(self, anything: bool = False) -> str | None:
        return "no epoch has begun" if self._driver is None else give_up(self._driver, anything=anything)

    def abandon(self) -> None:
        self.ask_to_stop()
        # A thread in the background ends its epoch and lets go by itself.
        if self._driver is not None and self._thread is None:
            self._driver.let_go()

    # -- plans and figures

    def explain(self, query: BoundQuery) -> str:
        return explained(self.job, self._driver, query)

    def plan(self, query: BoundQuery) -> tuple[str, Part]:
        return planned(self.job, self._driver, query)

    def analysis(self, name: str) -> str:
        return analysis(self.driver, name)

    def stats(self) -> dict[str, Any]:
        # Results may have been taken since the last epoch.
        return {**self.driver.publication.now().as_json(), **kept_figures(self.handles)}

    def dead_letters(self, stream: Stream) -> list[pa.Table]:
        return dead_letters(self.driver, stream)

    # -- inside

    def _answer_statements(self) -> None:
        """Answer the REQUEST statements of the job as the run ends (each run writes them anew); loaded with the first."""
        from eddyline.runtime.embedded.requests import answer_statements

        self.answered = answer_statements(self.driver.pipeline, self.job.requests, self._out)

    def _built(self, saved: Saved | None, again: bool = False) -> EmbeddedDriver:
        """The driver, at the point where an earlier run was saved.

        Args:
            again: an earlier run has ended before its first checkpoint; what it has written is removed.
        """
        settings = self.job.settings
        folder = None if self._checkpoint is None else self._checkpoint.folder
        outbox = Outbox(settings.output_files, settings.output_seconds, folder, tuning=settings.tuning.output)
        delivery = Delivery(self._out, outbox)
        pipeline = new_pipeline(self.job, PipelineHooks(delivery.listening, bundles=True), saved, self._read)
        sources = {stream.name: self._sources.of(stream) for stream in self.job.streams}
        if self._keep_results:
            delivery.kept_dead = {}
        driver = EmbeddedDriver(
            self.job,
            pipeline,
            sources,
            delivery,
            own=partial(own_sinks, self.handles, self._kept, pipeline.queries, self._own, self._keep_results),
            clock=self._clock,
            checkpoint=self._checkpoint,
            control=None if self._folder is None else ControlFolder(self._folder),
            observers=self.observers,
            on_gone=self._forget_requests,
            answer_statements=self._answer_statements,
            figures=partial(kept_figures, self.handles),
        )
        begin(driver, self.job, saved, again)
        self._watch(driver)
        return driver

    def _watch(self, driver: EmbeddedDriver) -> None:
        if self._folder is not None:
            driver.be_watched(Reporter(WatchedEmbeddedDriver(driver), self._folder, self.job.settings.tuning.reports))

    def latest_report(self) -> dict[str, Any] | None:
        return None if self._driver is None or self._driver.reporter is None else self._driver.reporter.latest

    def report_folder(self) -> str:
        if self._folder is None:
            self._folder, self._lock = temporary_folder(self)
            if self._driver is not None:
                control = ControlFolder(self._folder)
                self._driver.between_epochs(partial(self._driver.roster.be_controlled, control))
                self._driver.between_epochs(partial(self._watch, self._driver))
        return self._folder

    def _raise_failure(self) -> None:
        if self._driver is not None:
            self._driver.raise_failure()
