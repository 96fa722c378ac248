"""How far a checkpoint has come: batches planned and committed, what shards hold, results that are in no file.

Answer   `committed_batch` is the last batch that counts for good, `planned_batch` the last one whose input is fixed.
         `spark_state` says what each shard held after the committed batch, from its manifest. The driver notes, before
         a batch is committed, which results of committed batches are in no file yet, so that a start notices when they
         are missing.
State    `standing/<batch, 12 digits>.json` below the checkpoint, for the last few batches.
Limits   Needs no Spark and no lock; while a job runs, the answer is that of a moment ago.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from eddyline.errors import CheckpointProblem
from eddyline.runtime.recovery.checkpoint_state import CheckpointState, ShardState
from eddyline.runtime.sharded.job.ledger import FORMAT, Ledger, LedgerEntry
from eddyline.runtime.sharded.storage.heads import Heads
from eddyline.state.sealed import read_sealed, write_sealed
from eddyline.state.whole_file import make_folder

#: A batch is committed before the next but one begins; two more, for readers that are slow.
_KEPT = 4


def write_pending(checkpoint: str, batch: int, pending: Mapping[str, str]) -> None:
    """The results in no file (`Outbox.names`) after a batch that is about to be committed."""
    make_folder(_folder(checkpoint))
    write_sealed(_path(checkpoint, batch), pending, synced=False)
    with contextlib.suppress(FileNotFoundError):
        os.remove(_path(checkpoint, batch - _KEPT))


def read_pending(checkpoint: str, batch: int) -> dict[str, str] | None:
    """What was noted after a batch; None: no file says it that can be read."""
    try:
        found = read_sealed(
            _path(checkpoint, batch), "which results are in no file", "the next batch of the job writes it anew"
        )
    except (FileNotFoundError, CheckpointProblem):
        return None
    return found if isinstance(found, dict) and all(map(str.isdigit, found)) else None


def note_pending(checkpoint: str, batch: int, pending: Mapping[str, str]) -> None:
    """After a batch whose results became files since it was noted; nothing happens where there is no such note."""
    if read_pending(checkpoint, batch) not in (None, pending):
        write_sealed(_path(checkpoint, batch), pending, synced=False)


def committed_batch(checkpoint: str) -> int:
    """The last batch that is committed; -1: none."""
    return _newest(checkpoint, "commits")


def planned_batch(checkpoint: str) -> int:
    """The last batch whose input has been written down; -1: none. It runs again if it was not committed."""
    return _newest(checkpoint, "offsets")


def _newest(checkpoint: str, log: str) -> int:
    try:
        names = os.listdir(os.path.join(checkpoint, log))
    except (FileNotFoundError, NotADirectoryError):
        return -1
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _folder(checkpoint: str) -> str:
    return os.path.join(checkpoint, "eddyline", "standing")


def _path(checkpoint: str, batch: int) -> str:
    return os.path.join(_folder(checkpoint), f"{batch:012d}.json")


def spark_state(checkpoint: str) -> CheckpointState | None:
    """What a checkpoint of a Spark job holds; None: it is none."""
    ledger = Ledger.read(checkpoint)
    if not ledger.exists:
        return None
    batch, shards = committed_batch(checkpoint), []
    head = Heads(checkpoint).read(batch)
    notes: dict[int, dict[str, Any]] = {} if head is None else head.notes
    for shard in range(ledger.shards * max(ledger.steps, 1)):
        note = notes.get(shard, {"statistics": {}, "waiting": 0, "frontier": None})
        rows, size = (note["statistics"].get(name, 0) for name in ("live_rows", "live_bytes"))
        known = tuple(name for name, entry in ledger.queries.items() if _is_on(entry, shard, ledger.shards))
        shards.append(ShardState(shard, rows, note["waiting"], size, note["frontier"], known))
    return CheckpointState("spark", FORMAT, batch, tuple(shards))


def _is_on(entry: LedgerEntry, shard: int, shards: int) -> bool:
    """Whether a query that has not gone uses a shard: its cells lie one after the other, from the first on."""
    parts = list(entry.steps.values()) or [[0, *(entry.shares or [0])]]
    return entry.state != "dropped" and any(_has_cell(part, shard, shards) for part in parts)


def _has_cell(part: Sequence[int], shard: int, shards: int) -> bool:
    """Whether a shard is in the step of a query and one of its cells; a query that stays where its rows are made has
    all shards."""
    step, *cut = part
    return shard // shards == step and (not cut or (shard - cut[0]) % shards < math.prod(cut[1:]))
