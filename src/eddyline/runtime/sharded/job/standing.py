"""What each shard holds, left beside the checkpoint for other processes.

Answer   The driver writes one small file per batch before Spark commits it; `read_standing` reads the one of the last
         committed batch. So it is true after a crash too: a batch that was not committed has not happened.
         It also names the results of committed batches that are in no file yet, so that a start notices when they are
         missing.
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
from eddyline.state.sealed import read_sealed, write_sealed
from eddyline.state.whole_file import make_folder

#: A batch is committed before the next but one begins; two more, for readers that are slow.
_KEPT = 4


def write_standing(
    checkpoint: str, batch: int, notes: Mapping[int, Mapping[str, Any]], pending: Mapping[str, str] | None = None
) -> None:
    """What the shards said at the end of a batch that is about to be committed.

    Args:
        pending: results in no file (`Outbox.names`).
    """
    folder = _folder(checkpoint)
    make_folder(folder)
    path = _path(checkpoint, batch)
    shards = {
        str(shard): {
            "rows": note["statistics"].get("live_rows", 0),
            "waiting": note["waiting"],
            "bytes": note["statistics"].get("live_bytes", 0),
            "frontier": note["frontier"],
        }
        for shard, note in sorted(notes.items())
    }
    write_sealed(path, {"batch": batch, "shards": shards, "pending": pending}, synced=False)
    with contextlib.suppress(FileNotFoundError):
        os.remove(_path(checkpoint, batch - _KEPT))


def read_standing(checkpoint: str, batch: int) -> dict[int, dict[str, Any]] | None:
    """shard -> rows, waiting, bytes, frontier at the end of a batch; None: there is no such file."""
    found = _standing(checkpoint, batch)
    return None if found is None else {int(shard): figures for shard, figures in found["shards"].items()}


def read_pending(checkpoint: str, batch: int) -> dict[str, str] | None:
    """The results in no file after a batch, as `Outbox.names` gave them; None: no file says it that can be read."""
    try:
        found = _standing(checkpoint, batch)
    except CheckpointProblem:
        return None
    pending = None if found is None else found.get("pending")
    return pending if isinstance(pending, dict) else None


def note_pending(checkpoint: str, batch: int, pending: Mapping[str, str]) -> None:
    """After a batch whose results became files since it was noted; nothing happens where there is no such note."""
    with contextlib.suppress(CheckpointProblem):
        found = _standing(checkpoint, batch)
        if found is not None and found.get("pending") != pending:
            write_sealed(_path(checkpoint, batch), {**found, "pending": pending}, synced=False)


def _standing(checkpoint: str, batch: int) -> dict[str, Any] | None:
    try:
        found = read_sealed(
            _path(checkpoint, batch), "what each shard holds", "the next batch of the job writes it anew"
        )
    except FileNotFoundError:
        return None
    return found if isinstance(found, dict) else {}


def committed_batch(checkpoint: str) -> int:
    """The last batch that Spark has committed; -1: none."""
    return _newest(checkpoint, "commits")


def planned_batch(checkpoint: str) -> int:
    """The last batch whose input Spark has written down; -1: none. It runs again if it was not committed."""
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
    batch = committed_batch(checkpoint)
    held = read_standing(checkpoint, batch)
    if held is None and batch >= 0:
        raise CheckpointProblem(
            f"the checkpoint in {checkpoint} does not say what its shards hold after batch {batch}",
            hint="it was written by an earlier version; its next batch will say it",
        )
    shards = []
    for shard in range(ledger.shards * max(ledger.steps, 1)):
        figures = (held or {}).get(shard, {"rows": 0, "waiting": 0, "bytes": 0, "frontier": None})
        known = tuple(name for name, entry in ledger.queries.items() if _is_on(entry, shard, ledger.shards))
        shards.append(
            ShardState(shard, figures["rows"], figures["waiting"], figures["bytes"], figures["frontier"], known)
        )
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
