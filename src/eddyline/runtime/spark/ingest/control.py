"""Control records: what every shard must hear in the same batch.

Answer   Numbered JSON files below the checkpoint, written whole or not at all; the source counts them in its offset and
         copies each to every shard.
         A record may say: `idle` (these streams are silent), `closing` (the streams end), `start` and `stop` (these queries
         come and go, at the newest instant of any stream), `move` (this join group goes to another tree). An empty one only
         makes Spark run a batch.
Limits   One writing process: the driver of the job.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping

from eddyline.state.whole_file import write_whole

_WRITING = threading.Lock()


def _folder(checkpoint: str) -> str:
    return os.path.join(checkpoint, "eddyline", "control")


def control_records(checkpoint: str) -> list[str]:
    """The names of all records, oldest first; their numbers count from 0 without a gap."""
    try:
        return sorted(name for name in os.listdir(_folder(checkpoint)) if name.endswith(".json"))
    except FileNotFoundError:
        return []


def read_control(checkpoint: str, number: int) -> bytes:
    with open(os.path.join(_folder(checkpoint), f"{number:012d}.json"), "rb") as record:
        return record.read()


def write_control(checkpoint: str, record: Mapping[str, object]) -> int:
    """Append a record and return its number."""
    folder = _folder(checkpoint)
    os.makedirs(folder, exist_ok=True)
    # Batches end in one thread, silence and new queries are noticed in others.
    with _WRITING:
        number = len(control_records(checkpoint))
        write_whole(os.path.join(folder, f"{number:012d}.json"), json.dumps(record))
    return number


def ask_to_stop(checkpoint: str) -> None:
    """From now on the source has nothing new: the job comes to rest after the batch that is running."""
    os.makedirs(os.path.dirname(_stop_path(checkpoint)), exist_ok=True)
    with open(_stop_path(checkpoint), "w"):
        return


def forget_stop(checkpoint: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_stop_path(checkpoint))


def is_asked_to_stop(checkpoint: str) -> bool:
    return os.path.exists(_stop_path(checkpoint))


def _stop_path(checkpoint: str) -> str:
    return os.path.join(checkpoint, "eddyline", "stop")
