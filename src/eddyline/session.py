"""The front door: declare streams, register queries, push rows, take results.

Answer   A `Session` is a catalog, the settings in force, and a job that runs: in this process, or on Spark with
         `spark=…`. Statements of the language and Python calls can be mixed freely; both end up in the same place.
State    The job as said so far, and a `Runner` that carries it out.
Limits   A session is used from one thread at a time, apart from `push`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eddyline.connectors.base import Sink, Source
from eddyline.connectors.results.sinks import CallbackSink, NumberedSink
from eddyline.errors import Position, Unsupported
from eddyline.language import Job, parse_body
from eddyline.model.clock import Clock
from eddyline.model.datatypes import DataType
from eddyline.runtime.control.statements import Statements
from eddyline.runtime.figures.memory import keep_freed_memory
from eddyline.runtime.front.engine_choice import local_runner
from eddyline.runtime.front.given_schema import declared
from eddyline.runtime.front.own_functions import hand_over
from eddyline.runtime.front.query import Query
from eddyline.runtime.front.runner import Runner
from eddyline.runtime.front.session_rows import SessionRows
from eddyline.runtime.front.session_view import SessionView
from eddyline.runtime.front.workflows import workflow_rules
from eddyline.settings import Settings, Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eddyline.dashboard.server import Server
    from eddyline.language.requests.request_shapes import RequestShapes
    from eddyline.runtime.embedded.driver import EmbeddedDriver
    from eddyline.runtime.engine.pipeline import Pipeline


class Session(SessionRows, SessionView):
    """A continuous-query session, in this process, on several cores, or on Spark.

    >>> with Session() as session:
    ...     _ = session.execute("CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time='ts')")
    ...     dear = session.query("dear", "SELECT item FROM bids WHERE price > 100")
    ...     _ = session.push("bids", [{"item": 7, "price": 120.0, "ts": "2024-01-01 12:00:00"}])
    ...     session.run(once=True)
    ...     dear.table().column("item").to_pylist()
    [7]
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        spark: SparkSession | None = None,
        out: str | None = None,
        checkpoint: str | None = None,
        overwrite: bool = False,
        follow: bool = False,
        keep_results: bool = True,
        clock: Clock | None = None,
        keep_memory: bool = False,
        cores: int | str | None = None,
    ) -> None:
        """
        Args:
            settings: What SET would say.
            spark: Run on this Spark session; without it the job runs in this process.
            out: Write results to `out/<query>/*.parquet`, and dead letters to `out/_dead_letter/<stream>/`.
            checkpoint: Keep state in this folder and continue from it.
            overwrite: Empty an `out` that holds earlier results.
            follow: Wait for more files when those of a stream have been read.
            keep_results: Keep results until they are taken; without it they only go to `out`, sinks and callbacks.
            clock: Gives the time for idle streams and checkpoints; tests pass their own.
            keep_memory: The C library keeps freed memory of this whole process for reuse. Joins take up to a quarter
            less time.
            cores: As many processes of this machine share the work, "auto": one per core. Without it, or with 1, the
            job runs in this process.
        """
        if keep_memory:
            keep_freed_memory()
        if cores is not None:
            settings = (settings or Settings()).with_option("cores", cores)
        self.job = Job(settings, workflows=workflow_rules)
        #: The dashboards of this session.
        self._served: list[Server] = []
        options: dict[str, Any] = {"out": out, "checkpoint": checkpoint, "overwrite": overwrite}
        options |= {"keep_results": keep_results, "clock": clock}

        def opened() -> Runner:
            # The engine is loaded when a session needs it: declaring and checking do without its compiled kernels.
            if spark is not None:
                # PySpark is imported only where the job runs on Spark.
                from eddyline.runtime.spark.runner import SparkRunner

                return SparkRunner(self.job, spark, **options)
            return local_runner(self.job, follow=follow, **options)

        self._runner = opened()
        self._statements = Statements(self.job, self._runner, partial(self._opened_anew, opened))
        #: Texts of requests that were read before.
        self._shapes: RequestShapes | None = None

    def _opened_anew(self, opened: Callable[[], Runner]) -> Runner:
        """SET cores, before anything is declared."""
        self._runner = opened()
        return self._runner

    # -- saying what there is

    def execute(self, sql: str) -> list[str]:
        """Carry out the statements of `sql`, and return the texts of EXPLAINs among them.

        Raises:
            UserError: A statement cannot be carried out; those before it have been.

        >>> Session().execute("CREATE STREAM bids (item BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        []
        """
        return self._statements.execute(sql)

    def set(self, name: str, value: Value) -> None:
        """The same as `SET name = value`, for what is created after it.

        Args:
            name: The option.
            value: Its value: a text, a number, or True and False.

        Raises:
            SettingProblem: There is no option of this name, or it does not take the value.
        """
        self.job.settings = self.job.settings.with_option(name, value)
        self._statements.follow_settings()

    def stream(
        self,
        name: str,
        schema: pa.Schema | Mapping[str, DataType] | Source | DataFrame,
        *,
        time: str,
        lateness: str = "0 seconds",
        idle: str | None = None,
        most_ahead: str | None = None,
        sequence: str | None = None,
        time_unit: str | None = None,
    ) -> None:
        """Declare a stream.

        Args:
            name: What queries call it.
            schema: A schema of Arrow, or a mapping from names to types: its rows are pushed. A source: it is read. On
                Spark any streaming DataFrame.
            time: The column with the event time.
            lateness: How late rows may come: behind the newest row by so much.
            idle: A stream that is silent for so long does not hold up others.
            most_ahead: Rows further ahead of the clock than that are dead letters.
            sequence: A column that orders rows of one instant.
            time_unit: "s", "ms", "us" or "ns", where the event time is a column of integers.

        Raises:
            BindingProblem: The name is taken, or a column is missing or of a wrong type.
        """
        found, given = declared(
            self._runner, self.job.catalog, name, schema, time, (lateness, idle, most_ahead), sequence, time_unit
        )
        self.job.catalog.add(found)
        self._runner.declare(found, given)

    def function(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: Mapping[str, Any] | Sequence[Any],
        result: Any,
        *,
        arrays: str = "arrow",
    ) -> None:
        """A function of one's own for queries: whole columns in, one column out; deterministic, each row by itself.

        Args:
            name: What queries call it.
            function: Gets one array per argument and returns an array of the same length.
            arguments: Types, or a mapping from names to types: "BIGINT", or of Arrow.
            result: The type of the result.
            arrays: "arrow", or "numpy": then rows with a null in an argument have NULL and are not seen.

        Raises:
            UserError: A type is not known, or the session has begun to run.
        """
        hand_over(self.job, self._runner.begun, name, function, arguments, result, arrays)

    def query(self, name: str, sql: str, **options: Value) -> Query:
        """Register a query, which sees the rows from now on.

        Args:
            name: What results, figures and files call it.
            sql: `SELECT …` or `EVENT …`.
            options: Settings for this query alone, as in CREATE QUERY … WITH.

        Returns:
            The query, which has its results.

        Raises:
            UserError: The text is no query, or names what is not declared.
        """
        settings = self.job.settings
        for option, value in options.items():
            settings = settings.with_option(option, value)
        self._statements.register(self.job.query(name, parse_body(sql), settings))
        return Query(self.job, self._runner, name, self._runner.handles[name])

    def requests(
        self,
        name: str,
        template: str,
        columns: pa.Schema | Mapping[str, DataType] | Source | DataFrame,
        *,
        time: str,
        lateness: str = "0 seconds",
        idle: str | None = None,
        most_ahead: str | None = None,
        window: str | None = None,
        group_by: str | None = None,
        aggregates: str | None = None,
    ) -> Query:
        """Declare a stream of requests to a template. Its results have its name.

        Args:
            name: What the stream and its results are called.
            template: The template that answers.
            columns: As `schema` of `stream`: the rows are pushed, or come from a source.
            time: The column with the instant that a request asks for.
            lateness: As in `stream`, and so are `idle` and `most_ahead`.
            window: The column, if any, with the window of each request.
            group_by: The column, if any, with the names of the columns to group by.
            aggregates: The column, if any, with the aggregates that are wanted.

        Returns:
            The answers, as results of a query.
        """
        stream, given = declared(self._runner, self.job.catalog, name, columns, time, (lateness, idle, most_ahead))
        roles = {"window": window, "group_by": group_by, "aggregates": aggregates}
        named: dict[str, tuple[str, Position | None]] = {
            role: (column, None) for role, column in roles.items() if column is not None
        }
        # What only requests need is loaded with the first of them.
        from eddyline.language.requests.templates import request_stream

        made = request_stream(stream, self.job.catalog.template(template), named)
        self.job.catalog.add(made)
        self._runner.declare(stream, given)
        self._statements.register_request_unit(made.as_query)
        return Query(self.job, self._runner, name, self._runner.handles[name])

    def request(
        self, text: str | Sequence[str], as_of: str | datetime | None = None, timeout: float | None = None
    ) -> pa.Table | list[pa.Table]:
        """Ask a template: `request("dst, bytes FROM traffic WHERE src = '10.0.0.1' GROUP BY dst")`. A list is answered
        together.

        Args:
            text: What follows the word REQUEST, which may stand before it.
            as_of: The instant, for texts without AS OF.
            timeout: Seconds to wait where the session runs in the background and the instant lies ahead.

        Returns:
            The groups; for a list of texts one table for each.
        """
        # What only requests need is loaded with the first of them.
        from eddyline.language.requests.request_shapes import RequestShapes
        from eddyline.language.requests.request_texts import bind_request_texts

        self._shapes = self._shapes or RequestShapes()
        texts = list(text) if isinstance(text, Iterable) and not isinstance(text, str | bytes) else [text]
        found = bind_request_texts(texts, as_of, self.job.catalog, self._shapes)
        tables = self._runner.request(found, timeout)
        return tables[0] if isinstance(text, str) else tables

    def drop(self, name: str) -> None:
        """Drop the query `name`: results up to the newest row of any stream so far are still delivered, nothing newer."""
        spelled = self.job.catalog.query(name).name
        self.job.catalog.drop("query", spelled)
        self._runner.drop(spelled)

    def on_results(self, query: str, function: Callable[..., object], *, numbered: bool = False) -> None:
        """Call a function with each table of a query's results, or of the answers to a stream of requests.

        Args:
            query: The name of the query.
            function: Gets a table of Arrow. An exception of it ends the run.
            numbered: It is called as `function(table, epoch)`, once per epoch: results that come again after a crash
                come under the same number (on Spark the batch id).
        """
        self._runner.add_sink(
            self.job.catalog.results_of(query), NumberedSink(function) if numbered else CallbackSink(function)
        )

    def sink(self, name: str) -> Sink:
        """The sink `name` that CREATE SINK made; one of format 'memory' has its rows as `session.sink(name).table()`."""
        return self._runner.sink(name)

    # -- running

    def step(self) -> None:
        """Run one epoch over what is there now."""
        self._runner.step()

    def step_pending(self) -> None:
        """Process what has been pushed, unless a thread does that already."""
        self._runner.step_pending()

    def run(self, once: bool = True, final: bool | None = None) -> None:
        """Read all sources.

        Args:
            once: To their end: every row counts. Without it the call returns after `ask_to_stop` or a signal.
            final: The streams end there: what is open is closed, as "The end of the streams" in docs/semantics.md says,
                and no row comes any more. None: where no checkpoint lets a later run go on.

        Raises:
            UserError: A source cannot be read, or a setting asks for an error that a row causes.
        """
        self._runner.run(once, final)

    def start(self) -> None:
        """Run in the background until `stop`."""
        self._runner.start()

    def stop(self, final: bool | None = None) -> None:
        """Process the rows that were pushed, write everything, leave a checkpoint.

        A function that is called with results asks for it: the epoch at hand is the last one. Leaving `with` stops, too.

        Args:
            final: The streams end, as in `run`. While rows of files are unread nothing is closed, and a warning says so.
                None: where no checkpoint lets a later session go on.
        """
        self._runner.stop(final)

    def ask_to_stop(self) -> None:
        """Let `run` return after the epoch at hand; may be called from a signal handler."""
        self._runner.ask_to_stop()

    def give_up(self, anything: bool = False) -> str | None:
        """Give up the epoch that is being computed, in a process that ends now; may be called from any thread.

        Args:
            anything: where there is a checkpoint also what is not computed: results that are being written, or the
                checkpoint itself.

        Returns:
            from where a new session goes on. None: nothing is given up; the job runs on Spark, or writes results that
            no later run would repeat.
        """
        return self._runner.give_up(anything)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.stop()
            else:
                self._runner.abandon()
        finally:
            while self._served:
                self._served.pop().stop()

    # -- looking in

    @property
    def is_one_process(self) -> bool:
        """Whether the whole job runs in this process."""
        from eddyline.runtime.embedded.runner import EmbeddedRunner

        return isinstance(self._runner, EmbeddedRunner)

    @property
    def pipeline(self) -> Pipeline:
        """The engine of an embedded session, for a look inside."""
        return self.driver.pipeline

    @property
    def driver(self) -> EmbeddedDriver:
        """The driver of an embedded session, for a look inside."""
        from eddyline.runtime.embedded.runner import EmbeddedRunner

        if not isinstance(self._runner, EmbeddedRunner):
            raise Unsupported(
                "the pipelines of a session on several cores or on Spark live in its workers",
                hint="stats() and explain() say what they do",
            )
        return self._runner.driver

    def dashboard(
        self, port: int = 0, *, host: str = "127.0.0.1", token_file: str | None = None, readonly: bool = False
    ) -> str:
        """Serve a page that shows the session as it runs, and return its address, token included; port 0 takes a free
        one.

        The page is there until the session is left (`with`) or the program ends.

        Args:
            port: The port; 0 takes a free one.
            host: The address to listen on. One that others can reach needs a token file.
            token_file: A file with the token, readable by its owner only.
            readonly: The page shows, and changes nothing.
        """
        from eddyline.dashboard.server import serve

        runner = self._runner
        served = serve(
            runner.report_folder(), host, port, token_file=token_file, readonly=readonly, latest=runner.latest_report
        )
        served.start()
        self._served.append(served)
        return served.address


__all__ = ["Query", "Session"]
