"""The files of the reports of a job: the folder `dashboard` below the folder of the job.

Answer   `ReportPlaces(folder)` has the path of every file. The job writes `report.json` (the newest report),
         `queries.json` (the description of each query), `overview.jsonl`, `queries.jsonl` and `decisions.jsonl` (bounded
         histories). A dashboard writes `token`, `wanted/` (the queries that its pages show) and `leases/` (one file per
         tried query, renewed while a page shows it).
State    Files only. Reports are not synced to the disk: after a power cut the next report replaces the file.
Limits   The folder is for its owner alone.
"""

from __future__ import annotations

import json
import os
from typing import Any

from eddyline.runtime.recovery.folder_lock import FolderLock
from eddyline.state.whole_file import make_folder

FOLDER = "dashboard"


class ReportPlaces:
    def __init__(self, job: str) -> None:
        #: The job's folder: its checkpoint.
        self.job = job
        self.folder = os.path.join(job, FOLDER)
        self.report = os.path.join(self.folder, "report.json")
        self.queries = os.path.join(self.folder, "queries.json")
        self.overview = os.path.join(self.folder, "overview.jsonl")
        self.lines = os.path.join(self.folder, "queries.jsonl")
        self.decisions = os.path.join(self.folder, "decisions.jsonl")
        self.token = os.path.join(self.folder, "token")
        self.wanted = os.path.join(self.folder, "wanted")
        self.leases = os.path.join(self.folder, "leases")

    def make(self) -> None:
        # The folder of the job, too: if it does not exist yet, `makedirs` would make it readable for all users.
        for folder in (self.job, self.folder, self.wanted, self.leases):
            make_folder(folder)

    def lease(self, query: str) -> str:
        """The file whose age is that of a query's lease. The name is encoded: it may hold any character."""
        return os.path.join(self.leases, query.encode().hex())

    def is_running(self) -> bool:
        """Whether a process has locked the folder of the job; the lock ends with the process."""
        return FolderLock(self.job).is_taken


def replace_file(path: str, content: bytes) -> None:
    """Replace the content of a file: a reader finds the old content or the new, never a part."""
    hidden = f"{path}.part"
    file = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as opened:
        opened.write(content)
    os.replace(hidden, path)


def read_json(path: str) -> Any:
    """The content of a JSON file; None: the file is missing or cannot be read."""
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None
