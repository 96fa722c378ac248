"""The embedded driver: reads epochs, runs the pipeline, hands results on, takes checkpoints.

Answer   `run(once=True)` reads bounded sources to their end and closes; `step` runs one epoch over what is there now.
State    The pipeline, the readers, the delivery, and the times of epochs.
Limits   One thread. An epoch is at most `epoch_rows` rows of all streams together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from eddyline.connectors.base import Source
from eddyline.model.schema import Stream
from eddyline.runtime.clock import Clock, WallClock
from eddyline.runtime.embedded.checkpoint import Checkpoint
from eddyline.runtime.embedded.delivery import Delivery
from eddyline.runtime.embedded.reader import EpochReader, StreamReader
from eddyline.runtime.embedded.roster import Roster
from eddyline.runtime.epoch import Epoch, Outcome
from eddyline.runtime.pipeline import Pipeline
from eddyline.runtime.response import Responses
from eddyline.runtime.runner import Observation
from eddyline.settings import Settings

#: How long an idle driver sleeps before it looks at its sources again.
_NAP = 0.02


class EmbeddedDriver:
    def __init__(
        self,
        pipeline: Pipeline,
        sources: Mapping[str, Source],
        streams: Mapping[str, Stream],
        delivery: Delivery,
        settings: Settings,
        clock: Clock | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.pipeline.bundles = True
        self.pipeline.handout.on_release = delivery.release
        self.pipeline.handout.on_bundle = delivery.release_bundle
        self.pipeline.handout.listens = delivery.listens
        self.streams = dict(streams)
        self.readers = {name: StreamReader(streams[name], source) for name, source in sources.items()}
        self.delivery = delivery
        self.settings = settings
        self.clock = clock or WallClock()
        self.pipeline.handout.measure(Responses(self.clock))
        self.checkpoint = checkpoint
        self.epoch = 0
        self.epoch_seconds: list[float] = []
        #: Called after every epoch.
        self.observer: Callable[[EmbeddedDriver], None] | None = None
        self.began: float | None = None
        self.ended: float | None = None
        #: Held while an epoch runs: queries come and go between two epochs.
        self.lock = threading.RLock()
        self.roster: Roster
        self._heard: dict[str, float] = {}
        self._saved = self.clock.now()
        self._stopping = False

    def add_stream(self, stream: Stream, source: Source) -> None:
        self.streams[stream.name] = stream
        self.readers[stream.name] = StreamReader(stream, source)

    # -- running

    def step(self, closing: bool = False) -> Outcome:
        """One epoch over what the sources have now."""
        with self.lock:
            return self._step(closing)

    def _step(self, closing: bool) -> Outcome:
        self._poll()
        started = self.clock.now()
        if self.began is None:
            self.began = started
        arrivals = EpochReader(self.readers).next_epoch(self.settings.epoch_rows)
        for name in arrivals:
            self._heard[name] = started
        idle = frozenset(name for name in self.readers if self._is_idle(name, started))
        outcome = self.pipeline.step(Epoch(arrivals, idle, closing))
        self.epoch += 1
        self.delivery.write(self.epoch, outcome, self.streams)
        for name in outcome.gone:
            self.delivery.drop_query(name)
        if outcome.gone:
            self.roster.tell()
        self.ended = self.clock.now()
        self.epoch_seconds.append(self.ended - started)
        if self.observer is not None:
            self.observer(self)
        self._checkpoint_if_due(self.ended)
        return outcome

    def observation(self) -> Observation:
        """How the job stands now."""
        pipeline = self.pipeline
        return Observation(
            rows_in=sum(intake.rows_in for intake in pipeline.intakes.values()),
            frontier=pipeline.frontier,
            waiting=sum(intake.waiting for intake in pipeline.intakes.values()),
            stored_rows=sum(stream.store.live for stream in pipeline.streams.values()),
            stored_bytes=sum(stream.store.nbytes for stream in pipeline.streams.values()),
            results={name: query.results for name, query in pipeline.queries.items()},
        )

    def _poll(self) -> None:
        """Queries that control records bring or take, at this boundary between two epochs."""
        with self.lock:
            if self.roster.poll():
                # Saved before anyone is told: after a crash the queries have the starts and stops that were seen.
                self.save()
                self.roster.tell()

    def _is_idle(self, name: str, now: float) -> bool:
        limit = self.streams[name].idle
        return limit is not None and now - self._heard.setdefault(name, now) >= limit / 1e6

    def run(self, once: bool) -> None:
        """Work until the sources end (`once`: then close), or until `stop`."""
        reader = EpochReader(self.readers)
        self._stopping = False
        while not self._stopping:
            if reader.finished or (once and not self._something()):
                break
            if self._something() or self._waits_for_idle():
                self.step()
            else:
                self._poll()
                self._checkpoint_if_due(self.clock.now())
                self.clock.sleep(_NAP)
        if once and not self._stopping:
            self.step(closing=True)
        self.finish()

    def _something(self) -> bool:
        """Whether any source has rows now."""
        came = [reader.fill(1) or reader.pieces for reader in self.readers.values()]
        return any(came)

    def _waits_for_idle(self) -> bool:
        """A stream may fall idle while others wait for it: the frontier then moves without new rows."""
        now = self.clock.now()
        waiting = any(intake.waiting for intake in self.pipeline.intakes.values())
        return waiting and any(self._is_idle(name, now) for name in self.readers)

    def stop(self) -> None:
        """Finish the epoch at hand and leave a checkpoint."""
        self._stopping = True

    def finish(self) -> None:
        """Hand out and write everything, and leave a checkpoint where there is one."""
        self.save()
        self.roster.tell()
        self.delivery.close()
        for reader in self.readers.values():
            reader.source.close()
        self.pipeline.spilling.close()
        self.ended = self.clock.now()

    # -- checkpoints

    def _checkpoint_if_due(self, now: float) -> None:
        if self.checkpoint is not None and now - self._saved >= self.settings.checkpoint_seconds:
            self.save()

    def save(self) -> None:
        self.delivery.flush(self.epoch)
        if self.checkpoint is not None:
            positions = {name: reader.position() for name, reader in self.readers.items()}
            self.checkpoint.save(self.epoch, positions, self.pipeline, self.roster.marks())
        self._saved = self.clock.now()

    def resume(self) -> bool:
        """Continue from the last checkpoint; whether there was one."""
        if self.checkpoint is None or (found := self.checkpoint.load()) is None:
            return False
        found.check_streams(self.streams.values())
        self.epoch = found.epoch
        self.delivery.truncate_after(found.epoch)
        found.restore(self.pipeline)
        for name, position in found.positions.items():
            if name in self.readers:
                self.readers[name].seek(position)
        return True
