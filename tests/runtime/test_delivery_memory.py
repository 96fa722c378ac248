"""What the process holds that delivers large results: files of shards, and rows that it merges in pieces.

The rows are those that shards would send; no shard runs here, so that the peak is that of the driver alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.language import bind_script
from eddyline.runtime.engine.newest import PLACE
from eddyline.runtime.sharded.output.delivery import BatchDelivery, Delivered
from eddyline.runtime.sharded.output.landed import Landed
from eddyline.runtime.sharded.output.parcels import Parcel, Staged, note
from eddyline.settings import Settings

SHARDS, PIECE = 4, 100_000
ROOT = Path(__file__).parents[2]
QUERIES = """
CREATE STREAM s (k BIGINT, v BIGINT, w BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'memory');
CREATE QUERY plain AS SELECT k, v, w FROM s;
CREATE QUERY changes AS SELECT k, MAX(v) AS v, MIN(w) AS w FROM s GROUP BY k;
CREATE QUERY closed AS SELECT window_end, k, MAX(v) AS v, MIN(w) AS w FROM s GROUP BY TUMBLE(ts, '1 day'), k EMIT ON CLOSE;
"""


def piece(query: str, shard: int, first: int, rows: int) -> pa.Table:
    """Rows of a shard: their numbers lie between those of the others."""
    v = np.arange(first, first + rows) * SHARDS + shard
    times = np.full(rows, 86_400_000_000) if query == "closed" else v // 7
    columns = {"k": v % 1000, "v": v, "w": v * 7919 % 1_000_003}
    if query == "changes":
        columns["_op"] = pa.array(np.array(["-", "+"])[v % 2])
    if query == "closed":
        columns = {"window_end": pa.array(times).cast(pa.timestamp("us")), **columns}
    columns["_ts"] = pa.array(times).cast(pa.timestamp("us"))
    if query != "closed":
        columns[PLACE] = v
    return pa.table(columns)


def delivered(folder: str, query: str, rows: int, by_shard: bool) -> dict[str, int]:
    """Deliver a batch of so many rows of a query; the number of rows, and the peak of this process meanwhile in
    bytes."""
    job = bind_script(QUERIES)
    staging = os.path.join(folder, "checkpoint", "eddyline", "staged")
    os.makedirs(os.path.join(folder, "checkpoint", "eddyline", "standing"))
    seen: list[Delivered] = []
    streams = {stream.name: stream for stream in job.streams}
    delivery = BatchDelivery(
        streams, staging, os.path.join(folder, "out"), seen.append, settings=Settings(), by_shard=by_shard
    )
    bound = next(one for one in job.queries if one.name == query)
    schema = piece(query, 0, 0, 1).drop_columns([PLACE] if query != "closed" else []).schema
    delivery.open_query(bound, schema, (), lambda name, schema: ())
    targets = delivery.files([bound]).get(query)
    assert (targets is not None) == (by_shard and query != "changes")
    parcels = []
    for shard in range(SHARDS):
        made = Landed(targets, 0, str(shard)) if targets else Staged(staging, 0, shard)
        for first in range(0, rows // SHARDS, PIECE):
            made.write(piece(query, shard, first, min(PIECE, rows // SHARDS - first)))
        made.close()
        parcels.append(Parcel("file" if targets else "result", query, shard, made.rows, made.paths[0], None))
        parcels.append(note(shard, {}))
    Path("/proc/self/clear_refs").write_text("5")
    delivery(parcels, 0)
    delivery.close()
    status = Path("/proc/self/status").read_text().split()
    return {"rows": seen[0].results[query], "peak": int(status[status.index("VmHWM:") + 1]) << 10}


@pytest.mark.long
@pytest.mark.parametrize(
    ("query", "rows", "by_shard"),
    [
        ("plain", 10_000_000, True),
        ("plain", 10_000_000, False),
        ("changes", 3_600_000, True),
        ("closed", 5_000_000, True),
        ("closed", 5_000_000, False),
    ],
)
def test_the_driver_stays_below_400_mb(tmp_path: Path, query: str, rows: int, by_shard: bool) -> None:
    """In a process that has loaded all that a driver on Spark loads."""
    program = (
        "import json, eddyline.runtime.spark.runner; from tests.runtime.test_delivery_memory import delivered;"
        f"print(json.dumps(delivered({str(tmp_path)!r}, {query!r}, {rows}, {by_shard})))"
    )
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    said = json.loads(found.stdout)
    print(f"{query}, {rows:,} rows, {'by shard' if by_shard else 'merged'}: {said['peak'] / 1e6:.0f} MB")
    files = sorted((tmp_path / "out" / query).glob("*.parquet"))
    assert said["rows"] == rows == sum(parquet.read_metadata(path).num_rows for path in files)
    assert said["peak"] < 400e6


@pytest.mark.parametrize("by_shard", [True, False])
def test_all_rows_arrive_in_order(tmp_path: Path, by_shard: bool) -> None:
    said = delivered(str(tmp_path), "plain", 40_000, by_shard)
    files = sorted((tmp_path / "out" / "plain").glob("*.parquet"))
    found = [parquet.read_table(path).column("v").to_numpy() for path in files]
    assert said["rows"] == 40_000 and len(files) == (SHARDS if by_shard else 1)
    assert all(bool((np.diff(v) > 0).all()) for v in found)
    assert sorted(np.concatenate(found)) == [*range(40_000)]
