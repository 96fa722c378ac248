"""Processes of this machine as the conductor of a batch.

Answer   `Processes` has pieces read and shards stepped by engine processes of its own, as many at a time as it has
         processes. A shard stays with one process. Packets stay in memory of the process that made them: this one hands
         their places, and handles to that memory, to those that step.
State    None: shards lie in the objects of the checkpoint. Processes and their engines stay until `close`, or until
         this process ends.
Limits   A task whose process ends is carried out again, in a new one, from what the batch began with; the third loss in
         a batch ends the job. Packets of a batch are in memory until their shard has stepped; rows that this process
         places pass through it. Code of functions must be found by name, or go by value.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from typing import TypeVar

from eddyline.errors import StateProblem, Unsupported
from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.output.parcels import Parcel
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.workers.own import OwnProcesses
from eddyline.runtime.sharded.workers.processes import EngineLost, EngineProcesses

#: Processes that a batch may lose; the next loss ends the job.
MOST_LOST = 2

_T = TypeVar("_T")


class Processes:
    """A conductor: one batch at a time, several tasks at a time."""

    def __init__(self, phases: Phases, count: int, processes: OwnProcesses | None = None) -> None:
        """
        Args:
            phases: What tasks do.
            count: How many tasks run at a time, each in a process of its own.
            processes: Some that another conductor has had.
        """
        self.phases = phases
        self.processes = processes or OwnProcesses()
        self._count = count

    def run(self, batch: BatchDocument, packets: Iterable[Packet] = ()) -> list[Parcel]:
        layout, tasks = self.phases.layout(batch), _Tasks(self.processes, self.phases, batch, self._count)
        waiting: dict[int, list[Packet]] = {}
        found: list[Parcel] = []

        def take(made: Iterable[Packet | Parcel]) -> None:
            for one in made:
                if isinstance(one, Packet):
                    waiting.setdefault(one.shard, []).append(one)
                else:
                    found.append(one)

        take(packets)
        pieces = deque(batch.pieces)
        take(self._everywhere(lambda number: tasks.read(number, pieces)))
        for first in range(0, layout.shards, layout.width):
            mine = {shard: waiting.pop(shard, []) for shard in range(first, first + layout.width)}
            take(self._everywhere(lambda number: tasks.step(number, first, mine)))  # noqa: B023
        return found

    def _everywhere(self, work: Callable[[int], Sequence[_T]]) -> Iterator[_T]:
        """What all processes make; none works any more when this returns or raises."""
        with ThreadPoolExecutor(self._count, "eddyline-conductor") as threads:
            futures = [threads.submit(work, number) for number in range(self._count)]
        return chain.from_iterable([future.result() for future in futures])

    def close(self) -> None:
        self.processes.close()


class _Tasks:
    """The tasks of one batch."""

    def __init__(self, processes: EngineProcesses, phases: Phases, batch: BatchDocument, count: int) -> None:
        self._processes, self._batch, self._count = processes, batch, count
        self._width = phases.layout(batch).width
        self._phases = _pickled(phases.serving(-(-self._width // count)))
        self._lost: list[EngineLost] = []

    def read(self, number: int, pieces: deque[FilePiece]) -> list[Packet]:
        """Take pieces as long as there are any."""
        found: list[Packet] = []
        with suppress(IndexError):
            while True:
                piece = pieces.popleft()
                found += self._kept_up(partial(self._processes.read, number, self._phases, self._batch, piece))
        return found

    def step(self, number: int, first: int, packets: dict[int, list[Packet]]) -> list[Packet | Parcel]:
        """Step the shards of one process."""
        found: list[Packet | Parcel] = []
        for shard in range(first + number, first + self._width, self._count):
            mine = packets.pop(shard)
            found += self._kept_up(partial(self._processes.step, number, self._phases, self._batch, shard, mine))
        return found

    def _kept_up(self, task: Callable[[], Iterator[_T]]) -> list[_T]:
        while True:
            try:
                return list(task())
            except EngineLost as problem:
                self._lost.append(problem)
                if len(self._lost) > MOST_LOST:
                    raise self._lost_too_many() from problem

    def _lost_too_many(self) -> StateProblem:
        files = ", ".join(map(str, self._batch.pieces[:3])) or "rows from a program"
        return StateProblem(
            f"batch {self._batch.number} has ended {len(self._lost)} processes",
            detail=f"{'; '.join(lost.detail for lost in self._lost)}; the batch has {files}",
            hint="memory may have run out (see the log of the system); one process may have room for the job",
        )


def _pickled(phases: Phases) -> bytes:
    """Code without a place from which another process could import it goes by value, where cloudpickle is installed."""
    dumps = pickle.dumps
    if find_spec("cloudpickle") is not None:
        dumps = import_module("cloudpickle").dumps
    for own, code in phases.packed.functions.functions:
        try:
            if dumps is pickle.dumps and getattr(code, "__module__", None) == "__main__":
                raise TypeError("it stands in the program that runs")
            dumps(code)
        except Exception as problem:
            raise Unsupported(
                f"function {own.name} cannot go to another process",
                detail=str(problem),
                hint="define it at the top of a module that can be imported, or pip install cloudpickle",
            ) from problem
    found: bytes = dumps(phases)
    return found
