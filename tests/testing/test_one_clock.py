"""One clock: no file of the engine but `model/clock.py` asks how much time has passed, and a test can move it."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import eddyline
from eddyline.connectors.files.files import open_source
from eddyline.model.datatypes import BIGINT, TIMESTAMP
from eddyline.model.schema import Column, Schema, Stream
from eddyline.testing.clocks import MovedClock


def test_only_the_clock_asks_for_the_time() -> None:
    folder = Path(eddyline.__file__).parent
    asking = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(r"\bmonotonic\(\)", path.read_text())
    }
    assert asking == {"model/clock.py"}


def test_a_source_looks_for_files_when_its_clock_says_so(tmp_path: Path) -> None:
    clock = MovedClock()
    schema = Schema((Column("k", BIGINT), Column("ts", TIMESTAMP)))
    source = open_source(
        Stream("s", schema, "ts", options={"format": "parquet", "path": str(tmp_path)}), follow=True, clock=clock
    )
    assert source.read(10) is None
    pq.write_table(pa.table({"k": [1], "ts": pa.array([0], pa.timestamp("us"))}), tmp_path / "a.parquet")
    assert source.read(10) is None
    clock.advance(1)
    chunk = source.read(10)
    assert chunk is not None and len(chunk.rows) == 1
