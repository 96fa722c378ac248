"""Named streams and queries that all kinds of benchmark share.

Answer   `make(name, factor, files)` writes the seeded streams of a workload as folders of parquet files, once, and
         returns where they are, the job text over them and the same query for a batch system.
State    Files under `$EDDYLINE_BENCH_DATA`, or `data/bench` below the working directory. They are written to a
         temporary name and renamed, so that an interrupted run leaves nothing that looks whole.
Limits   A factor makes streams longer at the same rates; it does not make them faster. Rows are in time order, without
         late ones.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 20_240_101
#: 2024-01-01T00:00:00, in microseconds: where every stream begins.
ORIGIN = 1_704_067_200_000_000

Columns = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Shape:
    """One workload before its data: per stream its integer columns with their largest value, and the query over
    them."""

    title: str
    #: Stream -> column -> values are uniform in 1..this.
    streams: dict[str, dict[str, int]]
    rows: int
    rows_per_second: int
    window_seconds: int
    select: str
    #: Join conditions, each `stream.column = stream.column`.
    equalities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload whose files exist."""

    name: str
    factor: int
    files: int
    folder: Path
    shape: Shape

    @property
    def streams(self) -> list[str]:
        return list(self.shape.streams)

    @property
    def rows_in(self) -> int:
        return self.shape.rows * self.factor * len(self.shape.streams)

    def path(self, stream: str) -> Path:
        return self.folder / stream

    def job(self, *settings: str, files_per_batch: int | None = None) -> str:
        """The job text: streams, any SET statements, and one query `q`."""
        options = "format='parquet', time='ts'" + (f", files_per_batch={files_per_batch}" if files_per_batch else "")
        lines = [
            f"CREATE STREAM {name} ({columns_of(self.shape, name)}) WITH ({options}, path='{self.path(name)}');"
            for name in self.streams
        ]
        window = f"[RANGE {self.shape.window_seconds} SECONDS]"
        references = ", ".join(f"{name} {window}" for name in self.streams)
        lines += [f"SET {setting};" for setting in settings]
        lines.append(
            f"CREATE QUERY q AS SELECT {self.shape.select} FROM {references} WHERE {' AND '.join(self.shape.equalities)};"
        )
        return "\n".join(lines) + "\n"

    def batch_query(self) -> str:
        """The same answer asked of a batch system: every pair of rows within the window of each other."""
        tables = ", ".join(f"read_parquet('{self.path(name)}/*.parquet') {name}" for name in self.streams)
        near = [
            f"abs(epoch_us({left}.ts) - epoch_us({right}.ts)) <= {self.shape.window_seconds * 1_000_000}"
            for left, right in self.pairs()
        ]
        newest = f"greatest({', '.join(f'{name}.ts' for name in self.streams)}) AS _ts"
        return f"SELECT {self.shape.select}, {newest} FROM {tables} WHERE {' AND '.join(self.shape.equalities + tuple(near))}"

    def pairs(self) -> list[tuple[str, str]]:
        names = self.streams
        return [(left, right) for i, left in enumerate(names) for right in names[i + 1 :]]


def columns_of(shape: Shape, stream: str) -> str:
    keys = "".join(f"{column} BIGINT, " for column in shape.streams[stream])
    return f"{keys}v DOUBLE, ts TIMESTAMP"


def _two_way(keys: int, title: str) -> Shape:
    return Shape(
        title=title,
        streams={"a": {"k": keys}, "b": {"k": keys}},
        rows=500_000,
        rows_per_second=1_000,
        window_seconds=10,
        select="a.k, a.v AS av, b.v AS bv",
        equalities=("a.k = b.k",),
    )


SHAPES: dict[str, Shape] = {
    "W1": _two_way(1_000, "two-way join, many results"),
    "W1s": _two_way(100_000, "two-way join, few results"),
    "W30m": Shape(
        title="half an hour of two streams",
        streams={"a": {"k": 100_000}, "b": {"k": 100_000}},
        rows=4_500_000,
        rows_per_second=2_500,
        window_seconds=60,
        select="a.k, a.v AS av, b.v AS bv",
        equalities=("a.k = b.k",),
    ),
    "W2": Shape(
        title="three-way join over two columns",
        streams={"a": {"x": 2_000, "y": 200_000}, "b": {"x": 2_000}, "c": {"y": 200_000}},
        rows=200_000,
        rows_per_second=1_000,
        window_seconds=10,
        select="a.x, a.y, a.v AS av, b.v AS bv, c.v AS cv",
        equalities=("a.x = b.x", "a.y = c.y"),
    ),
    "W3": Shape(
        title="four-way clique",
        streams={
            name: {left + right: 200 for left, right in ("ab", "ac", "ad", "bc", "bd", "cd") if name in (left, right)}
            for name in "abcd"
        },
        rows=18_000,
        rows_per_second=1,
        window_seconds=1_200,
        select="a.v AS av, b.v AS bv, c.v AS cv, d.v AS dv",
        equalities=tuple(
            f"{left}.{left + right} = {right}.{left + right}" for left, right in ("ab", "ac", "ad", "bc", "bd", "cd")
        ),
    ),
}


def make(
    name: str, factor: int = 1, files: int = 10, *, rows: int | None = None, folder: str | Path | None = None
) -> Workload:
    """The workload with its files in place.

    Args:
        name: one of `SHAPES`.
        factor: how many times as long as usual, at the same rates.
        files: parquet files per stream, each an equal share of the rows in time order.
        rows: rows per stream instead of the workload's own number (for tests).
        folder: where to keep the files, instead of the usual place.
    """
    shape = SHAPES[name]
    if rows is not None:
        shape = replace(shape, rows=rows)
    root = Path(folder or os.environ.get("EDDYLINE_BENCH_DATA") or "data/bench").resolve()
    target = root / f"{name}-{shape.rows}x{factor}-{files}files"
    if not target.exists():
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        for position, stream in enumerate(shape.streams):
            # A seed per stream: adding a stream to a workload leaves the others as they were.
            generator = np.random.default_rng([SEED, position, *name.encode()])
            _write(partial / stream, generate(shape, stream, factor, generator), files)
        partial.rename(target)
    return Workload(name, factor, files, target, shape)


def generate(shape: Shape, stream: str, factor: int, generator: np.random.Generator) -> Columns:
    """The columns of one stream: uniform keys, a value, and arrival times drawn uniformly over the whole length,
    sorted."""
    rows = shape.rows * factor
    columns: Columns = {
        column: generator.integers(1, largest, rows, endpoint=True) for column, largest in shape.streams[stream].items()
    }
    columns["v"] = generator.random(rows)
    length = rows * 1_000_000 // shape.rows_per_second
    columns["ts"] = ORIGIN + np.sort(generator.integers(0, length, rows))
    return columns


def _write(folder: Path, columns: Columns, files: int) -> None:
    folder.mkdir(parents=True)
    table = pa.table({**columns, "ts": pa.array(columns["ts"]).cast(pa.timestamp("us"))})
    bounds = np.linspace(0, table.num_rows, files + 1).astype(int)
    for number, (start, stop) in enumerate(pairwise(bounds)):
        file = folder / f"part-{number:05d}.parquet"
        pq.write_table(table.slice(start, stop - start), file)
        # Spark's file source takes files by modification time: let it agree with the names.
        os.utime(file, (ORIGIN // 1_000_000 + number, ORIGIN // 1_000_000 + number))
