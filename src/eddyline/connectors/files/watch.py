"""Files that change after they were read: noticed, never read again.

Answer   `FileWatch.warn_of_changes` compares size and time of the newest files that were read with what they were then, and logs
         one warning for all that have changed since the last comparison.
Limits   A file that has gone has not changed. Only the newest files are watched, now and then, so that the cost does
         not grow with the number of files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableSequence

from eddyline.connectors.files.file_log import SeenFile, seen
from eddyline.model.clock import WALL, Clock

log = logging.getLogger(__name__)


class FileWatch:
    """Watches files of one stream. `path_of` gives the path of a name."""

    def __init__(
        self,
        stream: str,
        path_of: Callable[[str], str],
        warn: Callable[[str, list[str]], None] | None = None,
        clock: Clock = WALL,
        seconds: float = 10.0,
    ) -> None:
        """`seconds` lie between two comparisons."""
        self._stream = stream
        self._path_of = path_of
        self._warn = warn or warn_of
        self._clock = clock
        self._seconds = seconds
        self._next = float("-inf")

    def warn_of_changes(self, files: MutableSequence[SeenFile], *, now: bool = False) -> None:
        """Warn of files that have changed, once each; before `seconds` have passed, nothing is done."""
        if not now and self._clock.now() < self._next:
            return
        self._next = self._clock.now() + self._seconds
        changed = [file for file in files if self._has_changed(file)]
        for file in changed:
            files.remove(file)
        if changed:
            self._warn(self._stream, [file.name for file in changed])

    def _has_changed(self, file: SeenFile) -> bool:
        current = seen(file.name, self._path_of(file.name))
        return current.changed != 0 and current != file


def warn_of(stream: str, names: list[str]) -> None:
    log.warning("%s", change_text(stream, names))


def change_text(stream: str, names: list[str]) -> str:
    others = len(names) - 1
    more = "" if others == 0 else " and another file" if others == 1 else f" and {others} more files"
    return f"stream {stream}: {names[0]}{more} changed after reading began; a file is read once, so later changes take no part"
