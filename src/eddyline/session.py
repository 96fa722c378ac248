"""The front door: declare streams, register queries, push rows, take results.

Answer   A `Session` is a catalog, the settings in force, and a running pipeline. Statements of the language and Python calls
         can be mixed freely; both end up in the same place.
State    The job as said so far, and a driver once the first row or run asks for one.
Limits   A session is used from one thread at a time, apart from `push`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

import pyarrow as pa

from eddyline.connectors.base import Sink, Source
from eddyline.connectors.files import open_source, read_table
from eddyline.connectors.memory import MemorySource, Rows
from eddyline.connectors.output import prepare_output
from eddyline.connectors.sinks import CallbackSink
from eddyline.errors import BindingProblem, UserError
from eddyline.language import Dropped, ExplainRequest, Job, parse_script, parse_select, parse_span
from eddyline.language.catalog import Sink as DeclaredSink
from eddyline.model.datatypes import DataType, from_arrow
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Column, Schema, Stream, Table
from eddyline.plan.prepare import explained, prepare, prepare_tree
from eddyline.plan.verify import warnings_of
from eddyline.runtime.analysis import analysis
from eddyline.runtime.clock import Clock
from eddyline.runtime.control import ControlFolder
from eddyline.runtime.embedded.checkpoint import Checkpoint
from eddyline.runtime.embedded.delivery import Delivery
from eddyline.runtime.embedded.driver import EmbeddedDriver, Observer
from eddyline.runtime.embedded.roster import Roster, instant
from eddyline.runtime.pipeline import Pipeline
from eddyline.runtime.report import plan_text, report
from eddyline.runtime.standing import AnyQuery
from eddyline.settings import Settings, Value


class Query:
    """A registered query: its results so far, and how it is answered."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.name = name
        self._waiting: list[pa.Table] = []
        self._standing: AnyQuery | None = None

    @property
    def start(self) -> int | None:
        """The instant after which rows exist for the query, in microseconds; None: it sees all."""
        return None if self._standing is None else instant(self._standing.start)

    @property
    def stop(self) -> int | None:
        """The instant up to which a dropped query answers; None: it has not been dropped."""
        return None if self._standing is None else self._standing.stop

    def results(self) -> Iterator[pa.RecordBatch]:
        """The results that have come since the last call, in order; processes what has been pushed first."""
        self._session.step_pending()
        tables, self._waiting[:] = list(self._waiting), []
        for table in tables:
            yield from table.to_batches()

    def table(self) -> pa.Table:
        """The same as one table."""
        return pa.Table.from_batches(list(self.results()), schema=self.schema)

    @property
    def schema(self) -> pa.Schema:
        if self._standing is None:
            return self._session.pipeline.queries[self.name].schema
        return self._standing.schema

    def explain(self) -> str:
        return self._session.explain(self.name)

    def _keep(self, table: pa.Table) -> None:
        self._waiting.append(table)


