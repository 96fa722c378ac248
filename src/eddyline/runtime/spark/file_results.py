"""The results of one query of a job on Spark, read from the files that were delivered.

Answer   `FileResults` is the `Handle` of a query of a session with `spark=…`: its results as they come, and as a
         DataFrame. Files of several shards are merged by their places, which lie in a hidden folder beside them.
State    The file that was taken last.
Limits   Where a session keeps no files, results only go to sinks and callbacks. A DataFrame has no order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from eddyline.connectors.results.landing import named_places
from eddyline.connectors.results.output import result_files
from eddyline.model.query import BoundQuery
from eddyline.runtime.engine.epoch import punctuations_of
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch
from eddyline.runtime.sharded.output.landed import landed_run
from eddyline.runtime.sharded.output.merging import merged_in_pieces

if TYPE_CHECKING:
    from eddyline.runtime.spark.runner import SparkRunner


#: Batch, part, path.
ResultFile = tuple[int, int, str]


class FileResults:
    """A query's results, read from the files that were delivered."""

    def __init__(self, runner: SparkRunner, query: BoundQuery) -> None:
        self._runner = runner
        self._query = query
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
        return self._runner.schema_of_results(self._query)

    def take_punctuations(self) -> list[pa.Table]:
        files = _after(self._folder(punctuations_of(self._query.name)), self._taken_punctuations)
        self._taken_punctuations = _last(files, self._taken_punctuations)
        return [*_read(files)]

    def take(self) -> list[pa.Table]:
        files = self._new()
        self._taken = _last(files, self._taken)
        return [*_read(files)]

    def peek(self) -> Iterator[pa.Table]:
        return _read(self._new())

    @property
    def waiting(self) -> int:
        return sum(parquet.read_metadata(path).num_rows for _, _, path in self._new())

    def _new(self) -> list[ResultFile]:
        return _after(self._folder(), self._taken) if self._runner.keeps_files else []

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


def _after(folder: str, taken: tuple[int, int]) -> list[ResultFile]:
    """The files after one. Those of a batch appear together, the first one last."""
    new = [file for file in result_files(folder) if file[:2] > taken]
    begun = {batch for batch, part, _ in new if part == 0} | {taken[0]}
    return [file for file in new if file[0] in begun]


def _last(files: list[ResultFile], taken: tuple[int, int]) -> tuple[int, int]:
    return files[-1][:2] if files else taken


def _read(files: list[ResultFile]) -> Iterator[pa.Table]:
    """The rows of files in their order."""
    for _, of_batch in groupby(files, lambda file: file[0]):
        paths = [path for _, _, path in of_batch]
        if len(paths) > 1:
            # Each is in order. Those of shards have places, those of the driver follow each other.
            yield from merged_in_pieces([landed_run(path, named_places(path)) for path in paths])
        elif len(table := parquet.read_table(paths[0])):
            yield table
