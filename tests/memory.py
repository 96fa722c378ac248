"""Folders of random cases: in memory where there is some, since a disk takes milliseconds for each fsync."""

from __future__ import annotations

import os
import shutil
from functools import cache
from tempfile import TemporaryDirectory

_MEMORY = "/dev/shm"
#: Bytes that are free at least. A case writes some thousands of them.
_LEAST = 1 << 30


@cache
def place() -> str | None:
    """None: where `tempfile` puts everything."""
    there = os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK)
    return _MEMORY if there and shutil.disk_usage(_MEMORY).free >= _LEAST else None


def folder_of_a_case() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="eddyline-case-", dir=place())
