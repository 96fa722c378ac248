"""The engine processes of one owner, found by whoever has a task for them.

Answer   `EngineProcesses.step` and `read` have a phase carried out by the process with a number, which is started where
         there is none. Everybody who has the same owner finds the same processes: on Spark the owner is what makes the
         Python workers of an executor, and a task forks the process that it does not find.
State    A folder of sockets per owner, in the folder for temporary files. The last process to leave removes it; that of
         an owner which was killed with all its processes goes when somebody starts one later.
Limits   Where a process ends in the middle of a task, the task fails: whoever conducts the batch runs it again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn, Protocol

from eddyline.errors import StateProblem
from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.output.parcels import Parcel
from eddyline.runtime.sharded.workers.serving import Task, serve
from eddyline.runtime.sharded.workers.wire import Wire

#: Bytes of the longest path that a socket may have on every system.
_LONGEST_PATH = 100
#: How often a process is started that does not answer.
_STARTS = 5
#: Connections that may wait for a process.
_WAITING = 128


class EngineLost(StateProblem):
    """A process ended in the middle of a task."""


class EngineProcesses(Protocol):
    #: Where their sockets are.
    folder: str
    #: Bytes that have gone to them and come from them, by this process.
    passed: int = 0
    #: Whether what they make for each other stays in memory of theirs: only handles to it come here.
    lends: bool = False

    def start(self, number: int) -> None:
        """Start the one with a number, unless it answers."""

    def step(
        self,
        number: int,
        phases: bytes,
        batch: BatchDocument,
        shard: int,
        packets: Iterable[Packet],
        beside: int = 0,
        shared: str = "",
    ) -> Iterator[Packet | Parcel]:
        """The process is there before the packets are read: it inherits none of them. It finds others where the pieces
        of the batch are `shared`."""
        yield from self._made(number, Task(phases, batch, shard, beside, self.lends, shared), packets)

    def read(self, number: int, phases: bytes, batch: BatchDocument, piece: FilePiece) -> Iterator[Packet]:
        yield from self._made(number, Task(phases, batch, piece, 0, self.lends), ())

    def _made(self, number: int, task: Task, packets: Iterable[Packet]) -> Iterator[Any]:
        with self._connected(number) as connection:
            wire = Wire(connection)
            try:
                yield from self._asked(wire, task, packets)
            finally:
                self.passed += wire.passed

    def _asked(self, wire: Wire, task: Task, packets: Iterable[Packet]) -> Iterator[Any]:
        with _answered(task):
            wire.send(task)
        for packet in packets:
            with _answered(task):
                wire.send(packet)
        with _answered(task):
            wire.send(None)
        while True:
            with _answered(task):
                made = wire.receive()
            if made is None:
                return
            if isinstance(made, Exception):
                raise made
            yield made

    def _connected(self, number: int) -> socket.socket:
        for _ in range(_STARTS):
            connection = _answering(_path(self.folder, number))
            if connection is not None:
                with contextlib.suppress(ConnectionError, EOFError):
                    Wire(connection).receive()
                    return connection
                connection.close()
            # The folder may go while this process enters it.
            with contextlib.suppress(FileNotFoundError):
                self.start(number)
        raise StateProblem(
            "a process for engines of shards does not start",
            detail=f"tried {_STARTS} times; its socket would be {_path(self.folder, number)}",
            hint="the machine may be out of memory or of processes; the same command tries again",
        )


class SiblingProcesses(EngineProcesses):
    """Those of all children of this process's parent; it forks those that it does not find."""

    def __init__(self) -> None:
        self._owner = os.getppid()
        self.folder = folder_of(self._owner)

    def start(self, number: int) -> None:
        start(self.folder, number, self._owner)


@contextmanager
def _answered(task: Task) -> Iterator[None]:
    try:
        yield
    except (ConnectionError, EOFError) as problem:
        raise EngineLost(
            "a process with engines of shards ended in the middle of a task",
            detail=f"it had shard {task.what}" if isinstance(task.what, int) else f"it read {task.what}",
            hint="it was killed, or memory ran out; the same command continues from the last batch that counts",
        ) from problem


def folder_of(owner: int) -> str:
    """Where the sockets of an owner are; another process with its number has another folder."""
    name = f"{_prefix()}{_identity(owner)}"
    folder = os.path.join(tempfile.gettempdir(), name)
    return folder if len(os.fsencode(folder)) < _LONGEST_PATH else os.path.join("/tmp", name)


def start(folder: str, number: int, owner: int) -> None:
    """Fork a process for engines, unless one answers."""
    make_private(folder)
    path = _path(folder, number)
    with _locked(folder):
        if (found := _answering(path)) is not None:
            found.close()
            return
        _remove_left(os.path.dirname(folder))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            # From here on others may connect: they wait for the first word.
            listener.listen(_WAITING)
            _fork(listener, partial(_leave, folder, path), owner)


def _fork(listener: socket.socket, leave: Callable[[], None], owner: int) -> None:
    child = os.fork()
    if child:
        # Where nobody wants to know of children, there is nothing to wait for.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
        return
    try:
        # Twice: the process that asks may end long before the one that serves.
        if os.fork() == 0:
            _serve_alone(listener, leave, owner)
    finally:
        os._exit(0)


def _serve_alone(listener: socket.socket, leave: Callable[[], None], owner: int) -> NoReturn:
    """Let go of all that this process has inherited: a connection is at its end when nobody has it open."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) not in (listener.fileno(), nothing):
            # Their numbers stay taken: objects that close theirs later must not close one of ours.
            with contextlib.suppress(OSError):
                os.fstat(int(name))
                os.dup2(nothing, int(name), inheritable=False)
    serve(listener, owner, leave)


def _leave(folder: str, path: str) -> None:
    with contextlib.suppress(OSError), _locked(folder):
        os.unlink(path)
        # Unless there are others.
        os.rmdir(folder)


def _answering(path: str) -> socket.socket | None:
    """A connection to the process behind a socket; it may have to wait for the first word."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionError):
        connection.close()
        return None
    return connection


def _path(folder: str, number: int) -> str:
    return os.path.join(folder, str(number))


def make_private(folder: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, stat.S_IRWXU)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise StateProblem(
            f"{folder} is not a folder of this user alone",
            detail="processes with engines of shards are found there",
            hint="remove it, or set TMPDIR to another folder",
        )


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """One process at a time starts another one, or leaves."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        # A child that was forked meanwhile has the file open too.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def _prefix() -> str:
    """Of the folders of this user, among processes that see each other by the same numbers."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        space = 0
    return f"eddyline-engines-{os.getuid()}-{space}-"


def _identity(process: int) -> str:
    """A process by its number and its start; empty: it has ended."""
    try:
        with open(f"/proc/{process}/stat", "rb") as said:
            # The fields follow the name, which ends with the last parenthesis; the twentieth of them is the start.
            fields = said.read().rpartition(b")")[2].split()
            return "" if fields[0] in b"ZX" else f"{process}-{int(fields[19])}"
    except OSError:
        if os.path.exists("/proc/self/stat"):
            return ""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    return f"{process}-0"


def _remove_left(temporary: str) -> None:
    """Remove the folders of owners that have ended with all their processes at once."""
    prefix = _prefix()
    for name in os.listdir(temporary):
        if name.startswith(prefix):
            said = name.removeprefix(prefix)
            number = said.partition("-")[0]
            if not number.isdigit() or _identity(int(number)) != said:
                shutil.rmtree(os.path.join(temporary, name), ignore_errors=True)
