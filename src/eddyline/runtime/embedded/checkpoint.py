"""Checkpoints of an embedded run: a folder with one header file and the blocks it names.

Answer   `save` makes the state of an epoch durable before it returns: new blocks first, then the header, by rename, then
         blocks that nobody names any more are removed. `load` gives the last whole checkpoint, or None.
Limits   One run at a time uses the folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from eddyline.errors import CheckpointProblem
from eddyline.model.schema import Stream
from eddyline.runtime.checkpoint_state import CheckpointState, ShardState
from eddyline.runtime.pipeline import Pipeline
from eddyline.runtime.snapshot import check_format, restore, take_snapshot
from eddyline.runtime.stream_identity import Identity, check_identities, identity
from eddyline.state.whole_file import write_whole

_HEADER = "checkpoint.json"


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was found."""

    epoch: int
    positions: dict[str, Any]
    header: dict[str, Any]
    #: What the streams were when it was written.
    streams: dict[str, Identity]
    folder: str
    #: Which control records are in it, and what became of them; None: it is older than they are.
    control: dict[str, Any] | None = None

    def check_streams(self, streams: Iterable[Stream]) -> None:
        """Refuse a job whose streams are others."""
        check_identities(streams, self.streams)

    def restore(self, pipeline: Pipeline) -> None:
        restore(pipeline, self.header, lambda name: _read(os.path.join(self.folder, name + ".arrow")))


class Checkpoint:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.blocks = os.path.join(folder, "blocks")
        self._identities: dict[str, tuple[Stream, Identity]] = {}

    @property
    def exists(self) -> bool:
        return os.path.exists(os.path.join(self.folder, _HEADER))

    def save(self, epoch: int, positions: dict[str, Any], pipeline: Pipeline, control: dict[str, Any] | None = None) -> None:
        os.makedirs(self.blocks, exist_ok=True)
        snapshot = take_snapshot(pipeline)
        wanted = {name + ".arrow" for name in snapshot.blocks}
        present = set(os.listdir(self.blocks))
        for name, make in snapshot.blocks.items():
            if name + ".arrow" not in present:
                _write(os.path.join(self.blocks, name + ".arrow"), make())
        write_whole(
            os.path.join(self.folder, _HEADER),
            json.dumps(
                {
                    "epoch": epoch,
                    "positions": positions,
                    "streams": {name: self._identity(intake.stream) for name, intake in pipeline.intakes.items()},
                    "pipeline": snapshot.header,
                    "control": control,
                }
            ),
        )
        for name in present - wanted:
            os.remove(os.path.join(self.blocks, name))

    def _identity(self, stream: Stream) -> Identity:
        """Worked out once per stream: the working directory of the process may change while it runs."""
        known = self._identities.get(stream.name)
        if known is None or known[0] is not stream:
            known = self._identities[stream.name] = (stream, identity(stream))
        return known[1]

    def load(self) -> Saved | None:
        path = os.path.join(self.folder, _HEADER)
        if not os.path.exists(path):
            return None
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            saved = Saved(int(found["epoch"]), found["positions"], found["pipeline"], found["streams"], self.blocks, found.get("control"))
        except (ValueError, KeyError, OSError) as problem:
            raise CheckpointProblem(f"the checkpoint in {self.folder} cannot be read", detail=str(problem)) from problem
        check_format(saved.header)
        return saved


def embedded_state(folder: str) -> CheckpointState | None:
    """What a checkpoint of an embedded job holds; None: it is none."""
    saved = Checkpoint(folder).load()
    if saved is None:
        return None
    header = saved.header
    streams = header["streams"].values()
    live = sum(end - first for stream in streams for first, end in stream["segments"])
    waiting = sum(_read(os.path.join(saved.folder, f"{name}.arrow")).num_rows for stream in streams for name in stream["waiting"])
    size = sum(os.path.getsize(os.path.join(saved.folder, name)) for name in os.listdir(saved.folder))
    shard = ShardState(0, live, waiting, size, header["frontier"], tuple(header["queries"]))
    return CheckpointState("embedded", header["format"], saved.epoch, (shard,))


def _write(path: str, table: pa.Table) -> None:
    with open(path + ".new", "wb") as file:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def _read(path: str) -> pa.Table:
    try:
        with open(path, "rb") as file:
            return pa.ipc.open_file(file).read_all()
    except (OSError, pa.ArrowInvalid) as problem:
        raise CheckpointProblem(f"a block of the checkpoint cannot be read: {os.path.basename(path)}", detail=str(problem)) from problem
