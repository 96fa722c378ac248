"""Memory without a name that one process fills and another reads.

Answer   `Filling.put` appends bytes to memory of its own and says where they are. The handle travels over a Unix socket;
         whoever holds a `Memory` reads from it, or passes it on without reading.
State    What has been put there, until the last process has closed its handle.
Limits   Space is reserved before bytes are written, and nothing is mapped: memory that is full is an error, not a signal.
         Then, and where a system has no such memory, a file without a name takes its place, with one warning.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from eddyline.errors import EddylineWarning

#: Whether this process has warned that files are used.
_warned: list[str] = []


class Memory:
    """A handle to memory or a file without a name; it is closed with the object."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __del__(self) -> None:
        os.close(self.handle)


#: Those of this process, by what the system calls them.
_KNOWN: WeakValueDictionary[tuple[int, int], Memory] = WeakValueDictionary()


def memory_of(handle: int) -> Memory:
    """The memory behind a handle that has come: one object, and one open handle, however often it comes."""
    found = os.fstat(handle)
    known = _KNOWN.get((found.st_dev, found.st_ino))
    if known is not None:
        os.close(handle)
        return known
    fresh = _KNOWN[found.st_dev, found.st_ino] = Memory(handle)
    return fresh


@dataclass(frozen=True)
class Lent:
    """Bytes that lie in memory of another process."""

    memory: Memory = field(repr=False)
    offset: int
    size: int

    def read(self) -> bytes:
        parts: list[bytes] = []
        offset, left = self.offset, self.size
        while left:
            parts.append(os.pread(self.memory.handle, left, offset))
            offset, left = offset + len(parts[-1]), left - len(parts[-1])
            if not parts[-1]:
                raise EOFError("memory of another process is shorter than it says")
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Filling:
    """Memory that this process fills."""

    def __init__(self) -> None:
        self._memory: Memory | None = None
        self._end = 0

    def put(self, content: bytes) -> Lent:
        if self._memory is None:
            self._memory = _memory()
        try:
            os.posix_fallocate(self._memory.handle, self._end, len(content))
        except OSError as problem:
            # What is there stays there.
            _warn(str(problem))
            self._memory, self._end = _file(), 0
            os.posix_fallocate(self._memory.handle, 0, len(content))
        lent = Lent(self._memory, self._end, len(content))
        left = memoryview(content)
        while len(left):
            done = os.pwrite(self._memory.handle, left, self._end)
            self._end, left = self._end + done, left[done:]
        return lent


def _memory() -> Memory:
    try:
        return Memory(os.memfd_create("eddyline", os.MFD_CLOEXEC))
    except (AttributeError, OSError) as problem:
        _warn(str(problem))
        return _file()


def _file() -> Memory:
    with tempfile.TemporaryFile(prefix="eddyline-") as file:
        return Memory(os.dup(file.fileno()))


def _warn(why: str) -> None:
    if not _warned:
        _warned.append(why)
        warnings.warn(
            f"rows go from process to process through files in {tempfile.gettempdir()}, not through memory: {why}",
            EddylineWarning,
            stacklevel=4,
        )
