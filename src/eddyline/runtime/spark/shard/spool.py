"""Live state on local disk, so that a worker that did not serve a shard last can reopen it cheaply.

Answer   A bundle of segments is a file named after it and the token of the epoch that wrote it; `load` maps it into
         memory and checks its length and checksum. Anything that does not fit is not there: the state store has it.
State    One folder per checkpoint and shard.
Limits   Never the truth: a full disk or a lost folder costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import tempfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the state header says of a segment: who wrote it, how long it is, what it sums to."""

    token: str
    size: int
    checksum: int

    @staticmethod
    def of(blob: bytes, token: str) -> Stamp:
        return Stamp(token, len(blob), zlib.crc32(blob))


class Spool:
    def __init__(self, folder: str):
        self.folder = folder
        #: Segments that could not be written, for the statistics.
        self.failures = 0

    def save(self, name: str, stamp: Stamp, blob: bytes | memoryview) -> None:
        path = self._path(name, stamp)
        temporary = f"{path}.{os.getpid()}.part"
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(blob)
            os.rename(temporary, path)
        except OSError:
            # Disk full or folder gone: the next miss reads the state store instead.
            self.failures += 1
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def load(self, name: str, stamp: Stamp) -> memoryview | None:
        """The segment as it was saved, mapped; None: not here, or not whole."""
        try:
            with open(self._path(name, stamp), "rb") as file:
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
            for found in os.listdir(self.folder):
                if found not in wanted:
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(self.folder, found))

    def _path(self, name: str, stamp: Stamp) -> str:
        return os.path.join(self.folder, f"{name.replace(os.sep, '_')}.{stamp.token}.arrow")


def spool_folder(checkpoint: str) -> str:
    """The local folder for a checkpoint's segments; EDDYLINE_SPOOL chooses the disk."""
    base = os.environ.get("EDDYLINE_SPOOL") or os.path.join(tempfile.gettempdir(), f"eddyline-{os.getuid()}")
    return os.path.join(base, hashlib.sha256(os.path.abspath(checkpoint).encode()).hexdigest()[:16])
