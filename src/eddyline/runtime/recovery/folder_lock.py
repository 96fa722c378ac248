"""One process at a time uses a folder: a lock that dies with its process.

Answer   `FolderLock(folder).take()` locks the folder, or raises an error that names the process which has it
         (`CheckpointProblem`, exit code 2). The lock ends with `release`, with the object, or with the process, also
         after a kill.
State    The file `lock` in the folder, which stays; it names the process that took the lock last.
Limits   Processes on other machines are kept out if the file system shares locks (NFS 4 does). A child that is forked
         without a new program keeps the lock until it ends.
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
#: Seconds before the second attempt: `is_taken` of another process holds the lock for less.
_RETRY = 0.02


class FolderLock:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._close: weakref.finalize[..., FolderLock] | None = None

    @property
    def held(self) -> bool:
        return self._close is not None and self._close.alive

    @property
    def is_taken(self) -> bool:
        """Whether any process has locked the folder."""
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
        """Lock the folder, which exists. Does nothing if this object has the lock already."""
        if self.held:
            return
        path = os.path.join(self.folder, NAME)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            message, hint = f"the folder {self.folder} cannot be used", "check the path, space and permissions"
            raise StateProblem(message, detail=f"{path}: {problem.strerror}", hint=hint) from problem
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
                # `is_taken` of another process may hold the lock for some microseconds.
                time.sleep(_RETRY)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(file, 400, 0).decode(errors="replace").strip() or "another process"
            hint = "stop that process first, or give this job a folder of its own"
            raise CheckpointProblem(
                f"the folder {self.folder} is in use", detail=f"{owner} has it", hint=hint
            ) from None
        except OSError as problem:
            message, hint = f"the folder {self.folder} cannot be locked", "choose a file system that has locks"
            raise StateProblem(message, detail=str(problem), hint=hint) from problem
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        except OSError:
            # A full disk: the lock holds, the file does not name its owner.
            return

    def release(self) -> None:
        if self._close is not None:
            self._close()
            self._close = None


def temporary_folder(owner: object) -> tuple[str, FolderLock]:
    """A new folder, which is removed when its owner is, and its lock, which this process holds: other processes can tell
    that the owner exists."""
    folder = tempfile.mkdtemp(prefix="eddyline-job-")
    lock = FolderLock(folder)
    lock.take()
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder, lock
