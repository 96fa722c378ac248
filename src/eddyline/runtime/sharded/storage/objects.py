"""Whole objects under names: all that a job on several shards needs of a place to keep things.

Answer   `names` lists, `read` gives an object, `write` brings objects that are there whole when it returns, or not at
         all, and `delete` removes one. A name is written once.
State    Files below `eddyline/` in the checkpoint.
Limits   A folder that driver and tasks see. Another place needs these four functions and nothing else.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Mapping

from eddyline.state.whole_file import make_folder, sync_folder, write_whole


class Objects:
    def __init__(self, checkpoint: str) -> None:
        self.folder = os.path.join(checkpoint, "eddyline")

    def names(self, under: str) -> list[str]:
        """The objects below a name; those that were never written whole are not among them."""
        found = []
        for folder, _, files in os.walk(os.path.join(self.folder, under)):
            place = os.path.relpath(folder, self.folder)
            found += [os.path.join(place, name) for name in files if not name.startswith(".")]
        return sorted(found)

    def read(self, name: str) -> memoryview:
        """An object, mapped into memory; `FileNotFoundError`: there is none."""
        with open(self.path(name), "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Objects that survive a power cut once this returns."""
        folders = dict.fromkeys(os.path.dirname(self.path(name)) for name in contents)
        for folder in folders:
            make_folder(folder)
        for name, content in contents.items():
            write_whole(self.path(name), content, synced=False)
        for folder in folders:
            sync_folder(folder)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(name))

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)
