"""What all drivers of jobs on several shards do alike, whoever conducts the batches.

Answer   `ShardedDriver` gives parcels to the delivery, notes to figures and roster, and duties to the ticker. It sends
         requests, asks the job to stop, and tells the reporter of batches and of the end.
State    Below `eddyline/` in the checkpoint all that is the job's own.
Limits   When there is a batch, what its input is and who runs its tasks is said by the drivers that build on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import pyarrow as pa

from eddyline.connectors.base import Sink
from eddyline.connectors.results.sinks import open_sink
from eddyline.errors import EddylineError
from eddyline.language.catalog import Catalog, DeclaredSink
from eddyline.model.clock import Clock, WallClock
from eddyline.model.template import Request
from eddyline.runtime.control.request_answers import job_stopped, request_timeout
from eddyline.runtime.driving.query_sinks import SessionSinks
from eddyline.runtime.figures.publication import Publication
from eddyline.runtime.reporting.reporter import Reporter
from eddyline.runtime.sharded.front.batch_times import BatchTimes
from eddyline.runtime.sharded.front.running_changes import RunningChanges
from eddyline.runtime.sharded.ingest.control import ask_to_stop, write_control
from eddyline.runtime.sharded.ingest.idle import IdleWatch
from eddyline.runtime.sharded.job.checkpoint_progress import write_pending
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.sharded.job.progress import StreamProgress
from eddyline.runtime.sharded.job.requests import PendingAnswer
from eddyline.runtime.sharded.job.roster import ShardedRoster
from eddyline.runtime.sharded.job.shipped import Shipped
from eddyline.runtime.sharded.job.ticker import Ticker
from eddyline.runtime.sharded.output.delivery import BatchDelivery, Delivered
from eddyline.runtime.sharded.shard.pipeline import ShardEngine, ShardPipeline
from eddyline.state.sealed import kept_in

#: Seconds between two checks of the running job.
LOOK_SECONDS = 0.2


class ShardedDriver:
    #: What reports call the engine.
    name: str
    #: What `output_order = 'auto'` means: large results become a file per shard.
    by_shard: bool

    def __init__(
        self,
        layout: JobLayout,
        *,
        out: str | None = None,
        on_batch: Callable[[Delivered, StreamProgress], None] | None = None,
        clock: Clock | None = None,
        engine: type[ShardEngine] = ShardPipeline,
    ):
        """
        Args:
            layout: What all tasks know.
            out: Folder for results and dead letters.
            on_batch: Called with every batch.
            clock: Gives the time for idle streams and for waiting.
            engine: What runs a shard; tests have others.
        """
        self.layout = layout
        self.on_batch = on_batch
        self.progress = StreamProgress(layout.streams)
        #: What readers in other threads see of the job; None: there are none.
        self.publication: Publication | None = None
        self.clock = clock or WallClock()
        self._engine = engine
        self.delivery = BatchDelivery(
            {s.name: s for s in layout.streams},
            layout.staging,
            out,
            self._delivered,
            self._opened_sink,
            layout.settings,
            self.clock,
            by_shard=self.by_shard,
        )
        self.idle = IdleWatch(layout.streams, layout.checkpoint, self.clock)
        self.ticker = Ticker()
        self.changes = RunningChanges(self)
        #: Queries that come and go; None: those of the layout, for ever.
        self.roster: ShardedRoster | None = None
        #: Writes the job's report; None: the job has none.
        self.reporter: Reporter | None = None
        #: Functions of one's own, which tasks get along with the layout.
        self.functions = Shipped()
        self._stopping = False
        #: Requests that are answered when the run ends, and what takes the answers.
        self.last_requests: Sequence[Request] = ()
        self.on_answers: Callable[[list[pa.Table]], None] = lambda tables: None
        #: Control records below this number are read before the job rests.
        self._last_control = 0
        #: The run is over, well or not.
        self.ended = False

    @property
    def is_running(self) -> bool:
        raise NotImplementedError

    def raise_failure(self) -> None:
        """Raise what ended the job in the background, if anything did."""
        raise NotImplementedError

    def start(self) -> None:
        """Follow the sources in the background until `stop`."""
        raise NotImplementedError

    def stop(self) -> object:
        """End after the batch at hand; the checkpoint then continues exactly there."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Stop at once; the checkpoint continues with the batch that was running."""
        raise NotImplementedError

    def stages(self) -> BatchTimes:
        """Seconds per stage and batch."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Run batches, where nobody else does while the caller waits."""

    def _opened_sink(self, sink: DeclaredSink) -> Sink:
        return open_sink(sink.options, sink.name)

    def _readable(self, problem: BaseException) -> EddylineError:
        """What went wrong, in one message."""
        raise NotImplementedError

    def add_query(
        self, name: str, schema: pa.Schema, declared: Sequence[DeclaredSink] = (), own: Sequence[Sink] = ()
    ) -> None:
        """Say where a query's results go; before `run` or `start`."""
        self.delivery.add_query(name, schema, declared, own)

    def add_queries(self, catalog: Catalog, own: Mapping[str, Sequence[Sink]] | SessionSinks | None = None) -> None:
        """All queries of the layout, with the sinks that the catalog declares for them; from now on queries come and
        go.

        Args:
            catalog: The job.
            own: Further sinks: by query, or a function that is asked for each, also for those that come later.
        """
        given: SessionSinks = own if callable(own) else lambda name, _: (own or {}).get(name, ())
        self.roster = ShardedRoster(self.layout, catalog, self.delivery, given)

    def be_watched(self, reporter: Reporter) -> None:
        """Write reports with the batches, and while none comes."""
        self.reporter = reporter
        self.delivery.on_dead = reporter.dead.take
        self.delivery.tail_of = reporter.tail

    def _report_end(self, problem: BaseException | None = None) -> None:
        if self.reporter is not None:
            self.reporter.end(problem)

    def request(self, requests: Sequence[Request], timeout: float | None) -> list[pa.Table]:
        """Have the shards of the running job answer requests to its templates, and wait for the answers."""
        assert self.roster is not None
        said, pending = self.roster.requests.record(requests, timeout)
        write_control(self.layout.checkpoint, said)
        limit = None if timeout is None else self.clock.now() + timeout
        self.go_on()
        while not pending.wait(LOOK_SECONDS / 4):
            self.go_on()
            self.raise_failure()
            if not self.is_running:
                raise job_stopped(self.layout.checkpoint)
            if limit is not None and self.clock.now() > limit:
                raise request_timeout(timeout)
        return pending.tables

    def _send_last_requests(self) -> PendingAnswer:
        """Write the control record of the requests that are answered when the run ends. They are read even after a request to
        stop."""
        assert self.roster is not None
        said, pending = self.roster.requests.record(self.last_requests, last=True)
        self._last_control = write_control(self.layout.checkpoint, said) + 1
        return pending

    def _duties(self) -> dict[str, Callable[[], object]]:
        """What is due while no batch comes, each under what is not done when it fails."""
        found: dict[str, Callable[[], object]] = {
            **self._closing(),
            "idle streams are not noted": self.idle.note_silent,
        }
        if self.roster is not None:
            found |= {
                "control records are not taken up": self.roster.request_batch,
                "no report is written": self._rest,
            }
        return found

    def _closing(self) -> dict[str, Callable[[], object]]:
        return {"results stay gathered": self.delivery.close_ripe_files}

    def ask_to_stop(self) -> None:
        """Let `run` or `wait` return after the batch that is running; safe to call from a signal handler."""
        self._stopping = True
        self._note_stop()

    def _note_stop(self) -> None:
        """The source has nothing new from here on. Where the disk is full, the batch at hand is still the last one of
        `wait`."""
        with contextlib.suppress(OSError):
            ask_to_stop(self.layout.checkpoint, self._last_control)

    def _failed(self, problem: BaseException) -> EddylineError:
        """What ended the job; its last report says it too."""
        found = self._readable(problem)
        self._report_end(found)
        return found

    def _delivered(self, delivered: Delivered) -> None:
        # One report at a time, and none of a batch that is half noted.
        with nullcontext() if self.reporter is None else self.reporter.lock, self._changing():
            self._take(delivered)
            if self.reporter is not None:
                self.reporter.beat()

    def _changing(self) -> AbstractContextManager[None]:
        return nullcontext() if self.publication is None else self.publication.change()

    def _rest(self) -> None:
        """While no batch comes: write a report if one is due, and no batch is being noted."""
        reporter = self.reporter
        if reporter is not None and reporter.is_due and reporter.lock.acquire(blocking=False):
            try:
                with self._changing():
                    reporter.beat()
            finally:
                reporter.lock.release()

    def _take(self, delivered: Delivered) -> None:
        self.progress.take(delivered)
        for note in delivered.notes.values():
            self.idle.saw_rows([name for name, rows in note["rows_in"].items() if rows])
        with kept_in(self.layout.checkpoint):
            write_pending(self.layout.checkpoint, delivered.batch, delivered.pending)
            if self.roster is not None:
                self.roster.after_batch(delivered)
                self.progress.forget_oldest(self.delivery.schemas)
        if self.on_batch is not None:
            self.on_batch(delivered, self.progress)
