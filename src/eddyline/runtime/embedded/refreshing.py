"""Tables that are read again while an embedded job runs.

Answer   `refresh` reads the tables that are due and gives them to the pipeline; a table that cannot be read stays as it
         was, and the report says so.
State    When each table is due (`TableRefreshing`).
Limits   Called between two epochs; while no epoch runs there is no row that could meet another version.
"""

from __future__ import annotations

import pyarrow as pa

from eddyline.model.clock import Clock
from eddyline.model.schema import Table
from eddyline.runtime.driving.table_refreshing import TableRefreshing
from eddyline.runtime.embedded.checkpoint import Checkpoint
from eddyline.runtime.engine.pipeline import Pipeline


class EmbeddedRefreshing:
    def __init__(self, pipeline: Pipeline, clock: Clock, checkpoint: Checkpoint | None = None) -> None:
        self._versions = pipeline.versions
        self.reading = TableRefreshing(clock, lambda: None if checkpoint is None else checkpoint.marks)

    def begin(self, resumed: bool) -> None:
        self.reading.begin(self._changing(), resumed)

    def refresh(self) -> bool:
        """Read what is due; whether a table has changed."""
        return any(changed for _, changed in self.reading.read_due(self._changing(), self._take, self._fail))

    def _changing(self) -> list[Table]:
        return [known.table for known in self._versions.tables.values()]

    def _take(self, table: Table, rows: pa.Table) -> bool:
        return self._versions.take(table.name, rows)

    def _fail(self, table: Table, problem: str) -> bool:
        self._versions.fail(table.name, problem)
        return False
