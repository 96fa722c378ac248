"""Tables that are read again while a job runs, under either driver.

Answer   `read_due` reads the tables that are due and hands the rows of each to the driver, or why it cannot be read.
State    When each table is due, by the wall clock.
Limits   Which rows meet the new version is decided by `engine/table_versions.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

import pyarrow as pa

from eddyline.connectors.files.files import read_table
from eddyline.connectors.guarded.parsing_marks import Marks
from eddyline.errors import EddylineError
from eddyline.model.clock import Clock
from eddyline.model.schema import Table

log = logging.getLogger("eddyline.tables")

T = TypeVar("T")


class TableRefreshing:
    def __init__(self, clock: Clock, marks: Callable[[], Marks | None]) -> None:
        self._clock = clock
        self._marks = marks
        self._due_at: dict[str, float] = {}

    def begin(self, tables: Iterable[Table], resumed: bool) -> None:
        """A run begins; the tables of a job that continues were read by the run before, and are due at once."""
        for table in tables:
            self._due_at[table.name] = self._clock.now() + (0 if resumed else _period(table))

    def read_due(
        self, tables: Iterable[Table], take: Callable[[Table, pa.Table], T], fail: Callable[[Table, str], T]
    ) -> list[tuple[Table, T]]:
        """What `take` makes of the rows of each table that is due, or `fail` of the problem in reading or taking it."""
        return [(table, self._read(table, take, fail)) for table in tables if self._is_due(table)]

    def _read(self, table: Table, take: Callable[[Table, pa.Table], T], fail: Callable[[Table, str], T]) -> T:
        try:
            return take(table, read_table(table, self._marks()))
        except (EddylineError, OSError) as problem:
            log.warning("table %s is not read again: %s", table.name, problem)
            return fail(table, str(problem))

    def _is_due(self, table: Table) -> bool:
        """Whether a table is due; then it is due again after its period."""
        now = self._clock.now()
        if now < self._due_at.setdefault(table.name, now + _period(table)):
            return False
        self._due_at[table.name] = now + _period(table)
        return True


def _period(table: Table) -> float:
    """Seconds between two reads."""
    assert table.refresh is not None
    return table.refresh / 1e6
