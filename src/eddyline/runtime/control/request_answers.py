"""Requests to the templates of a running job from other processes: each answer is a file that is whole or not there.

Answer   A process calls `request_answers`: it writes a control record `request` with a token and waits for the answer.
         The job writes the file `control/answers/<token>.arrow` with `AnswerFolder.give` or `AnswerFolder.refuse`.
State    Files only. The process that sent the requests removes their answer. The job removes answers that no process
         has read for `_KEPT` seconds.
Limits   One file holds the answers to all requests of a record, or the reason why the job refuses them.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.ipc

from eddyline.errors import EddylineError, UserError
from eddyline.model.clock import WALL
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import request_record
from eddyline.runtime.recovery.folder_lock import FolderLock
from eddyline.state.whole_file import make_folder, write_whole

FOLDER = "answers"
_REFUSED = b"refused"
#: Seconds between two checks for the file of an answer, and between two checks whether the job runs.
_CHECK_FILE, _CHECK_JOB = 0.01, 0.5
#: Seconds after which an answer is removed unread, and the number of answers between two removals.
_KEPT, _BETWEEN = 600.0, 64


class AnswerFolder:
    """The folder of answers, for the job that writes them."""

    def __init__(self, control: str) -> None:
        self.folder = os.path.join(control, FOLDER)
        self._given = 0

    def give(self, token: str, tables: Sequence[pa.Table]) -> None:
        self._write(token, [_blob(table) for table in tables], None)

    def refuse(self, token: str, problem: EddylineError) -> None:
        reason = {"message": problem.message, "detail": problem.detail, "hint": problem.hint}
        self._write(token, [], {_REFUSED: json.dumps(reason).encode()})

    def _write(self, token: str, blobs: list[pa.Buffer], metadata: dict[bytes, bytes] | None) -> None:
        answers = pa.array([blob.to_pybytes() for blob in blobs], pa.large_binary())
        make_folder(self.folder)
        whole = pa.table({"answer": answers}).replace_schema_metadata(metadata)
        write_whole(os.path.join(self.folder, _name(token)), _blob(whole), synced=False)
        self._given += 1
        if self._given % _BETWEEN == 0:
            self.forget_old(_KEPT)

    def forget_old(self, seconds: float = 0.0) -> None:
        """Remove answers that are at least so old."""
        limit = time.time() - seconds
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.folder):
                path = os.path.join(self.folder, name)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.getmtime(path) <= limit:
                        os.unlink(path)


def request_answers(
    folder: ControlFolder, texts: Sequence[str], as_of: str | None, timeout: float | None
) -> list[pa.Table]:
    """Send requests to a running job, and wait for one table per request.

    Raises:
        UserError: as for `wait_for_answers`.
    """
    check_running(folder.checkpoint)
    token = uuid.uuid4().hex
    folder.append(request_record(token, texts, as_of, None if timeout is None else time.time() + timeout))
    return wait_for_answers(folder.checkpoint, folder.folder, token, timeout)


def wait_for_answers(checkpoint: str, control: str, token: str, timeout: float | None) -> list[pa.Table]:
    """The answers to the requests of a record, once the job has written them.

    Raises:
        UserError: the job refuses the requests, has stopped, or does not answer in time.
    """
    path = os.path.join(control, FOLDER, _name(token))
    limit = None if timeout is None else WALL.now() + timeout
    checked = 0.0
    while not os.path.exists(path):
        now = WALL.now()
        if limit is not None and now > limit:
            raise request_timeout(timeout)
        if now - checked >= _CHECK_JOB:
            checked = now
            # Checked for the file again: the job may have written it just before it stopped.
            if not FolderLock(checkpoint).is_taken and not os.path.exists(path):
                raise job_stopped(checkpoint)
        WALL.sleep(_CHECK_FILE)
    with pa.OSFile(path) as file:
        found = pa.ipc.open_file(file).read_all()
    os.unlink(path)
    refused = (found.schema.metadata or {}).get(_REFUSED)
    if refused is not None:
        reason = json.loads(refused)
        raise UserError(reason["message"], detail=reason["detail"], hint=reason["hint"])
    return [pa.ipc.open_file(pa.BufferReader(blob)).read_all() for blob in found.column("answer").to_pylist()]


def check_running(checkpoint: str) -> None:
    """Raise an error if no process runs the job."""
    if not FolderLock(checkpoint).is_taken:
        raise job_stopped(checkpoint)


def job_stopped(checkpoint: str) -> UserError:
    return UserError(
        f"the job in {checkpoint} has stopped",
        detail="a running job answers requests",
        hint="start it again, or write REQUEST … into its file: that is answered when the run ends",
    )


def request_timeout(timeout: float | None) -> UserError:
    return UserError(
        f"the request was not answered within {timeout} seconds",
        hint="a longer timeout, or an earlier AS OF; a stream of the template may be silent",
    )


def _name(token: str) -> str:
    return f"{token}.arrow"


def _blob(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
