"""What processes with engines are asked in tests, and where they are found.

Answer   `Said` stands for phases: its `step` does what the name of the batch says, and says where. `asks` is a program
         that asks the processes of its parent.
"""

from __future__ import annotations

import errno
import os
import pickle
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil

from eddyline.errors import DataProblem
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.output.parcels import Parcel
from eddyline.runtime.sharded.workers.processes import EngineProcesses, SiblingProcesses
from eddyline.runtime.sharded.workers.serving import NAME, read


class Said:
    def step(self, batch: BatchDocument, shard: int, packets: list[Any], beside: int) -> Iterator[Any]:
        begun = time.monotonic()
        if batch.layout == "late":
            raise DataProblem("a row is late", detail="it is", hint="wait")
        if batch.layout == "full":
            raise OSError(errno.ENOSPC, "No space left on device", "a/file")
        if batch.layout == "lambda":
            raise Unpicklable(lambda: None)
        if batch.layout == "sleep":
            time.sleep(0.3)
        if batch.layout == "busy":
            while True:
                sum(range(10_000))
        yield from packets
        yield Parcel("note", f"{begun} {time.monotonic()}", shard, beside, None, b"")
        yield os.getpid()


class Unpicklable(Exception):
    pass


PHASES = pickle.dumps(Said())


def ask(processes: EngineProcesses, number: int, what: str = "", packets: Any = (), shard: int = 0) -> list[Any]:
    found = processes.step(number, PHASES, BatchDocument(0, what), shard, packets, 7)
    return [read(one) if isinstance(one, Packet) else one for one in found]


def engines_below(process: int) -> list[psutil.Process]:
    """The processes with engines that a process and its children have."""
    found = []
    for child in psutil.Process(process).children(recursive=True):
        try:
            if child.name() == NAME:
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


if __name__ == "__main__":
    print(
        os.getppid(),
        SiblingProcesses().folder,
        *ask(SiblingProcesses(), int(sys.argv[1]), sys.argv[2])[-1:],
        flush=True,
    )
