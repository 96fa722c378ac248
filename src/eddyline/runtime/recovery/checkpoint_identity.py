"""The identity of a checkpoint folder: its engine, its format and its folders for results; and one process at a time.

Answer   `claim(folder, engine, format)` makes the folder (for its owner alone), locks it and writes the engine into it. A
         folder of the other engine, of another format or in use is refused with a hint. `begin` notes the folders for
         results before the first result is written. If the run is killed before its first checkpoint, `has_begun` tells
         the next run that the files in these folders are those of the same job.
State    `eddyline.json` and `begun.json` in the folder, both with checksums, and its lock.
Limits   Nothing here reads the state itself: each engine reads its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from eddyline.errors import CheckpointProblem
from eddyline.runtime.recovery.folder_lock import FolderLock
from eddyline.state.sealed import RESTORE, not_writable, read_sealed, write_sealed
from eddyline.state.whole_file import make_folder

IDENTITY = "eddyline.json"
BEGUN = "begun.json"

#: Files in checkpoint folders of releases that wrote no `eddyline.json`.
_TRACES = {"embedded": ("checkpoint.json",), "spark": ("offsets", "commits", os.path.join("eddyline", "ledger.json"))}
#: The release that reads an older format, the same for both engines.
_RELEASES = {5: "eddyline 0.2.0"}
_ANEW = "start anew with an empty checkpoint and an empty folder for results"


class Claim:
    """A checkpoint folder that this process has locked."""

    def __init__(self, folder: str, lock: FolderLock) -> None:
        self.folder = folder
        self._lock = lock
        self._saved = False

    def has_begun(self, results: Iterable[str] = ()) -> bool:
        """Whether a run with this checkpoint has begun, and has noted all of these folders."""
        noted = self._noted()
        return noted is not None and {os.path.realpath(path) for path in results} <= set(noted["results"])

    def begin(self, results: Iterable[str]) -> None:
        """Note the folders for results, which are empty or those of this job. Called before a result is written."""
        noted = self._noted() or {"results": [], "saved": False}
        self._note(noted | {"results": sorted({*noted["results"], *(os.path.realpath(path) for path in results)})})

    def has_saved(self) -> bool:
        """Whether a checkpoint was written: if it is missing, state is lost."""
        noted = self._noted()
        return noted is not None and bool(noted.get("saved"))

    def note_saved(self) -> None:
        """Note that a checkpoint was written."""
        if not self._saved:
            noted = self._noted() or {"results": []}
            if not noted.get("saved"):
                self._note(noted | {"saved": True})
            self._saved = True

    def _noted(self) -> dict[str, Any] | None:
        try:
            return _of_form(os.path.join(self.folder, BEGUN), "the folders for results", results=list)
        except FileNotFoundError:
            return None

    def _note(self, noted: dict[str, Any]) -> None:
        try:
            write_sealed(os.path.join(self.folder, BEGUN), noted)
        except OSError as problem:
            raise not_writable(self.folder, problem) from problem

    def release(self) -> None:
        self._lock.release()


def claim(folder: str, engine: str, format: int) -> Claim:
    """Take a checkpoint folder for an engine, until `release` or the end of the process."""
    if os.path.exists(folder) and not os.path.isdir(folder):
        detail, hint = "a checkpoint is a folder", "--checkpoint DIR names a folder"
        raise CheckpointProblem(f"{folder} is a file", detail=detail, hint=hint)
    try:
        make_folder(folder)
    except OSError as problem:
        raise not_writable(folder, problem) from problem
    lock = FolderLock(folder)
    lock.take()
    try:
        if identity(folder) is None:
            _check_traces(folder, engine)
            write_sealed(os.path.join(folder, IDENTITY), {"engine": engine, "format": format})
        else:
            check_identity(folder, engine, format)
    except BaseException as problem:
        lock.release()
        if isinstance(problem, OSError):
            raise not_writable(folder, problem) from problem
        raise
    return Claim(folder, lock)


def identity(folder: str) -> dict[str, Any] | None:
    """Engine and format of a checkpoint; None: there is no folder, or no `eddyline.json` in it."""
    if not os.path.isdir(folder):
        return None
    try:
        return _of_form(os.path.join(folder, IDENTITY), "engine and format of the checkpoint", engine=str, format=int)
    except FileNotFoundError:
        return None


def _of_form(path: str, holds: str, **fields: type) -> dict[str, Any]:
    """The content of a file with a checksum; it must have at least these fields."""
    found: dict[str, Any] = read_sealed(path, holds)
    if not isinstance(found, dict) or not all(isinstance(found.get(name), kind) for name, kind in fields.items()):
        raise CheckpointProblem(f"{path} is not of this version's form", detail=f"it held {holds}", hint=RESTORE)
    return found


def check_identity(folder: str, engine: str, format: int) -> None:
    """Refuse a checkpoint of the other engine, or of another format."""
    found = identity(folder)
    if found is None:
        return
    if found.get("engine") != engine:
        raise _of_the_other(folder, str(found.get("engine")), engine)
    if found.get("format") != format:
        raise of_another_format(f"the checkpoint in {folder}", found.get("format"), format)


def of_another_format(what: str, found: object, format: int) -> CheckpointProblem:
    """The error for a format that this version does not read; it names the release that can continue the job."""
    release = _RELEASES.get(found, "") if isinstance(found, int) else ""
    hint = f"continue the job with {release or 'the version that wrote it'}, or {_ANEW}"
    return CheckpointProblem(f"{what} has format {found}", detail=f"this version reads format {format}", hint=hint)


def _check_traces(folder: str, engine: str) -> None:
    for kind, names in _TRACES.items():
        if any(os.path.exists(os.path.join(folder, name)) for name in names):
            if kind != engine:
                raise _of_the_other(folder, kind, engine)
            raise CheckpointProblem(
                f"the checkpoint in {folder} does not say its format",
                detail=f"it has no {IDENTITY}: an earlier version wrote it, or the file was removed",
                hint=f"continue with the version that wrote it, or {_ANEW}",
            )


def _of_the_other(folder: str, engine: str, wanted: str) -> CheckpointProblem:
    return CheckpointProblem(
        f"{folder} is a checkpoint of the engine {engine}",
        detail=f"this job runs on the engine {wanted}; its state has another form",
        hint=f"--engine {engine} continues it; for the engine {wanted} take another --checkpoint DIR, and another --out DIR",
    )
