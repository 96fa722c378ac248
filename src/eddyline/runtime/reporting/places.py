"""Where the reports of a job lie: the folder `dashboard` below the job's own.

Answer   `ReportPlaces(folder)` names every file. The job writes `report.json` (the newest report), `queries.json` (what
         each query is), `overview.jsonl`, `queries.jsonl` and `decisions.jsonl` (bounded histories). A dashboard
         writes `token`, `wanted/` (what its pages look at) and `leases/` (which tried queries are still wanted).
State    Files only. Reports are not synced to the disk: after a power cut the next one replaces what is there.
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
        # The job's own too, where the dashboard comes before the first checkpoint: a folder made on the way would be
        # for all.
        for folder in (self.job, self.folder, self.wanted, self.leases):
            make_folder(folder)

    def lease(self, query: str) -> str:
        """The file whose age is that of a query's lease; a query's name may hold any character."""
        return os.path.join(self.leases, query.encode().hex())

    def is_running(self) -> bool:
        """Whether a process holds the job: its lock goes with it, however it ends."""
        return FolderLock(self.job).is_taken


def replace_file(path: str, content: bytes) -> None:
    """Put a file in the place of another one: a reader finds the old content or the new."""
    hidden = f"{path}.part"
    file = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as opened:
        opened.write(content)
    os.replace(hidden, path)


def read_json(path: str) -> Any:
    """The content of a JSON file; None: there is none, or it is not readable."""
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None
