"""The results of one query of a job on Spark, read from the files that were delivered.

Answer   `FileResults` is the `Handle` of a query of a session with `spark=…`: its results as they come, and as a
         DataFrame.
State    The file that was taken last.
Limits   Where a session keeps no files, results only go to sinks and callbacks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from eddyline.connectors.results.output import result_files
from eddyline.model.query import BoundQuery
from eddyline.model.template import BoundRequests
from eddyline.runtime.engine.epoch import punctuations_of
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch

if TYPE_CHECKING:
    from eddyline.runtime.spark.runner import SparkRunner


class FileResults:
    """A query's results, read from the files that were delivered."""

    def __init__(self, runner: SparkRunner, query: BoundQuery) -> None:
        self._runner = runner
        self._query = query
        #: The derived streams that it reads by name.
        known = runner.job.catalog.streams
        read = (r.source for part in (*query.makers, query) for r in part.streams if r.derived)
        self._read = {name: known[name] for name in read if name in known}
        #: (batch, part) of the file that was taken last: at first the newest that is there to stay. Committed results
        #: that are in no file yet are still to come.
        committed = committed_batch(runner.checkpoint)
        self._taken, self._taken_punctuations = (
            self._newest(name, committed) for name in (query.name, punctuations_of(query.name))
        )

    def _newest(self, name: str, committed: int) -> tuple[int, int]:
        """The newest file of committed batches."""
        files = result_files(self._folder(name)) if self._runner.keeps_files else []
        return max(((batch, part) for batch, part, _ in files if batch <= committed), default=(-1, -1))

    @property
    def start(self) -> int | None:
        entry = self._runner.entry(self._query.name)
        return None if entry is None else entry.start

    @property
    def stop(self) -> int | None:
        entry = self._runner.entry(self._query.name)
        return None if entry is None else entry.stop

    @property
    def schema(self) -> pa.Schema:
        if isinstance(self._query, BoundRequests) and self._query.request_stream is not None:
            return self._query.request_stream.schema
        job = self._runner.job
        pipeline = Pipeline((*(s for s in job.streams if s.name not in self._read), *self._read.values()), job.settings)
        for table in job.tables:
            pipeline.add_table(table, table.schema.arrow.empty_table())
        return pipeline.add_query(self._query).schema

    def take_punctuations(self) -> list[pa.Table]:
        found, self._taken_punctuations = _after(
            self._folder(punctuations_of(self._query.name)), self._taken_punctuations
        )
        return found

    def take(self) -> list[pa.Table]:
        found, self._taken = _after(self._folder(), self._taken)
        return found

    def peek(self) -> Iterator[pa.Table]:
        return (table for path in self._new() if (table := parquet.read_table(path)).num_rows)

    @property
    def waiting(self) -> int:
        return sum(parquet.read_metadata(path).num_rows for path in self._new())

    def _new(self) -> list[str]:
        """The files after the one that was taken last."""
        if not self._runner.keeps_files:
            return []
        return [path for batch, part, path in result_files(self._folder()) if (batch, part) > self._taken]

    def to_dataframe(self, streaming: bool) -> DataFrame:
        self._runner.prepare_out()
        folder = self._folder()
        os.makedirs(folder, exist_ok=True)
        spark = self._runner.spark
        # Event times are instants in UTC: with Spark's own type for that they compare with the caller's columns.
        schema = from_arrow_schema(self.schema, prefer_timestamp_ntz=False)
        # The file without rows that a query without results leaves goes when the first result comes.
        reader = (spark.readStream if streaming else spark.read).schema(schema).option("ignoreMissingFiles", "true")
        frame: DataFrame = reader.option("pathGlobFilter", "*.parquet").parquet(folder)
        return frame

    def _folder(self, name: str | None = None) -> str:
        return os.path.join(self._runner.results, name or self._query.name)


def _after(folder: str, taken: tuple[int, int]) -> tuple[list[pa.Table], tuple[int, int]]:
    """The tables of the files after one, and the newest of them."""
    files = [(batch, part, path) for batch, part, path in result_files(folder) if (batch, part) > taken]
    found = [parquet.read_table(path) for _, _, path in files]
    return [table for table in found if table.num_rows], files[-1][:2] if files else taken
