"""The driver of several cores: it plans a batch, has processes of this machine run it, and delivers it.

Answer   `run` reads everything there is and ends the streams in the same run; `start` follows the sources in a thread
         until `stop`; `step` runs one batch in the caller's thread. Files are read by the processes. Rows that the
         program gives are read and placed here.

             files, control ─ Offsets ─┐
             pushed rows ─ GivenRows ──┴ document, Processes, manifest, delivery, commit

State    `offsets/N` and `commits/N` below the checkpoint, empty files: the batch counts, and is delivered. All else is
         in the manifest of the newest batch.
Limits   The number of slices, and of steps one after the other (`plan/shards/steps.py`), is fixed by the first run on a
         checkpoint; that of processes is not. A batch that does not count when this process dies is planned anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from eddyline.connectors.results.sinks import hand_over_problem
from eddyline.errors import EddylineError, as_fault, unwritable
from eddyline.runtime.cores.given_rows import GivenRows
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.conducting import Batches
from eddyline.runtime.sharded.front.batch_times import BatchTimes
from eddyline.runtime.sharded.front.driver import LOOK_SECONDS, ShardedDriver
from eddyline.runtime.sharded.ingest.control import forget_stop, write_control
from eddyline.runtime.sharded.ingest.file_log import take_warnings
from eddyline.runtime.sharded.ingest.inputs import Inputs
from eddyline.runtime.sharded.ingest.offsets import Offsets
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.output.parcels import Parcel
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.storage.heads import Head, Heads
from eddyline.runtime.sharded.workers.conducting import Processes
from eddyline.runtime.sharded.workers.own import OwnProcesses
from eddyline.state.sealed import kept_in
from eddyline.state.whole_file import make_folder, write_whole

_PLANNED, _COMMITTED = "offsets", "commits"
_STAGES = ("conduct", "deliver", "batch")


class CoresDriver(ShardedDriver):
    name, by_shard = "cores", False

    def __init__(
        self,
        layout: JobLayout,
        cores: int,
        processes: OwnProcesses,
        given: GivenRows,
        *,
        resumes: bool,
        **options: Any,
    ) -> None:
        """
        Args:
            layout: What all tasks know.
            cores: Processes that work at a time.
            processes: Those of the session.
            given: What this process reads.
            resumes: Whether `given` is to go on where the checkpoint was.
            options: As of every driver.
        """
        super().__init__(layout, **options)
        self._cores, self._processes, self._given, self._resumes = cores, processes, given, resumes
        self.times = BatchTimes(_STAGES, "batch")
        self._thread: threading.Thread | None = None
        self._begun = False
        #: What ended the job.
        self.failure: EddylineError | None = None

    @property
    def is_running(self) -> bool:
        return self._begun and not self.ended

    @property
    def in_background(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stages(self) -> BatchTimes:
        return self.times

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _readable(self, problem: BaseException) -> EddylineError:
        failed = self.delivery.failed
        if failed is not None and not isinstance(failed, OSError):
            return hand_over_problem(failed)
        if isinstance(problem, EddylineError):
            return problem
        assert isinstance(problem, Exception)
        is_told = isinstance(problem, OSError) and problem.errno is not None
        return unwritable(problem) if isinstance(problem, OSError) and is_told else as_fault(problem, "the job")

    # -- a run

    def begin(self, once: bool) -> None:
        """Before the first batch of a run."""
        checkpoint = self.layout.checkpoint
        forget_stop(checkpoint)
        if self._stopping:
            # The request came before the start; the one of an earlier run has been forgotten.
            self._note_stop()
        assert self.roster is not None
        self.roster.begin()
        self.layout = self.roster.layout
        first = replace(PackedLayout.of(self.layout), functions=self.functions)
        self._conductor = Processes(Phases(first, self._engine), min(self._cores, self.layout.width), self._processes)
        self._offsets = Offsets(self.layout, once)
        self._inputs = Inputs(self.layout, self._offsets.logs)
        self._batches = Batches(checkpoint, self.layout.shards)
        if once:
            self._offsets.take_all()
        self._number = committed_batch(checkpoint) + 1
        head = self._batches.heads.read(self._number - 1)
        counted = self._batches.heads.find(self._number)
        self._position = self._offsets.first if head is None else head.position
        newest = counted or head
        if self._resumes and newest is not None:
            self._given.seek(newest.position["given"])
        self._begun = True
        if counted is not None:
            self._given.counted()
            self._deliver(list(counted.parcels), counted.position)

    def run(self) -> None:
        """Read what is there, end the streams, return when everything is written."""
        self.ticker.start(self._closing())
        try:
            self._guarded(self._run_all)
        finally:
            self.ticker.stop()
        self._finish()

    def _run_all(self) -> None:
        self.begin(once=True)
        while not self._stopping:
            if not self.step() and self._given.is_read:
                break
        if len(self._offsets.logs) < len(self.layout.streams) and not self._stopping:
            # Rows that the program gives have no offset that could end the run.
            write_control(self.layout.checkpoint, {"closing": True})
            self.step()
        self._answer_last()

    def _answer_last(self) -> None:
        if self.last_requests:
            pending = self._send_last_requests()
            while not pending.wait(0) and self.step(given=False):
                pass
            self.on_answers(pending.tables)

    def start(self) -> None:
        """Follow the sources in a thread until `stop`."""
        self._guarded(lambda: self.begin(once=False))
        self.ticker.start(self._closing())
        self._thread = threading.Thread(target=self._follow, name="eddyline", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        with suppress(Exception):
            # Every later call of the session raises it.
            self._guarded(self._followed)

    def _followed(self) -> None:
        while not self._stopping:
            if not self._stepped():
                self.clock.sleep(LOOK_SECONDS / 4)

    def _stepped(self) -> bool:
        """One batch with what has come since the last one; what is due while none comes."""
        assert self.roster is not None
        self.roster.request_batch()
        self.idle.note_silent()
        done = self.step()
        if not done:
            self._rest()
            take_warnings(self.layout.checkpoint)
        return done

    def go_on(self) -> None:
        if not self.in_background and not self.delivery.is_mine:
            self._guarded(self._settle)

    def step_once(self) -> bool:
        """A batch of a job that the caller steps; whether there was one."""
        return self._guarded(self._stepped)

    def _settle(self) -> bool:
        """Batches with control records alone: what one asks for is carried out by the next."""
        assert self.roster is not None
        self.roster.request_batch()
        done = False
        while self.step(given=False, files=False):
            done = True
        return done

    def wait(self) -> None:
        """After `start`: return when the job has failed or was asked to stop."""
        while self.in_background and not self._stopping:
            assert self._thread is not None
            self._thread.join(LOOK_SECONDS)
        self.stop()

    def stop(self) -> None:
        """End after the batch at hand and the rows that were pushed; the checkpoint then continues exactly there."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join()
        self.ticker.stop()
        self.raise_failure()
        self._guarded(self._take_rest)
        self._finish()

    def _take_rest(self) -> None:
        while self._given.is_waiting and self.step():
            pass
        self._answer_last()

    def abandon(self) -> None:
        """Stop at once; the checkpoint continues with the batch that was running."""
        self.ask_to_stop()
        self.ticker.stop()
        self.ended = True
        self._report_end()

    def _guarded(self, work: Any) -> Any:
        try:
            return work()
        except BaseException as problem:
            self.ended = True
            self.ticker.stop()
            if not isinstance(problem, Exception):
                raise
            self.failure = self._failed(problem)
            if self.failure is problem:
                raise
            raise self.failure from problem

    def _finish(self) -> None:
        self.ended = True
        if self.delivery.failed is not None:
            # Files could not be closed after the last batch.
            raise self._failed(self.delivery.failed)
        self._guarded(self.delivery.close)
        take_warnings(self.layout.checkpoint)
        self._report_end()

    # -- a batch

    def step(self, given: bool = True, files: bool = True) -> bool:
        """Run the next batch; False: there is nothing for one.

        Args:
            given: With rows of the program.
            files: With rows of files.
        """
        start = {name: what for name, what in self._position.items() if name != "given"}
        end = self._offsets.after(start)
        if not files:
            end = {**start, "control": end["control"]}
        most = self.layout.settings.epoch_rows * self._cores
        if not (given and self._given.read(most)) and end == start:
            return False
        if end == start:
            end = {**end, "at": time.time_ns() // 1000}
        position = {**end, "given": self._given.positions if given else self._position.get("given", {})}
        began = time.perf_counter()
        with kept_in(self.layout.checkpoint):
            parcels = self._batches.parcels(
                self._number, _digest(position), lambda head: (self._document(end, head), position), self._conducted
            )
            self._given.counted()
            self.times.stages["conduct"].add(time.perf_counter() - began)
            self._mark(_PLANNED)
        self._deliver(parcels, position, began)
        return True

    def _document(self, end: dict[str, Any], head: Head | None) -> BatchDocument:
        assert self.roster is not None
        return self._inputs.batch(self._number, self.roster.packed, end, head)

    def _conducted(self, batch: BatchDocument) -> list[Parcel]:
        return self._conductor.run(batch, self._given.packets(batch, self._conductor.phases.packed.named(batch.layout)))

    def _deliver(self, parcels: list[Parcel], position: dict[str, Any], began: float | None = None) -> None:
        conducted = time.perf_counter()
        self.delivery(parcels, self._number)
        with kept_in(self.layout.checkpoint):
            self._mark(_COMMITTED)
            self._offsets.committed(position)
        done = time.perf_counter()
        self.times.stages["deliver"].add(done - conducted)
        self.times.whole.add(done - (conducted if began is None else began))
        self._position, self._number = position, self._number + 1

    def _mark(self, log: str) -> None:
        folder = os.path.join(self.layout.checkpoint, log)
        make_folder(folder)
        write_whole(os.path.join(folder, str(self._number)), b"")
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, str(self._number - 2)))


def _digest(position: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(position, sort_keys=True).encode()).hexdigest()


def settle_plan(checkpoint: str) -> None:
    """Before a run: a batch is planned if and only if its manifest is there."""
    number = committed_batch(checkpoint) + 1
    folder = os.path.join(checkpoint, _PLANNED)
    if Heads(checkpoint).find(number) is not None:
        make_folder(folder)
        write_whole(os.path.join(folder, str(number)), b"")
