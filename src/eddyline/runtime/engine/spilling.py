"""State on disk: payload of the stores goes there when the job holds more than it may, and a query has `over_budget =
'spill'`.

Answer   `after_epoch` compares what is held with the smallest memory budget of the queries that spill, and moves
         payload to disk, the largest stores first, until it fits. Columns (order, time, keys, lineage) and
         intermediate stores, which are row numbers only, stay in memory: probing touches no disk, gathering results
         does.
State    A temporary folder, made when first needed and removed with this object; those of processes that were killed
         are removed then. Nothing in it is needed after a restart: a checkpoint holds all live rows.
Limits   Within an epoch more may be held: its own rows come first. When columns alone are too large, the job is
         warned, and again each time that the excess has doubled.
Reading  docs/design/0003-replanning.md#spilling
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import weakref
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import TYPE_CHECKING

from eddyline.model.triggers import SPILL, SinceLastRun
from eddyline.plan.tree.budget import bytes_text
from eddyline.state.store import Store

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline

log = logging.getLogger("eddyline.spilling")

_PREFIX = "eddyline-spill-"
_LOCK = "lock"


class Spilling:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        #: Where payload is; None: none has been moved.
        self.folder: Path | None = None
        self._remove: weakref.finalize[..., Spilling] | None = None
        #: The excess that was last warned of.
        self._reported = 0
        #: Pipelines that share the budgets: the shards of a job.
        self.parts = 1
        #: The budget, and after how many changes of the queries it was looked up.
        self._budget: tuple[int, int | None] = (0, None)

    @property
    def budget(self) -> int | None:
        """Bytes that may be held in memory; None: no query spills. It is looked up once per change of the queries, not
        per query that comes: a job may have thousands."""
        if self._budget[0] != self.pipeline.changes:
            settings = (query.query.settings for query in self.pipeline.queries.values())
            budgets = (s.memory_budget for s in settings if s.over_budget == "spill" and s.memory_budget is not None)
            least = min(budgets, default=None)
            self._budget = self.pipeline.changes, None if least is None else least // self.parts
        return self._budget[1]

    @property
    def held(self) -> int:
        """Bytes of state in memory."""
        inner = sum(unit.held()[1] for unit in self.pipeline.kinds.units())
        return inner + sum(store.nbytes for _, store in self.stores()) + self.pipeline.gating.nbytes

    def spilled(self) -> dict[str, int]:
        """Bytes on disk per stream or table, without those that have none there."""
        found: dict[str, int] = {}
        for name, store in self.stores():
            if size := store.spilled_bytes:
                found[name] = found.get(name, 0) + size
        return found

    def lines(self, sources: set[str]) -> dict[str, str]:
        """The lines of EXPLAIN about it, for a query that reads these."""
        mine = {name: size for name, size in self.spilled().items() if name in sources}
        return (
            {"on disk": ", ".join(f"{bytes_text(size)} of {name}" for name, size in sorted(mine.items()))}
            if mine
            else {}
        )

    def after_epoch(self) -> None:
        assert self.budget is not None
        over = self.held - self.budget
        for store in sorted((store for _, store in self.stores()), key=lambda store: store.payload_bytes, reverse=True):
            if not SPILL.is_due(SinceLastRun(excess=over)):
                return
            over -= store.spill(self._path(), self.pipeline.settings.tuning.state.least_spilled)
        if over > 2 * self._reported:
            self._reported = over
            log.warning(
                "what cannot be spilled takes %s more than the memory budget of %s",
                bytes_text(over),
                bytes_text(self.budget),
            )

    def close(self) -> None:
        """Remove the folder; a process that ends does so too."""
        if self._remove is not None:
            self._remove()
            self.folder = self._remove = None

    def stores(self) -> list[tuple[str, Store]]:
        """What may be spilled: the stores of streams and static tables, with the names of these."""
        found = [(stream.name, stream.store) for stream in self.pipeline.stores()]
        for group in self.pipeline.groups.values():
            found += [(base.stream.name, base.store) for base in group.bases.values() if base.stream.is_table]
        return found

    def _path(self) -> Path:
        if self.folder is None:
            _remove_forsaken()
            self.folder = Path(mkdtemp(prefix=_PREFIX))
            # Held until the folder goes, or the process ends.
            lock = os.open(self.folder / _LOCK, os.O_CREAT | os.O_WRONLY, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._remove = weakref.finalize(self, _removed, self.folder, lock)
        return self.folder


def _removed(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _remove_forsaken() -> None:
    """Folders whose processes have ended without removing them: killed, or forked by Spark, which ends its workers
    abruptly."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        try:
            with open(folder / _LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            # The lock is held: a live process owns this folder or is creating it.
            continue
