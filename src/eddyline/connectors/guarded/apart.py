"""Work that may end the process, done in a child.

Answer   `in_child(task, count)` gives what `task(low, high)` makes of ranges that cover 0 to `count`, and the single
         numbers that end a process, each with the signal. A range that does is halved until one number is left;
         what was made before then is kept.
State    None. The child starts a process of its own for each range, by forking, before it has any thread.
Limits   Only signals that broken code raises count; a child that is stopped from outside is an error of the job. Task
         and results are pickled between this process and its own child, and lie in no file.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from eddyline.errors import SourceProblem

Task = Callable[[int, int], Iterator[Any]]

_BROKEN = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS}


class Survived(NamedTuple):
    #: (low, high, what the task made one after the other), in order.
    made: list[tuple[int, int, list[Any]]]
    #: Numbers that end a process, and by which signal.
    fatal: dict[int, str]
    #: How many processes were ended.
    deaths: int


def in_child(task: Task, count: int) -> Survived:
    """What a task makes of 0 to `count`; it is picklable.

    Raises:
        SourceProblem: the child did not come to an end, or the task has raised an error.
    """
    paths = [path for path in sys.path if path]
    child = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        # What is typed on the terminal is for this process, which ends the child.
        start_new_session=True,
    )
    with child:
        try:
            out, said = child.communicate(pickle.dumps((task, count)))
        except BaseException:
            child.kill()
            raise
    if child.returncode != 0:
        lines = said.decode("utf-8", "replace").strip().splitlines()
        raise SourceProblem(
            "a child process that parses in place of this one has failed",
            detail=lines[-1] if lines else f"its exit code is {child.returncode}",
            hint="the same command tries again",
        )
    return Survived(*pickle.loads(out))


def _main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    task, count = pickle.loads(sys.stdin.buffer.read())
    made: list[tuple[int, int, list[Any]]] = []
    fatal: dict[int, str] = {}
    deaths = 0
    pending = [(0, count)] if count else []
    while pending:
        low, high = pending.pop()
        found, ended = _forked(task, low, high)
        deaths += ended is not None
        if ended is not None and high - low > 1:
            middle = (low + high) // 2
            pending += [(middle, high), (low, middle)]
            continue
        made.append((low, high, found))
        if ended is not None:
            fatal[low] = ended
    with os.fdopen(out, "wb") as file:
        file.write(pickle.dumps((made, fatal, deaths)))


def _forked(task: Task, low: int, high: int) -> tuple[list[Any], str | None]:
    """What a process makes of a range, and the signal that ended it."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.close(reading)
            for item in task(low, high):
                data = pickle.dumps(item)
                _write(writing, len(data).to_bytes(8, "little") + data)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    found = []
    with os.fdopen(reading, "rb") as file:
        while len(size := file.read(8)) == 8:
            data = file.read(int.from_bytes(size, "little"))
            # A process that dies may leave half of an item.
            if len(data) == int.from_bytes(size, "little"):
                found.append(pickle.loads(data))
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in _BROKEN:
        return found, signal.Signals(os.WTERMSIG(status)).name
    if status != 0:
        raise RuntimeError(f"records {low} to {high} cannot be parsed: status {status}")
    return found, None


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while len(left):
        left = left[os.write(file, left) :]


if __name__ == "__main__":
    _main()
