"""Streams that fall silent: the driver notices them and passes them to all shards in one batch.

Answer   A stream that declares `idle` and has brought no row for so long stops holding the frontier back. `note_silent` names
         the silent streams in a control record. The record is new input: Spark runs a batch for it, in which waiting
         rows are answered.
State    When each stream last brought rows, and which streams the last record named.
Limits   The ticker calls `note_silent`; rows that a batch is bringing at that moment count when the batch is done.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from eddyline.model.clock import Clock, WallClock
from eddyline.model.schema import Stream
from eddyline.runtime.sharded.ingest.control import write_control


class IdleWatch:
    def __init__(self, streams: Sequence[Stream], checkpoint: str, clock: Clock | None = None):
        self._limits = {s.name: s.idle / 1e6 for s in streams if s.idle is not None}
        self._checkpoint = checkpoint
        self._clock = clock or WallClock()
        self._last_rows = dict.fromkeys(self._limits, self._clock.now())
        self._silent: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def saw_rows(self, names: Sequence[str]) -> None:
        """These streams brought rows in the batch that has just ended. The shards know it themselves."""
        with self._lock:
            for name in names:
                if name in self._limits:
                    self._last_rows[name] = self._clock.now()
            self._silent -= frozenset(names)

    def note_silent(self) -> None:
        """Write a control record if further streams have fallen silent."""
        with self._lock:
            now = self._clock.now()
            silent = frozenset(name for name, limit in self._limits.items() if now - self._last_rows[name] >= limit)
            if silent - self._silent:
                write_control(self._checkpoint, {"idle": sorted(silent)})
                self._silent = silent
