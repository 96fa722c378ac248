"""New files of a path, found without listing the old ones again.

Answer   `Finder.new_files` gives the files that were not there before, in name order. Where nothing has changed it costs one
         `stat` per folder: a folder is listed again only when its modification time has changed, for some seconds after
         that, and once a minute.
State    Per folder its modification time and the names in it.
Limits   A link to a folder that contains the link, or that was passed on the way to it, is not followed. An entry that
         is no folder counts as a file, whatever it is: reading decides. A listing that took long is followed by a pause of
         fifty times its duration, at most five seconds.
"""

from __future__ import annotations

import fnmatch
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from eddyline.connectors.files.listing import DataFile, is_hidden, relative_hint, split_pattern
from eddyline.errors import SourceProblem
from eddyline.model.clock import WALL, Clock
from eddyline.tuning import InputTuning


@dataclass(slots=True)
class _Folder:
    path: str
    #: Its place below the common folder, with `/` at the end; empty for the common folder itself.
    prefix: str
    #: The real paths of the folders on the way here, this one included.
    way: tuple[str, ...]
    changed: int = -1
    #: When this modification time was first seen, and when the folder was listed last.
    seen: float = 0.0
    listed: float = float("-inf")
    names: set[str] = field(default_factory=set)

    def is_listed(self, changed: int, now: float, tuning: InputTuning) -> bool:
        """Whether the last listing still holds."""
        if changed != self.changed:
            self.changed, self.seen = changed, now
            return False
        return self.listed - self.seen >= tuning.certain_seconds and now - self.listed < tuning.again_seconds


class Finder:
    """The files of one path: a file, a folder with its subfolders, or a pattern."""

    def __init__(self, path: str, clock: Clock = WALL, tuning: InputTuning | None = None) -> None:
        self._tuning = tuning or InputTuning()
        self._path = path
        self._clock = clock
        self._base, self._pattern = split_pattern(path)
        self._folders: dict[str, _Folder] = {}
        self._found = False
        self._next = float("-inf")

    def path_of(self, name: str) -> str:
        """Where a file of this name lies."""
        # A path that is a file has no folders, and its one file no other place.
        return os.path.join(self._base, name) if self._folders else self._path

    def new_files(self) -> list[DataFile]:
        """The files that were not there at the last call; one that went and came again counts as new."""
        now, began = self._clock.now(), time.thread_time()
        if now < self._next:
            return []
        fresh = sorted(self._fresh(now), key=lambda file: file.name)
        took = time.thread_time() - began
        tuning = self._tuning
        self._next = now + min(took * tuning.pause, tuning.longest_pause) if took > tuning.long_listing else now
        return fresh

    def _fresh(self, now: float) -> Iterator[DataFile]:
        if self._pattern is None and not os.path.isdir(self._path):
            # A single file: it is there, or not yet, or not any more.
            found, before = os.path.lexists(self._path), self._found
            self._found = found
            if found and not before:
                yield DataFile(os.path.basename(self._path), self._path)
            return
        if not self._folders:
            self._folders[""] = _Folder(self._base, "", (os.path.realpath(self._base),))
        # Folders that are found on the way are appended and listed in the same turn.
        turn = list(self._folders.values())
        for folder in turn:
            try:
                changed = os.stat(folder.path).st_mtime_ns
                names = None if folder.is_listed(changed, now, self._tuning) else set(os.listdir(folder.path))
            except (FileNotFoundError, NotADirectoryError):
                self._forget(folder)
            except OSError:
                folder.changed = -1  # it is tried again
            else:
                if names is not None:
                    fresh, folder.names, folder.listed = names - folder.names, names, now
                    yield from self._entered(folder, fresh, turn)

    def _entered(self, folder: _Folder, fresh: set[str], turn: list[_Folder]) -> Iterator[DataFile]:
        """The files among new names; new folders join the turn."""
        for name in fresh:
            path, place = os.path.join(folder.path, name), folder.prefix + name
            if is_hidden(name):
                continue
            if not _is_folder(path):
                if self._pattern is None or _matches(place.split("/"), self._pattern):
                    yield DataFile(place, path)
            elif self._pattern is None or _may_hold(place.split("/"), self._pattern):
                real = os.path.realpath(path)
                if not _is_loop(folder, real):
                    below = self._folders[place + "/"] = _Folder(path, place + "/", (*folder.way, real))
                    turn.append(below)

    def _forget(self, folder: _Folder) -> None:
        if folder.prefix:
            del self._folders[folder.prefix]
            above, _, name = folder.prefix[:-1].rpartition("/")
            parent = self._folders.get(f"{above}/" if above else "")
            if parent is not None:
                parent.names.discard(name)
                parent.changed = -1  # a file may have taken its place
        else:
            folder.changed, folder.names = -1, set()


def list_files(path: str) -> list[DataFile]:
    """The files of a path in name order."""
    return Finder(path).new_files()


def check_path(path: str, what: str, *, follow: bool = False) -> None:
    """Refuse, before anything runs, a path that means nothing. An empty folder is fine: an empty stream."""
    base, pattern = split_pattern(path)
    if pattern is not None:
        if not os.path.isdir(base) or not (follow or list_files(path)):
            raise SourceProblem(f"no file matches {path}, from which {what} is read", hint=relative_hint(path))
    elif not os.path.exists(path):
        raise SourceProblem(f"{path}, from which {what} is read, does not exist", hint=relative_hint(path))
    elif not os.path.isdir(path) and not os.path.isfile(path):
        raise SourceProblem(
            f"{path}, from which {what} is read, is neither a file nor a folder",
            hint="pipes and devices cannot be read again after a restart: write their rows to files",
        )


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except OSError:
        return False


def _is_loop(folder: _Folder, real: str) -> bool:
    """Whether a folder below another one leads back: it was passed on the way, or contains the other."""
    return real in folder.way or any(passed.startswith(real.rstrip("/") + "/") for passed in folder.way)


def _matches(parts: list[str], pattern: tuple[str, ...]) -> bool:
    """Whether a place fits a pattern, part by part; `**` stands for any number of folders.

    >>> _matches(["2024", "a.csv"], ("**", "*.csv")), _matches(["a.csv"], ("*", "*.csv"))
    (True, False)
    """
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return _matches(parts, pattern[1:]) or (bool(parts) and _matches(parts[1:], pattern))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _may_hold(parts: list[str], pattern: tuple[str, ...]) -> bool:
    """Whether a folder can have files that fit a pattern."""
    if not parts or not pattern:
        return bool(pattern)
    if pattern[0] == "**":
        return True
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _may_hold(parts[1:], pattern[1:])
