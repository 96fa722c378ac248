"""When kernels are compiled: counted, said once, and with few collections of garbage.

Answer   `compiled` gives how many kernels this process has compiled; those that it found in the cache do not count. The
         first one writes a line to standard error, where that is a terminal or `announce` asks for it. While a kernel is
         compiled, Python collects garbage once per `_NEW_OBJECTS` of them.
State    The count, whether the line has been written, and how often garbage is collected otherwise.
Limits   Numba has to have its events; without them nothing is counted and nothing written.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from numba.core import event

#: A compiler makes many objects, which its collections visit again and again: with Python's 700 they took a tenth of the
#: CPU time of a first query.
_NEW_OBJECTS = 200_000
LINE = "compiling kernels, first run of such a query on this machine …"


class CompileListener(event.Listener):
    """Hears of each kernel that Numba compiles, before it does."""

    def __init__(self) -> None:
        self.count = 0
        #: Whether the line is written; None: where standard error is a terminal.
        self.is_wanted: bool | None = None
        #: Kernels that are being compiled, each for the one before; Numba lets one thread compile at a time.
        self._depth = 0
        self._thresholds = gc.get_threshold()

    def on_start(self, event: Any) -> None:
        self.count += 1
        self._depth += 1
        if self._depth == 1:
            self._thresholds = gc.get_threshold()
            # 0 means that nothing is collected.
            if self._thresholds[0]:
                gc.set_threshold(max(_NEW_OBJECTS, self._thresholds[0]), *self._thresholds[1:])
        if self.count > 1 or self.is_wanted is False or sys.stderr is None:
            return
        if self.is_wanted or sys.stderr.isatty():
            print(LINE, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            gc.set_threshold(*self._thresholds)


_LISTENER = CompileListener()


def listen() -> None:
    """Begin to count. Called once, when kernels are imported."""
    event.register("numba:compile", _LISTENER)


def announce(is_wanted: bool) -> None:
    """Whether the first kernel that is compiled writes a line, whatever standard error is."""
    _LISTENER.is_wanted = is_wanted


def compiled() -> int:
    """The number of kernels that this process has compiled."""
    return _LISTENER.count
