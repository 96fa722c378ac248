"""A registered query, as a program holds it.

Answer   `take` and `results` give what has come since the last time, and keep nothing of it. `table`, iteration, `len`
         and the frames give what has not been taken, and take nothing: twice the same rows, and those that have come
         since.
State    None: results wait in the `Handle` of the query.
Limits   Each of them processes first what has been pushed, unless the job runs in the background.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eddyline.errors import SettingProblem
from eddyline.language import Job
from eddyline.model.query import BoundQuery
from eddyline.runtime.front.runner import Handle, Runner
from eddyline.runtime.reporting.notebook import Plan, query_html

if TYPE_CHECKING:
    import pandas
    import polars
    from pyspark.sql import DataFrame

#: Seconds between two looks for results of a job that runs in the background.
_PAUSE = 0.02


class Query:
    """A registered query: its results so far, and how it is answered.

    >>> from eddyline import Session
    >>> session = Session()
    >>> _ = session.execute("CREATE STREAM bids (item BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
    >>> query = session.query("all_bids", "SELECT item FROM bids")
    >>> _ = session.push("bids", {"item": [7, 8], "ts": ["2024-01-01", "2024-01-02"]})
    >>> session.run()
    >>> [row["item"] for row in query], len(query), query.take().num_rows, len(query)
    ([7, 8], 2, 2, 0)
    """

    def __init__(self, job: Job, runner: Runner, name: str, handle: Handle) -> None:
        self._job = job
        self._runner = runner
        self.name = name
        self._handle = handle

    @property
    def start(self) -> int | None:
        """The instant after which rows exist for the query, in microseconds; None: it sees all."""
        return self._handle.start

    @property
    def stop(self) -> int | None:
        """The instant up to which a dropped query answers; None: it has not been dropped."""
        return self._handle.stop

    # -- results that are taken

    def take(self) -> pa.Table:
        """The results that have come since the last call of `take` or `results`, in order, as a table of Arrow."""
        return self._joined(self._taken())

    def results(self) -> Iterator[pa.RecordBatch]:
        """The same as `take`, batch by batch."""
        for table in self._taken():
            yield from table.to_batches()

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Results as they come, batch by batch: they are taken. It ends when the job no longer runs in the
        background."""
        import asyncio

        while True:
            goes_on = self._runner.is_running
            tables = await asyncio.to_thread(self._taken)
            for table in tables:
                for batch in table.to_batches():
                    yield batch
            if not goes_on:
                return
            if not tables:
                await asyncio.sleep(_PAUSE)

    def punctuations(self) -> pa.Table:
        """The values of output columns that are finished, since the last call: `propagate` says when they are
        announced. Null is `*`."""
        self._runner.step_pending()
        columns = [field for field in self.schema if field.name != "_op"]
        return pa.concat_tables([pa.schema(columns).empty_table(), *self._handle.take_punctuations()])

    # -- results that are there

    def table(self) -> pa.Table:
        """The results that have not been taken, in order; they stay."""
        self._runner.step_pending()
        return self._joined(list(self._handle.peek()))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows of `table`, as mappings from names to values."""
        self._runner.step_pending()
        for table in self._handle.peek():
            for batch in table.to_batches():
                yield from batch.to_pylist()

    def __len__(self) -> int:
        """The number of rows of `table`."""
        self._runner.step_pending()
        return self._handle.waiting

    def __bool__(self) -> bool:
        """True, with results or without."""
        return True

    def to_pandas(self) -> pandas.DataFrame:
        """The same as `table`, as a frame of pandas.

        Raises:
            SettingProblem: pandas is not installed.
        """
        if find_spec("pandas") is None:
            raise SettingProblem("pandas is not installed", hint="pip install pandas; query.table() needs nothing")
        frame: pandas.DataFrame = self.table().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The same as `table`, as a frame of polars.

        Raises:
            SettingProblem: polars is not installed.
        """
        if find_spec("polars") is None:
            raise SettingProblem("polars is not installed", hint="pip install polars; query.table() needs nothing")
        import polars

        frame: polars.DataFrame = polars.from_arrow(self.table())
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The same as `table`, for everything that reads streams of Arrow: DuckDB, polars, pandas, `Session.push`."""
        return self.table().__arrow_c_stream__(requested_schema)

    def to_dataframe(self, *, streaming: bool = False) -> DataFrame:
        """On Spark: all results delivered so far as a DataFrame; with `streaming` a streaming one, which goes on with
        those to come.

        Raises:
            UserError: The session does not run on Spark, or keeps no results.
        """
        frame: DataFrame = self._handle.to_dataframe(streaming)
        return frame

    # -- looking in

    @property
    def schema(self) -> pa.Schema:
        """The columns of its results."""
        return self._handle.schema

    @property
    def plan(self) -> Plan:
        """How the query is, or would be, answered: a text, and in a notebook a drawing."""
        return Plan(*self._runner.plan(self._bound))

    def explain(self) -> str:
        """How the query is, or would be, answered, as text."""
        return self._runner.explain(self._bound)

    def __repr__(self) -> str:
        return f"<Query {self.name}: {', '.join(self._said())}>"

    def _repr_html_(self) -> str:
        schema = self.schema if self._runner.begun else pa.schema([])
        return query_html(self.name, self._bound.text, schema, self._handle.peek(), ", ".join(self._said()))

    # -- inside

    def _taken(self) -> list[pa.Table]:
        self._runner.step_pending()
        return self._handle.take()

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *tables])

    @property
    def _bound(self) -> BoundQuery:
        catalog = self._job.catalog
        known = catalog.templates.get(self.name) or catalog.requests.get(self.name)
        return catalog.query(self.name) if known is None else known.as_query

    def _said(self) -> list[str]:
        """The state of the query, and what is counted of it."""
        if self.name not in self._runner.handles:
            return ["dropped"]
        if not self._runner.begun:
            return ["no rows yet"]
        figures = self._runner.stats()
        bound = self._bound
        streams = sorted({read.source for part in (*bound.makers, bound) for read in part.streams})
        dead = sum(figures[kind].get(stream, 0) for kind in ("late", "bad") for stream in streams)
        state = "running" if self._runner.is_running else "at rest"
        return [state, f"{figures['results'].get(self.name, 0):,} results", f"{dead:,} dead letters of its streams"]
