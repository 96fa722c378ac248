"""What a shard sends to the driver: results, answers to requests, dead letters, and a note about the epoch.

Answer   Small results travel inside the row as an Arrow IPC blob. Large ones are staged as an Arrow IPC file under a
         name that no other attempt has, and only the name travels: Spark moves results at some 35 MB/s, a file is
         mapped. What leaves an epoch before it is done is staged piece by piece (`Shelf`), one file per query.
Limits   Staging lies below the checkpoint, which the driver sees too.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Set
from typing import Any, NamedTuple

import pyarrow as pa

from eddyline.runtime.engine.epoch import Outcome, results_of
from eddyline.runtime.sharded.ingest.packet import from_blob, to_blob
from eddyline.runtime.sharded.job.layout import JobLayout

#: Larger than this and a table is staged.
STAGED_BYTES = 1 << 18


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
            yield Parcel("result", query, self._shard, self._rows[query], path, None)


def parcels(layout: JobLayout, shard: int, batch: int, outcome: Outcome, shelf: Shelf) -> Iterator[Parcel]:
    """The tables of one epoch, those on the shelf among them."""
    yield from shelf.sent(outcome)
    for query, tables in outcome.results.items():
        if results_of(query) not in shelf.silent:
            yield from _sent(layout, "result", query, shard, batch, tables)
    for name, part in outcome.answers.items():
        yield from _sent(layout, "answer", name, shard, batch, [part])
    for stream, tables in outcome.dead.items():
        # Late rows are typed, bad ones are text: they are not one table.
        for table in tables:
            yield from _sent(layout, "dead", stream, shard, batch, [table])


def note(shard: int, facts: dict[str, Any]) -> Parcel:
    return Parcel("note", "", shard, 0, None, json.dumps(facts).encode())


def _sent(layout: JobLayout, kind: str, name: str, shard: int, batch: int, tables: list[pa.Table]) -> Iterator[Parcel]:
    tables = [t for t in tables if t.num_rows]
    if not tables:
        return
    whole = pa.concat_tables(tables) if len(tables) > 1 else tables[0]
    if whole.nbytes > STAGED_BYTES:
        yield Parcel(kind, name, shard, whole.num_rows, _staged(layout.staging, batch, shard, whole), None)
    else:
        yield Parcel(kind, name, shard, whole.num_rows, None, to_blob(whole))


def _staged(staging: str, batch: int, shard: int, table: pa.Table) -> str:
    path = _new_path(staging, batch, shard)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def _new_path(staging: str, batch: int, shard: int) -> str:
    folder = staged_folder(staging, batch)
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, f"{shard}-{uuid.uuid4().hex}.arrow")


def staged_folder(staging: str, batch: int) -> str:
    return os.path.join(staging, f"{batch:012d}")


def opened(path: str | None, blob: bytes | None) -> pa.Table:
    """The table of a parcel."""
    if path is not None:
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    assert blob is not None
    return from_blob(bytes(blob))
