"""The start of an embedded job: its checkpoint is claimed, its folder of results is prepared, and the driver is made.

Answer   `opened` gives the driver, at the point where an earlier run was saved. `new_pipeline` and `begin` are the first
         and the last part of making it.
Limits   If anything fails, the checkpoint is released: another process may continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from eddyline.connectors.results.results_folder import prepare_output
from eddyline.errors import CheckpointProblem, unwritable
from eddyline.language import Job
from eddyline.model.schema import Table
from eddyline.runtime.embedded.checkpoint import Checkpoint, Saved
from eddyline.runtime.embedded.driver import EmbeddedDriver
from eddyline.runtime.engine.handout import PipelineHooks
from eddyline.runtime.engine.pipeline import Pipeline


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
        if saved is not None and saved.header.get("over"):
            raise CheckpointProblem(
                f"the job in {checkpoint.folder} has ended",
                detail="a run with --final, or final=True, has closed what was open: nothing comes after that",
                hint="name another folder to begin anew",
            )
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


def new_pipeline(job: Job, hooks: PipelineHooks, saved: Saved | None, read: Callable[[Table], pa.Table]) -> Pipeline:
    """The pipeline of a job, with its tables; those that a checkpoint has are filled from there later."""
    pipeline = Pipeline(job.streams, job.settings, hooks=hooks)
    kept = {} if saved is None else saved.header.get("tables", {})
    for table in job.tables:
        pipeline.add_table(table, table.schema.arrow.empty_table() if table.name in kept else read(table))
    return pipeline


def begin(driver: EmbeddedDriver, job: Job, saved: Saved | None, again: bool) -> None:
    """Give a driver its queries, and continue where an earlier run was saved.

    Args:
        again: an earlier run has ended before its first checkpoint; what it has written is removed.
    """
    later = driver.roster.open(None if saved is None else saved.header, None if saved is None else saved.control)
    if driver.roster.folded.promised:
        # Control records of an earlier run have declared more of streams.
        driver.promise([stream for stream in job.streams if stream.promised or stream.promising])
    if saved is not None:
        _resume(driver, saved)
    elif again:
        driver.delivery.resume_after(0)
    driver.refreshing.begin(resumed=saved is not None)
    for query in later:
        driver.roster.add(query)
    driver.announce(job.records)
    driver.roster.announce()
    driver.roster.fold(at_once=True)
    for reader in driver.readers.values():
        reader.skip()


def _resume(driver: EmbeddedDriver, found: Saved) -> None:
    """Continue from a checkpoint."""
    found.check_streams(driver.streams.values())
    driver.epoch = found.epoch
    found.restore(driver.pipeline)
    # A stream ends with its run: in this one it may go on.
    for intake in driver.pipeline.intakes.values():
        intake.closed = False
    for name, position in found.positions.items():
        if name in driver.readers:
            driver.readers[name].seek(position)
    # Last: a checkpoint that is refused leaves the results as they are.
    driver.delivery.resume_after(found.epoch, found.pending)
