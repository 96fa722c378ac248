"""What a shard sends to the driver: results, answers to requests, dead letters, and a note about the epoch.

Answer   Small results travel as Arrow IPC blobs, up to a bound per shard. Large results of queries that deliver by shard
         become the files that their sinks will have (`landed.py`). Others are staged as Arrow IPC files. All files have
         names that no other attempt has, and only the names travel. What leaves an epoch before it is done is written
         piece by piece (`Shelf`), one file per query.
State    These files are there after a power cut. They stay until their batch is committed.
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
from eddyline.runtime.sharded.output.landed import Landed, make_sure
from eddyline.state.sealed import damaged
from eddyline.state.whole_file import make_folder, sync_folder

#: Larger than this and a table is staged.
STAGED_BYTES = 1 << 18
#: Rows of a staged file that are read at once.
_STAGED_ROWS = 1 << 15
#: What travels beside the notes of a shard and batch, at most: it lies in the manifest of the batch.
_TRAVELLING_BYTES = 1 << 20


class Parcel(NamedTuple):
    """A table or a note on its way to the driver."""

    #: result | file | answer | dead | note
    kind: str
    #: Query, token and template, or stream.
    name: str
    shard: int
    #: Of a query with several files those of the first one only.
    rows: int
    #: A file that has landed; otherwise an Arrow IPC file, where the rows are too many to travel. Results that are only
    #: counted have neither path nor blob.
    path: str | None
    blob: bytes | None


class Shelf:
    """Results of an epoch that still runs."""

    def __init__(
        self, layout: JobLayout, shard: int, batch: int, silent: Set[str], untaken: Set[str] = frozenset()
    ) -> None:
        self._layout, self._shard, self._batch, self._untaken = layout, shard, batch, untaken
        self._counts: dict[str, int] = {}
        #: Queries that have no cell here.
        self.silent = silent
        self._files: dict[str, Landed | Staged] = {}
        self._travelling = 0

    def take(self, outcome: Outcome) -> None:
        """Write what has left the epoch; the rest of it follows when it is done."""
        for query, tables in outcome.results.items():
            for table in tables if results_of(query) not in self.silent else ():
                if not len(table):
                    continue
                if query in self._untaken:
                    self._counts[query] = self._counts.get(query, 0) + len(table)
                    continue
                if query not in self._files:
                    targets = self._layout.files.get(query)
                    self._files[query] = (
                        Landed(targets, self._batch, str(self._shard))
                        if targets
                        else Staged(self._layout.staging, self._batch, self._shard)
                    )
                self._files[query].write(table)

    def sent(self, outcome: Outcome) -> Iterator[Parcel]:
        """All results of queries of which some are in files, or that are large enough for files of their own; they are
        no longer in the outcome."""
        self.take(Outcome({query: outcome.results.pop(query, []) for query in self._untaken}))
        for query, count in self._counts.items():
            yield Parcel("result", query, self._shard, count, None, None)
        large = self._layout.settings.tuning.output.shard_file_bytes
        for query in [query for query in outcome.results if query in self._layout.files]:
            if query in self._files or sum(table.nbytes for table in outcome.results[query]) >= large:
                self.take(Outcome({query: outcome.results.pop(query)}))
        self.take(Outcome({query: outcome.results.pop(query, []) for query in self._files}))
        for query, file in self._files.items():
            file.close()
            kind, first, *others = "file" if isinstance(file, Landed) else "result", *file.paths
            yield Parcel(kind, query, self._shard, file.rows, first, None)
            for path in others:
                yield Parcel(kind, query, self._shard, 0, path, None)

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
        staged = Staged(self._layout.staging, self._batch, self._shard)
        staged.write(whole)
        staged.close()
        yield Parcel(kind, name, self._shard, whole.num_rows, staged.paths[0], None)


class Staged:
    """Rows on their way to the driver in an Arrow IPC file."""

    def __init__(self, staging: str, batch: int, shard: int) -> None:
        folder = staged_folder(staging, batch)
        make_folder(folder)
        self.paths = [os.path.join(folder, f"{shard}-{uuid.uuid4().hex}.arrow")]
        self.rows = 0
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def write(self, table: pa.Table) -> None:
        if self._writer is None:
            self._writer = pa.ipc.new_file(self.paths[0], table.schema)
        self._writer.write_table(table, _STAGED_ROWS)
        self.rows += len(table)

    def close(self) -> None:
        assert self._writer is not None, "write comes before close"
        self._writer.close()
        make_sure(self.paths[0])
        sync_folder(os.path.dirname(self.paths[0]))


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


def staged_folder(staging: str, batch: int) -> str:
    return os.path.join(staging, f"{batch:012d}")


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


def opened_run(path: str | None, blob: bytes | None) -> Iterator[pa.Table]:
    """The table of a parcel in pieces; a staged file is read piece by piece, not mapped: its pages would count as
    memory of this process."""
    if path is None:
        yield from_blob(blob or b"")
        return
    try:
        with pa.OSFile(path) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(number)])
    except (OSError, pa.ArrowInvalid) as problem:
        raise damaged(path, "results of a batch", problem) from problem
