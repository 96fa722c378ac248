"""Control records: what every shard carries out in the same batch.

Answer   Numbered JSON files below the checkpoint, written whole or not at all; the source's offset says the number of
         the next one, and each is copied to every shard. Those of batches that cannot run again are removed
         (`forget_control`). A record may say: `idle` (these streams are silent); `closing` (the streams end); `start`
         and `stop` (these queries come and go, at the newest instant of any stream). It may also say: `move` (this join
         group goes to another tree); `ask` and `unask` (requests to templates come and go); `refresh` (this table has
         been read again, or could not be). An empty one only makes Spark run a batch.
State    The records that a batch may still read, sealed, and the newest one.
Limits   One writing process: the driver of the job.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping

from eddyline.errors import CheckpointProblem
from eddyline.runtime.control.control_record import record_name, record_numbers
from eddyline.state.sealed import RESTORE, read_sealed, write_sealed
from eddyline.state.whole_file import make_folder

_WRITING = threading.Lock()
_HELD = "a message to all shards"


def _folder(checkpoint: str) -> str:
    return os.path.join(checkpoint, "eddyline", "control")


def next_control(checkpoint: str) -> int:
    """The number of the next record: they count from 0 without a gap, and the newest is never removed."""
    numbers = record_numbers(_folder(checkpoint))
    return numbers[-1] + 1 if numbers else 0


def read_control(checkpoint: str, number: int) -> bytes:
    """A record as JSON."""
    path = os.path.join(_folder(checkpoint), record_name(number))
    try:
        found = read_sealed(path, _HELD)
    except FileNotFoundError:
        raise CheckpointProblem(f"{path} is missing", detail=f"it held {_HELD}", hint=RESTORE) from None
    if not isinstance(found, dict):
        raise CheckpointProblem(f"{path} is not of this version's form", detail=f"it held {_HELD}", hint=RESTORE)
    return json.dumps(found).encode()


def write_control(checkpoint: str, record: Mapping[str, object]) -> int:
    """Append a record and return its number."""
    make_folder(_folder(checkpoint))
    # Batches end in one thread, silence and new queries are noticed in others.
    with _WRITING:
        number = next_control(checkpoint)
        write_sealed(os.path.join(_folder(checkpoint), record_name(number)), record)
    return number


def forget_control(checkpoint: str, taken: int) -> None:
    """Remove records below a number that a committed batch has taken: no batch reads them again. The newest stays, for
    the next number."""
    for number in record_numbers(_folder(checkpoint))[:-1]:
        if number < taken:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(_folder(checkpoint), record_name(number)))


def ask_to_stop(checkpoint: str, upto: int = 0) -> None:
    """From now on the source has nothing new but control records below a number: the job comes to rest after the batch
    that is running."""
    make_folder(os.path.dirname(_stop_path(checkpoint)))
    # Not by renaming: a signal may come while this is written, and then writes it again.
    with open(_stop_path(checkpoint), "w", encoding="utf-8") as file:
        file.write(str(upto))


def forget_stop(checkpoint: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_stop_path(checkpoint))


def asked_to_stop(checkpoint: str) -> int | None:
    """The number below which control records are still read before the job rests; None: the job goes on."""
    try:
        with open(_stop_path(checkpoint), encoding="utf-8") as file:
            return int(file.read() or 0)
    except FileNotFoundError:
        return None


def _stop_path(checkpoint: str) -> str:
    return os.path.join(checkpoint, "eddyline", "stop")
