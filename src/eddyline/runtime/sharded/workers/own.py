"""Engine processes of one program: they import nothing of it, and end with it.

Answer   `OwnProcesses` starts a process that loads the engine once, and has the others forked from there.
State    That process; `close` ends it and all others.
Limits   Where it was killed, the next start begins with another one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

from eddyline.errors import StateProblem
from eddyline.runtime.sharded.workers.processes import EngineProcesses


class OwnProcesses(EngineProcesses):
    lends = True

    def __init__(self, fleeting: str | None = None) -> None:
        """`fleeting`: a folder that nobody continues from."""
        self._fleeting = [] if fleeting is None else [fleeting]
        self._lock = threading.Lock()
        self._closed = False
        self._open()

    def _open(self) -> None:
        paths = [path for path in sys.path if path]
        self._forking = subprocess.Popen(
            [sys.executable, "-m", __package__, *self._fleeting],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            # What is typed on the terminal is for this process.
            start_new_session=True,
        )
        self.folder = os.fsdecode(self._said().rstrip(b"\n"))

    @property
    def forking(self) -> int:
        """The process that forks them, and that they end with."""
        return self._forking.pid

    def start(self, number: int) -> None:
        with self._lock:
            assert self._forking.stdin is not None
            if self._closed:
                raise StateProblem(
                    "the session has ended", hint="a batch that was running is repeated by the next start"
                )
            if self._forking.poll() is not None:
                self._end()
                self._open()
            with suppress(BrokenPipeError):
                self._forking.stdin.write(f"{number}\n".encode())
                self._forking.stdin.flush()
            self._said()

    def _said(self) -> bytes:
        assert self._forking.stdout is not None
        return self._forking.stdout.readline()

    def close(self) -> None:
        """They end within a second, and none is started any more."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        assert self._forking.stdin is not None and self._forking.stdout is not None
        if self._forking.stdin.closed:
            return
        with suppress(BrokenPipeError):
            self._forking.stdin.close()
        self._forking.stdout.close()
        self._forking.wait()
