"""Files with a checksum: recovery reads the content that was written, or raises an error that names the damage.

Answer   `write_sealed` writes a JSON value whole, with the checksum of its text beside it; `read_sealed` gives the
         value back, or raises a `CheckpointProblem` with the file, what it held and what can be done. `checksum` is for
         blocks of bytes whose checksums another sealed file has. `not_writable` is the error when a file of a checkpoint
         cannot be written; `kept_in` raises it.
Limits   The checksum (CRC-32, 3 GB a second) finds damage, not forgery: the owner of a checkpoint is trusted.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eddyline.errors import CheckpointProblem, StateProblem
from eddyline.state.whole_file import PRIVATE, write_whole

RESTORE = "restore the folder from a copy, or start anew with an empty checkpoint and an empty folder for results"

_FORM = re.compile(rb'\{"crc32": "([0-9a-f]{8})", "body": (.*)\}\n', re.DOTALL)


def checksum(data: Any) -> str:
    return f"{zlib.crc32(data):08x}"


def sealed(body: object) -> bytes:
    """A JSON value as the content of a sealed file: JSON again, with `crc32` and `body`."""
    text = json.dumps(body).encode()
    return b'{"crc32": "%s", "body": %s}\n' % (checksum(text).encode(), text)


def unsealed(content: bytes) -> Any:
    """The reverse; a `ValueError` names what is wrong with the content."""
    if not content:
        raise ValueError("the file is empty")
    found = _FORM.fullmatch(content)
    if found is None:
        raise ValueError("the file is not whole, or not of this form")
    if checksum(found[2]) != found[1].decode():
        raise ValueError("the checksum does not fit the content")
    return json.loads(found[2])


def write_sealed(path: str, body: object, *, mode: int = PRIVATE, synced: bool = True) -> None:
    write_whole(path, sealed(body), mode=mode, synced=synced)


def read_sealed(path: str, holds: str, hint: str = RESTORE) -> Any:
    """The value that was written; a missing file raises `FileNotFoundError`.

    Args:
        holds: what the file holds, for the error: "the state of the job".
    """
    try:
        with open(path, "rb") as file:
            return unsealed(file.read())
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise unreadable(path, holds, problem) from problem
    except ValueError as problem:
        raise damaged(path, holds, problem, hint) from problem


def unreadable(path: str, holds: str, problem: OSError) -> CheckpointProblem:
    """The error of a file of a checkpoint that exists and cannot be read."""
    return CheckpointProblem(
        f"{path} cannot be read",
        detail=f"it holds {holds}; {problem.strerror}",
        hint="check the permissions and the disk",
    )


def damaged(path: str, holds: str, problem: object, hint: str = RESTORE) -> CheckpointProblem:
    """The error of a file of a checkpoint with another content than was written."""
    return CheckpointProblem(f"{path} is damaged", detail=f"it held {holds}; {problem}", hint=hint)


def not_writable(folder: str, problem: OSError) -> StateProblem:
    """The error of a checkpoint that cannot be written."""
    named = f"{problem.filename}: " if problem.filename else ""
    return StateProblem(
        f"the checkpoint in {folder} cannot be written",
        detail=f"{named}{problem.strerror}",
        hint="check space and permissions; then the same command continues from the last checkpoint",
    )


@contextmanager
def kept_in(checkpoint: str) -> Iterator[None]:
    """Around code that writes to the checkpoint."""
    try:
        yield
    except ConnectionError:
        # Not of a file.
        raise
    except OSError as problem:
        raise not_writable(checkpoint, problem) from problem
