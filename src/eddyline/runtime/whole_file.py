"""Small files that are there whole or not at all.

Answer   `replace_file` writes beside the target, makes sure of the disk, and renames: a reader, or a run after a crash, finds the old
         content or the new one.
"""

from __future__ import annotations

import os


def replace_file(path: str, text: str) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
