"""What a process is parsing at this moment, in a file that outlives it.

Answer   A stretch of a file is marked before it is parsed and unmarked afterwards. Where the process dies in between,
         the next one that has the folder takes the mark over: the stretch is *suspect*, and is parsed in a child
         process (`apart.py`).
State    One file per process, locked while it lives: places of 32 bytes, each empty or (digest of a path, first record,
         number of records). The first places are for stretches at hand, the others for suspects; those that killed a
         child stay.
Limits   A mark survives the process and not the machine: nothing is flushed to the disk, and a mark costs two small
         writes into memory of the system. A process that is killed from outside leaves marks too: the child then finds
         nothing, and the rows are the same. Where the folder cannot be written there are no marks, and a mark that
         cannot be erased stays: no failure of a mark reaches the reader, which would take it for a broken file.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import threading
from collections import deque
from collections.abc import Iterable, Iterator

from eddyline.state.whole_file import PRIVATE, make_folder

_PLACE = struct.Struct("<16sqq")
_EMPTY = bytes(_PLACE.size)
#: Places for stretches at hand, and for suspects.
_LIVE, _SUSPECT = 64, 192

#: (first record, number of records)
Range = tuple[int, int]


class Marks:
    """The marks of one process in a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._path = self._new_path()
        self._file: int | None = None
        self._free: deque[int] = deque()
        self._suspects: dict[bytes, list[Range]] = {}
        self.take_over_dead()

    def _new_path(self) -> str:
        return os.path.join(self._folder, f"{self._process}-{os.urandom(4).hex()}")

    def take_over_dead(self) -> None:
        """Take over the marks of processes that have died."""
        with self._lock, contextlib.suppress(OSError):
            found = [name for name in os.listdir(self._folder) if name != os.path.basename(self._path)]
            dead = [name for name in found if self._take_over(os.path.join(self._folder, name))]
            if dead:
                # Those that are kept are on their new place before the old one goes.
                self._write_suspects()
                for name in dead:
                    os.unlink(os.path.join(self._folder, name))

    def _take_over(self, path: str) -> bool:
        try:
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                content = os.read(file, (_LIVE + _SUSPECT) * _PLACE.size)
            finally:
                os.close(file)
        except OSError:  # its process lives, another one takes it, or it is something else
            return False
        for name, first, count in _PLACE.iter_unpack(content[: len(content) // _PLACE.size * _PLACE.size]):
            if count > 0 and first >= 0:
                self._suspects.setdefault(name, []).append((first, count))
        return True

    def of(self, path: str) -> FileMarks:
        return FileMarks(
            self, hashlib.blake2b(os.path.abspath(path).encode("utf-8", "surrogateescape"), digest_size=16).digest()
        )

    @contextlib.contextmanager
    def marked(self, name: bytes, first: int, count: int) -> Iterator[None]:
        place = self._put(_PLACE.pack(name, first, count))
        try:
            yield
        finally:
            if place is not None and self._file is not None:
                # A mark that cannot be erased keeps its place: the rows are whole, and the next process parses the
                # stretch in a child.
                with contextlib.suppress(OSError):
                    os.pwrite(self._file, _EMPTY, place * _PLACE.size)
                    self._free.append(place)

    def _put(self, mark: bytes) -> int | None:
        file = self._file if self._file is not None else self._open()
        try:
            place = self._free.popleft()
        except IndexError:
            return None
        try:
            os.pwrite(file, mark, place * _PLACE.size)
        except OSError:
            return None
        return place

    def _open(self) -> int:
        """The file of this process; where it cannot be made, there are no places."""
        with self._lock:
            if self._file is None:
                with contextlib.suppress(OSError):
                    make_folder(self._folder)
                    file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # All bytes are there from the start: later writes need no space.
                    os.pwrite(file, _EMPTY * (_LIVE + _SUSPECT), 0)
                    self._file = file
                    self._free.extend(range(_LIVE))
        return -1 if self._file is None else self._file

    def _write_suspects(self) -> None:
        file = self._open()
        if file >= 0:
            known = [_PLACE.pack(name, *found) for name, ranges in self._suspects.items() for found in ranges][
                -_SUSPECT:
            ]
            os.pwrite(file, b"".join(known).ljust(_SUSPECT * _PLACE.size, b"\0"), _LIVE * _PLACE.size)

    def suspects(self, name: bytes) -> list[Range]:
        return self._suspects.get(name, []) if self._suspects else []

    def parsed_apart(self, name: bytes, first: int, end: int, still: Iterable[Range]) -> None:
        """Records from one number to another have been parsed in a child; these of them stay suspect."""
        with self._lock:
            left = [
                part
                for low, count in self._suspects.get(name, ())
                for part in ((low, min(low + count, first)), (max(low, end), low + count))
            ]
            self._suspects[name] = [(low, high - low) for low, high in left if high > low] + [*still]
            with contextlib.suppress(OSError):
                self._write_suspects()

    def close(self) -> None:
        """Nothing is parsed for now: the file goes, unless it names suspects. What is parsed later is noted in another
        one."""
        with self._lock, contextlib.suppress(OSError):
            if self._file is not None and self._process == os.getpid():
                if not any(self._suspects.values()):
                    os.unlink(self._path)
                os.close(self._file)
                self._file, self._path = None, self._new_path()
                self._free.clear()


_SHARED: dict[tuple[str, int], Marks] = {}


def shared_marks(folder: str) -> Marks:
    """The marks of this process in a folder that several processes have; those of processes that died meanwhile are
    taken over."""
    found = _SHARED.get((folder, os.getpid()))
    if found is None:
        _SHARED.clear()
        found = _SHARED[folder, os.getpid()] = Marks(folder)
    else:
        found.take_over_dead()
    return found


class FileMarks:
    """The marks of one file; without `marks` nothing is marked and nothing suspect."""

    def __init__(self, marks: Marks | None = None, name: bytes = b"") -> None:
        self._marks, self._name = marks, name

    def parsing(self, first: int, count: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._marks is None else self._marks.marked(self._name, first, count)

    def suspects(self) -> list[Range]:
        return [] if self._marks is None else self._marks.suspects(self._name)

    def parsed_apart(self, first: int, end: int, still: Iterable[Range]) -> None:
        if self._marks is not None:
            self._marks.parsed_apart(self._name, first, end, still)


UNMARKED = FileMarks()