class Session:
    """A continuous-query session in this process.

    >>> with Session() as session:
    ...     _ = session.execute("CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time='ts')")
    ...     dear = session.query("dear", "SELECT item FROM bids WHERE price > 100")
    ...     _ = session.push("bids", [{"item": 7, "price": 120.0, "ts": 1_000_000}])
    ...     session.run(once=True)
    ...     dear.table().column("item").to_pylist()
    [7]
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        out: str | None = None,
        checkpoint: str | None = None,
        overwrite: bool = False,
        follow: bool = False,
        keep_results: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self.job = Job(settings)
        self._sources: dict[str, Source] = {}
        self._queries: dict[str, Query] = {}
        self._callbacks: dict[str, list[Sink]] = {}
        self._out = out
        self._checkpoint = Checkpoint(checkpoint) if checkpoint is not None else None
        self._overwrite = overwrite
        self._follow = follow
        self._keep_results = keep_results
        self._clock = clock
        self._driver: EmbeddedDriver | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._observer: Observer | None = None
        self._closed = False
        #: Queries under EXPLAIN ANALYZE: their `analysis` is worth reading after the run.
        self.analyzed: list[str] = []
        #: What is worth knowing about the queries: references whose store grows for ever.
        self.warnings: list[str] = []

    # -- saying what there is

    def execute(self, sql: str) -> list[str]:
        """Carry out statements; returns the texts of EXPLAINs."""
        texts: list[str] = []
        for statement in parse_script(sql):
            applied = self.job.apply(statement)
            if isinstance(applied, BoundQuery):
                self._register(applied)
            elif isinstance(applied, Stream):
                self._declare(applied)
            elif isinstance(applied, Table):
                self._load(applied)
            elif isinstance(applied, DeclaredSink) and self._driver is not None:
                raise UserError("sinks are created before the first row", hint="CREATE SINK before push, start or run")
            elif isinstance(applied, Dropped) and applied.kind == "query":
                self._dropped(applied.entry.name)
            elif isinstance(applied, ExplainRequest):
                if applied.analyze:
                    self.analyzed.append(self._analyzed(applied.query))
                else:
                    texts.append(self._explained(applied.query))
        return texts

    def set(self, name: str, value: Value) -> None:
        """Like SET: for what is created after it."""
        self.job.settings = self.job.settings.with_option(name, value)

    def stream(
        self,
        name: str,
        schema: pa.Schema | Mapping[str, DataType] | Source,
        *,
        time: str,
        lateness: str = "0 seconds",
        idle: str | None = None,
        sequence: str | None = None,
    ) -> None:
        """Declare a stream whose rows are pushed, by an Arrow schema or a mapping from names to types; or one read from a source."""
        columns = _columns(name, schema)
        found = Stream(
            name=name,
            schema=Schema(columns),
            time=time,
            lateness=parse_span(lateness),
            idle=None if idle is None else parse_span(idle),
            sequence=sequence,
            position=self.job.catalog.next_position,
            options={"format": "memory"},
        )
        self.job.catalog.add(found)
        if hasattr(schema, "read"):
            self._sources[name] = schema  # type: ignore[assignment]
        self._declare(found)

    def query(self, name: str, sql: str, **options: Value) -> Query:
        """Register `SELECT …` under a name; options as in CREATE QUERY … WITH."""
        settings = self.job.settings
        for option, value in options.items():
            settings = settings.with_option(option, value)
        self._register(self.job.query(name, parse_select(sql), settings))
        return self._queries[name]

    def drop(self, name: str) -> None:
        """Drop a query: results up to the newest row of any stream so far are still delivered, nothing newer."""
        spelled = self.job.catalog.query(name).name
        self.job.catalog.drop("query", spelled)
        self._dropped(spelled)

    def on_results(self, query: str, function: Callable[[pa.Table], object]) -> None:
        """Call a function with each table of a query's results."""
        self._callbacks.setdefault(query, []).append(CallbackSink(function))
        if self._driver is not None:
            self._driver.delivery.add_sink(query, self._callbacks[query][-1], self.pipeline.queries[query].schema)

    # -- rows in

    def push(self, stream: str, rows: Rows) -> int:
        """Queue rows of a stream; they are processed by the next `step`, `run` or `results`."""
        found = self.job.catalog.relation(stream)
        source = self._sources.get(found.name)
        if not isinstance(source, MemorySource):
            raise BindingProblem(f"rows cannot be pushed to {stream}", hint="declare it with format = 'memory', or without a format")
        return source.push(rows)

    def step(self) -> None:
        """Run one epoch over what is there now."""
        self.driver.step()

    def step_pending(self) -> None:
        """Process what has been pushed, unless a thread does that already."""
        self._raise_failure()
        if self._thread is None and not self._closed:
            while any(isinstance(s, MemorySource) and s.waiting_rows for s in self._sources.values()):
                self.driver.step()

    def run(self, once: bool = True) -> None:
        """Read all sources; with `once` to their end, then close: every row counts."""
        driver = self.driver
        if once:
            for source in self._sources.values():
                if isinstance(source, MemorySource):
                    source.end()
        self._closed = once
        driver.run(once)

    def start(self) -> None:
        """Run in the background until `stop`."""
        driver = self.driver

        def work() -> None:
            try:
                driver.run(once=False)
            except BaseException as problem:  # handed to whoever calls next
                self._failure = problem

        self._thread = threading.Thread(target=work, name="eddyline", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the epoch at hand, write everything, leave a checkpoint."""
        if self._thread is not None:
            self.driver.stop()
            self._thread.join()
            self._thread = None
            self._closed = True
        elif self._driver is not None and not self._closed:
            self._driver.finish()
            self._closed = True
        self._raise_failure()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.stop()
        elif self._driver is not None:
            self._driver.stop()

    # -- looking in

    @property
    def pipeline(self) -> Pipeline:
        return self.driver.pipeline

    @property
    def queries(self) -> Mapping[str, Query]:
        """The registered queries, by name."""
        return self._queries

    @property
    def driver(self) -> EmbeddedDriver:
        if self._driver is None:
            self._driver = self._build()
        return self._driver

    def observe(self, observer: Observer) -> None:
        """Call a function after every epoch; for progress displays."""
        self._observer = observer
        if self._driver is not None:
            self._driver.observer = observer

    def explain(self, name: str) -> str:
        """How a query is, or would be, answered."""
        query = self.job.catalog.query(name)
        if self._driver is not None and query.name in self._driver.pipeline.queries:
            return plan_text(self._driver.pipeline.queries[query.name], self._driver.pipeline)
        return self._explained(query)

    def analysis(self, name: str) -> str:
        """How a query was answered so far: its plan and what each operator did."""
        return analysis(self.pipeline.queries[self.job.catalog.query(name).name])

    def stats(self) -> dict[str, Any]:
        driver = self.driver
        elapsed = (driver.ended or 0.0) - (driver.began or 0.0)
        return report(driver.pipeline, elapsed, driver.epoch_seconds)

    def dead_letters(self, stream: str) -> pa.Table:
        """Late and bad rows of a stream so far: declared columns as text, and `_reason`."""
        from eddyline.connectors.conform import bad_schema
        from eddyline.connectors.dead_letter import text_rows

        found = self.job.catalog.streams[self.job.catalog.relation(stream).name]
        kept = (self.driver.delivery.kept_dead or {}).get(found.name, [])
        return pa.concat_tables([bad_schema(found.schema).empty_table(), *(text_rows(found.schema, t) for t in kept)])

    # -- inside

    @property
    def _declared(self) -> dict[str, Stream | Table]:
        """Streams and tables with what WITH says of them."""
        return {**self.job.catalog.streams, **self.job.catalog.tables}

    def _explained(self, query: BoundQuery) -> str:
        return explained(prepare(query), self._declared)

    def _analyzed(self, query: BoundQuery) -> str:
        """The name of a query to be analysed; a bare SELECT is registered to have one."""
        if query.name not in self.job.catalog.queries:
            self.job.catalog.add(query)
            self._register(query)
        return query.name

    def _declare(self, stream: Stream) -> None:
        if stream.name not in self._sources:
            if stream.options.get("format", "parquet" if "path" in stream.options else "memory") == "memory":
                self._sources[stream.name] = MemorySource(stream)
            elif self._driver is not None:
                self._sources[stream.name] = open_source(stream, follow=self._follow)
        if self._driver is not None:
            self._driver.pipeline.add_stream(stream)
            self._driver.add_stream(stream, self._sources[stream.name])

    def _load(self, table: Table) -> None:
        if self._driver is not None:
            self._driver.pipeline.add_table(table, read_table(table))

    def _register(self, query: BoundQuery) -> None:
        try:
            prepare_tree(query, self._declared)
            if self._driver is None:
                self._queries[query.name] = Query(self, query.name)
            else:
                with self._driver.lock:
                    self._driver.roster.add(query)
        except UserError:
            self.job.catalog.drop("query", query.name)
            raise
        self.warnings += warnings_of(query)

    def _dropped(self, name: str) -> None:
        if self._driver is not None:
            with self._driver.lock:
                self._driver.roster.drop(name)
        self._queries.pop(name, None)

    def _own_sinks(self, standing: AnyQuery) -> list[Sink]:
        """What this session wants of a query that now stands."""
        known = self._queries.get(standing.name)
        if known is None or known._standing is not None:
            known = self._queries[standing.name] = Query(self, standing.name)
        known._standing = standing
        own: list[Sink] = [*self._callbacks.get(standing.name, [])]
        if self._keep_results:
            own.append(CallbackSink(known._keep))
        return own

    def _build(self) -> EmbeddedDriver:
        saved = self._checkpoint.load() if self._checkpoint is not None else None
        if self._out is not None:
            prepare_output(self._out, self._overwrite, saved is not None)
        pipeline = Pipeline(self.job.streams, self.job.settings)
        for table in self.job.tables:
            pipeline.add_table(table, read_table(table))
        sources = {}
        for stream in self.job.streams:
            if stream.name not in self._sources:
                self._sources[stream.name] = open_source(stream, follow=self._follow)
            sources[stream.name] = self._sources[stream.name]
        delivery = Delivery(self._out)
        if self._keep_results:
            delivery.kept_dead = {}
        streams = {s.name: s for s in self.job.streams}
        driver = EmbeddedDriver(pipeline, sources, streams, delivery, self.job.settings, self._clock, self._checkpoint)
        driver.observer = self._observer
        control = None if self._checkpoint is None else ControlFolder(self._checkpoint.folder)
        driver.roster = Roster(self.job, pipeline, delivery, self._own_sinks, control)
        later = driver.roster.open(None if saved is None else saved.header, None if saved is None else saved.control)
        driver.resume()
        for query in later:
            driver.roster.add(query)
        driver.roster.tell()
        return driver

    def _raise_failure(self) -> None:
        if self._failure is not None:
            problem, self._failure = self._failure, None
            raise problem


def _columns(stream: str, schema: object) -> tuple[Column, ...]:
    if isinstance(schema, Mapping):
        return tuple(Column(name, kind) for name, kind in schema.items())
    if isinstance(schema, pa.Schema):
        columns = []
        for field in schema:
            kind = from_arrow(field.type)
            if kind is None:
                raise BindingProblem(
                    f"column {field.name} of stream {stream} has the type {field.type}", hint="cast it before it is pushed"
                )
            columns.append(Column(field.name, kind))
        return tuple(columns)
    declared = getattr(schema, "schema", None)
    if isinstance(declared, Schema):
        return declared.columns
    raise BindingProblem(
        f"stream {stream} needs a schema",
        detail=f"{type(schema).__name__} is none",
        hint="an Arrow schema, or a mapping from names to types",
    )


__all__ = ["Query", "Session"]
