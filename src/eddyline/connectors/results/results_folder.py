"""The folder for results at the start of a job: made, continued, replaced or refused.

Answer   `prepare_output` makes the folder. A folder that is not empty is refused, unless this job continues in it or
         `overwrite` replaces its content. `needed_places` gives the paths that the job reads and the checkpoint: a folder
         with one of these inside is never emptied, and the error does not suggest it.
State    None.
Limits   Links are followed. Paths that another job needs are not known here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from eddyline.errors import UserError, unwritable
from eddyline.model.schema import Stream, Table

_NOTHING: Mapping[str, str] = MappingProxyType({})


def needed_places(streams: Iterable[Stream], tables: Iterable[Table], checkpoint: str | None) -> dict[str, str]:
    """Name of a stream, table or checkpoint -> its path."""
    found = {} if checkpoint is None else {"the checkpoint": checkpoint}
    found |= {f"stream {stream.name}": stream.options["path"] for stream in streams if "path" in stream.options}
    return found | {f"table {table.name}": table.options["path"] for table in tables if "path" in table.options}


def prepare_output(path: str, overwrite: bool, has_checkpoint: bool, needed: Mapping[str, str] = _NOTHING) -> None:
    """Make the folder for results; refuse one that is not empty, unless the job has a checkpoint or `overwrite` holds."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise UserError(f"{path} is a file", hint="results go into a folder")
    try:
        if os.path.isdir(path) and not has_checkpoint:
            _empty(path, overwrite, needed)
        os.makedirs(path, exist_ok=True)
    except OSError as problem:
        raise unwritable(problem) from problem


def _empty(path: str, overwrite: bool, needed: Mapping[str, str]) -> None:
    names = sorted(os.listdir(path))
    if not names:
        return
    if inside := [what for what, place in needed.items() if _lies_in(place, path)]:
        raise UserError(
            f"{path} cannot be the folder for results",
            detail=f"{inside[0]} of this job lies there",
            hint="--out DIR names a folder that holds nothing else",
        )
    if not overwrite:
        raise UserError(
            f"{path} is not empty",
            detail=f"it holds {', '.join(names[:5])}",
            hint="--overwrite replaces what is there; --checkpoint DIR continues an earlier run",
        )
    for name in names:
        found = os.path.join(path, name)
        if os.path.isdir(found) and not os.path.islink(found):
            shutil.rmtree(found)
        else:
            os.remove(found)


def _lies_in(place: str, folder: str) -> bool:
    """Whether a path is the folder or inside it."""
    place, folder = os.path.realpath(place), os.path.realpath(folder)
    return os.path.commonpath([place, folder]) == folder
