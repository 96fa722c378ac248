"""What carries out the batches of tests of several shards.

Answer   `conductor` is `InProcess`, or `Processes` where EDDYLINE_CONDUCTOR says so: any suite of shards without Spark
         runs over processes then. Where the one forgets a shard, a process of the other is killed.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from random import Random

import psutil

from eddyline.model.expressions.own_function import OwnFunction
from eddyline.runtime.front.own_functions import codes
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.conducting import Conductor, InProcess
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.job.shipped import Shipped
from eddyline.runtime.sharded.output.parcels import Parcel
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.workers.conducting import Processes
from eddyline.runtime.sharded.workers.own import OwnProcesses
from tests.seeds import first_seed
from tests.spark.asked import engines_below

LOTS = Random(first_seed())
#: Of the shards that `InProcess` would forget, how many cost a process.
STRUCK = 0.25
#: The variable, and what it says for processes.
CONDUCTOR, PROCESSES = "EDDYLINE_CONDUCTOR", "processes"


@cache
def own_processes() -> OwnProcesses:
    """Those of all tests of this process: starting them costs."""
    made = OwnProcesses()
    atexit.register(made.close)
    return made


class Killing:
    """Processes of which one is killed now and then, at some moment of a batch."""

    def __init__(self, phases: Phases, count: int, strikes: Callable[[], bool]) -> None:
        self._inner, self._strikes = Processes(phases, count, own_processes()), strikes

    def run(self, batch: BatchDocument, packets: Iterable[Packet] = ()) -> list[Parcel]:
        return self._inner.run(batch, self._struck(packets))

    def _struck(self, packets: Iterable[Packet]) -> Iterable[Packet]:
        yield from packets
        engines = engines_below(own_processes().forking)
        # A new process loads its kernels again: fewer of them than of shards that are forgotten.
        if engines and self._strikes() and LOTS.random() < STRUCK:
            threading.Timer(LOTS.random() / 50, _kill, (LOTS.choice(engines),)).start()


def _kill(process: psutil.Process) -> None:
    # An idle one may have left.
    with suppress(psutil.NoSuchProcess):
        process.kill()


def conductor(phases: Phases, forgets: Callable[[], bool], functions: Iterable[OwnFunction] = ()) -> Conductor:
    if os.environ.get(CONDUCTOR) != PROCESSES:
        return InProcess(phases, forgets)
    packed = replace(phases.packed, functions=Shipped(codes(functions)))
    return Killing(replace(phases, packed=packed), 2, forgets)
