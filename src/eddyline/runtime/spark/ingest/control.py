"""Control records: what every shard must hear in the same batch.

Answer   Numbered JSON files below the checkpoint, written whole or not at all; the source's offset says the number of the next one, and
         each is copied to every shard. Those of batches that cannot run again are removed (`forget_control`).
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

from eddyline.runtime.control_record import record_name, record_numbers
from eddyline.state.whole_file import write_whole

#: Records that stay behind the last committed batch.
_KEPT = 200
_WRITING = threading.Lock()


def _folder(checkpoint: str) -> str:
    return os.path.join(checkpoint, "eddyline", "control")


def next_control(checkpoint: str) -> int:
    """The number of the next record: they count from 0 without a gap, and the newest is never removed."""
    numbers = record_numbers(_folder(checkpoint))
    return numbers[-1] + 1 if numbers else 0


def forget_control(checkpoint: str, taken: int) -> None:
    """Remove records below a number that a committed batch has taken; a good many stay, for batches that run again."""
    for number in record_numbers(_folder(checkpoint)):
        if number >= taken - _KEPT:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(_folder(checkpoint), record_name(number)))


def read_control(checkpoint: str, number: int) -> bytes:
    with open(os.path.join(_folder(checkpoint), record_name(number)), "rb") as record:
        return record.read()


def write_control(checkpoint: str, record: Mapping[str, object]) -> int:
    """Append a record and return its number."""
    folder = _folder(checkpoint)
    os.makedirs(folder, exist_ok=True)
    # Batches end in one thread, silence and new queries are noticed in others.
    with _WRITING:
        number = next_control(checkpoint)
        write_whole(os.path.join(folder, record_name(number)), json.dumps(record))
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
