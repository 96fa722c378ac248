"""How freed memory is kept, when garbage is collected, and how much a process holds.

Answer   `keep_freed_memory` makes the C library reuse freed blocks of some megabytes instead of giving them back. Every
         epoch makes and drops the same arrays, and fetching their pages anew took a quarter of a join's time. It
         changes the whole process: `eddyline run`, the workers on Spark and `Session(keep_memory=True)` call it, and
         nothing else does. `without_collection` makes many objects that stay without collecting garbage among them.
         Each collection visits all that are there, which took a fifth of the time of 10,000 queries that begin
         together. `resident_bytes` is what this process holds now.
Limits   Only with glibc; elsewhere nothing happens. What is kept is bounded by what an epoch needs.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Options of mallopt(3), and the bytes that they are set to.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_BLOCK = 64 << 20


def keep_freed_memory() -> bool:
    """Whether the C library took the advice."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _BLOCK)) and bool(mallopt(_M_TRIM_THRESHOLD, 4 * _BLOCK))


@contextmanager
def without_collection() -> Iterator[None]:
    """Objects that refer to each other are not collected inside; also a decorator."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def resident_bytes() -> int:
    """The memory of this process; where the system does not give that, the most that it ever held."""
    try:
        with open("/proc/self/statm") as said:
            return int(said.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        # Kilobytes on Linux, bytes on a Mac, and only a Mac comes here.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
