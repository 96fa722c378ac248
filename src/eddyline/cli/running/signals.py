"""SIGINT and SIGTERM of `eddyline run`: the run ends after its epoch, or the epoch is given up.

Answer   The first signal asks the session to stop. An epoch that computes on for more than a second is given up: the
         process ends by the signal and says from where the same command goes on. With a checkpoint, any other work that
         goes on 1.6 seconds after the signal is given up too. A second signal, two seconds later or more, ends the
         process at once.
State    A thread waits for signals beside the run: Python runs handlers in the main thread only, and not while that is
         in a kernel or a sort. The thread ends with the run.
Limits   On Spark the micro-batch at hand is not given up.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from eddyline.model.clock import WALL
from eddyline.session import Session

#: Seconds within which several signals are one: a service manager may send it to a process and to its group.
_ONE_SIGNAL = 2.0
#: Seconds that an epoch has to end after a signal, and those that other work has, if the next run repeats it. The
#: process itself takes some tenths of a second to end, so it is gone within two seconds.
_GRACE, _MOST = 1.0, 1.6
#: Seconds between two tries to give something up.
_NAP = 0.02
_NUMBERS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._ended = threading.Event()
        #: When the first signal came.
        self._first: float | None = None

    @contextmanager
    def obeyed(self) -> Iterator[None]:
        """Signals that come inside end the run."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        before = {number: signal.signal(number, self._handle) for number in _NUMBERS}
        earlier = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        watching = threading.Thread(target=self._watch, args=(reading,), name="eddyline-signals", daemon=True)
        watching.start()
        try:
            yield
        finally:
            self._ended.set()
            signal.set_wakeup_fd(earlier)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(writing)
            watching.join()
            os.close(reading)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = WALL.now()
        if self._first is not None and now - self._first > _ONE_SIGNAL:
            # The second signal ends the process at once: the next start repeats the present epoch.
            _die(number)
        self._first = self._first or now
        self._session.ask_to_stop()

    def _watch(self, reading: int) -> None:
        while (came := os.read(reading, 1)) and came[0] not in _NUMBERS:
            pass
        if not came:
            return
        waited, nap = 0.0, _GRACE
        while not self._ended.wait(nap):
            waited += nap
            said = self._session.give_up(anything=waited >= _MOST)
            if said is not None:
                print(said, file=sys.stderr, flush=True)
                _die(came[0])
            nap = _NAP


def _die(number: int) -> None:
    """End the process by a signal, from any thread: only the main thread may call `signal.signal`."""
    set_handler = ctypes.pythonapi.PyOS_setsig
    set_handler.argtypes, set_handler.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    set_handler(number, None)
    os.kill(os.getpid(), number)
