"""Results that are part of a checkpoint and not yet in a closed file: one small file per checkpoint for all queries.

Answer   `write` keeps pieces of results under the epoch of the checkpoint that follows. `read` returns them, each with its
         sink and its epoch. The outbox removes a segment once every row of it is in a closed file.
State    `<folder>/<epoch, 12 digits>.rows`: a checksum, then an Arrow stream with one row per piece.
Limits   One process writes. A damaged segment is an error: its rows are nowhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from eddyline.errors import CheckpointProblem
from eddyline.state.sealed import RESTORE, checksum, not_writable
from eddyline.state.whole_file import make_folder, remove_leftovers, write_whole

_HELD = "results that are in no file yet"
_NAME = re.compile(r"(\d{12})\.rows")
_TEXTS = [(name, pa.string()) for name in ("key", "folder", "suffix")]
_SCHEMA = pa.schema([*_TEXTS, ("epoch", pa.int64()), ("rows", pa.large_binary())])


class Piece(NamedTuple):
    #: The name of the sink in the outbox, and the folder of its files when the piece was written.
    key: str
    folder: str
    suffix: str
    epoch: int
    table: pa.Table


class ResultJournal:
    def __init__(self, folder: str, checkpoint: str) -> None:
        self.folder = folder
        self._checkpoint = checkpoint

    def write(self, epoch: int, pieces: Iterable[Piece]) -> str:
        """Write a segment; returns its checksum.

        Raises:
            StateProblem: the checkpoint cannot be written.
        """
        rows = [dict(zip(_SCHEMA.names, (*piece[:4], _packed(piece.table)), strict=True)) for piece in pieces]
        body = _packed(pa.Table.from_pylist(rows, _SCHEMA))
        digest = checksum(body)
        try:
            make_folder(self.folder)
            write_whole(self._path(epoch), digest.encode() + b"\n" + body)
        except OSError as problem:
            raise not_writable(self._checkpoint, problem) from problem
        return digest

    def read(self, epoch: int, expected: str | None = None) -> tuple[list[Piece], str]:
        """The pieces of a segment, and its checksum.

        Args:
            expected: the checksum that a checkpoint has noted.

        Raises:
            CheckpointProblem: the segment is damaged, missing or another one.
        """
        path = self._path(epoch)
        try:
            with open(path, "rb") as file:
                digest, _, body = file.read().partition(b"\n")
            if checksum(body).encode() != digest:
                raise ValueError("the checksum does not fit the content")
            if expected not in (None, digest.decode()):
                raise ValueError("its rows are those of another checkpoint")
            rows = [tuple(row.values()) for row in _unpacked(body).to_pylist()]
            return [Piece._make((*row[:4], _unpacked(row[4]))) for row in rows], digest.decode()
        except FileNotFoundError:
            raise CheckpointProblem(f"{path} is missing", detail=f"it held {_HELD}", hint=RESTORE) from None
        except (OSError, ValueError) as problem:
            message = f"{path} is damaged"
            raise CheckpointProblem(message, detail=f"it held {_HELD}; {problem}", hint=RESTORE) from problem

    def epochs(self) -> list[int]:
        """The epochs that have a segment, in order. Incomplete files of a killed process are removed."""
        if not os.path.isdir(self.folder):
            return []
        remove_leftovers(self.folder)
        return sorted(int(found[1]) for name in os.listdir(self.folder) if (found := _NAME.fullmatch(name)))

    def remove(self, epoch: int) -> None:
        try:
            os.unlink(self._path(epoch))
        except OSError as problem:
            raise not_writable(self._checkpoint, problem) from problem

    def _path(self, epoch: int) -> str:
        return os.path.join(self.folder, f"{epoch:012d}.rows")


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _unpacked(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()
