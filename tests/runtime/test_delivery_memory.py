"""What the process holds that delivers large results: files of shards, and rows that it merges in pieces.

The rows are those that shards would send; no shard runs here, so that the peak is that of the driver alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.language import bind_script
from eddyline.model.expressions.expression import Expression
from eddyline.operators.aggregate.aggregation import merged_parts
from eddyline.operators.aggregate.parts import in_slices
from eddyline.runtime.engine.newest import PLACE
from eddyline.runtime.engine.unit import Merging
from eddyline.runtime.sharded.output.delivery import BatchDelivery, Delivered
from eddyline.runtime.sharded.output.landed import Landed
from eddyline.runtime.sharded.output.parcels import Parcel, Staged, note
from eddyline.runtime.sharded.shard.pipeline import model_pipeline
from eddyline.settings import Settings
from tests.spark.material import layout as layout_of

SHARDS, PIECE = 4, 100_000
ROOT = Path(__file__).parents[2]
QUERIES = """
CREATE STREAM s (k BIGINT, v BIGINT, w BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'memory');
CREATE QUERY plain AS SELECT k, v, w FROM s;
CREATE QUERY changes AS SELECT k, MAX(v) AS v, MIN(w) AS w FROM s GROUP BY k;
CREATE QUERY closed AS SELECT window_end, k, MAX(v) AS v, MIN(w) AS w FROM s GROUP BY TUMBLE(ts, '1 day'), k EMIT ON CLOSE;
CREATE QUERY parts AS SELECT window_end, k, COUNT(*) AS n FROM s GROUP BY TUMBLE(ts, '1 day'), k EMIT ON CLOSE;
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


def parts(staging: str, shard: int, groups: int, group_by: tuple[Expression, ...]) -> Parcel:
    """Of groups that all close together every second one, as a shard keeps parts of them: two shards have each."""
    mine = np.arange(shard % 2, groups, 2)
    due = np.full(len(mine), 86_400_000_000)
    columns = {
        f"key-{at}": pa.array(mine) if e.type.name == "BIGINT" else pa.array(due).cast(pa.timestamp("us"))
        for at, e in enumerate(group_by)
    }
    columns |= {"total": pa.array(np.full(len(mine), 1 + shard)), "_ts": pa.array(due - 1).cast(pa.timestamp("us"))}
    made = Staged(staging, 0, shard)
    made.write(in_slices(pa.table(columns), group_by, due))
    made.close()
    return Parcel("result", "parts", shard, made.rows, made.paths[0], None)


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
    if query == "parts":
        layout = layout_of(job.streams, [bound], SHARDS, Path(folder, "checkpoint"))
        registered = model_pipeline(layout).queries[query]
        # As for a join on other columns than those of GROUP BY, which no shard could keep whole.
        config, schema = registered.aggregation.config, registered.schema
        delivery.merging[query] = Merging(partial(merged_parts, config), in_slices=True)
    else:
        schema = piece(query, 0, 0, 1).drop_columns([PLACE] if query != "closed" else []).schema
    delivery.open_query(bound, schema, (), lambda name, schema: ())
    targets = delivery.files([bound]).get(query)
    assert (targets is not None) == (by_shard and query not in ("changes", "parts"))
    parcels = []
    if query == "parts":
        with get_context("fork").Pool(1) as other:
            parcels = [other.apply(parts, (staging, shard, rows, config.group_by)) for shard in range(SHARDS)]
        parcels += [note(shard, {}) for shard in range(SHARDS)]
    for shard in range(SHARDS) if query != "parts" else ():
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


def test_groups_kept_in_parts_are_whole(tmp_path: Path) -> None:
    said = delivered(str(tmp_path), "parts", 70_000, True)
    found = parquet.read_table(tmp_path / "out" / "parts").sort_by("k")
    assert said["rows"] == 70_000 and found.column("k").to_pylist() == [*range(70_000)]
    # The even ones are in the shards 0 and 2, the odd ones in 1 and 3.
    assert found.column("n").to_pylist() == [4, 6] * 35_000


@pytest.mark.parametrize("by_shard", [True, False])
def test_all_rows_arrive_in_order(tmp_path: Path, by_shard: bool) -> None:
    said = delivered(str(tmp_path), "plain", 40_000, by_shard)
    files = sorted((tmp_path / "out" / "plain").glob("*.parquet"))
    found = [parquet.read_table(path).column("v").to_numpy() for path in files]
    assert said["rows"] == 40_000 and len(files) == (SHARDS if by_shard else 1)
    assert all(bool((np.diff(v) > 0).all()) for v in found)
    assert sorted(np.concatenate(found)) == [*range(40_000)]
