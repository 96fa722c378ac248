"""The gates of a pipeline: which streams have one, what waits in them, what passes in an epoch.

Answer   `begin` opens the gates that the records of an epoch need; `take` brings rows, `announce` records; `release`
         lets through what the frontiers have passed, writes violations to the dead letters and hands the other rows to
         the timelines.
State    A gate per stream that records are about; the statements that were taken.
Limits   Streams without records have no gate: their rows go to the timelines at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import shorten
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.errors import DataProblem
from eddyline.model.records.records import Records
from eddyline.model.schema import Stream
from eddyline.operators.promises.promises import Promises
from eddyline.operators.stream.gate import Gate
from eddyline.operators.stream.intake import Heartbeats
from eddyline.plan.shards.routing import HOME_BIT
from eddyline.runtime.engine.epoch import Epoch, Outcome
from eddyline.runtime.engine.records.kinds import (
    among_rows,
    followed,
    heartbeats_among,
    is_concerned,
    kinds,
    late_origins,
)
from eddyline.runtime.engine.timeline import Timeline

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline


class Gating:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.gates: dict[str, Gate] = {}
        #: The statements so far: each is taken once.
        self.announced: set[str] = set()
        self._came: list[Records] = []
        self._horizons: dict[str, int | None] = {}

    # -- gates

    def declare(self, stream: Stream) -> None:
        """A stream has come; it gets its gate now if its declaration allows records about it."""
        if is_concerned(stream):
            self.open(stream.name)

    def forget(self, name: str) -> None:
        self.gates.pop(name, None)

    def open(self, name: str) -> Gate:
        """The gate of a stream; a new one takes the rows that wait back from the timelines."""
        if name in self.gates:
            return self.gates[name]
        streams = self._streams()
        stream = streams[name]
        made = {
            kind.name: checker for kind in kinds().values() if (checker := kind.checker(stream, streams)) is not None
        }
        gate = self.gates[name] = Gate(stream, made)
        gate.frontier = self._frontier(name, Epoch({}))
        queues = [timeline.queues[name] for timeline in self._readers(name)]
        # Queues differ only in what came before their queries did.
        for place, queue in enumerate(sorted(queues, key=len, reverse=True)):
            chunks, census = queue.take_back(gate.frontier)
            if place == 0:
                gate.queue.chunks, gate.queue.census = chunks, census
        self._pipeline.supplies[name].queue.take_back(gate.frontier)
        return gate

    def reopen(self, name: str) -> None:
        """A gate over rows that wait already, of an earlier run that had none."""
        del self.gates[name]
        self.open(name)

    def promise(self, streams: Iterable[Stream]) -> None:
        """CREATE PUNCTUATION came while the job runs: the streams that it names are declared otherwise from now on."""
        for stream in streams:
            self._pipeline.intakes[stream.name].stream = stream
        for stream in streams:
            self.declare(stream)
        for read, timeline in self._pipeline.timelines.items():
            timeline.follows = self.follows(read)

    def follows(self, streams: Iterable[str]) -> frozenset[str]:
        """The streams that a timeline waits for beside those that its units read."""
        known = self._streams()
        return frozenset().union(*(followed(known[name], known) for name in streams)) & known.keys()

    # -- an epoch

    def begin(self, epoch: Epoch) -> None:
        """An epoch begins: what is late is judged by the horizons of now."""
        self._came = []
        self._horizons = {name: intake.horizon for name, intake in self._pipeline.intakes.items()}
        for batch in (*epoch.records, *(batch for arrival in epoch.arrivals.values() for batch in arrival.records)):
            if batch.stream in self._pipeline.intakes:
                self.open(batch.stream)

    def take(self, name: str, records: Iterable[Records], first: int) -> Heartbeats | None:
        """Records that came with the rows of a stream, of which `first` rows had come before; returns the heartbeats
        among the rows."""
        self._came += [batch.shifted(first) if batch.stream == name else batch for batch in records]
        return heartbeats_among(name, records)

    def announce(self, records: Iterable[Records]) -> None:
        """Records of statements."""
        for batch in records:
            if batch.once is None or batch.once not in self.announced:
                self._came.append(batch)
            if batch.once is not None:
                self.announced.add(batch.once)

    def arrive(self) -> None:
        """All rows of the epoch have been taken: its records go to the gates."""
        for batch in self._came:
            if batch.stream not in self.gates:
                continue
            kind = kinds()[batch.kind]
            batch = late_origins(batch, self._horizons)
            if not len(batch):
                continue
            intake = self._pipeline.intakes[batch.stream]
            gate = self.gates[batch.stream]
            if (instants := kind.heartbeats(batch)) is not None:
                intake.promise(instants, among_rows(batch))
                placed = batch.take(~among_rows(batch))
                if (said := kind.after_place(placed, intake.stream)) is not None:
                    gate.announce(said, kind.ignored_below)
            gate.announce(batch, kind.ignored_below)
        self._came = []

    def release(self, epoch: Epoch, before: Mapping[str, int | None], outcome: Outcome) -> None:
        """What has passed, to the timelines, whose frontiers (by name) at the beginning of the epoch are `before`."""
        for name in self.gates:
            self.release_one(name, epoch, before, outcome)

    def release_one(self, name: str, epoch: Epoch, before: Mapping[str, int | None], outcome: Outcome) -> None:
        """What has passed the gate of one stream."""
        for passed in self.gates[name].release(self._frontier(name, epoch)):
            if passed.dead is not None:
                self.violated(name, passed.dead, passed.dead_routes, outcome)
            self._pipeline.pass_on(name, passed.chunk, passed.census, before)
            for timeline in self._readers(name):
                for batch in passed.records:
                    if kinds()[batch.kind].for_units:
                        timeline.records[name].receive(batch)

    def broke(self, name: str, rows: pa.Table, routes: npt.NDArray[np.uint64] | None, outcome: Outcome) -> None:
        """Rows that break a heartbeat before them in the source, with the routes that sent them."""
        reasons = pa.repeat(pa.scalar("violation: a heartbeat before it says that no row of its time comes"), len(rows))
        self.violated(name, rows.append_column("_reason", reasons), routes, outcome)

    def violated(self, name: str, dead: pa.Table, routes: npt.NDArray[np.uint64] | None, outcome: Outcome) -> None:
        """Rows that break a promise, with `_reason`, and the routes that sent them."""
        if routes is not None:
            home = (routes >> np.uint64(HOME_BIT)) & np.uint64(1) != 0
            dead = dead.filter(pa.array(home))
        if len(dead):
            if self._pipeline.settings.on_violation == "error":
                raise DataProblem(
                    f"a row of stream {name} breaks a promise",
                    detail=_first_of(dead),
                    hint="mend the source, or SET on_violation = 'dead-letter'",
                )
            self._pipeline.intakes[name].violations += len(dead)
            outcome.dead.setdefault(name, []).append(dead)

    def _frontier(self, name: str, epoch: Epoch) -> int | None:
        """How far the rows of a stream are certain: as far as its horizon and those of the streams with records about
        it,
        and as far as any
        timeline has come."""
        intakes, streams = self._pipeline.intakes, self._streams()
        if epoch.closing:
            reached = intakes[name].reached
            found = [] if reached is None else [reached + 1]
        else:
            mine = {name, *(followed(streams[name], streams) & streams.keys())}
            horizons = [intakes[n].horizon for n in mine if not intakes[n].closed and n not in epoch.idle]
            known = [h for h in horizons if h is not None]
            found = [min(known)] if known and len(known) == len(horizons) else []
        return max([*found, *(t.frontier for t in self._readers(name) if t.frontier is not None)], default=None)

    def _readers(self, name: str) -> list[Timeline]:
        return [timeline for streams, timeline in self._pipeline.timelines.items() if name in streams]

    def _streams(self) -> dict[str, Stream]:
        return {name: intake.stream for name, intake in self._pipeline.intakes.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of the promises that are remembered, where rows are checked and where joins use them."""
        checkers = (checker for gate in self.gates.values() for checker in gate.checkers.values())
        checked = sum(checker.closed.nbytes for checker in checkers if isinstance(checker, Promises))
        return checked + sum(
            closed.nbytes for t in self._pipeline.timelines.values() for closed in t.closings.closed.values()
        )


def _first_of(dead: pa.Table) -> str:
    """The first of some rows that break a promise, and why it does."""
    [row] = dead.slice(0, 1).to_pylist()
    reason = row.pop("_reason")
    return (
        f"{reason}: {shorten(', '.join(f'{name} = {value}' for name, value in row.items() if value is not None), 300)}"
    )
