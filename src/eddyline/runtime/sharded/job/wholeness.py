"""Whether a checkpoint has the files that a job on several shards cannot go on without.

Answer   `check_whole` refuses a checkpoint in which the ledger, Spark's metadata where Spark runs the job, the plan, the commit or the
         manifest of a batch is missing. A folder without offsets is taken for a new job, which reads everything again; a ledger that is not
         there would be that of a new job.
Limits   Names only: what is in the files is checked where they are read.
"""

from __future__ import annotations

import os

from eddyline.errors import CheckpointProblem
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch, planned_batch
from eddyline.runtime.sharded.job.ledger import HELD, ledger_path
from eddyline.runtime.sharded.storage.heads import Heads
from eddyline.state.sealed import RESTORE


def check_whole(checkpoint: str, has_saved: bool, metadata: bool = True) -> None:
    """Nothing is missing that the batches of earlier runs have left.

    Args:
        has_saved: Whether a batch has been committed, as the checkpoint itself says.
        metadata: Whether Spark has a number for the job.

    Raises:
        CheckpointProblem: a file is missing.
    """
    planned, committed = planned_batch(checkpoint), committed_batch(checkpoint)
    planned_at_least = max(committed, 0) if has_saved else committed
    if (has_saved or max(planned, committed) >= 0) and not os.path.exists(ledger_path(checkpoint)):
        raise _missing(ledger_path(checkpoint), HELD)
    if metadata and planned >= 0 and not os.path.exists(os.path.join(checkpoint, "metadata")):
        raise _missing(os.path.join(checkpoint, "metadata"), "the number by which Spark knows the job")
    if planned < planned_at_least:
        raise _missing(os.path.join(checkpoint, "offsets", str(planned_at_least)), "what a batch reads")
    # Spark plans a batch once the one before it is committed. The newest may not be: then it runs again.
    if committed < planned - 1:
        raise _missing(
            os.path.join(checkpoint, "commits", str(planned - 1)), "that a batch counts, and which state is its own"
        )

    if committed >= 0:
        Heads(checkpoint).read(committed)


def _missing(path: str, held: str) -> CheckpointProblem:
    return CheckpointProblem(f"{path} is missing", detail=f"it held {held}", hint=RESTORE)
