"""A session's job on several cores of this machine.

Answer   `CoresRunner` is the `Runner` of sessions with `cores`. The program declares, pushes, steps and takes results as
         in one process; files are read, rows are joined and results are made by processes that the session starts.
State    The sources of the program, results until a caller takes them, and the processes, until the session ends.
Limits   Used from one thread at a time, apart from `push`. The job lies in a checkpoint: without one of its own in a
         temporary folder that nothing is synced in. Streams and sinks are not added while a job runs.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from eddyline.connectors.base import Sink
from eddyline.connectors.memory import MemorySource
from eddyline.connectors.pushed_rows import Rows
from eddyline.connectors.results.dead_letter import text_rows
from eddyline.connectors.results.sinks import CallbackSink, open_sink
from eddyline.errors import BindingProblem, EddylineWarning, UserError
from eddyline.language import Job
from eddyline.language.catalog import DeclaredSink
from eddyline.model.clock import WALL, Clock
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Schema, Stream
from eddyline.runtime.cores.driver import CoresDriver, settle_plan
from eddyline.runtime.cores.given_rows import GivenRows, of_sources
from eddyline.runtime.driving.kept_results import KeptResults, kept_figures
from eddyline.runtime.driving.session_sources import SessionSources
from eddyline.runtime.engine.epoch import results_of
from eddyline.runtime.front.runner import Handle
from eddyline.runtime.sharded.front.explaining import routing_of
from eddyline.runtime.sharded.front.query_check import check_query
from eddyline.runtime.sharded.front.runner import ShardedRunner
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.sharded.workers.own import OwnProcesses
from eddyline.settings import Settings
from eddyline.state.whole_file import leave_unsynced


class SlicedResults(KeptResults):
    """Results of a query of a job in slices."""

    def __init__(self, runner: CoresRunner, name: str, schema: Callable[[], pa.Schema], settings: Settings) -> None:
        super().__init__(name, schema)
        self._runner, self.settings = runner, settings

    @property
    def start(self) -> int | None:
        entry = self._runner.entry(self._name)
        return None if entry is None else entry.start

    @property
    def stop(self) -> int | None:
        entry = self._runner.entry(self._name)
        return None if entry is None else entry.stop


class CoresRunner(ShardedRunner[CoresDriver]):
    engine, where, by_shard = "cores", "on several cores", False

    def __init__(
        self,
        job: Job,
        cores: int,
        *,
        out: str | None = None,
        checkpoint: str | None = None,
        overwrite: bool = False,
        follow: bool = False,
        keep_results: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """
        Args:
            job: The job.
            cores: Processes that work at a time.
            out: As of every runner, and so are the others.
        """
        super().__init__(
            job, out=out, checkpoint=checkpoint, overwrite=overwrite, keep_results=keep_results, clock=clock
        )
        self.cores = cores
        self._lasting = checkpoint is not None
        if not self._lasting:
            leave_unsynced(self.checkpoint)
        self._sources = SessionSources(job, follow, clock or WALL)
        self._given = GivenRows()
        self._processes: OwnProcesses | None = None
        #: Pushed rows are refused: a run has read its sources to their end, or the session was stopped.
        self._closed = False
        #: Of queries that were dropped: what takes the results that they still owe.
        self._left: dict[str, tuple[Handle | None, list[Sink]]] = {}
        self._dead: dict[str, list[pa.Table]] = {}

    @property
    def usual_shards(self) -> int:
        return self.job.settings.tuning.input.slices if self._lasting else self.cores

    @property
    def is_running(self) -> bool:
        return self._driver is not None and self._driver.in_background

    # -- saying what there is

    def schema_of(self, name: str, given: object) -> Schema | None:
        if hasattr(given, "isStreaming"):
            raise BindingProblem(f"stream {name} is a DataFrame", hint="DataFrames are read by Session(spark=…)")
        declared = getattr(given, "schema", None)
        return declared if isinstance(declared, Schema) else None

    def declare(self, stream: Stream, given: object = None) -> None:
        self._refuse_new_stream()
        self._sources.declare(stream, given)

    def forget(self, kind: str, name: str) -> None:
        super().forget(kind, name)
        if kind == "stream":
            self._sources.forget(name)

    def is_given(self, stream: Stream) -> bool:
        return "path" not in stream.options

    def _check_query(self, query: BoundQuery) -> None:
        check_query(query, self.job.catalog.streams, ())

    def _check_sink(self, sink: DeclaredSink) -> str | None:
        open_sink(sink.options, sink.name)
        return None

    def _handle(self, query: BoundQuery) -> SlicedResults:
        return SlicedResults(self, query.name, lambda: self.schema_of_results(query), query.settings)

    def _sinks_of(self, name: str, schema: pa.Schema) -> Sequence[Sink]:
        query = results_of(name)
        known, own = self.handles.get(query), self._own.get(query, [])
        if known is None and query in self._left:
            known, own = self._left[query]
        if known is None:
            # A control record has brought it.
            known = self.handles[query] = SlicedResults(self, query, lambda: schema, self.job.settings)
        assert isinstance(known, SlicedResults)
        if name != query:
            return [CallbackSink(known.add_punctuations)] if self._keep_results else []
        return [*own, *([CallbackSink(known.keep)] if self._keep_results else [])]

    def drop(self, name: str) -> None:
        left = self.handles.get(name), self._own.get(name, [])
        super().drop(name)
        self._left[name] = left

    # -- running

    def push(self, stream: Stream, rows: Rows) -> int:
        return self._pushed(stream).push(rows)

    def push_record(self, stream: Stream, kind: str, body: Mapping[str, Any] | pa.Table) -> None:
        self._pushed(stream).push_record(kind, body)

    def _pushed(self, stream: Stream) -> MemorySource:
        self._raise_failure()
        if self._closed:
            raise UserError(
                "the session has ended",
                hint="rows are pushed before stop(), or once run() or start() has been called again",
            )
        source = self._sources.pushed.get(stream.name)
        if source is None:
            raise BindingProblem(
                f"rows cannot be pushed to {stream.name}", hint="declare it with format = 'memory', or without a format"
            )
        return source

    def _raise_failure(self) -> None:
        if self._driver is not None:
            self._driver.raise_failure()

    def _refuse_inside(self) -> None:
        if self._driver is not None and self._driver.delivery.is_mine:
            raise UserError(
                "the session is in the middle of a batch",
                detail="the caller is called with results",
                hint="call it when step(), run() or results() has returned",
            )

    def step(self) -> None:
        self._refuse_inside()
        self._raise_failure()
        self._stepping().step_once()

    def step_pending(self) -> None:
        self._raise_failure()
        inside = self._driver is not None and self._driver.delivery.is_mine
        if self.is_running or self._closed or inside:
            return
        while any(source.waiting_rows for source in self._sources.pushed.values()):
            self.step()

    def _stepping(self) -> CoresDriver:
        """The driver of a job that the caller steps."""
        if not self.begun:
            self._go_on()
            self._driver = self._build(follow=True)
            try:
                self._driver.begin(once=False)
            except BaseException:
                self._release()
                raise
        return self.driver

    def run(self, once: bool, final: bool | None = None) -> None:
        self._refuse_final(final)
        if once and final is None and not self._lasting:
            warnings.warn(
                "a run on several cores leaves open what is open at its end: windows and groups that wait for later rows "
                "have no results; run(final=False), or --no-final, says that this is wanted, and one core closes them",
                EddylineWarning,
                stacklevel=3,
            )
        self._refuse_inside()
        self._pause()
        try:
            self._go_on()
            self._driver = driver = self._build(follow=not once)
            self._in_background = False
            if self._asked:
                driver.ask_to_stop()
            if once:
                for source in self._sources.pushed.values():
                    source.end()
                self._closed = True
                driver.run()
            else:
                driver.start()
                driver.wait()
            self._note_saved()
        finally:
            self._closed = self._asked = False
            self._release()

    def start(self) -> None:
        self._refuse_inside()
        self._raise_failure()
        self._pause()
        self._go_on()
        super().start()

    def _go_on(self) -> None:
        """Rows may be pushed again."""
        self._closed = False
        for source in self._sources.pushed.values():
            source.go_on()

    def _pause(self) -> None:
        """A job that the caller stepped goes on in another way."""
        if self.begun and not self.is_running:
            self._end()

    def stop(self, final: bool | None = None) -> None:
        try:
            self._raise_failure()
            waits = any(source.waiting_rows for source in self._sources.pushed.values())
            if not self.begun and waits and not self._closed:
                self._stepping()
            super().stop(final)
            self._closed = True
        finally:
            self._let_go()

    def abandon(self) -> None:
        super().abandon()
        self._let_go()

    def _let_go(self) -> None:
        """The processes end, unless the job goes on."""
        if self._processes is not None and not self.begun:
            self._processes.close()
            self._processes = None

    # -- looking in

    def explain(self, query: BoundQuery) -> str:
        return f"{super().explain(query)}\n{self._cut(query)}"

    def _cut(self, query: BoundQuery) -> str:
        """How a query is cut over the cores."""
        routing = routing_of(self.checkpoint, self.job, query, self.usual_shards)
        if routing.cells > 1:
            count = min(self.cores, routing.cells)
            return (
                f"cores: {count} {'process computes' if count == 1 else 'processes share'} its {routing.cells} slices"
            )
        why = routing.chain or routing.whole or "it has no key, or its rows are too few to be worth more"
        return f"cores: one process computes it, as {why}"

    def stats(self) -> dict[str, Any]:
        return {**super().stats(), **kept_figures(self.handles)}

    def dead_letters(self, stream: Stream) -> list[pa.Table]:
        return [text_rows(stream.schema, table) for table in self._dead.get(stream.name, [])]

    # -- inside

    def _before_build(self) -> None:
        settle_plan(self.checkpoint)

    def _made_driver(self, layout: JobLayout) -> CoresDriver:
        if self._processes is None:
            self._processes = OwnProcesses(None if self._lasting else self.checkpoint)
            weakref.finalize(self, self._processes.close)
        files = [stream.name for stream in layout.streams if "path" in stream.options]
        given = {s.name: self._sources.of(s) for s in layout.streams if s.name not in files}
        resumes = self._driver is None
        self._given.take_over(of_sources(layout.streams, given))
        driver = CoresDriver(
            layout, self.cores, self._processes, self._given, resumes=resumes, out=self._out, clock=self._clock
        )
        if self._keep_results:
            driver.delivery.kept_dead = self._dead
        return driver
