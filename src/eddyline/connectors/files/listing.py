"""Which files a path means, in which order, and the columns that their folders give.

Answer   A path is a file, a folder (read with its subfolders) or a glob. Files are named by their path below the common
         folder, which is also their order; hive-style folders (`day=2024-01-01/`) give columns. `finding.py` finds
         them.
Limits   Names that begin with `.` or `_` are not data: writers use them for what is not complete. A file is taken to be
         complete when its name appears; grow a stream by adding files (write and rename), not by appending to one.
"""

from __future__ import annotations

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
    def shown(self) -> str:
        """The name as text: not every name of a file is."""
        return shown_name(self.name)

    @property
    def partitions(self) -> dict[str, str | None]:
        """The columns that hive-style folders give.

        >>> DataFile("day=2024-01-01/shop=a%2Fb/0.csv", "").partitions
        {'day': '2024-01-01', 'shop': 'a/b'}
        """
        folders = [part.split("=", 1) for part in self.name.split("/")[:-1] if "=" in part]
        return {key: None if value == _NULL_PARTITION else unquote(value) for key, value in folders}


def shown_name(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


def is_pattern(path: str) -> bool:
    return any(c in path for c in _MAGIC) and not os.path.exists(path)


def required_path(options: Mapping[str, str], what: str) -> str:
    path = options.get("path", "").strip()
    if not path:
        raise SourceProblem(
            f"{what} has no path", hint="WITH (format = 'parquet', path = 'data/…') says where its files are"
        )
    return path


def relative_hint(path: str) -> str:
    if os.path.isabs(path):
        return "check the path"
    return f"relative paths begin at the working directory, {os.getcwd()}"


def split_pattern(path: str) -> tuple[str, tuple[str, ...] | None]:
    """The common folder of a path and, where the path is a pattern, the parts that follow it.

    >>> split_pattern("data/2024-*/*.csv")
    ('data', ('2024-*', '*.csv'))
    """
    if not is_pattern(path):
        return path, None
    parts = path.split("/")
    fixed = next(i for i, part in enumerate(parts) if any(c in part for c in _MAGIC))
    base = "/".join(parts[:fixed]) or ("/" if path.startswith("/") else ".")
    return base, tuple(part for part in parts[fixed:] if part)


def is_hidden(name: str) -> bool:
    """Whether an entry of a folder is no data."""
    return name.startswith((".", "_")) and "=" not in name
