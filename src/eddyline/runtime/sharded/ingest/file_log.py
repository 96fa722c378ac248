"""The files of one stream in the order in which a Spark job takes them.

Answer   `append_new` appends files that are new, in name order, and makes the log durable before an offset can count them.
         `forget` drops what no batch reads again: of those files only the names are kept, in ranges where they are
         numbered.
State    `eddyline/files/<stream>.log` below the checkpoint: sealed lines. The first has the names of the files before
         it; the others have files with their paths and sizes. The log is begun anew when it has grown to twice its
         size.
Limits   One process writes: the one in which Spark plans batches. What changes after it was taken is warned of through
         files that `take_warnings` reads in the driver: the planning process has no terminal.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from itertools import islice
from typing import Any, NamedTuple

from eddyline.connectors.files.file_log import WATCHED, SeenFile, seen
from eddyline.connectors.files.finding import Finder
from eddyline.connectors.files.listing import DataFile
from eddyline.connectors.files.taken import TakenNames
from eddyline.connectors.files.watch import FileWatch, change_text
from eddyline.errors import CheckpointProblem
from eddyline.model.schema import Stream
from eddyline.runtime.sharded.job.layout import parsing_folder
from eddyline.state.sealed import RESTORE, damaged, sealed, unreadable, unsealed, write_sealed
from eddyline.state.whole_file import append_line, make_folder, write_whole
from eddyline.tuning import InputTuning

log = logging.getLogger(__name__)

#: As many bytes of a sealed line have its checksum.
_MARK_BYTES = 24
_HOLDS = "the files of a stream in the order of reading"


class TakenFile(NamedTuple):
    name: str
    path: str
    size: int
    changed: int


class FileLog:
    """The files of one stream. See the head of this file."""

    def __init__(self, stream: Stream, checkpoint: str, tuning: InputTuning | None = None) -> None:
        self._tuning = tuning or InputTuning()
        self.stream = stream
        self._folder = os.path.join(checkpoint, "eddyline", "files")
        self._parsing = parsing_folder(checkpoint)
        self._path = os.path.join(self._folder, f"{stream.name}.log")
        self._known = TakenNames()
        #: The files that a batch may still read, and the number of the first of them.
        self._files: deque[TakenFile] = deque()
        self._first = 0
        self._finder = Finder(stream.options["path"], tuning=self._tuning)
        #: Files that were found and are not in the log yet: the first of them may still be in the writing.
        self._waiting: list[DataFile] = []
        self._newest: deque[SeenFile] = deque(maxlen=WATCHED)
        self._watch = FileWatch(stream.name, self._finder.path_of, self._warn, seconds=self._tuning.watch_seconds)
        #: None: the log on the disk cannot be appended to.
        self._begun: int | None = None
        self._appended = 0
        #: How the log begins, with the checksum of its first line, and how far it has been read.
        self._mark, self._place = b"", 0
        #: How many files the log had when it was read; None: an offset has been compared with it.
        self._recovered: int | None = 0
        self.read_on()

    @property
    def total(self) -> int:
        """How many files have been taken."""
        return self._first + len(self._files)

    def check(self, count: int) -> None:
        """Refuse a log that is shorter than an offset says; the first one comes from an earlier process."""
        there, self._recovered = self.total if self._recovered is None else self._recovered, None
        if count > there:
            raise CheckpointProblem(
                f"the list of files of stream {self.stream.name} is shorter than the checkpoint says",
                detail=f"it has {there} files, and {count} have been taken",
                hint=RESTORE,
            )

    def file(self, number: int) -> TakenFile:
        return self._files[number - self._first]

    def names(self) -> list[str]:
        """Those that a batch may still read."""
        return [file.name for file in self._files]

    def files(self, number: int, count: int | None = None) -> list[TakenFile]:
        """The files from a number on that a batch may still read, or some of them."""
        low = number - self._first
        return list(islice(self._files, low, None if count is None else low + count))

    # -- growing

    def append_new(self, following: bool = False) -> None:
        """Take files that were not there before, in name order; while following, not beyond one that is still in the
        writing."""
        found = [file for file in self._finder.new_files() if file.name not in self._known]
        self._waiting = sorted(
            {file.name: file for file in [*self._waiting, *found]}.values(), key=lambda file: file.name
        )
        self._watch.warn_of_changes(self._newest)
        if not self._waiting:
            return
        ready = self._ready() if following else len(self._waiting)
        fresh = [TakenFile(file.name, file.path, *seen(file.name, file.path)[1:]) for file in self._waiting[:ready]]
        del self._waiting[:ready]
        if fresh:
            self._append(fresh)

    def _ready(self) -> int:
        # Not at the top: the process that plans batches loads no readers until it needs one.
        from eddyline.connectors.files.readers import is_unfinished
        from eddyline.connectors.guarded.parsing_marks import shared_marks

        marks = shared_marks(self._parsing)
        waiting = ((place, file, marks.of(file.path)) for place, file in enumerate(self._waiting))
        unfinished = (place for place, file, own in waiting if is_unfinished(self.stream, file, self._tuning, own))
        return next(unfinished, len(self._waiting))

    def _append(self, fresh: list[TakenFile]) -> None:
        line = sealed({"first": self.total, "files": fresh})
        self._take(fresh)
        if self._begun is None or self._appended > max(self._tuning.log_bytes, 2 * self._begun):
            self._begin()
            return
        self._appended += len(line)
        try:
            append_line(self._path, line)
        except OSError:
            self._begun = None  # half a line may be there: the next time the log is begun anew
            raise

    def _take(self, fresh: list[TakenFile]) -> None:
        for file in fresh:
            self._files.append(file)
            self._known.add(file.name)
            self._newest.append(SeenFile(file.name, file.size, file.changed))

    def _begin(self) -> None:
        make_folder(self._folder)
        head: dict[str, Any] = {
            "first": self._first,
            "taken": self._known.to_json(),
            "newest": [*self._newest],
            "files": [*self._files],
        }
        content = sealed(head)
        write_whole(self._path, content)
        self._begun, self._appended = len(content), 0

    def forget(self, number: int) -> None:
        """No batch will read the files before a number again."""
        while self._files and self._first < number:
            self._files.popleft()
            self._first += 1

    # -- recovering

    def read_on(self) -> None:
        """Take over what the log has that this object does not know: of an earlier process, or of one that appends."""
        try:
            with open(self._path, "rb") as file:
                mark = file.read(_MARK_BYTES)
                if mark != self._mark:
                    # It was begun anew.
                    self._mark, self._place, self._known, self._first = mark, 0, TakenNames(), 0
                    self._files.clear()
                file.seek(self._place)
                lines = file.readlines()
        except FileNotFoundError:
            return
        except OSError as problem:
            raise unreadable(self._path, _HOLDS, problem) from problem
        # A line without its end is being written, or was when a process died; no offset counts it.
        torn = bool(lines) and not lines[-1].endswith(b"\n")
        if torn:
            lines.pop()
        first = self._place == 0
        try:
            for place, line in enumerate(lines):
                self._recover(unsealed(line), first and place == 0)
        except (ValueError, KeyError, TypeError) as problem:
            raise damaged(self._path, _HOLDS, problem) from problem
        self._place += sum(map(len, lines))
        self._recovered = self.total
        if first and lines and not torn:
            self._begun, self._appended = len(lines[0]), sum(map(len, lines[1:]))

    def _recover(self, record: dict[str, Any], is_head: bool) -> None:
        files = [TakenFile(*file) for file in record["files"]]
        if is_head:
            self._first = record["first"]
            self._known = TakenNames.from_json(record["taken"])
            self._files.extend(files)
            self._newest.extend(SeenFile(*file) for file in record["newest"])
        elif record["first"] != self.total:
            raise ValueError(f"file {self.total} is missing")
        else:
            self._take(files)

    def _warn(self, stream: str, names: list[str]) -> None:
        folder = os.path.join(self._folder, "warnings")
        make_folder(folder)
        write_sealed(os.path.join(folder, f"{os.urandom(8).hex()}.json"), change_text(stream, names))


def take_warnings(checkpoint: str) -> None:
    """Log, in the driver, what the planning process had to warn of."""
    folder = os.path.join(checkpoint, "eddyline", "files", "warnings")
    if not os.path.isdir(folder):
        return
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.endswith(".json"):
            try:
                with open(path, "rb") as file:
                    log.warning("%s", unsealed(file.read()))
                os.unlink(path)
            except (OSError, ValueError):
                continue
