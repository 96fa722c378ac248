"""Sliding aggregates: a 10-minute window over 1,000,000 rows with 10,000 groups, embedded, epochs of 20,000 rows.

Answer   Rows per second of wall time and of CPU time, for COUNT, SUM, AVG, MIN and MAX under EMIT ON CHANGE; results
         are counted and dropped.
Reading  `python -m bench.micro.aggregates [--rows N] [--groups N] [--repeats N]`
"""

from __future__ import annotations

import argparse
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa

from eddyline.language.job import bind_script
from eddyline.runtime.engine.epoch import Arrival, Epoch
from eddyline.runtime.engine.pipeline import Pipeline

_EPOCH = 20_000
#: Event time between two rows: 1,000 rows a second, so that the window holds 600,000.
_STEP = 1_000

STREAM = "CREATE STREAM s (k BIGINT, x DOUBLE, ts TIMESTAMP) WITH (time = 'ts')"
QUERY = """CREATE QUERY q AS SELECT k, COUNT(*) AS n, SUM(x) AS total, AVG(x) AS mean, MIN(x) AS low, MAX(x) AS high
FROM s [RANGE 10 MINUTES] GROUP BY k"""


def rows(count: int, groups: int, seed: int = 7) -> pa.Table:
    draws = np.random.default_rng(seed)
    ts = pa.array(np.arange(count, dtype=np.int64) * _STEP).cast(pa.timestamp("us"))
    return pa.table({"k": draws.integers(0, groups, count), "x": draws.normal(100.0, 15.0, count), "ts": ts})


def run(table: pa.Table, query: str = QUERY) -> tuple[float, float, int]:
    """Seconds of wall and CPU time for all epochs, and how many changes came out."""
    job = bind_script(f"{STREAM}; {query}")
    pipeline = Pipeline(job.streams, job.settings)
    for bound in job.queries:
        pipeline.add_query(bound)
    made = 0
    wall, cpu = perf_counter(), process_time()
    for first in range(0, len(table), _EPOCH):
        outcome = pipeline.step(Epoch({"s": Arrival(table.slice(first, _EPOCH))}))
        made += sum(len(t) for t in outcome.results["q"])
    outcome = pipeline.step(Epoch({}, closing=True))
    made += sum(len(t) for t in outcome.results["q"])
    return perf_counter() - wall, process_time() - cpu, made


def main() -> None:
    parser = argparse.ArgumentParser(description="sliding aggregates, embedded")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    run(rows(2 * _EPOCH, args.groups))
    table = rows(args.rows, args.groups)
    for _ in range(args.repeats):
        wall, cpu, made = run(table)
        print(f"{args.rows / wall:,.0f} rows/s of wall time, {args.rows / cpu:,.0f} of CPU time; {made:,} changes")


if __name__ == "__main__":
    main()
