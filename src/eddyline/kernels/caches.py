"""Compiled kernels on disk: where they lie, and what happens with files that cannot be read.

Answer   `prepare` runs before the first kernel is declared. `choose_folder` picks the first of these that can be
         written: `NUMBA_CACHE_DIR`, the `__pycache__` beside the kernels, the user's cache folder, and a private folder
         (0700) below the temporary folder. Numba knows the first three itself. Where none can be written, kernels are
         compiled in every process and nothing is kept. `forgive` makes a cache file that cannot be read one that is not
         there: the kernel is compiled and written again. `name_by_content` keeps processes that compile at the same
         time from mixing their files. Numba numbers the files of a kernel's signatures, and two processes that count at
         once give one number to two signatures: one of them then ran the code of the other. `number_apart` keeps code
         of two processes apart that a third one loads. Numba numbers the functions that it compiles, and the name of a
         sort inside a kernel is that number and its types: two kernels from two processes could run each other's sort.
         `stamp_whole_sources` makes a kernel that is compiled with functions of other files stale when one of those
         files changes. Numba itself looks only at the kernel's own file, and an upgrade would go on with the old form
         of an inlined function.
Limits   Methods of Numba's own are wrapped; where a version has others, nothing is changed.
"""

from __future__ import annotations

import glob
import itertools
import os
import pickle
import re
import stat
import tempfile
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba.core import bytecode, caching, config, dispatcher

#: Files of kernels import each other as `from eddyline.kernels.NAME import …`, where a name can begin with that of a
#: room.
_IMPORTED = re.compile(rb"^from eddyline\.kernels\.([\w.]+) import", re.MULTILINE)


def prepare() -> None:
    forgive()
    name_by_content()
    number_apart()
    stamp_whole_sources(Path(__file__).parent)
    choose_folder(Path(__file__))


def forgive() -> None:
    kept = getattr(caching, "IndexDataCacheFile", None)
    if kept is None or not hasattr(kept, "_load_index"):
        return
    load_index = kept._load_index

    def index(self: Any) -> Any:
        try:
            return load_index(self)
        except Exception:
            # Unpickling fails in any way it likes.
            return {}

    kept._load_index = index


def number_apart() -> None:
    """The functions that this process, and each process forked from it, compiles have numbers that no other process
    gives."""
    identity = getattr(bytecode, "FunctionIdentity", None)
    if identity is None or not hasattr(identity, "_unique_ids"):
        return

    def begin_anywhere() -> None:
        identity._unique_ids = itertools.count(int.from_bytes(os.urandom(6), "big"))

    begin_anywhere()
    os.register_at_fork(after_in_child=begin_anywhere)


def name_by_content() -> None:
    """A file of compiled code is named by a digest of what it holds, is there before the index names it, and is read
    only if it fits."""
    kept = getattr(caching, "IndexDataCacheFile", None)
    if kept is None or not all(
        hasattr(kept, name) for name in ("_load_index", "_save_index", "_dump", "_open_for_write", "_data_path")
    ):
        return

    def save(self: Any, key: Any, data: Any) -> None:
        content = self._dump(data)
        name = f"{self._index_name.removesuffix('.nbi')}.{digest(content)}.nbc"
        with self._open_for_write(self._data_path(name)) as file:
            file.write(content)
        overloads = self._load_index()
        if not overloads:
            _remove_others(Path(self._data_path(name)))
        self._save_index(overloads | {key: name})

    def load_data(self: Any, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        if name.split(".")[-2] != digest(content):
            # What Numba takes for a file that has gone.
            raise OSError(f"{name} holds something else")
        try:
            return pickle.loads(content)
        except Exception as problem:
            raise OSError(f"{name} cannot be read") from problem

    kept.save, kept._load_data = save, load_data


def _remove_others(written: Path) -> None:
    """No index is there, or one of older sources: no other file of this kernel is of use. A process that misses one
    compiles again."""
    kernel = written.name.rsplit(".", 2)[0]
    for path in written.parent.glob(f"{glob.escape(kernel)}.*.nbc"):
        if path != written:
            path.unlink(missing_ok=True)


def digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def stamp_whole_sources(folder: Path) -> None:
    """The stamp of a kernel's file below `folder` covers the files below it that it imports, directly or not."""
    kept = getattr(caching, "_SourceFileBackedLocatorMixin", None)
    if kept is None or not hasattr(kept, "get_source_stamp"):
        return
    own = kept.get_source_stamp

    def whole(self: Any) -> Any:
        path = Path(getattr(self, "_py_file", ""))
        return (own(self), sources_digest(path, folder)) if folder in path.parents else own(self)

    kept.get_source_stamp = whole


@cache
def sources_digest(path: Path, folder: Path) -> str:
    """A digest of a file and of the files below `folder` that it imports, directly or not."""
    found, open_ends = {path: path.read_bytes()}, [path]
    while open_ends:
        for name in _IMPORTED.findall(found[open_ends.pop()]):
            other = folder.joinpath(*name.decode().split(".")).with_suffix(".py")
            if other not in found and other.exists():
                found[other] = other.read_bytes()
                open_ends.append(other)
    return digest(b"".join(content for _, content in sorted(found.items())))


def choose_folder(source: Path) -> None:
    """Make sure that the functions in `source` find a place for their cache, or do without."""
    known = [
        getattr(caching, name, None)
        for name in ("UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator")
    ]
    if any(locator is None or locator.from_function(choose_folder, str(source)) is not None for locator in known):
        return
    folder = private_folder(Path(tempfile.gettempdir()))
    if folder is not None:
        config.CACHE_DIR = str(folder)
    else:
        _do_without()


def private_folder(temporary: Path) -> Path | None:
    """A folder below `temporary` that only this user can enter; None: there is none, and none can be made.

    Cache files are unpickled, so a folder that another user could have filled is not used.
    """
    folder = temporary / f"eddyline-kernels-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) & 0o077 == 0)
    return folder if mine and stat.S_ISDIR(found.st_mode) and os.access(folder, os.W_OK | os.X_OK) else None


def _do_without() -> None:
    """Functions with `cache=True` are compiled in each process where Numba finds no place for them."""
    enable = dispatcher.Dispatcher.enable_caching

    def enable_where_possible(self: Any) -> None:
        try:
            enable(self)
        except RuntimeError:
            # No locator is available: the function keeps its null cache.
            return

    dispatcher.Dispatcher.enable_caching = enable_where_possible  # type: ignore[method-assign]
