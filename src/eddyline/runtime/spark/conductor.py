"""Spark as the conductor of a batch: one job over byte arrays runs all of its phases.

Answer   `run` has Spark read the pieces of a batch, place the packets by its own shuffle, and step the shards; Spark's
         retries, placement and lost executors are those of any job. Each further step of the queries is one more
         shuffle. Where there is little to read, and no rows of DataFrames, every shard reads all of it and keeps what
         is its own: then there is one stage and no shuffle.

             pieces ─ read ─┐
             DataFrames ────┴ partitionBy ─ step ─ partitionBy ─ step of the next step ─ … ─ collect: parcels

State    None: shards lie in the objects of the checkpoint, their engines in processes of the executors
         (`sharded/workers`). Spark hands out Python workers in an order that knows no shards; a worker gives its packets
         to the process that has the shard.
Limits   A task waits for nothing but an earlier attempt at its own shards, so more shards than slots run one after the
         other. A shuffle is removed with its batch. Where tasks of another batch find another executor, the engine is
         made anew from the objects.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from pyspark import RDD, SparkContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession

from eddyline.runtime.figures.memory import resident_bytes
from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.output.parcels import Parcel
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.workers.processes import SiblingProcesses, folder_of, make_private
from eddyline.runtime.sharded.workers.shared_pieces import remove
from eddyline.runtime.spark.job.failure import reported

#: A task costs tens of milliseconds before it reads: a second one must have something to read. What the shards may read
#: in vain together is worth less than a stage.
_TASK_BYTES = 1 << 20

#: The partition that a packet or parcel goes to, and its fields.
Travelling = tuple[int, tuple[Any, ...]]


class SparkConductor:
    def __init__(self, spark: SparkSession, phases: Phases) -> None:
        self.phases = phases
        self._context = spark.sparkContext
        self._slots = _slots(self._context)
        self._ranges: dict[int, RDD[int]] = {}

    def run(self, batch: BatchDocument, packets: DataFrame | None = None) -> list[Parcel]:
        """Run all phases of a batch.

        Args:
            packets: Those of the rows that DataFrames bring.
        """
        layout = self.phases.layout(batch)
        width = layout.width
        asked = self._asked(width)
        shared = ""
        if packets is None and _on_one_machine(self._context):
            shared = _shared_folder()
            found = self._tasks(width).mapPartitionsWithIndex(
                _Work(self.phases, batch, asked, 0, shared=shared).step_all
            )
        elif packets is None and batch.size * (width - 1) <= _TASK_BYTES:
            found = self._tasks(width).mapPartitionsWithIndex(
                _Work(self.phases, batch, asked, 0, (batch.pieces,)).read_and_step
            )
        else:
            groups = grouped(batch.pieces, self._context.defaultParallelism)
            work = _Work(self.phases, batch, asked, 0, groups)
            read = [self._tasks(len(groups)).mapPartitionsWithIndex(work.read)] if groups else []
            read += [] if packets is None else [packets.rdd.map(work.placed)]
            found = self._context.union(read).partitionBy(width, int).mapPartitionsWithIndex(work.step)
        for step in range(1, layout.steps):
            found = found.partitionBy(width, int).mapPartitionsWithIndex(
                _Work(self.phases, batch, asked, step, shared=shared).step
            )
        try:
            return [Parcel(*fields) for _, fields in found.collect()]
        finally:
            if not shared or layout.steps > 1:
                # Else its files stay until the JVM finds the job's objects to be garbage.
                found.cleanShuffleDependencies()
            if shared:
                remove(shared)

    def _asked(self, width: int) -> _Asked:
        """What processes of executors are asked to do: as many per executor as it has slots."""
        processes = min(width, self._slots)
        phases = self.phases.serving(-(-width // processes))
        return _Asked(processes, bytes(CloudPickleSerializer().dumps(phases)))

    def _tasks(self, count: int) -> RDD[int]:
        """One partition for each task; the same for all batches, as each call to the JVM costs."""
        if count not in self._ranges:
            self._ranges[count] = self._context.parallelize(range(count), count)
        return self._ranges[count]


def _slots(context: SparkContext) -> int:
    """Tasks that one executor runs at a time, as far as the driver can know."""
    said = context.getConf().get("spark.executor.cores", None)
    return max(1, int(said) if said and not context.master.startswith("local[") else context.defaultParallelism)


def _on_one_machine(context: SparkContext) -> bool:
    return context.master == "local" or context.master.startswith("local[")


def _shared_folder() -> str:
    """For one batch; where this program is killed, it goes when another one starts."""
    folder = folder_of(os.getpid())
    make_private(folder)
    folder = os.path.join(folder, uuid.uuid4().hex)
    os.mkdir(folder)
    return folder


class _Asked(NamedTuple):
    processes: int
    phases: bytes


@dataclass(frozen=True)
class _Work:
    """What the tasks of one stage do."""

    phases: Phases
    batch: BatchDocument
    #: What a process with engines is asked.
    asked: _Asked
    #: Which step of the queries its shards take.
    number: int
    #: The pieces that each task reads.
    groups: tuple[tuple[FilePiece, ...], ...] = ()
    #: Where the processes with engines share the pieces of the batch.
    shared: str = ""

    def read(self, task: int, nothing: Iterable[int]) -> Iterator[Travelling]:
        # Spark uses a worker again that has read its input.
        list(nothing)
        yield from map(self.placed, self._packets(self.groups[task]))

    def placed(self, packet: Any) -> Travelling:
        """A packet, or a row with its fields, on its way to the partition of its shard."""
        return packet[0] % self._width, tuple(packet)

    def step(self, place: int, travelling: Iterable[Travelling]) -> Iterator[Travelling]:
        """The epoch of the shard of this step; what is of later steps, or on its way out, goes on."""
        with reported("the layout of the job"):
            shard = self.number * self._width + place
            processes = SiblingProcesses()
        further: list[Travelling] = []

        def mine() -> Iterator[Packet]:
            for target, fields in travelling:
                if len(fields) == len(Packet._fields) and fields[0] == shard:
                    yield Packet(*fields)
                else:
                    further.append((target, fields))

        with reported(f"shard {shard}"):
            number, asked = place % self.asked.processes, self.asked.phases
            for made in processes.step(number, asked, self.batch, shard, mine(), resident_bytes(), self.shared):
                yield (made.shard % self._width, tuple(made))
        yield from further

    def step_all(self, place: int, nothing: Iterable[int]) -> Iterator[Travelling]:
        list(nothing)
        yield from self.step(place, ())

    def read_and_step(self, place: int, nothing: Iterable[int]) -> Iterator[Travelling]:
        list(nothing)
        all_of = map(self.placed, self._packets(chain(*self.groups)))
        yield from self.step(place, [one for one in all_of if one[0] == place])

    def _packets(self, pieces: Iterable[FilePiece]) -> Iterator[Packet]:
        for piece in pieces:
            with reported(str(piece)):
                yield from self.phases.read(self.batch, piece)

    @property
    def _width(self) -> int:
        return self.phases.layout(self.batch).width


def grouped(pieces: Iterable[FilePiece], tasks: int) -> tuple[tuple[FilePiece, ...], ...]:
    """Whole files to the task with the least to read: the order of a stream is put right by the shards."""
    pieces = tuple(pieces)
    size = sum(piece.size for piece in pieces)
    groups: list[list[FilePiece]] = [[] for _ in range(min(max(tasks, 1), 1 + size // _TASK_BYTES))]
    load = [0] * len(groups)
    for piece in pieces:
        lightest = load.index(min(load))
        load[lightest] += piece.size + 1
        groups[lightest].append(piece)
    return tuple(tuple(group) for group in groups if group)
