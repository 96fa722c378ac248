"""Which files a path means, in which order, and what their folders say.

Answer   A path is a file, a folder (read with its subfolders) or a glob. Files come in name order over the whole path below
         the common folder; hive-style folders (`day=2024-01-01/`) give columns.
Limits   Names that begin with `.` or `_` are not data: writers use them for what is not complete. A file is taken to be
         complete when its name appears; grow a stream by adding files (write and rename), not by appending to one.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from eddyline.errors import SourceProblem

_MAGIC = "*?["
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class DataFile:
    #: The path below the common folder, with `/`: orders files and names them in reasons and positions.
    name: str
    path: str

    @property
    def partitions(self) -> dict[str, str | None]:
        """The columns that hive-style folders give.

        >>> DataFile("day=2024-01-01/shop=a%2Fb/0.csv", "").partitions
        {'day': '2024-01-01', 'shop': 'a/b'}
        """
        folders = [part.split("=", 1) for part in self.name.split("/")[:-1] if "=" in part]
        return {key: None if value == _NULL_PARTITION else unquote(value) for key, value in folders}


def is_pattern(path: str) -> bool:
    return any(c in path for c in _MAGIC) and not os.path.exists(path)


def required_path(options: Mapping[str, str], what: str) -> str:
    path = options.get("path", "").strip()
    if not path:
        raise SourceProblem(f"{what} has no path", hint="WITH (format = 'parquet', path = 'data/…') says where its files are")
    return path


def check_path(path: str, what: str, *, follow: bool = False) -> None:
    """Refuse, before anything runs, a path that means nothing. An empty folder is fine: an empty stream."""
    base = _base_of(path)
    if is_pattern(path):
        if not os.path.isdir(base) or not (follow or list_files(path)):
            raise SourceProblem(f"no file matches {path}, from which {what} is read", hint=_relative_hint(path))
    elif not os.path.exists(path):
        raise SourceProblem(f"{path}, from which {what} is read, does not exist", hint=_relative_hint(path))


def _relative_hint(path: str) -> str:
    if os.path.isabs(path):
        return "check the path"
    return f"relative paths begin at the working directory, {os.getcwd()}"


def list_files(path: str) -> list[DataFile]:
    """The files of a path in name order."""
    if is_pattern(path):
        base = _base_of(path)
        found = [p for p in glob.glob(path, recursive=True) if os.path.isfile(p)]
    elif os.path.isdir(path):
        base = path
        found = [os.path.join(folder, name) for folder, _, names in os.walk(path, followlinks=True) for name in names]
    else:
        return [DataFile(os.path.basename(path), path)] if os.path.exists(path) else []
    files = [DataFile(os.path.relpath(p, base).replace(os.sep, "/"), p) for p in found]
    return sorted((f for f in files if not _is_hidden(f.name)), key=lambda f: f.name)


def _base_of(path: str) -> str:
    """The folder before the first wildcard."""
    if not is_pattern(path):
        return path
    parts = path.split("/")
    fixed = next(i for i, part in enumerate(parts) if any(c in part for c in _MAGIC))
    return "/".join(parts[:fixed]) or ("/" if path.startswith("/") else ".")


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/") if "=" not in part)
