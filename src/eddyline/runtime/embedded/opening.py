"""The start of an embedded job: its checkpoint is claimed, its folder of results is prepared, and the driver is made.

Answer   `opened` gives the driver, at the point where an earlier run was saved.
Limits   If anything fails, the checkpoint is released: another process may continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eddyline.connectors.results.results_folder import prepare_output
from eddyline.errors import unwritable
from eddyline.runtime.embedded.checkpoint import Checkpoint, Saved
from eddyline.runtime.embedded.driver import EmbeddedDriver


def opened(
    checkpoint: Checkpoint | None,
    out: str | None,
    overwrite: bool,
    needed: Mapping[str, str],
    build: Callable[[Saved | None, bool], EmbeddedDriver],
) -> EmbeddedDriver:
    """The driver that `build` makes.

    Args:
        out: The folder of results, if there is one.
        overwrite: Whether results of another job may be removed from it.
        needed: Places that the job reads or keeps its state in, by what they are.
        build: Called with what was saved, and with whether an earlier run has ended before its first checkpoint.
    """
    if checkpoint is None:
        if out is not None:
            prepare_output(out, overwrite, False, needed)
        return build(None, False)
    claimed = checkpoint.open()
    try:
        saved = checkpoint.load()
        checkpoint.go_on(saved)
        results = [] if out is None else [out]
        again = saved is None and claimed.has_begun()
        begun = claimed.has_begun(results)
        if out is not None:
            prepare_output(out, overwrite, saved is not None or begun, needed)
        if not begun:
            claimed.begin(results)
        return build(saved, again)
    except OSError as problem:
        checkpoint.release()
        raise unwritable(problem) from problem
    except BaseException:
        checkpoint.release()
        raise
