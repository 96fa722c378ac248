"""Live state on local disk, so that a worker that did not serve a shard last can reopen it cheaply.

Answer   A bundle of segments is a file named after it and the token of the epoch that wrote it; `load` maps it into
         memory and checks its length and checksum. Anything that does not fit is not there: the state store has it.
State    One folder per checkpoint, for its owner alone, and in it one per shard. All processes of a job hold the lock
         of its folder; the next process of any job removes folders that no process holds.
Limits   Never the truth: a full disk or a lost folder costs time only. A folder that is a symbolic link, or that
         another user owns, is not used.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

_LOCK = "lock"
_FOLDER = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the state header says of a segment: which run wrote it, its length and its checksum."""

    token: str
    size: int
    checksum: int

    @staticmethod
    def of(blob: bytes, token: str) -> Stamp:
        return Stamp(token, len(blob), zlib.crc32(blob))


class Spool:
    """The segments of one shard: files in `<folder of the checkpoint>/<shard>`."""

    def __init__(self, folder: str):
        self.folder = folder
        #: Segments that could not be written, for the statistics.
        self.failures = 0
        self._usable: bool | None = None

    def _is_usable(self) -> bool:
        if self._usable is None:
            self._usable = hold(os.path.dirname(self.folder)) and _made_private(self.folder)
        return self._usable

    def save(self, name: str, stamp: Stamp, blob: bytes | memoryview) -> None:
        path = self._path(name, stamp)
        temporary = f"{path}.{os.getpid()}.part"
        if not self._is_usable():
            self.failures += 1
            return
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(blob)
            os.rename(temporary, path)
        except OSError:
            # Disk full or folder gone: the next miss reads the state store instead.
            self.failures += 1
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def load(self, name: str, stamp: Stamp) -> memoryview | None:
        """The segment as it was saved, mapped; None: not here, or not whole."""
        if not self._is_usable():
            return None
        try:
            with open(os.open(self._path(name, stamp), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                if os.fstat(file.fileno()).st_size != stamp.size or stamp.size == 0:
                    return None
                view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError:
            return None
        return view if zlib.crc32(view) == stamp.checksum else None

    def keep(self, live: Iterable[tuple[str, Stamp]]) -> None:
        """Remove everything but these: what older epochs and failed attempts left."""
        wanted = {os.path.basename(self._path(name, stamp)) for name, stamp in live}
        with contextlib.suppress(OSError):
            for found in os.listdir(self.folder) if self._is_usable() else ():
                if found not in wanted:
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(self.folder, found))

    def _path(self, name: str, stamp: Stamp) -> str:
        return os.path.join(self.folder, f"{name.replace(os.sep, '_')}.{stamp.token}.arrow")


def spool_folder(checkpoint: str) -> str:
    """The local folder for a checkpoint's segments; EDDYLINE_SPOOL chooses the disk."""
    base = os.environ.get("EDDYLINE_SPOOL") or os.path.join(tempfile.gettempdir(), f"eddyline-{os.getuid()}")
    return os.path.join(base, hashlib.sha256(os.path.abspath(checkpoint).encode()).hexdigest()[:16])


# -- folders of jobs

#: Folder -> the open lock file of this process. Shared: all processes of a job hold it, and it goes with the last of
#: them.
_HELD: dict[str, int] = {}


def hold(folder: str) -> bool:
    """Make the folder of a job and hold it until this process ends; False: it cannot be used.

    The first time, folders beside it that no process holds are removed.
    """
    if folder in _HELD and os.path.exists(os.path.join(folder, _LOCK)):
        return True
    base = os.path.dirname(folder)
    if not _made_base(base) or not _made_private(folder):
        return False
    try:
        file = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    if folder in _HELD:
        # Of a folder that was removed and made again.
        os.close(_HELD[folder])
    _HELD[folder] = file
    remove_dead(base)
    return True


def remove_dead(base: str) -> None:
    """Remove the folders that no process holds: those of jobs that have ended, however they ended."""
    with contextlib.suppress(OSError):
        for name in os.listdir(base):
            if _FOLDER.fullmatch(name):
                _remove_if_dead(os.path.join(base, name))


def _remove_if_dead(folder: str) -> None:
    if folder in _HELD or not _is_private(folder):
        return
    try:
        file = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        # A process of that job lives.
        return
    finally:
        os.close(file)


def _made_base(base: str) -> bool:
    """The folder for all jobs: the user's own below the temporary folder, or the one that the user chose."""
    if os.environ.get("EDDYLINE_SPOOL"):
        with contextlib.suppress(OSError):
            os.makedirs(base, 0o700, exist_ok=True)
        return os.path.isdir(base)
    return _made_private(base)


def _made_private(folder: str) -> bool:
    """Make a folder that only this user can enter; False: another user could have made what is there, or it cannot be
    made."""
    with contextlib.suppress(OSError):
        os.mkdir(folder, 0o700)
    return _is_private(folder)


def _is_private(folder: str) -> bool:
    try:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return False
        if stat.S_IMODE(found.st_mode) & 0o077:
            # An earlier version made it: from now on it is private.
            os.chmod(folder, 0o700)
    except OSError:
        return False
    return True
