"""The cache of compiled kernels on disk: its folder, and four mends of Numba's own cache.

Answer   `prepare` runs before the first kernel is declared. It applies these, in this order:

         ignore_broken_indexes    An index that cannot be read counts as missing: its kernel is compiled and written
                                  again.
         name_by_content          Two processes that compile at the same time write different files. Numba numbers the
                                  files of a kernel's signatures: two processes could give one number to two signatures,
                                  and one of them ran the code of the other.
         number_from_random       Kernels of two processes do not share names in a third process that loads both. Numba
                                  numbers the functions that it compiles, and names a sort inside a kernel by that
                                  number and its types: two kernels could run each other's sort.
         stamp_whole_sources      A kernel is compiled again when a file changes whose functions it was compiled with.
                                  Numba compares only the kernel's own file.
         choose_folder            The cache is in the first of these folders that can be written: `NUMBA_CACHE_DIR`, the
                                  `__pycache__` beside the kernels, the user's cache folder, a private folder (0700)
                                  below the temporary folder. Numba itself tries the first three. Where none can be
                                  written, every process compiles its kernels and writes none.

Limits   These functions replace methods of Numba; where a version of Numba lacks a method, the function does nothing.
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

#: Files of kernels import each other as `from eddyline.kernels.NAME import …`; NAME may begin with a folder.
_IMPORTED = re.compile(rb"^from eddyline\.kernels\.([\w.]+) import", re.MULTILINE)


def prepare() -> None:
    ignore_broken_indexes()
    name_by_content()
    number_from_random()
    stamp_whole_sources(Path(__file__).parent)
    choose_folder(Path(__file__))


def _class_of_numba(module: Any, name: str, *attributes: str) -> Any:
    """A class of Numba; None where this version of Numba lacks the class or one of its attributes."""
    found = getattr(module, name, None)
    return found if all(hasattr(found, attribute) for attribute in attributes) else None


def ignore_broken_indexes() -> None:
    cache_file = _class_of_numba(caching, "IndexDataCacheFile", "_load_index")
    if cache_file is None:
        return
    load_index = cache_file._load_index

    def index(self: Any) -> Any:
        try:
            return load_index(self)
        except Exception:
            # Unpickling damaged bytes may raise any exception.
            return {}

    cache_file._load_index = index


def number_from_random() -> None:
    """Functions that this process, or a process forked from it, compiles get numbers that no other process gives."""
    identity = _class_of_numba(bytecode, "FunctionIdentity", "_unique_ids")
    if identity is None:
        return

    def begin_anywhere() -> None:
        identity._unique_ids = itertools.count(int.from_bytes(os.urandom(6), "big"))

    begin_anywhere()
    os.register_at_fork(after_in_child=begin_anywhere)


def name_by_content() -> None:
    """The name of a file of compiled code has a digest of its content. The file is written before the index names it,
    and is read only if its content has that digest."""
    methods = "_load_index", "_save_index", "_dump", "_open_for_write", "_data_path"
    cache_file = _class_of_numba(caching, "IndexDataCacheFile", *methods)
    if cache_file is None:
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
            # Numba treats an OSError as a missing file.
            raise OSError(f"{name} has another digest")
        try:
            return pickle.loads(content)
        except Exception as problem:
            raise OSError(f"{name} cannot be read") from problem

    cache_file.save, cache_file._load_data = save, load_data


def _remove_others(written: Path) -> None:
    """Remove the other files of a kernel that has no index, or one of older sources: no index names them. A process
    that misses one of them compiles again."""
    kernel = written.name.rsplit(".", 2)[0]
    for path in written.parent.glob(f"{glob.escape(kernel)}.*.nbc"):
        if path != written:
            path.unlink(missing_ok=True)


def digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def stamp_whole_sources(folder: Path) -> None:
    """The stamp of a kernel's file below `folder` covers the files below it that it imports, directly or not."""
    locator = _class_of_numba(caching, "_SourceFileBackedLocatorMixin", "get_source_stamp")
    if locator is None:
        return
    own_stamp = locator.get_source_stamp

    def whole_stamp(self: Any) -> Any:
        path = Path(getattr(self, "_py_file", ""))
        return (own_stamp(self), sources_digest(path, folder)) if folder in path.parents else own_stamp(self)

    locator.get_source_stamp = whole_stamp


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
    """Make sure that Numba finds a folder for the cache of the functions in `source`, or compiles without a cache."""
    names = "UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator"
    known = [getattr(caching, name, None) for name in names]
    if any(locator is None or locator.from_function(choose_folder, str(source)) is not None for locator in known):
        return
    folder = private_folder(Path(tempfile.gettempdir()))
    if folder is not None:
        config.CACHE_DIR = str(folder)
    else:
        _allow_no_cache()


def private_folder(temporary: Path) -> Path | None:
    """A folder below `temporary` that only this user can enter; None: it cannot be made, or others can enter it.

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


def _allow_no_cache() -> None:
    """Functions with `cache=True` are compiled in each process where Numba finds no folder for them."""
    enable = dispatcher.Dispatcher.enable_caching

    def enable_where_possible(self: Any) -> None:
        try:
            enable(self)
        except RuntimeError:
            # No locator is available: the function keeps its null cache.
            return

    dispatcher.Dispatcher.enable_caching = enable_where_possible  # type: ignore[method-assign]
