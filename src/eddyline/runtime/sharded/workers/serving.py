"""What a process does that keeps engines of shards.

Answer   `serve` takes one connection after the other: a task with its packets comes in, what its phase makes goes out,
         its errors too. So an engine serves one attempt at a time: another attempt at the same shard waits for the end
         of the first one.
State    The engines (`shard/engines.py`) of the shards that were asked for here.
Limits   The process ends within a second of its owner, and after a minute without a task; then its socket goes. What it
         was computing is lost: whoever asked sees the connection end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple, NoReturn, TypeGuard

from eddyline.errors import EddylineError, as_fault
from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.output.parcels import Parcel
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.workers.ahead import ReadAhead
from eddyline.runtime.sharded.workers.lent import Filling, Lent
from eddyline.runtime.sharded.workers.shared_pieces import SharedPieces
from eddyline.runtime.sharded.workers.wire import LARGE, Wire

#: Seconds without a task after which a process ends, as Spark's Python workers do.
IDLE_SECONDS = 60.0
#: Seconds between two looks for the owner, where the system cannot wait for the end of a process.
_LOOK_SECONDS = 0.5
#: Options of prctl(2).
_NAME, SUBREAPER = 15, 36
#: What `ps -o comm` says of such a process: fifteen characters at most.
NAME = "eddyline-shard"


class Task(NamedTuple):
    """A phase for one shard or one piece of a batch; the packets for a shard follow it."""

    #: `Phases`, pickled by whoever knows how its functions travel.
    phases: bytes
    batch: BatchDocument
    what: int | FilePiece
    #: Memory of the process that asks.
    beside: int = 0
    #: Whether the contents of packets stay in memory of this process: who asks gets handles to it.
    lends: bool = False
    #: Where the processes that step shards of the batch share its pieces; empty: the packets follow the task.
    shared: str = ""


def serve(listener: socket.socket, owner: int, leave: Callable[[], None], idle: float = IDLE_SECONDS) -> NoReturn:
    """Carry out tasks until the owner ends or none comes.

    Args:
        owner: The process with which this one ends.
        leave: Removes the socket, so that nobody connects any more.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for ignored in (signal.SIGHUP, signal.SIGINT):
        # They come to the whole group of a terminal, or of Spark's daemon: the owner says when the end is.
        signal.signal(ignored, signal.SIG_IGN)
    tell_system(_NAME, NAME.encode())
    threading.Thread(target=_end_with, args=(owner, leave), name=NAME, daemon=True).start()
    listener.settimeout(idle)
    ahead = ReadAhead()
    while True:
        ahead.fill(partial(_is_asked, listener))
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            leave()
            os._exit(0)
        # Whoever asked may have been killed.
        with connection, contextlib.suppress(ConnectionError, EOFError):
            _answer(connection, ahead)


def _is_asked(listener: socket.socket) -> bool:
    return bool(select.select([listener], [], [], 0)[0])


def _answer(connection: socket.socket, ahead: ReadAhead) -> None:
    wire = Wire(connection)
    # Who connects while this process leaves hears nothing, and starts another one.
    wire.send(os.getpid())
    task: Task = wire.receive()
    filling = _filling(task)
    made = _made(task, list(map(read, iter(wire.receive, None))), ahead)
    while True:
        try:
            one = next(made, None)
            if task.lends and isinstance(one, Packet):
                one = Packet._make(filling.put(field) if _is_large(field) else field for field in one)
        except Exception as problem:
            one = _told(problem, task)
        wire.send(one)
        if one is None or isinstance(one, Exception):
            return


#: What this process fills at the moment, and for which phase of which batch. Others have handles to what was before.
_FILLED: list[tuple[Any, Filling]] = []


def _filling(task: Task) -> Filling:
    phase = task.batch.number, task.batch.layout, isinstance(task.what, FilePiece)
    if not _FILLED or _FILLED[0][0] != phase:
        _FILLED[:] = [(phase, Filling())]
    return _FILLED[0][1]


def _is_large(field: Any) -> TypeGuard[bytes]:
    return isinstance(field, bytes) and len(field) >= LARGE


def read(packet: Packet) -> Packet:
    """A packet with all of its contents here."""
    return Packet._make(field.read() if isinstance(field, Lent) else field for field in packet)


def _made(task: Task, packets: list[Packet], ahead: ReadAhead) -> Iterator[Any]:
    phases = _phases(task.phases)
    if isinstance(task.what, FilePiece):
        yield from phases.read(task.batch, task.what)
        return
    width = phases.layout(task.batch).width if task.shared else 0
    if task.shared:
        shared = SharedPieces(task.shared, task.batch.pieces, partial(_read, phases, task.batch, ahead))
        packets += shared.packets(task.what, width)
    for made in phases.step(task.batch, task.what, packets, task.beside):
        yield made
        # Shards of further steps find what those of the first one have read.
        if task.shared and task.what < width and isinstance(made, Parcel) and made.kind == "note":
            ahead.look(phases, task.batch, task.what, json.loads(made.blob or b"")["late_below"], width)


def _read(phases: Phases, batch: BatchDocument, ahead: ReadAhead, piece: FilePiece) -> list[Packet]:
    try:
        return ahead.read(phases, batch, piece)
    except (EddylineError, OSError):
        raise
    except Exception as problem:
        raise as_fault(problem, str(piece)) from problem


@lru_cache(maxsize=4)
def _phases(pickled: bytes) -> Phases:
    found: Phases = pickle.loads(pickled)
    return found


def _told(problem: Exception, task: Task) -> Exception:
    """An error as it can travel: what the engine says on purpose, and what the system says of a file."""
    if isinstance(problem, EddylineError) or (isinstance(problem, OSError) and problem.errno is not None):
        return problem
    return as_fault(problem, str(task.what) if isinstance(task.what, FilePiece) else f"shard {task.what}")


def _end_with(owner: int, leave: Callable[[], None]) -> None:
    try:
        handle = os.pidfd_open(owner)
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        waiting.poll()
    except ProcessLookupError:
        pass
    except (AttributeError, OSError):
        # A system without such handles.
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(owner, 0)
                time.sleep(_LOOK_SECONDS)
    leave()
    os._exit(0)


def tell_system(option: int, value: Any) -> None:
    """prctl(2), where there is one."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
