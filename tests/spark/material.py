"""Streams, files and queries that the tests of this folder share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.model.datatypes import BIGINT, BOOLEAN, TIMESTAMP
from eddyline.model.expressions.expression import Call, ColumnRef, Expression
from eddyline.model.query import BoundQuery, OutputColumn, Reference
from eddyline.model.schema import Column, Schema, Stream
from eddyline.model.window import Range, Window
from eddyline.operators.expressions.evaluate import Issues
from eddyline.plan.shards.shares import route_all
from eddyline.runtime.engine.unit import Merging
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.sharded.output.merging import merged_in_pieces
from eddyline.settings import Settings

SCHEMA = Schema((Column("k", BIGINT), Column("v", BIGINT), Column("ts", TIMESTAMP)))


def stream(name: str, position: int, folder: Path | None = None, **options: str) -> Stream:
    if folder is not None:
        options = {"path": str(folder / name), "format": "parquet", **options}
    return Stream(name, SCHEMA, "ts", position=position, options=options)


def rows(first: int, count: int, seed: int = 0) -> pa.Table:
    """Rows whose `v` numbers them, one per millisecond."""
    v = np.arange(first, first + count)
    k = np.random.default_rng([seed, first]).integers(0, 50, count)
    return pa.table({"k": k, "v": v, "ts": pa.array(v * 1000).cast(pa.timestamp("us"))})


def write_files(folder: Path, names: Sequence[str], count: int, first: int = 0) -> None:
    """Files with consecutive rows, oldest first; modification times run the other way."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        new = folder.parent / f"{folder.name}-{name}"
        pq.write_table(rows(first + i * count, count), new)
        os.utime(new, (2_000_000_000 - i, 2_000_000_000 - i))
        # A job that follows the folder meets a file that is whole.
        new.rename(folder / name)


def equality(left: str, right: str) -> Expression:
    def side(text: str) -> ColumnRef:
        alias, column = text.split(".")
        return ColumnRef(alias, column, BIGINT)

    return Call("=", (side(left), side(right)), BOOLEAN)


def query(name: str, references: str, *where: Expression, window: Window | None = None) -> BoundQuery:
    """`references` is 'a b', or 'stream:alias'."""
    pairs = [(word.split(":")[0], word.split(":")[-1]) for word in references.split()]
    outputs = tuple(OutputColumn(f"{alias}_v", ColumnRef(alias, "v", BIGINT)) for _, alias in pairs)
    found = tuple(Reference(alias, source, window or Range(10_000_000)) for source, alias in pairs)
    return BoundQuery(name, found, where, outputs, text=f"{name}: {references} {[str(w) for w in where]}")


def merged_rows(tables: Sequence[pa.Table], merging: Merging | None) -> list[dict[str, Any]]:
    """The results of a query in one batch, of which shards have given these parts."""
    if merging is None:
        return [row for table in merged_in_pieces([iter([table]) for table in tables]) for row in table.to_pylist()]
    return merging(list(tables), Issues()).to_pylist()


def layout(
    streams: Sequence[Stream],
    queries: Sequence[BoundQuery],
    shards: int,
    checkpoint: Path,
    settings: Settings | None = None,
) -> JobLayout:
    """A layout of one step."""
    return JobLayout(
        streams=tuple(streams),
        queries=tuple(queries),
        routing=route_all(queries, [s.name for s in streams], {}, shards),
        width=shards,
        checkpoint=str(checkpoint),
        settings=settings or Settings(),
    )
