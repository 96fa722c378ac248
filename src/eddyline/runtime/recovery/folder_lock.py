"""One process at a time uses a folder: a lock that dies with its process.

Answer   `FolderLock(folder).take()` locks the folder, or says which process has it (`CheckpointProblem`, exit code 2).
         The lock goes with `release`, with the object, or with the process, however it ends: after a kill nothing has
         to be cleaned up.
State    The file `lock` in the folder, which stays; it names the process that took the lock last.
Limits   Processes on other machines are kept out where the file system shares locks (NFS 4 does). A child that is
         forked without a new program keeps the lock until it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
import time
import weakref

from eddyline.errors import CheckpointProblem, StateProblem

NAME = "lock"
#: Seconds after which a folder that is in use is in use for longer than a look at it takes.
_GLANCE = 0.02


class FolderLock:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._close: weakref.finalize[..., FolderLock] | None = None

    @property
    def held(self) -> bool:
        return self._close is not None and self._close.alive

    @property
    def is_taken(self) -> bool:
        """Whether a process has the folder; asked by others."""
        try:
            file = os.open(os.path.join(self.folder, NAME), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(file)

    def take(self) -> None:
        """Lock the folder, which is there; nothing happens where this object has the lock already."""
        if self.held:
            return
        path = os.path.join(self.folder, NAME)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise StateProblem(
                f"the folder {self.folder} cannot be used",
                detail=f"{path}: {problem.strerror}",
                hint="check the path, space and permissions",
            ) from problem
        try:
            self._lock(file)
        except BaseException:
            os.close(file)
            raise
        self._close = weakref.finalize(self, os.close, file)

    def _lock(self, file: int) -> None:
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # A process that asks `is_taken` has it for some microseconds.
                time.sleep(_GLANCE)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(file, 400, 0).decode(errors="replace").strip() or "another process"
            raise CheckpointProblem(
                f"the folder {self.folder} is in use",
                detail=f"{owner} has it",
                hint="stop that process first, or give this job a folder of its own",
            ) from None
        except OSError as problem:
            raise StateProblem(
                f"the folder {self.folder} cannot be locked",
                detail=str(problem),
                hint="choose a file system that has locks",
            ) from problem
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        except OSError:
            # A full disk: the lock holds, its owner stays unnamed.
            return

    def release(self) -> None:
        if self._close is not None:
            self._close()
            self._close = None


def temporary_folder(owner: object) -> tuple[str, FolderLock]:
    """A folder that goes with its owner, and its lock, which is taken: other processes see by it that the owner is
    there."""
    folder = tempfile.mkdtemp(prefix="eddyline-job-")
    lock = FolderLock(folder)
    lock.take()
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder, lock
