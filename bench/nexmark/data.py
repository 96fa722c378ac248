"""The streams of NEXMark as csv files, for all engines the same rows.

Answer   `make(rate, seconds, slots)` generates the streams (`eddyline generate nexmark`), once, and returns where they
         are and how many rows they have. `csv/<stream>` has one file per ten seconds of event time, in order;
         `slots/<stream>` has one file per task slot with every row whose number has that remainder, because Flink's
         file source hands files out in no order.
State    `nexmark-<rate>x<seconds>-<slots>` below `$EDDYLINE_BENCH_DATA` or `data/bench`. Files have no header, times
         are text.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from eddyline.connectors.generators.draws import GeneratorShape
from eddyline.connectors.generators.generate import nexmark

#: Event time of one file, in seconds: on Spark it is one micro-batch.
FILE_SECONDS = 10
STREAMS = ("person", "auction", "bid")
_OPTIONS = pa.csv.WriteOptions(include_header=False, quoting_style="needed")


@dataclass(frozen=True, slots=True)
class Data:
    folder: Path
    rate: float
    seconds: float
    files: int
    rows: dict[str, int]
    #: Per stream the instant after its last row, in microseconds.
    ends: dict[str, int]


def make(rate: float, seconds: float, slots: int, folder: str | Path | None = None) -> Data:
    root = Path(folder or os.environ.get("EDDYLINE_BENCH_DATA") or "data/bench").resolve()
    target = root / f"nexmark-{rate:g}x{seconds:g}-{slots}"
    files = max(2, round(seconds / FILE_SECONDS))
    if not target.exists():
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        nexmark(str(partial / "parquet"), GeneratorShape(rate=rate, seconds=seconds, files=files))
        for stream in STREAMS:
            _write(partial, stream, slots)
        (partial / "csv" / "side").mkdir()
        pa.csv.write_csv(
            pq.read_table(partial / "parquet" / "side.parquet"), partial / "csv" / "side" / "side.csv", _OPTIONS
        )
        partial.rename(target)
    tables = {stream: pq.read_table(target / "parquet" / stream, columns=["ts"]) for stream in STREAMS}
    ends = {stream: int(pa.compute.max(table["ts"]).cast(pa.int64()).as_py()) + 1 for stream, table in tables.items()}
    return Data(target, rate, seconds, files, {stream: table.num_rows for stream, table in tables.items()}, ends)


def _write(folder: Path, stream: str, slots: int) -> None:
    for kind in ("csv", "slots"):
        (folder / kind / stream).mkdir(parents=True)
    for number, file in enumerate(sorted((folder / "parquet" / stream).glob("*.parquet"))):
        written = folder / "csv" / stream / f"{file.stem}.csv"
        pa.csv.write_csv(pq.read_table(file), written, _OPTIONS)
        # Spark's file source takes files by modification time: let it agree with the names.
        os.utime(written, (1_700_000_000 + number, 1_700_000_000 + number))
    whole = pq.read_table(folder / "parquet" / stream)
    for slot in range(slots):
        rows = whole.take(pa.array(np.arange(slot, whole.num_rows, slots)))
        pa.csv.write_csv(rows, folder / "slots" / stream / f"part-{slot:05d}.csv", _OPTIONS)
