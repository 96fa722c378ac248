"""What a shard sends to the driver: results, answers to requests, dead letters, and a note about the epoch.

Answer   Small results travel as Arrow IPC blobs, up to a bound per shard. Others are staged as Arrow IPC files under
         names that no other attempt has, and only the names travel: a file is mapped. What leaves an epoch before it is
         done is staged piece by piece (`Shelf`), one file per query.
State    Staged files are there after a power cut. They stay until their batch is committed.
Limits   Staging lies below the checkpoint, which the driver sees too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Set
from typing import Any, NamedTuple

import pyarrow as pa

from eddyline.runtime.engine.epoch import Outcome, results_of
from eddyline.runtime.sharded.ingest.packet import from_blob, to_blob
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.state.sealed import damaged
from eddyline.state.whole_file import make_folder, sync_folder

#: Larger than this and a table is staged.
STAGED_BYTES = 1 << 18
#: What travels beside the notes of a shard and batch, at most: it lies in the manifest of the batch.
_TRAVELLING_BYTES = 1 << 20


class Parcel(NamedTuple):
    """A table or a note on its way to the driver."""

    #: result | answer | dead | note
    kind: str
    #: Query, token and template, or stream.
    name: str
    shard: int
    rows: int
    #: An Arrow IPC file, where the rows are too many to travel.
    path: str | None
    blob: bytes | None


class Shelf:
    """Results of an epoch that still runs."""

    def __init__(self, layout: JobLayout, shard: int, batch: int, silent: Set[str]) -> None:
        self._layout, self._shard, self._batch = layout, shard, batch
        #: Queries that have no cell here.
        self.silent = silent
        self._files: dict[str, tuple[str, pa.ipc.RecordBatchFileWriter]] = {}
        self._rows: dict[str, int] = {}
        self._travelling = 0

    def take(self, outcome: Outcome) -> None:
        """Stage what has left the epoch; the rest of it follows when it is done."""
        for query, tables in outcome.results.items():
            for table in tables if results_of(query) not in self.silent else ():
                if query not in self._files:
                    path = _new_path(self._layout.staging, self._batch, self._shard)
                    self._files[query] = path, pa.ipc.new_file(path, table.schema)
                self._files[query][1].write_table(table)
                self._rows[query] = self._rows.get(query, 0) + table.num_rows

    def sent(self, outcome: Outcome) -> Iterator[Parcel]:
        """All results of queries of which some have been staged; they are no longer in the outcome."""
        self.take(Outcome({query: outcome.results.pop(query, []) for query in self._files}))
        for query, (path, writer) in self._files.items():
            writer.close()
            _make_sure(path)
            yield Parcel("result", query, self._shard, self._rows[query], path, None)

    def parcel(self, kind: str, name: str, tables: list[pa.Table]) -> Iterator[Parcel]:
        """Tables of one schema as one parcel; none without rows."""
        tables = [t for t in tables if t.num_rows]
        if not tables:
            return
        whole = pa.concat_tables(tables) if len(tables) > 1 else tables[0]
        if whole.nbytes <= min(STAGED_BYTES, _TRAVELLING_BYTES - self._travelling):
            blob = to_blob(whole)
            self._travelling += len(blob)
            yield Parcel(kind, name, self._shard, whole.num_rows, None, blob)
            return
        path = _new_path(self._layout.staging, self._batch, self._shard)
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, whole.schema) as writer:
            writer.write_table(whole)
        _make_sure(path)
        yield Parcel(kind, name, self._shard, whole.num_rows, path, None)


def parcels(outcome: Outcome, shelf: Shelf) -> Iterator[Parcel]:
    """The tables of one epoch, those on the shelf among them."""
    yield from shelf.sent(outcome)
    for query, tables in outcome.results.items():
        if results_of(query) not in shelf.silent:
            yield from shelf.parcel("result", query, tables)
    for name, part in outcome.answers.items():
        yield from shelf.parcel("answer", name, [part])
    for stream, tables in outcome.dead.items():
        # Late rows are typed, bad ones are text: they are not one table.
        for table in tables:
            yield from shelf.parcel("dead", stream, [table])


def note(shard: int, facts: dict[str, Any]) -> Parcel:
    return Parcel("note", "", shard, 0, None, json.dumps(facts).encode())


def _new_path(staging: str, batch: int, shard: int) -> str:
    folder = staged_folder(staging, batch)
    make_folder(folder)
    return os.path.join(folder, f"{shard}-{uuid.uuid4().hex}.arrow")


def staged_folder(staging: str, batch: int) -> str:
    return os.path.join(staging, f"{batch:012d}")


def _make_sure(path: str) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
    sync_folder(os.path.dirname(path))


def remove_staged(staging: str, below: int) -> None:
    """Remove what was staged for batches below a number."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(staging):
            if int(name) < below:
                shutil.rmtree(os.path.join(staging, name), ignore_errors=True)


def opened(path: str | None, blob: bytes | None) -> pa.Table:
    """The table of a parcel."""
    if path is None:
        return from_blob(blob or b"")
    try:
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    except (OSError, pa.ArrowInvalid) as problem:
        raise damaged(path, "results of a batch", problem) from problem
