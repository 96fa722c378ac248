"""Tables that are read again while a job runs on Spark.

Answer   The driver reads a table that is due. One that has changed is kept as a file of the checkpoint, and a control
         record tells all shards: they take it before the same batch, at the same instant. A table that cannot be read
         stays as it was; a record says why. A read that finds what the last one found writes no record: each record
         makes Spark run a batch.
State    When each table is due, what the last read found, and the files that the shards needed in the last batches:
         others are removed.
Limits   A file is removed one batch after the last shard has let it go, because a batch can run again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from eddyline.connectors.guarded.parsing_marks import shared_marks
from eddyline.model.clock import Clock, WallClock
from eddyline.model.schema import Table
from eddyline.runtime.driving.table_refreshing import TableRefreshing
from eddyline.runtime.sharded.job.layout import parsing_folder
from eddyline.runtime.sharded.job.ledger import tables_folder
from eddyline.runtime.sharded.job.static_table import StaticTable, content_of, digest_of, files_of, keep

#: After this number of batches every shard has read a record.
_BATCHES = 2


class ShardedRefreshing:
    def __init__(
        self, tables: tuple[StaticTable, ...], checkpoint: str, resumed: bool, clock: Clock | None = None
    ) -> None:
        self.tables = {kept.table.name: kept for kept in tables if kept.table.refresh is not None}
        self._folder = tables_folder(checkpoint)
        parsing = parsing_folder(checkpoint)
        self.reading = TableRefreshing(clock or WallClock(), lambda: shared_marks(parsing))
        self.reading.begin(self._changing(), resumed)
        #: Per table the digests that shards had after the last batch.
        self._needed: dict[str, set[str]] = {}
        #: Per table what the newest record says; of a job that continues it is not known what its shards have.
        self._said: dict[str, dict[str, str]] = (
            {} if resumed else {name: {"digest": kept.digest} for name, kept in self.tables.items()}
        )
        #: Per table the digests in records that shards may not have read yet, and how many batches have ended since.
        self._coming: dict[str, dict[str, int]] = {name: {} for name in self.tables}
        #: Batches end in one thread, and the ticker reads tables in between.
        self._lock = threading.Lock()

    def refresh(self) -> list[dict[str, object]]:
        """The records about tables that are due now and have changed."""
        said: list[dict[str, object]] = []
        with self._lock:
            for table, found in self.reading.read_due(self._changing(), self._take, _problem):
                if found != self._said.get(table.name):
                    self._said[table.name] = found
                    said.append({"refresh": {"table": table.name, **found}})
        return said

    def _changing(self) -> list[Table]:
        return [kept.table for kept in self.tables.values()]

    def _take(self, table: Table, rows: pa.Table) -> dict[str, str]:
        """The digest of a table as it is now; the rows of another version are kept."""
        digest = digest_of(content_of(rows))
        if self._said.get(table.name) != {"digest": digest}:
            self._coming[table.name][keep(self._folder, table, rows).digest] = 0
        return {"digest": digest}

    def after_batch(self, notes: Mapping[int, Mapping[str, Any]]) -> None:
        """Remove the files of versions that no shard needs any more."""
        if not self.tables or not notes:
            return
        with self._lock:
            for name, kept in self.tables.items():
                now = {
                    digest
                    for note in notes.values()
                    for digest in note.get("statistics", {}).get("versions", {}).get(name, ())
                }
                before, self._needed[name] = self._needed.get(name), now
                # A record that is written while a batch runs is read by the next one.
                coming = self._coming[name] = {
                    digest: age + 1 for digest, age in self._coming[name].items() if age < _BATCHES
                }
                needed = now | (before or set()) | {kept.digest, *coming}
                for digest, path in files_of(self._folder, name).items() if before is not None else ():
                    if digest not in needed:
                        os.remove(path)


def _problem(table: Table, problem: str) -> dict[str, str]:
    return {"problem": problem}
