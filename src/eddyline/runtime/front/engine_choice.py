"""Which engine of this machine a session gets.

Answer   `local_runner` gives the runner of one process, or that of several cores: as the settings of the job say, and as
         the checkpoint was begun.
State    None.
Limits   A checkpoint that one process has begun is not cut: its job goes on in one process, with a warning.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from eddyline.errors import EddylineWarning
from eddyline.language import Job
from eddyline.runtime.front.runner import Runner
from eddyline.runtime.recovery.checkpoint_identity import identity
from eddyline.settings import Settings


def local_runner(job: Job, *, checkpoint: str | None, follow: bool, **options: Any) -> Runner:
    # Each loads its engine: a session that only declares needs the one that it gets.
    if _is_cut(job.settings, checkpoint):
        from eddyline.runtime.cores.runner import CoresRunner

        return CoresRunner(job, _count(job.settings), checkpoint=checkpoint, follow=follow, **options)
    from eddyline.runtime.embedded.runner import EmbeddedRunner

    return EmbeddedRunner(job, checkpoint=checkpoint, follow=follow, **options)


def _is_cut(settings: Settings, checkpoint: str | None) -> bool:
    known = identity(checkpoint) if checkpoint is not None else None
    if known is not None and known["engine"] == "cores":
        return True
    wanted = _count(settings) > 1
    if wanted and known is not None and known["engine"] == "embedded":
        warnings.warn(
            f"{checkpoint} was begun without cores: its state is not cut into slices, and one process goes on with it",
            EddylineWarning,
            stacklevel=4,
        )
        return False
    # Several slices on one core: for a checkpoint that is to have more of them later.
    return wanted or (checkpoint is not None and settings.cores is not None and settings.shards > 1)


def _count(settings: Settings) -> int:
    """How many processes compute."""
    if settings.cores == 0:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return settings.cores or 1
