"""The embedded driver: reads epochs, runs the pipeline, hands results on, takes checkpoints.

Answer   `run(once=True)` reads bounded sources to their end and closes; `step` runs one epoch over what is there now.
State    The pipeline, the readers, the delivery, and the times of epochs.
Limits   One thread. An epoch is at most `epoch_rows` rows of all streams together. An epoch that fails is the driver's
         last one: every later call repeats the error, and no checkpoint is taken, so that the next run begins at the
         last one before it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from eddyline.connectors.base import Source, is_continued, is_logged
from eddyline.connectors.files.file_log import remove_other_logs
from eddyline.connectors.files.files import FileSource
from eddyline.connectors.results.output import shared_writer
from eddyline.errors import UserError, unwritable
from eddyline.language import Job
from eddyline.model.clock import Clock
from eddyline.model.records.records import Records
from eddyline.model.schema import Stream
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.driving.query_sinks import SessionSinks
from eddyline.runtime.embedded.checkpoint import Checkpoint
from eddyline.runtime.embedded.delivery import Delivery
from eddyline.runtime.embedded.ending import Ending, wind_up
from eddyline.runtime.embedded.giving_up import EpochAtHand
from eddyline.runtime.embedded.reader import StreamReader, next_epoch
from eddyline.runtime.embedded.refreshing import EmbeddedRefreshing
from eddyline.runtime.embedded.roster import EmbeddedRoster
from eddyline.runtime.embedded.skipping import EmbeddedSkipping
from eddyline.runtime.engine.epoch import Epoch, Outcome
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.records.kinds import Splitting
from eddyline.runtime.figures.epoch_times import EpochTimes
from eddyline.runtime.figures.figures import pipeline_report
from eddyline.runtime.figures.publication import Publication
from eddyline.runtime.figures.report import Report
from eddyline.runtime.figures.response import Responses
from eddyline.runtime.front.runner import Observer
from eddyline.runtime.reporting.reporter import Reporter

#: How long an idle driver sleeps before it reads its sources again.
_NAP = 0.02


class EmbeddedDriver:
    def __init__(
        self,
        job: Job,
        pipeline: Pipeline,
        sources: Mapping[str, Source],
        delivery: Delivery,
        own: SessionSinks,
        clock: Clock,
        checkpoint: Checkpoint | None = None,
        control: ControlFolder | None = None,
        observers: Sequence[Observer] = (),
        on_gone: Callable[[Collection[str]], None] = lambda names: None,
        answer_statements: Callable[[], None] = lambda: None,
        figures: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """
        Args:
            own: Gives the sinks that the session has for a query.
            control: The folder of control records; None: none are read.
            observers: Called after every epoch, in order.
            on_gone: Called with dropped queries that have given their last result.
            answer_statements: Called when a run ends, before everything is written, if the job has REQUEST statements.
            figures: Gives the figures of the session, by their names in `--stats`.
        """
        self._job = job
        self.pipeline = pipeline
        self.streams = {stream.name: stream for stream in job.streams}
        self.refreshing = EmbeddedRefreshing(pipeline, clock, checkpoint)
        self.readers: dict[str, StreamReader] = {}
        self.delivery = delivery
        self.settings = job.settings
        self.clock = clock
        pipeline.handout.measure(Responses(clock))
        self.checkpoint = checkpoint
        self.splitting = Splitting(self.streams.values())
        self._skipping = EmbeddedSkipping(self)
        #: Records that the next epoch takes.
        self._announced: list[Records] = []
        for name, source in sources.items():
            self._read(self.streams[name], source)
        self.roster = EmbeddedRoster(job, pipeline, delivery, own, self.promise, control, clock)
        self.epoch = 0
        #: Whether the epoch at hand may be given up.
        self.at_hand = EpochAtHand()
        self.epoch_times = EpochTimes()
        self._observers = observers
        self._on_gone = on_gone
        self._answer_statements = answer_statements
        self._figures = figures
        #: What readers in other threads see of the job.
        self.publication = Publication(self.report)
        self.began: float | None = None
        self.ended: float | None = None
        #: Held while an epoch runs: queries come and go between two epochs.
        self.lock = threading.RLock()
        #: `working` is set in the thread that runs the job: what is called with results, and signal handlers, find
        #: themselves in it.
        self._here = threading.local()
        #: Changes that callers wanted in the middle of an epoch: they follow when it ends.
        self._later: list[Callable[[], object]] = []
        #: What ended the job in the middle of an epoch, if anything did.
        self.failure: BaseException | None = None
        self._last_rows: dict[str, float] = {}
        #: The streams that were idle in the last epoch.
        self._idle: frozenset[str] = frozenset()
        self._saved = self.clock.now()
        self._stopping = False
        #: What comes when a run is stopped; None: it only ends.
        self._ending: Ending | None = None
        #: The epoch after which nothing came.
        self._rested = 0
        #: Writes the job's report now and then; None: it has no folder for that.
        self.reporter: Reporter | None = None
        #: Seconds of all epochs by what was done.
        self.stage_seconds = {"read": 0.0, "step": 0.0, "deliver": 0.0}

    def be_watched(self, reporter: Reporter) -> None:
        """Write reports between epochs."""
        self.reporter = reporter
        self.delivery.tail_of = reporter.tail

    def add_stream(self, stream: Stream, source: Source) -> None:
        self.pipeline.add_stream(stream)
        self.streams[stream.name] = stream
        self._read(stream, source)

    def promise(self, streams: Collection[Stream]) -> None:
        """CREATE PUNCTUATION has declared more of these streams: their rows are checked and split accordingly from now on."""
        self.streams |= {stream.name: stream for stream in streams}
        self.pipeline.gating.promise(streams)
        self.splitting.change(streams)

    def _read(self, stream: Stream, source: Source) -> None:
        if self.checkpoint is not None and isinstance(source, FileSource):
            source.marks = self.checkpoint.marks
        if self.checkpoint is not None and is_logged(source):
            source.keep_log(self._logs)
        self.readers[stream.name] = StreamReader(stream, source, self.splitting, self.clock, self._skipping.of)

    @property
    def _logs(self) -> str:
        """The folder of the logs of files."""
        assert self.checkpoint is not None
        return os.path.join(self.checkpoint.folder, "files")

    def drop_stream(self, name: str) -> None:
        """Close a stream's source and forget its rows; no query reads it."""
        self.readers.pop(name).source.close()
        self._last_rows.pop(name, None)
        del self.streams[name]
        self.pipeline.drop_stream(name)

    def announce(self, records: Iterable[Records]) -> None:
        """Records with places of their own, for the next epoch; those of statements that a checkpoint has are left out
        there."""
        with self.lock:
            self._announced += records

    @property
    def has_announced(self) -> bool:
        """Whether records wait for the next epoch."""
        return bool(self._announced)

    # -- running

    def step(
        self, closing: bool = False, final: bool = False, only: Mapping[str, StreamReader] | None = None
    ) -> Outcome:
        """One epoch over what the sources have now, or `only` some of them.

        Raises:
            UserError: the epoch failed, or an earlier one has.
        """
        with self.changing(), self._fail_job_on_error():
            return self._step(closing, final, self.readers if only is None else only)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """One epoch, or a query, stream or table that comes or goes: one at a time, and reports are made in between."""
        with self.lock, self.publication.change():
            yield

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread runs the job at this moment: the caller is called with results, or handles a
        signal."""
        return getattr(self._here, "working", False)

    def between_epochs(self, change: Callable[[], object]) -> None:
        """Change the job now, or, for a caller inside an epoch, after it."""
        if self.is_mine:
            self._later.append(change)
        else:
            with self.changing():
                change()

    @contextmanager
    def _fail_job_on_error(self) -> Iterator[None]:
        """Work that cannot be repeated in this process: if it fails, every later call repeats the error."""
        if self.failure is not None:
            self.raise_failure()
        outside = getattr(self._here, "working", False)
        try:
            self._here.working = True
            yield
        except OSError as problem:
            self.failure = unwritable(problem)
            self._let_go_after(self.failure)
            raise self.failure from problem
        except BaseException as problem:
            self.failure = problem
            self._let_go_after(problem)
            raise
        finally:
            self._here.working = outside

    def _let_go_after(self, problem: BaseException) -> None:
        if self.reporter is not None:
            self.reporter.end(problem)
        self.let_go()

    def let_go(self) -> None:
        """Release the checkpoint after the last write of this driver: another process may continue from it."""
        if self.checkpoint is not None:
            shared_writer().wait()
            self.checkpoint.release()

    def raise_failure(self) -> None:
        """Repeat the error that ended the job, if there was one."""
        if isinstance(self.failure, Exception):
            raise self.failure
        if self.failure is not None:
            raise UserError(
                "the job was interrupted in the middle of an epoch",
                detail=type(self.failure).__name__,
                hint="a new session on the same checkpoint continues before that epoch",
            ) from self.failure

    def _step(self, closing: bool, final: bool, readers: Mapping[str, StreamReader]) -> Outcome:
        self._apply_changes()
        started, began = self.clock.now(), perf_counter()
        if self.began is None:
            self.began = started
        with self.at_hand.computing():
            arrivals = next_epoch(readers, self.settings.epoch_rows)
            self._last_rows |= dict.fromkeys(arrivals, started)
            self._idle = self._idle_streams(started)
            announced, self._announced = tuple(self._announced), []
            read = perf_counter()
            outcome = self.pipeline.step(Epoch(arrivals, self._idle, closing, final, announced), self._write_part)
            stepped = perf_counter()
        self.epoch += 1
        self.delivery.write(self.epoch, outcome, {name: self.pipeline.intakes[name].stream for name in outcome.dead})
        stages = {"read": read - began, "step": stepped - read, "deliver": perf_counter() - stepped}
        self.stage_seconds = {stage: seconds + stages[stage] for stage, seconds in self.stage_seconds.items()}
        for name in outcome.gone:
            self.delivery.drop_query(name)
        if outcome.gone:
            self.roster.announce()
        self.ended = self.clock.now()
        self.epoch_times.add(self.ended - started)
        if outcome.gone:
            self._on_gone(outcome.gone)
        for observer in tuple(self._observers):
            observer(partial(self.report, plans=False))
        while self._later:
            self._later.pop(0)()
        if self.reporter is not None:
            if outcome.dead:
                self.reporter.dead.take(outcome.dead)
            self.reporter.beat()
        if not final:
            # The end of the streams is saved with the last results in their files, or not at all.
            self._write_due(self.ended)
        return outcome

    def _write_part(self, outcome: Outcome) -> None:
        with self.at_hand.handing_over():
            self.delivery.write_part(self.epoch + 1, outcome)

    def report(self, plans: bool = True) -> Report:
        """The figures of the job; called in the thread that runs epochs, or while none runs."""
        elapsed = (self.ended or 0.0) - (self.began or 0.0)
        found = pipeline_report(self.pipeline, elapsed, self.epoch_times, plans, self.stage_seconds)
        return replace(found, further={**found.further, **self._figures()})

    def _poll(self) -> None:
        """Apply changes while no row comes."""
        with self.changing():
            self._apply_changes()

    def _apply_changes(self) -> None:
        """Between two epochs: changes that waited for the end of an epoch, control records, requests that can be
        answered now, tables that are due."""
        while self._later:
            self._later.pop(0)()
        if self.roster.records is not None and self.roster.poll():
            # Saved before `announce`: after a crash the queries have the starts and stops that were seen.
            self.save()
            self.roster.announce()
            self.roster.fold()
        if self.roster.requests is not None:
            self.roster.requests.answer_ready()
        if self.pipeline.versions.tables and self.refreshing.refresh():
            # After a crash the versions hold from the same instants.
            self.save()

    def _idle_streams(self, now: float) -> frozenset[str]:
        """The streams that have brought no row for longer than their `idle`."""
        limits = [(name, limit) for name in self.readers if (limit := self.streams[name].idle) is not None]
        return frozenset(name for name, limit in limits if now - self._last_rows.setdefault(name, now) >= limit / 1e6)

    def run(self, once: bool, final: bool = False) -> None:
        """Work until the sources end (`once`: then close; `final`: then the streams end), or until `stop`."""
        with self._fail_job_on_error():
            try:
                self._work(once, final)
            finally:
                # Not at the beginning: a run whose `stop` was called before it began stops at once.
                self._stopping = False

    def _work(self, once: bool, final: bool) -> None:
        while not self._stopping:
            has_input = self._read_ahead()
            if all(reader.finished for reader in self.readers.values()) or (once and not has_input):
                break
            # A stream that falls idle moves the frontier without new rows: one epoch passes this to the pipeline.
            if has_input or self._idle_streams(self.clock.now()) != self._idle:
                self.step()
            else:
                self._poll()
                self._forget_at_rest()
                self._write_due(self.clock.now())
                self._rest()
        if once and not self._stopping:
            self.step(closing=True, final=final)
        if self._ending is not None:
            self._wind_up()
        self._finish()

    def _wind_up(self) -> None:
        """Do what `stop` has asked for, also from a function that was called with results of the last epoch."""
        while (ending := self._ending) is not None:
            self._ending = None
            wind_up(self, ending)

    def _forget_at_rest(self) -> None:
        """Once after the last epoch: what runs when nothing comes in."""
        if self._rested != self.epoch:
            self._rested = self.epoch
            with self.changing():
                self.pipeline.rest()

    def _rest(self) -> None:
        """No row has come: write a report if one is due, and sleep for a moment."""
        if self.reporter is not None:
            with self.changing():
                self.reporter.beat()
        self.clock.sleep(_NAP)

    def _read_ahead(self) -> bool:
        """Read ahead from every source; whether any has rows now, or records wait."""
        return sum(reader.has_rows() for reader in self.readers.values()) > 0 or bool(self._announced)

    def stop(self, ending: Ending | None = None) -> None:
        """Finish the epoch at hand and leave a checkpoint, after what the ending asks for; also of a run to come."""
        self._ending = ending
        self._stopping = True

    def forget_stop(self) -> bool:
        """A run to come does not stop at once; whether it would have: there was no run to be stopped, or it was over."""
        was, self._stopping, self._ending = self._stopping or self._ending is not None, False, None
        return was

    def finish(self, ending: Ending) -> None:
        """Do what the ending asks for, write everything, and leave a checkpoint; not after a failed epoch."""
        self._ending = ending
        with self._fail_job_on_error():
            self._wind_up()
            self.forget_stop()
            self._finish()

    def _finish(self) -> None:
        if self._job.requests:
            self._answer_statements()
        if self.roster.requests is not None:
            self.roster.requests.end()
        self.save(last=True)
        if self.roster.records is not None:
            self.roster.announce()
        self.delivery.close_sinks()
        for reader in self.readers.values():
            reader.source.close()
        if self.pipeline.spilling.folder is not None:
            self.pipeline.spilling.close()
        self.ended = self.clock.now()
        if self.reporter is not None:
            self.reporter.end()
        if self.checkpoint is not None:
            self.let_go()

    def go_on(self) -> None:
        """After `finish`, or a run that has ended: what comes from now on is read."""
        with self.changing(), self._fail_job_on_error():
            if self.checkpoint is not None:
                self.checkpoint.open_again(self.epoch)
            # A stream ends with its run: in this one it may go on.
            for intake in self.pipeline.intakes.values():
                intake.closed = False
            for reader in self.readers.values():
                if is_continued(reader.source):
                    reader.source.go_on()
            self._last_rows.clear()
            self.delivery.go_on()
            if self.reporter is not None:
                self.reporter.go_on()

    # -- checkpoints

    def _write_due(self, now: float) -> None:
        """Results that have waited long enough become files, and a checkpoint is taken if it is time."""
        self.delivery.close_files(self.epoch, now)
        if self.checkpoint is not None and now - self._saved >= self.settings.checkpoint_seconds:
            self.save()

    def save(self, last: bool = False) -> None:
        """Take a checkpoint where there is one; with `last`, all results become files before it."""
        self.delivery.flush(self.epoch, last)
        if self.checkpoint is not None:
            positions = {name: reader.position() for name, reader in self.readers.items()}
            outbox = self.delivery.outbox
            self.checkpoint.save(self.epoch, positions, self.pipeline, self.roster.marks(), outbox.names(self.epoch))
            remove_other_logs(self._logs, {position["source"].get("log") for position in positions.values()})
            outbox.committed(self.epoch)
        self._saved = self.clock.now()
