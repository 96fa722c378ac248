"""Result files that shards have written and that have no name yet: where they lie, and what belongs to them.

Answer   Shards write their files of a batch for one sink into the hidden folder `.landing/<batch, 12 digits>/` of the
         sink's folder, under names that no other attempt has. `FileSink.adopt` gives them the names of results. Beside
         a parquet file may lie its *places*: per row, what orders it among the rows of other shards. It goes to the
         hidden folder `.places/` when the file gets its name.
State    Those folders. A landing is removed when a later batch lands, or when its sink is closed.
Limits   No name in them ends as result files do, so that a reader of `*.parquet` meets none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass

_LANDING, _PLACES = ".landing", ".places"
_PLACED = ".places"
#: What the names of files end with that have landed, after their suffix.
_PART = ".part"


@dataclass(frozen=True)
class FileTarget:
    """Where the files of a query's results go, and their form."""

    #: The folder of the sink.
    folder: str
    suffix: str

    def landing(self, batch: int) -> str:
        return os.path.join(self.folder, _LANDING, f"{batch:012d}")

    def landed(self, batch: int, token: str) -> str:
        """The path of a file of a batch; the token is that of one attempt."""
        return os.path.join(self.landing(batch), f"{token}{self.suffix}{_PART}")

    def named(self, batch: int, part: int) -> str:
        """The path of a result file."""
        return os.path.join(self.folder, f"{batch:012d}-{part:04d}{self.suffix}")

    @staticmethod
    def of(landed: str) -> FileTarget:
        """The target of a file that has landed."""
        folder, name = os.path.split(landed)
        return FileTarget(os.path.dirname(os.path.dirname(folder)), os.path.splitext(name.removesuffix(_PART))[1])


def landed_places(landed: str) -> str:
    """The places of a file that has landed."""
    return landed + _PLACED


def named_places(path: str) -> str:
    """The places of a result file."""
    folder, name = os.path.split(path)
    return os.path.join(folder, _PLACES, name + _PLACED)


def remove_landings(folder: str, below: int | None = None) -> None:
    """Remove what has landed for a sink and was not adopted: of batches below a number, or of all."""
    landing = os.path.join(folder, _LANDING)
    if below is None:
        shutil.rmtree(landing, ignore_errors=True)
        return
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(landing):
            if int(name) < below:
                shutil.rmtree(os.path.join(landing, name), ignore_errors=True)


def names_of(landed: str, path: str) -> list[tuple[str, str]]:
    """What has to be renamed so that a file which has landed becomes a result file, and to what: its places first. What
    an earlier attempt has renamed is not there any more."""
    pairs = [(landed_places(landed), named_places(path)), (landed, path)]
    return [(hidden, name) for hidden, name in pairs if os.path.exists(hidden)]
