"""Tables that are read again while an embedded job runs.

Answer   `look` reads the tables that are due and gives them to the pipeline; a table that cannot be read stays as it
         was, and the report says so.
State    When each table is due.
Limits   It looks between two epochs; while no epoch runs there is no row that could meet another version.
"""

from __future__ import annotations

import logging

from eddyline.connectors.files.files import read_table
from eddyline.errors import EddylineError
from eddyline.model.clock import Clock
from eddyline.runtime.embedded.checkpoint import Checkpoint
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.table_versions import RefreshTimes

log = logging.getLogger("eddyline.tables")


class EmbeddedRefreshing:
    def __init__(self, pipeline: Pipeline, clock: Clock, checkpoint: Checkpoint | None = None) -> None:
        self._checkpoint = checkpoint
        self._versions = pipeline.versions
        self._due = RefreshTimes(clock)

    def begin(self, resumed: bool) -> None:
        """A run begins; the tables of a job that continues were read by the run before."""
        for known in self._versions.tables.values():
            if resumed:
                self._due.now(known.table)
            else:
                self._due.take(known.table)

    def look(self) -> bool:
        """Read what is due; whether a table has changed."""
        changed = False
        for name, known in self._versions.tables.items():
            if self._due.take(known.table):
                try:
                    marks = None if self._checkpoint is None else self._checkpoint.marks
                    changed |= self._versions.take(name, read_table(known.table, marks))
                except (EddylineError, OSError) as problem:
                    self._versions.fail(name, str(problem))
                    log.warning("table %s is not read again: %s", name, problem)
        return changed
