"""Tables that are read again while a job runs on Spark.

Answer   The driver reads a table that is due, keeps it as a file of the checkpoint, and writes a control record for all shards: they
         take it before the same batch, at the same instant. A table that cannot be read stays as it was; a record says why.
State    When each table is due, and the files that the shards needed in the last batches: others are removed.
Limits   A file is removed one batch after the last shard has let it go, because a batch can run again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from typing import Any

from eddyline.connectors.files import read_table
from eddyline.errors import EddylineError
from eddyline.model.clock import Clock, WallClock
from eddyline.runtime.spark.job.ledger import tables_folder
from eddyline.runtime.spark.job.static_table import StaticTable, files_of, keep
from eddyline.runtime.table_versions import Due

log = logging.getLogger("eddyline.tables")


class Refreshing:
    def __init__(self, tables: tuple[StaticTable, ...], checkpoint: str, resumed: bool, clock: Clock | None = None) -> None:
        self.tables = {kept.table.name: kept for kept in tables if kept.table.refresh is not None}
        self._folder = tables_folder(checkpoint)
        self._due = Due(clock or WallClock())
        #: Per table the digests that shards had after the last batch.
        self._needed: dict[str, set[str]] = {}
        #: Per table the digest in the newest record.
        self._coming: dict[str, str] = {}
        #: Batches end in one thread, and another looks in between.
        self._lock = threading.Lock()
        for kept in self.tables.values():
            if resumed:
                self._due.now(kept.table)
            else:
                self._due.take(kept.table)

    def look(self) -> list[dict[str, object]]:
        """The records about tables that are due now."""
        said: list[dict[str, object]] = []
        with self._lock:
            for name, kept in self.tables.items():
                if self._due.take(kept.table):
                    try:
                        self._coming[name] = keep(self._folder, kept.table, read_table(kept.table)).digest
                        said.append({"refresh": {"table": name, "digest": self._coming[name]}})
                    except (EddylineError, OSError) as problem:
                        log.warning("table %s is not read again: %s", name, problem)
                        said.append({"refresh": {"table": name, "problem": str(problem)}})
        return said

    def after_batch(self, notes: Mapping[int, Mapping[str, Any]]) -> None:
        """Remove the files of versions that no shard needs any more."""
        if not self.tables or not notes:
            return
        with self._lock:
            for name, kept in self.tables.items():
                now = {digest for note in notes.values() for digest in note.get("statistics", {}).get("versions", {}).get(name, ())}
                before, self._needed[name] = self._needed.get(name), now
                needed = now | (before or set()) | {kept.digest, self._coming.get(name, kept.digest)}
                for digest, path in files_of(self._folder, name).items() if before is not None else ():
                    if digest not in needed:
                        os.remove(path)
