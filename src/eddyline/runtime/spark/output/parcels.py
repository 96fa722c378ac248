"""What a shard sends to the driver: results, answers to requests, dead letters, and a note about the epoch.

Answer   Small results travel inside the row as an Arrow IPC blob. Large ones are staged as an Arrow IPC file under a name
         that no other attempt has, and only the name travels: Spark moves results at some 35 MB/s, a file is mapped.
Limits   Staging lies below the checkpoint, which the driver sees too.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Set
from typing import Any

import pyarrow as pa
from pyspark.sql.types import Row

from eddyline.runtime.epoch import Outcome, results_of
from eddyline.runtime.spark.ingest.packet import PARCEL, from_blob, to_blob
from eddyline.runtime.spark.job.layout import Layout

#: Larger than this and a table is staged.
STAGED_BYTES = 1 << 18

_parcel = Row(*PARCEL.names)


def parcels(layout: Layout, shard: int, batch: int, outcome: Outcome, silent: Set[str]) -> Iterator[Row]:
    """The tables of one epoch; queries in `silent` have no cell here."""
    for query, tables in outcome.results.items():
        if results_of(query) not in silent:
            yield from _sent(layout, "result", query, shard, batch, tables)
    for name, part in outcome.answers.items():
        yield from _sent(layout, "answer", name, shard, batch, [part])
    for stream, tables in outcome.dead.items():
        # Late rows are typed, bad ones are text: they are not one table.
        for table in tables:
            yield from _sent(layout, "dead", stream, shard, batch, [table])


def note(shard: int, facts: dict[str, Any]) -> Row:
    return _parcel("note", "", shard, 0, None, json.dumps(facts).encode())


def _sent(layout: Layout, kind: str, name: str, shard: int, batch: int, tables: list[pa.Table]) -> Iterator[Row]:
    tables = [t for t in tables if t.num_rows]
    if not tables:
        return
    whole = pa.concat_tables(tables) if len(tables) > 1 else tables[0]
    if whole.nbytes > STAGED_BYTES:
        yield _parcel(kind, name, shard, whole.num_rows, _staged(layout.staging, batch, shard, whole), None)
    else:
        yield _parcel(kind, name, shard, whole.num_rows, None, to_blob(whole))


def _staged(staging: str, batch: int, shard: int, table: pa.Table) -> str:
    folder = staged_folder(staging, batch)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{shard}-{uuid.uuid4().hex}.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def staged_folder(staging: str, batch: int) -> str:
    return os.path.join(staging, f"{batch:012d}")


def opened(path: str | None, blob: bytes | None) -> pa.Table:
    """The table of a parcel."""
    if path is not None:
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    assert blob is not None
    return from_blob(bytes(blob))
