"""Which files a source has taken, in memory and beside a checkpoint.

Answer   `TakenFiles` is the set of files that a source has read out, and their number in the order of reading: a
         position is that number. `saved` makes a position good for a later process: the files up to it are in a log of
         sealed lines, to which only new files are appended. `restore` reads it back, or names the damage.
State    Names in ranges where they are numbered; one by one those that no saved position counts yet; of the newest
         files also size and time, for `watch.py`.
Limits   Every run begins a log of its own, under a name that is used once, and leaves that of the run before until a
         checkpoint names the new one: `remove_other_logs`. Lines beyond the number of a position belong to no
         checkpoint and are not read.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from eddyline.connectors.base import Position
from eddyline.connectors.files.taken import TakenNames
from eddyline.errors import CheckpointProblem
from eddyline.state.sealed import RESTORE, damaged, sealed, unreadable, unsealed
from eddyline.state.whole_file import append_line, make_folder, remove_others, write_whole
from eddyline.tuning import InputTuning

#: How many of the newest files are watched for changes.
WATCHED = 1000
_HOLDS = "the names of files that were read"


class SeenFile(NamedTuple):
    """A file as it was when reading began."""

    name: str
    size: int
    #: Its modification time, in nanoseconds.
    changed: int


def seen(name: str, path: str) -> SeenFile:
    """A file as it is now; size and time are 0 where the system does not tell them."""
    try:
        found = os.stat(path)
    except OSError:
        return SeenFile(name, 0, 0)
    return SeenFile(name, found.st_size, found.st_mtime_ns)


class TakenFiles:
    """The files that a source has read out. See the head of this file."""

    def __init__(self, tuning: InputTuning | None = None) -> None:
        self._tuning = tuning or InputTuning()
        self._names = TakenNames()
        #: Files that no saved position counts, in the order of reading; without a log, the newest files.
        self._recent: deque[SeenFile] = deque()
        self._recent_names: set[str] = set()
        self.count = 0
        self.newest: deque[SeenFile] = deque(maxlen=WATCHED)
        self._folder: str | None = None
        self._log: str | None = None
        self._begun = self._appended = 0

    def __contains__(self, name: str) -> bool:
        return name in self._recent_names or name in self._names

    def add(self, file: SeenFile) -> None:
        self.count += 1
        self._recent.append(file)
        self._recent_names.add(file.name)
        if self._folder is None:
            self.newest.append(file)
            if len(self._recent) > WATCHED:
                self._leave_recent()

    def keep_log(self, folder: str) -> None:
        """From now on positions are saved in a folder."""
        self._folder = folder

    # -- saving

    def saved(self, count: int) -> dict[str, Any]:
        """What a position with this number of files is restored from, as plain JSON; what it refers to is on the disk
        when this returns."""
        fresh = [self._leave_recent() for _ in range(count - self.count + len(self._recent))]
        if self._folder is None:
            return {"files": count, "taken": self._names.to_json(), "newest": [*self.newest]}
        self.newest.extend(fresh)
        make_folder(self._folder)
        if self._log is None or self._appended > max(self._tuning.log_bytes, 2 * self._begun):
            self._begin(count)
        elif fresh:
            self._append(sealed({"files": count, "names": fresh}))
        return {"files": count, "log": self._log}

    def _leave_recent(self) -> SeenFile:
        """The oldest of the recent files, whose name goes to the names in ranges."""
        file = self._recent.popleft()
        self._recent_names.discard(file.name)
        self._names.add(file.name)
        return file

    def _begin(self, count: int) -> None:
        content = sealed({"files": count, "taken": self._names.to_json(), "newest": [*self.newest]})
        self._log = f"{os.urandom(8).hex()}.log"
        write_whole(self._path(self._log), content)
        self._begun, self._appended = len(content), 0

    def _append(self, line: bytes) -> None:
        assert self._log is not None
        try:
            append_line(self._path(self._log), line)
        except OSError:
            self._log = None  # what follows half a line cannot be read: the next position begins a log
            raise
        self._appended += len(line)

    def _path(self, log: str) -> str:
        assert self._folder is not None
        return os.path.join(self._folder, log)

    # -- restoring

    def restore(self, position: Position) -> None:
        """Continue with the files that a saved position counts."""
        self._recent.clear()
        self._recent_names.clear()
        self.newest.clear()
        self._log = None
        if "done" in position:
            # A position of a version that listed all names.
            self._names = TakenNames(position["done"])
            self.count = len(position["done"])
            return
        self.count = int(position["files"])
        records = iter([position]) if "taken" in position else self._records(str(position["log"]))
        for record in records:
            if "taken" in record:
                self._names = TakenNames.from_json(record["taken"])
            for name, size, changed in record["newest"] if "taken" in record else record["names"]:
                self.newest.append(SeenFile(name, size, changed))
                if "taken" not in record:
                    self._names.add(name)
            if record["files"] == self.count:
                return
        raise damaged(self._path(str(position["log"])), _HOLDS, f"of {self.count} files some are missing")

    def _records(self, log: str) -> Iterator[dict[str, Any]]:
        path = self._path(log)
        try:
            with open(path, "rb") as file:
                yield from map(_record, file)
        except FileNotFoundError:
            raise CheckpointProblem(f"{path} is missing", detail=f"it held {_HOLDS}", hint=RESTORE) from None
        except OSError as problem:
            raise unreadable(path, _HOLDS, problem) from problem
        except (ValueError, KeyError, TypeError) as problem:
            raise damaged(path, _HOLDS, problem) from problem


def _record(line: bytes) -> dict[str, Any]:
    """A line of a log; KeyError or TypeError: it is whole, and not of such a log."""
    record: dict[str, Any] = unsealed(line)
    if not {"files", "newest" if "taken" in record else "names"} <= record.keys():
        raise KeyError("a line of another kind")
    return record


def remove_other_logs(folder: str, kept: Collection[str]) -> None:
    """Remove the logs that no checkpoint names, and what interrupted writes have left."""
    with contextlib.suppress(FileNotFoundError):
        remove_others(folder, kept)
