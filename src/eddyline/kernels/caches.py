"""Compiled kernels on disk: a cache file that cannot be read is one that is not there.

Answer   `make_forgiving` tells Numba so. Without it a file that a full disk or an interrupted copy has cut short is an error wherever the
         kernel is used, until somebody removes the file; with it the kernel is compiled and written again.
Limits   Two methods of Numba's own are wrapped; where a version has others, nothing is changed.
"""

from __future__ import annotations

from typing import Any

from numba.core import caching


def make_forgiving() -> None:
    kept = getattr(caching, "IndexDataCacheFile", None)
    if kept is None or not (hasattr(kept, "_load_index") and hasattr(kept, "_load_data")):
        return
    load_index, load_data = kept._load_index, kept._load_data

    def index(self: Any) -> Any:
        try:
            return load_index(self)
        except Exception:
            # Unpickling fails in any way it likes.
            return {}

    def data(self: Any, name: str) -> Any:
        try:
            return load_data(self, name)
        except Exception as problem:
            # What Numba takes for a file that has gone.
            raise OSError(f"{name} cannot be read") from problem

    kept._load_index, kept._load_data = index, data
