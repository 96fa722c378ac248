"""Checkpoints of the embedded engine: a folder with a small header and immutable blocks of rows.

Answer   `save` writes the state of a run and is durable before it returns: new blocks first, then the header, by
         rename, then blocks without a use are removed. `load` gives the last whole checkpoint, or None; what is damaged
         is named. Between `open` and `release` the folder belongs to this process.
State    `checkpoint.json`, sealed: epoch, positions, queries, and per block its file, size and checksum. In `blocks/`
         each file is named `<run>-<number>.arrow`: a name is used once, because every run has a token of its own. A
         file that the header does not name is what an interrupted run has left; `go_on` removes it.
Limits   Only what the last header of this run names counts as written. Checksums find damage, not forgery.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc

from eddyline.connectors.guarded.parsing_marks import Marks
from eddyline.errors import CheckpointProblem
from eddyline.model.schema import Stream
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.recovery.checkpoint_identity import Claim, check_identity, claim
from eddyline.runtime.recovery.checkpoint_state import CheckpointState, ShardState
from eddyline.runtime.recovery.snapshot import (
    FORMAT,
    block_content,
    check_format,
    live_rows,
    restore,
    take_snapshot,
    waiting_blocks,
)
from eddyline.runtime.recovery.stream_identity import Identity, check_identities, embedded_identity
from eddyline.state.sealed import RESTORE, damaged, not_writable, read_sealed, unreadable, write_sealed
from eddyline.state.whole_file import make_folder, remove_others, sync_folder, write_whole

ENGINE = "embedded"
_HEADER = "checkpoint.json"
_HOLDS = "positions, horizons and queries of the job, and the names of its blocks"


class BlockPlace(NamedTuple):
    """Where a block lies, and how its file is recognised."""

    file: str
    size: int
    crc32: int
    rows: int


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was found."""

    epoch: int
    positions: dict[str, Any]
    header: dict[str, Any]
    #: What the streams were when it was written.
    streams: dict[str, Identity]
    folder: str
    blocks: dict[str, BlockPlace]
    #: The run that wrote it.
    run: str
    #: Which control records are in it, and what became of them.
    control: dict[str, Any] | None = None
    #: Results that are in no file: their segments in `pending`, each with its checksum. None: an earlier version wrote
    #: it.
    pending: dict[str, str] | None = None

    def check_streams(self, streams: Iterable[Stream]) -> None:
        """Refuse a job whose streams are others."""
        check_identities(streams, self.streams, embedded_identity)

    def restore(self, pipeline: Pipeline) -> None:
        restore(pipeline, self.header, self._load)

    def _load(self, name: str) -> pa.Table:
        holds = block_content(self.header, name)
        if name not in self.blocks:
            raise CheckpointProblem(
                f"the checkpoint in {self.folder} is not whole", detail=f"no file has {holds}", hint=RESTORE
            )
        return _read(os.path.join(self.folder, self.blocks[name].file), self.blocks[name], holds)


