"""The streams of a workload as csv, for systems that do not read its parquet files.

Answer   `interleaved(workload, parts)` writes every stream as `parts` csv files, once, and returns the folder. Row n is
         in file n modulo `parts`: each file is in time order and covers the whole time, so that readers side by side
         stay together. The columns are those of the stream without `ts`, then `us`: the event time in microseconds.
         `in_order(workload)` writes the files of the stream one by one, with times as text; `with_header(workload)`
         writes one file per stream with a header and `us`.
State    Folders `interleaved-<parts>`, `in-order` and `with-header` beside the parquet files of the workload.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from bench.workloads import Workload

_OPTIONS = pa.csv.WriteOptions(include_header=False, quoting_style="needed")


def interleaved(workload: Workload, parts: int) -> Path:
    def write(stream: Path, folder: Path) -> None:
        table = pq.read_table(stream)
        timed = table.drop_columns("ts").append_column("us", table["ts"].cast("int64"))
        for part in range(parts):
            rows = timed.take(pa.array(np.arange(part, timed.num_rows, parts)))
            pa.csv.write_csv(rows, folder / f"part-{part:05d}.csv", _OPTIONS)

    return _once(workload, f"interleaved-{parts}", write)


def in_order(workload: Workload) -> Path:
    def write(stream: Path, folder: Path) -> None:
        for file in sorted(stream.glob("*.parquet")):
            pa.csv.write_csv(pq.read_table(file), folder / f"{file.stem}.csv", _OPTIONS)

    return _once(workload, "in-order", write)


def with_header(workload: Workload) -> Path:
    def write(stream: Path, folder: Path) -> None:
        table = pq.read_table(stream)
        timed = table.drop_columns("ts").append_column("us", table["ts"].cast("int64"))
        pa.csv.write_csv(timed, folder / "part-00000.csv", pa.csv.WriteOptions(quoting_style="needed"))

    return _once(workload, "with-header", write)


def _once(workload: Workload, name: str, write: Callable[[Path, Path], None]) -> Path:
    target = workload.folder / name
    if not target.exists():
        partial = target.with_name(f"{name}.{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        for stream in workload.streams:
            (partial / stream).mkdir(parents=True)
            write(workload.path(stream), partial / stream)
        partial.rename(target)
    return target
