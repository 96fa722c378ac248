"""Keys that a user presses while a screen is drawn again and again.

Answer   Between `single_keys` the terminal gives each key at once and does not show it. `is_ended` waits, and says
         whether the user has pressed q or Ctrl-C.
State    None; afterwards the terminal is as before.
Limits   The terminal is one of POSIX. Where standard input is none, `is_ended` only waits, and Ctrl-C is a signal.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from eddyline.model.clock import WALL

#: q and Ctrl-C.
_ENDING = frozenset(b"q\x03")
#: The place of the special keys among the attributes of a terminal.
_SPECIAL = 6


@contextmanager
def single_keys() -> Iterator[int | None]:
    """The terminal's keys, Ctrl-C too; None: there is no terminal to press them at.

    As a signal, Ctrl-C would raise an exception between any two instructions of the main thread. Python drops one that
    is raised while a generator or another object is removed: the command would go on.
    """
    if not sys.stdin.isatty():
        yield None
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    keys = termios.tcgetattr(keyboard)
    keys[_SPECIAL][termios.VINTR] = bytes([os.fpathconf(keyboard, "PC_VDISABLE")])
    termios.tcsetattr(keyboard, termios.TCSANOW, keys)
    try:
        yield keyboard
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def is_ended(keyboard: int | None, seconds: float) -> bool:
    """Wait for a key so long; return whether it ends the screen, or the terminal is closed."""
    if keyboard is None:
        WALL.sleep(seconds)
        return False
    ready, _, _ = select.select([keyboard], [], [], seconds)
    if not ready:
        return False
    keys = os.read(keyboard, 64)
    return not keys or bool(_ENDING.intersection(keys.lower()))