class Checkpoint:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.blocks = os.path.join(folder, "blocks")
        self._run = os.urandom(8).hex()
        self._written: dict[str, BlockPlace] = {}
        self._count = 0
        self._claim: Claim | None = None
        self._identities: dict[str, tuple[Stream, Identity]] = {}
        self._marks: Marks | None = None

    @property
    def marks(self) -> Marks:
        """What is being parsed, for the process that comes after this one; read while the folder is open."""
        if self._marks is None:
            self._marks = Marks(os.path.join(self.folder, "parsing"))
        return self._marks

    # -- whose it is

    def open(self) -> Claim:
        """Take the folder for this process; one of another engine, of another format or in use is refused."""
        if self._claim is None:
            self._claim = claim(self.folder, ENGINE, FORMAT)
        return self._claim

    def release(self) -> None:
        """Another process may continue."""
        if self._marks is not None:
            self._marks.close()
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def open_again(self, epoch: int) -> None:
        """After `release`, for the object that has written the checkpoint of this epoch: nothing else may have written
        since."""
        claimed = self._claim is None
        self.open()
        found = self.load() if claimed else None  # a folder that was kept is as it was
        if found is not None and (found.epoch, found.run) != (epoch, self._run):
            self.release()
            raise CheckpointProblem(
                f"the checkpoint in {self.folder} is not the one that this session has left",
                detail="another job has gone on from it",
                hint="a new session on this checkpoint continues",
            )

    # -- reading

    def load(self) -> Saved | None:
        """The last whole checkpoint; None: there is none yet."""
        path = os.path.join(self.folder, _HEADER)
        try:
            found = read_sealed(path, _HOLDS)
        except (FileNotFoundError, NotADirectoryError):
            if self._claim is not None and self._claim.has_saved():
                raise CheckpointProblem(f"{path} is missing", detail=f"it held {_HOLDS}", hint=RESTORE) from None
            return None
        try:
            check_format(found["pipeline"])
            blocks = {name: BlockPlace(*block) for name, block in found["blocks"].items()}
            return Saved(
                int(found["epoch"]),
                found["positions"],
                found["pipeline"],
                found["streams"],
                self.blocks,
                blocks,
                found["run"],
                found["control"],
                found.get("pending"),
            )
        except (KeyError, TypeError, AttributeError) as problem:
            detail = f"it held {_HOLDS}; {type(problem).__name__}: {problem}"
            raise CheckpointProblem(f"{path} is not of this version's form", detail=detail, hint=RESTORE) from problem

    def go_on(self, saved: Saved | None) -> None:
        """Continue from what `load` gave: its blocks count as written, all other files of `blocks` are removed."""
        self._written = {} if saved is None else dict(saved.blocks)
        try:
            self._remove_all_but(self._written)
        except OSError as problem:
            raise not_writable(self.folder, problem) from problem

    # -- writing

    def save(
        self,
        epoch: int,
        positions: dict[str, Any],
        pipeline: Pipeline,
        control: dict[str, Any] | None = None,
        pending: dict[str, str] | None = None,
    ) -> None:
        if self._claim is None:
            self._take_again()
        try:
            self._save(epoch, positions, pipeline, {"control": control, "pending": pending})
        except OSError as problem:
            # A full disk gets its space back. What the header on the disk names stays, whether it is the old one or the
            # new one.
            with contextlib.suppress(OSError, CheckpointProblem):
                found = self.load()
                self._remove_all_but({} if found is None else found.blocks)
            raise not_writable(self.folder, problem) from problem

    def _take_again(self) -> None:
        """A run that had ended goes on: it may write unless another one has continued meanwhile."""
        self.open()
        found = self.load()
        if self._written and (found is None or found.blocks != self._written):
            self.release()
            message = f"another run has continued the checkpoint in {self.folder}"
            raise CheckpointProblem(message, hint="end this session; a new one continues from there")

    def _save(self, epoch: int, positions: dict[str, Any], pipeline: Pipeline, more: dict[str, Any]) -> None:
        make_folder(self.blocks)
        snapshot = take_snapshot(pipeline)
        blocks = {name: self._written.get(name) or self._write(make()) for name, make in snapshot.blocks.items()}
        # The names of new blocks are on the disk before the header that rests on them.
        sync_folder(self.blocks)
        body = {
            "epoch": epoch,
            "run": self._run,
            "positions": positions,
            "streams": {
                name: self._identity(intake.stream)
                for name, intake in pipeline.intakes.items()
                if not intake.stream.is_derived
            },
            "pipeline": snapshot.header,
            "blocks": blocks,
            **more,
        }
        write_sealed(os.path.join(self.folder, _HEADER), body)
        before, self._written = self._written, blocks
        self.open().note_saved()
        for name, block in before.items():
            if name not in blocks:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(os.path.join(self.blocks, block.file))

    def _write(self, table: pa.Table) -> BlockPlace:
        stream = pa.BufferOutputStream()
        with pa.ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table)
        content = stream.getvalue()
        self._count += 1
        file = f"{self._run}-{self._count}.arrow"
        write_whole(os.path.join(self.blocks, file), content, synced=False)
        return BlockPlace(file, content.size, zlib.crc32(content), table.num_rows)

    def _remove_all_but(self, blocks: Mapping[str, BlockPlace]) -> None:
        if os.path.isdir(self.blocks):
            remove_others(self.blocks, {block.file for block in blocks.values()})

    def _identity(self, stream: Stream) -> Identity:
        """Worked out once per stream: the working directory of the process may change while it runs."""
        known = self._identities.get(stream.name)
        if known is None or known[0] is not stream:
            known = self._identities[stream.name] = (stream, embedded_identity(stream))
        return known[1]


def embedded_state(folder: str) -> CheckpointState | None:
    """What a checkpoint of an embedded job holds, which may be running; None: it is none."""
    check_identity(folder, ENGINE, FORMAT)
    saved = Checkpoint(folder).load()
    if saved is None:
        return None
    header = saved.header
    live = live_rows(header)
    waiting = sum(saved.blocks[name].rows for name in waiting_blocks(header))
    size = sum(block.size for block in saved.blocks.values())
    shard = ShardState(0, live, waiting, size, header["frontier"], tuple(header["queries"]))
    return CheckpointState(ENGINE, header["format"], saved.epoch, (shard,))


def _read(path: str, block: BlockPlace, holds: str) -> pa.Table:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        raise CheckpointProblem(f"{path} is missing", detail=f"it held {holds}", hint=RESTORE) from None
    except OSError as problem:
        raise unreadable(path, holds, problem) from problem
    if len(content) != block.size:
        raise damaged(path, holds, f"the file has {len(content)} bytes instead of {block.size}")
    if zlib.crc32(content) != block.crc32:
        raise damaged(path, holds, "the checksum does not fit the content")
    return pa.ipc.open_file(pa.BufferReader(content)).read_all()
