"""How freed memory is kept.

Answer   `keep_freed_memory` tells the C library to reuse freed blocks of some megabytes instead of giving them back: every
         epoch makes and drops the same arrays, and fetching their pages anew took a quarter of a join's time.
Limits   Only with glibc; elsewhere nothing happens. What is kept is bounded by what an epoch needs.
"""

from __future__ import annotations

import ctypes
import sys

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
