"""Files that exist whole or not at all: the one way in which the engine writes a file that a later run reads.

Answer   `write_whole` writes a hidden file beside the target, syncs it to disk, renames it, and syncs the folder. A
         reader, or a run after a crash or a power cut, finds the old content or the new one. `make_folder` makes a
         folder that still exists after a power cut; `append_line` appends to a log.
Limits   One process writes a path at a time. A crash may leave the hidden file `.<name>.tmp`; the next write of the
         same path replaces it, and `remove_leftovers` removes those of a folder. With `synced=False` the caller syncs
         the folder, once for many files (`sync_folder`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from typing import Any

#: Files of a checkpoint: for their owner alone.
PRIVATE = 0o600
#: Results get the permissions of the process's umask.
SHARED = 0o666

_SUFFIX = ".tmp"
#: Folders that nobody continues from: nothing in them is synced.
_FLEETING: set[str] = set()


def leave_unsynced(folder: str) -> None:
    """Sync nothing in a folder from now on: it goes with this process."""
    _FLEETING.add(os.path.abspath(folder) + os.sep)


def _is_fleeting(path: str) -> bool:
    return bool(_FLEETING) and os.path.join(os.path.abspath(path), "").startswith(tuple(_FLEETING))


def write_whole(path: str, content: str | Any, *, mode: int = PRIVATE, synced: bool = True) -> None:
    """Write text, or bytes of any kind that has a buffer; an `OSError` names the file.

    Args:
        mode: permissions of the file, before the umask.
        synced: sync the folder too; without it a power cut may undo the rename, and leaves the old file whole.
    """
    data = memoryview(content.encode() if isinstance(content, str) else content).cast("B")
    folder, name = os.path.split(path)
    hidden = os.path.join(folder, f".{name}{_SUFFIX}")
    try:
        # Without O_TRUNC alone: a leftover may have other permissions.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(hidden)
        file = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            while len(data):
                data = data[os.write(file, data) :]
            if not _is_fleeting(folder):
                os.fsync(file)
        finally:
            os.close(file)
        os.replace(hidden, path)
        if synced:
            sync_folder(folder)
    except OSError as problem:
        # A full disk gets its space back.
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise OSError(problem.errno, problem.strerror, path) from problem


def append_line(path: str, line: bytes) -> None:
    """Append to an existing file, and sync it to disk; an `OSError` names the file, which may have a part of the line
    then."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, PRIVATE)
        try:
            left = memoryview(line)
            while len(left):
                left = left[os.write(file, left) :]
            if not _is_fleeting(path):
                os.fsync(file)
        finally:
            os.close(file)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, path) from problem


def sync_folder(folder: str) -> None:
    """Sync a folder to disk: the names in it survive a power cut then."""
    if _is_fleeting(folder):
        return
    opened = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def make_folder(path: str, *, private: bool = True) -> None:
    """Make a folder where there is none; a private one is for its owner alone. An existing one stays as it is."""
    if os.path.isdir(path):
        return
    os.makedirs(path, 0o700 if private else 0o777, exist_ok=True)
    sync_folder(os.path.dirname(os.path.abspath(path)))


def remove_others(folder: str, kept: Collection[str]) -> None:
    """Remove the files of a folder, except those of some names. Folders in it are not the engine's: they stay."""
    for name in os.listdir(folder):
        if name not in kept:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(os.path.join(folder, name))


def remove_leftovers(folder: str) -> None:
    """Remove what interrupted writes have left in a folder."""
    for name in os.listdir(folder):
        if name.startswith(".") and name.endswith(_SUFFIX):
            os.unlink(os.path.join(folder, name))
