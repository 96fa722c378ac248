"""Answers of a running job to requests from other processes: each a file that is there whole or not at all.

Answer   A process writes a control record `request` with a token (`control_record.request_record`) and waits with
         `wait_for`; the job writes `control/answers/<token>.arrow` with `AnswerFolder.give` or `AnswerFolder.refuse`.
State    Files only. The process that asked removes its answer; the job removes what was left behind.
Limits   One file holds the answers of all requests of a record. A refusal is an answer too.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.ipc

from eddyline.errors import EddylineError, UserError
from eddyline.model.clock import WALL
from eddyline.runtime.recovery.folder_lock import FolderLock
from eddyline.state.whole_file import make_folder, write_whole

FOLDER = "answers"
_REFUSED = b"refused"
#: Seconds between two looks for an answer, and between two looks whether the job runs.
_LOOK, _LOOK_JOB = 0.01, 0.5
#: Seconds after which an answer counts as left behind, and the number of answers between two looks for such.
_KEPT, _BETWEEN = 600.0, 64


class AnswerFolder:
    """The folder of answers, as the job sees it."""

    def __init__(self, control: str) -> None:
        self.folder = os.path.join(control, FOLDER)
        self._given = 0

    def give(self, token: str, tables: Sequence[pa.Table]) -> None:
        self._write(token, [_blob(table) for table in tables], None)

    def refuse(self, token: str, problem: EddylineError) -> None:
        said = {"message": problem.message, "detail": problem.detail, "hint": problem.hint}
        self._write(token, [], {_REFUSED: json.dumps(said).encode()})

    def _write(self, token: str, blobs: list[pa.Buffer], metadata: dict[bytes, bytes] | None) -> None:
        whole = pa.table(
            {"answer": pa.array([b.to_pybytes() for b in blobs], pa.large_binary())}
        ).replace_schema_metadata(metadata)
        make_folder(self.folder)
        write_whole(os.path.join(self.folder, _name(token)), _blob(whole), synced=False)
        self._given += 1
        if self._given % _BETWEEN == 0:
            self.forget_old(_KEPT)

    def forget_old(self, seconds: float = 0.0) -> None:
        """Remove answers that no process has taken for so long."""
        limit = time.time() - seconds
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.folder):
                path = os.path.join(self.folder, name)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.getmtime(path) <= limit:
                        os.unlink(path)


def wait_for(checkpoint: str, control: str, token: str, timeout: float | None) -> list[pa.Table]:
    """The answers to a record, as another process writes them.

    Raises:
        UserError: the job refuses the requests, has stopped, or does not answer in time.
    """
    path = os.path.join(control, FOLDER, _name(token))
    limit = None if timeout is None else WALL.now() + timeout
    looked = 0.0
    while not os.path.exists(path):
        now = WALL.now()
        if limit is not None and now > limit:
            raise unanswered(timeout)
        if now - looked >= _LOOK_JOB:
            looked = now
            # Looked for once more: the answer may be the last thing that the job has written.
            if not FolderLock(checkpoint).is_taken and not os.path.exists(path):
                raise stopped(checkpoint)
        WALL.sleep(_LOOK)
    with pa.OSFile(path) as file:
        found = pa.ipc.open_file(file).read_all()
    os.unlink(path)
    refused = (found.schema.metadata or {}).get(_REFUSED)
    if refused is not None:
        said = json.loads(refused)
        raise UserError(said["message"], detail=said["detail"], hint=said["hint"])
    return [pa.ipc.open_file(pa.BufferReader(blob)).read_all() for blob in found.column("answer").to_pylist()]


def check_running(checkpoint: str) -> None:
    """Refuse a job that does not run."""
    if not FolderLock(checkpoint).is_taken:
        raise stopped(checkpoint)


def stopped(checkpoint: str) -> UserError:
    return UserError(
        f"the job in {checkpoint} has stopped",
        detail="a running job answers requests",
        hint="start it again, or write REQUEST … into its file: that is answered when the run ends",
    )


def unanswered(timeout: float | None) -> UserError:
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
