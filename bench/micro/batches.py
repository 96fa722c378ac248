"""What a micro-batch costs on Spark, and whether a long run stays as it began.

Answer   `fixed`: a join whose batches bring two rows each, its seconds by stage: what we pay before any work. `long`:
         half an hour of event time at 5,000 rows per second in batches of ten seconds, as fast as it goes: seconds of
         event time per second, the longest batch, and the memory of the Python workers by tenths of the run. `short`:
         the first tenth of the same streams.
Limits   Two cores, `local[2]`. The first micro-batch is left out of times: it starts the workers and compiles.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from bench import harness
from bench.peers.eddyline_engine import ran
from bench.workloads import SHAPES, Workload, make

RESULTS = Path(__file__).parent / "results"
#: Enough that the JVM has warmed up in the second half.
FIXED_BATCHES = 60
BATCH_SECONDS = 10


def main() -> None:
    found: dict[str, object] = {
        "machine": harness.machine(),
        "fixed": fixed(),
        "long": long_run(1.0),
        "short": long_run(0.1),
    }
    print(json.dumps({name: value for name, value in found.items() if name != "machine"}, indent=1))
    harness.write(RESULTS / "batches.json", "micro-batches on Spark", found)


def fixed() -> dict[str, object]:
    """Median seconds per stage over the second half of a run of nearly empty batches."""
    said = _run(make("W1", files=FIXED_BATCHES, rows=FIXED_BATCHES))
    half = FIXED_BATCHES // 2
    return {
        "batches": FIXED_BATCHES,
        "seconds": statistics.median(said["epoch_seconds"][half:]),
        "stages": {name: statistics.median(seconds[half:]) for name, seconds in said["stages"].items()},
        "inside_a_shard": {name: seconds / FIXED_BATCHES for name, seconds in said["shard_seconds"].items()},
        "first_batch_seconds": said["epoch_seconds"][0],
    }


def long_run(part: float) -> dict[str, object]:
    shape = SHAPES["W30m"]
    rows = int(shape.rows * part)
    event_seconds = rows // shape.rows_per_second
    said = _run(make("W30m", files=event_seconds // BATCH_SECONDS, rows=rows))
    workers = said["worker_bytes"]
    tenth = max(len(workers) // 10, 1)
    seconds = sum(said["epoch_seconds"])
    return {
        "rows": sum(said["rows_in"].values()),
        "results": said["results"]["q"],
        "event_seconds": event_seconds,
        "seconds": seconds,
        "event_seconds_per_second": event_seconds / seconds,
        "longest_batch_seconds": max(said["epoch_seconds"][1:]),
        "largest_worker_mb_by_tenths": [max(workers[at : at + tenth]) / 1e6 for at in range(0, 10 * tenth, tenth)],
        "peak_stored_rows": said["peak_stored_rows"],
    }


def _run(workload: Workload) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="eddyline-bench-") as name:
        return ran(workload.job(files_per_batch=1), Path(name), engine="spark", write=True)[0]


if __name__ == "__main__":
    main()
