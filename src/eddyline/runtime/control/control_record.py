"""One control record: a file that any process may have written, checked before it is used.

Answer   `read_record` gives the record of a file, or raises `Malformed` with the reason: no regular file, too large, no
         JSON, nested too deeply, other fields or types than a record has. `RefusedRecords` moves records that the job
         refuses to a folder of their own and writes the reason beside each.
State    `control/refused/<number>.json` and `control/refused/<number>.reason.json`.
Limits   The newest `KEPT` refused records are kept; of a record that is too large only its beginning. A link is not
         followed, and a folder or a FIFO is not read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping
from typing import Any

from eddyline.state.whole_file import write_whole

Record = dict[str, Any]

#: Bytes of a record; a larger file is refused.
LARGEST_RECORD = 16 << 20
#: How many refused records are kept, and how many bytes of one that is too large.
KEPT = 1_000
_EXCERPT = 64 << 10

_NAME = re.compile(r"(\d{12})\.json")


class Malformed(Exception):
    """A file that is no control record; the text says why."""


def add_record(sql: str) -> Record:
    return {"op": "add", "sql": sql}


def drop_record(names: Iterable[str], by: str | None = None) -> Record:
    """`by` names the part of the job that drops the queries; without it another process does."""
    record = {"op": "drop", "queries": list(names)}
    return record if by is None else {**record, "by": by}


def set_record(query: str, given: Mapping[str, str]) -> Record:
    """A record that gives a running query other triggers."""
    return {"op": "set", "query": query, "settings": dict(given)}


def request_record(token: str, requests: Iterable[str], as_of: str | None = None, until: float | None = None) -> Record:
    """A record of requests to templates. The file of the answer has the name of the token. After `until`, a wall-clock
    time, no process waits for the answer."""
    return {"op": "request", "token": token, "requests": list(requests), "as_of": as_of, "until": until}


def record_name(number: int) -> str:
    return f"{number:012d}.json"


def record_numbers(folder: str) -> list[int]:
    """The numbers of all files of a folder whose name is that of a record, in order."""
    try:
        return sorted(int(found[1]) for name in os.listdir(folder) if (found := _NAME.fullmatch(name)))
    except FileNotFoundError:
        return []


def read_record(path: str) -> Record:
    """The record of a file.

    Raises:
        Malformed: the file is not a record.
    """
    try:
        found = json.loads(_content(path))
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else f"it is not JSON: {problem}"
        raise Malformed(str(reason)) from problem
    except (RecursionError, MemoryError) as problem:
        raise Malformed("it is nested too deeply") from problem
    return _checked(found)


def _content(path: str) -> bytes:
    # O_NONBLOCK: opening a FIFO would wait for a writer. O_NOFOLLOW: a link may lead to any file.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise Malformed("it is not a regular file")
        if status.st_size > LARGEST_RECORD:
            raise Malformed(f"it has {status.st_size} bytes, a record at most {LARGEST_RECORD}")
        with os.fdopen(os.dup(file), "rb") as opened:
            return opened.read(LARGEST_RECORD)
    finally:
        os.close(file)


def _checked(found: object) -> Record:
    if not isinstance(found, dict):
        raise Malformed("it is not a JSON object")
    operation = found.get("op")
    if operation == "add":
        texts = [found.get("sql")]
    elif operation == "drop":
        names = found.get("queries")
        texts = names if isinstance(names, list) else [None]
    elif operation == "request":
        return _checked_request(found)
    elif operation == "set":
        given = found.get("settings")
        texts = [found.get("query"), *given, *given.values()] if isinstance(given, dict) else [None]
    else:
        raise Malformed('its "op" is none of "add", "drop", "set" and "request"')
    if "by" in found:
        texts = [*texts, found["by"]]
    if not all(isinstance(text, str) for text in texts):
        raise Malformed(
            '"sql" of an added record is a text, "queries" of a dropped one a list of names, "settings" of a set one texts'
        )
    try:
        "".join(map(str, texts)).encode()
    except UnicodeEncodeError as problem:
        raise Malformed("it holds characters that are no text") from problem
    return found


def _checked_request(found: Record) -> Record:
    token, texts, as_of, until = (found.get(name) for name in ("token", "requests", "as_of", "until"))
    # The token becomes the name of a file.
    if not isinstance(token, str) or not re.fullmatch(r"[0-9a-f]{32}", token):
        raise Malformed('"token" of a request has 32 hexadecimal digits')
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Malformed('"requests" of a request is a list of texts')
    if not isinstance(as_of, str | None) or isinstance(until, bool) or not isinstance(until, float | int | None):
        raise Malformed('"as_of" of a request is a text, "until" a number')
    return found


class RefusedRecords:
    """The folder of the records that a job refuses, each with the reason."""

    def __init__(self, control: str, kept: int = KEPT) -> None:
        self.control = control
        self.kept = kept
        self.folder = os.path.join(control, "refused")

    def set_aside(self, number: int, reason: str) -> None:
        """Move a record to the folder. A record that cannot be moved stays: the job does not read it again."""
        source, target = os.path.join(self.control, record_name(number)), os.path.join(self.folder, record_name(number))
        with contextlib.suppress(OSError):
            os.makedirs(self.folder, 0o700, exist_ok=True)
            text = json.dumps({"record": number, "reason": reason}, ensure_ascii=False)
            write_whole(os.path.join(self.folder, f"{number:012d}.reason.json"), f"{text}\n", synced=False)
        with contextlib.suppress(OSError):
            _remove(target)
            beginning = _beginning(source)
            if beginning is None:
                os.rename(source, target)
            else:
                write_whole(target, beginning, synced=False)
                os.unlink(source)

    def forget_oldest(self) -> None:
        """Remove all but the newest `kept` records."""
        for number in record_numbers(self.folder)[: -self.kept]:
            for name in (record_name(number), f"{number:012d}.reason.json"):
                with contextlib.suppress(OSError):
                    _remove(os.path.join(self.folder, name))


def _beginning(path: str) -> bytes | None:
    """The beginning of a regular file that is too large to be kept whole; None: the file is kept whole."""
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size <= LARGEST_RECORD:
        return None
    try:
        with open(path, "rb") as file:
            return file.read(_EXCERPT)
    except OSError:
        return b""


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
