"""Numbers of `tuning.py` that say how much is done at once, each measured around its value.

Answer   `parquet_rows`: CPU to read a parquet file in batches of a number of rows. `dense`: CPU to find distinct keys
         by an array and by sorting, by places per key. `small_bytes`: CPU to write results into the journal first and
         into a file later, and into a file at once, by size.
Limits   CPU time of this process, the least of a few rounds that take turns.
Reading  `python -m bench.micro.sizes [parquet_rows dense small_bytes]`
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.connectors.files.listing import DataFile
from eddyline.connectors.formats.parquet import read_parquet
from eddyline.model.datatypes import BIGINT, STRING, TIMESTAMP
from eddyline.model.schema import Column, Schema
from eddyline.tuning import InputTuning

ROUNDS = 7
SCHEMA = Schema((Column("k", BIGINT), Column("v", BIGINT), Column("note", STRING), Column("ts", TIMESTAMP)))


def _turns(contenders: Mapping[object, Callable[[], object]], rounds: int = ROUNDS) -> dict[object, float]:
    """The least CPU milliseconds of each, which take turns."""
    least: dict[object, float] = {}
    for _ in range(rounds):
        for name, run in contenders.items():
            began = process_time()
            run()
            least[name] = min(least.get(name, 1e9), 1e3 * (process_time() - began))
    return least


def _said(name: str, found: Mapping[object, float]) -> None:
    print(f"{name}: " + ", ".join(f"{of} {value:.3g} ms" for of, value in found.items()))


def _rows(count: int) -> pa.Table:
    random = np.random.default_rng(1)
    times = pa.array(np.arange(count) * 1_000, pa.timestamp("us"))
    texts = pa.array([f"note {n}" for n in random.integers(0, 1_000, count)])
    return pa.table(
        {"k": random.integers(0, 1_000, count), "v": random.integers(0, 1 << 40, count), "note": texts, "ts": times}
    )


def _often(run: Callable[[], object]) -> None:
    for _ in range(20):
        run()


def parquet_rows() -> None:
    with tempfile.TemporaryDirectory(prefix="eddyline-bench-") as folder:
        path = Path(folder) / "a.parquet"
        pq.write_table(_rows(1_000_000), path)
        file = DataFile(path.name, str(path))

        def read(rows: int) -> Callable[[], object]:
            return lambda: sum(
                block.count for block in read_parquet(file, SCHEMA, tuning=InputTuning(parquet_rows=rows))
            )

        _said(
            "parquet_rows, a million rows",
            _turns({1 << bits: read(1 << bits) for bits in (12, 14, 15, 16, 17, 18, 19, 20)}),
        )


def dense() -> None:
    """Per number of places for each key, the array against the sort; below 1 the array is faster."""
    for keys in (1_000, 20_000):
        ratios = {}
        for places in (1, 2, 4, 8, 16, 32, 64):
            drawn = np.random.default_rng(2).integers(0, keys * places, keys)

            def by_array(drawn: np.ndarray = drawn) -> np.ndarray:
                low = int(drawn.min())
                seen = np.zeros(int(drawn.max()) - low + 1, np.bool_)
                seen[drawn - low] = True
                return np.flatnonzero(seen) + low

            def by_sorting(drawn: np.ndarray = drawn) -> np.ndarray:
                return np.unique(drawn)

            found = _turns({by.__name__: partial(_often, by) for by in (by_array, by_sorting)})
            ratios[places] = found["by_array"] / found["by_sorting"]
        print(
            f"dense, {keys} keys: array / sort "
            + ", ".join(f"{places} places {ratio:.2f}" for places, ratio in ratios.items())
        )


def small_bytes() -> None:
    """Arrow bytes in a journal and a parquet file of several pieces afterwards, against a parquet file of each
    piece."""
    with tempfile.TemporaryDirectory(prefix="eddyline-bench-") as folder:
        journal, file = f"{folder}/journal.arrow", f"{folder}/a.parquet"
        for count in (100, 1_000, 10_000, 40_000, 160_000):
            rows = _rows(count)

            def twice(rows: pa.Table = rows) -> None:
                for _ in range(8):
                    with pa.OSFile(journal, "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
                        writer.write_table(rows)
                pq.write_table(pa.concat_tables([rows] * 8), file)

            def once(rows: pa.Table = rows) -> None:
                for _ in range(8):
                    pq.write_table(rows, file)

            found = _turns({"journal, then one file": twice, "eight files": once}, 3)
            _said(f"small_bytes, eight pieces of {rows.nbytes / 1e6:.2f} MB", found)


PARTS = {"parquet_rows": parquet_rows, "dense": dense, "small_bytes": small_bytes}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
