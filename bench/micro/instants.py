"""EMIT EVERY: what one instant costs. A sliding window of 10 seconds that is emitted every second, embedded.

Answer   Microseconds of process CPU time per instant at which something is emitted, for one group and for 50, each with
         a few and with all aggregates; the time of the same rows under a plain filter is taken off, so that reading
         rows does not count. Medians.
Reading  `python -m bench.micro.instants [--instants N] [--epoch N] [--repeats N]`
"""

from __future__ import annotations

import argparse
from statistics import median
from time import process_time

import numpy as np
import pyarrow as pa

from eddyline.language.job import bind_script
from eddyline.runtime.engine.epoch import Arrival, Epoch
from eddyline.runtime.engine.pipeline import Pipeline

_SECOND = 1_000_000

STREAM = "CREATE STREAM s (k BIGINT, x DOUBLE, ts TIMESTAMP) WITH (time = 'ts')"
FILTER = "CREATE QUERY q AS SELECT k, x, ts FROM s WHERE x < -1e9"
#: Selected aggregates, by name.
AGGREGATES = {
    "count and sum": "COUNT(*) AS n, SUM(x) AS total",
    "all": "COUNT(*) AS n, SUM(x) AS total, AVG(x) AS mean, STDDEV(x) AS spread, MIN(x) AS low, MAX(x) AS high, COUNT(DISTINCT x) AS kinds",
}


def query(selected: str) -> str:
    return f"CREATE QUERY q AS SELECT k, {selected} FROM s [RANGE 10 SECONDS] GROUP BY k EMIT EVERY 1 SECOND"


def rows(instants: int, groups: int, seed: int = 7) -> pa.Table:
    """One row of every group between two instants, at most 10."""
    each = min(groups, 10)
    draws = np.random.default_rng(seed)
    ts = np.arange(instants * each, dtype=np.int64) * _SECOND // each
    columns = {"k": np.arange(len(ts)) % groups, "x": np.round(draws.normal(100.0, 15.0, len(ts)), 1)}
    return pa.table(columns | {"ts": pa.array(ts).cast(pa.timestamp("us"))})


def run(table: pa.Table, text: str, epoch: int) -> tuple[float, int]:
    """Seconds of CPU time for all epochs, and how many changes came out."""
    job = bind_script(f"{STREAM}; {text}")
    pipeline = Pipeline(job.streams, job.settings)
    for bound in job.queries:
        pipeline.add_query(bound)
    made = 0
    began = process_time()
    for first in range(0, len(table), epoch):
        made += sum(len(t) for t in pipeline.step(Epoch({"s": Arrival(table.slice(first, epoch))})).results["q"])
    made += sum(len(t) for t in pipeline.step(Epoch({}, closing=True)).results["q"])
    return process_time() - began, made


def measure(instants: int, epoch: int, repeats: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for groups in (1, 50):
        table = rows(instants, groups)
        for name, selected in AGGREGATES.items():
            run(table.slice(0, 2 * epoch), query(selected), epoch)
            run(table.slice(0, 2 * epoch), FILTER, epoch)
            pairs = [(run(table, query(selected), epoch), run(table, FILTER, epoch)[0]) for _ in range(repeats)]
            cost = median(taken - plain for (taken, _), plain in pairs)
            found.append({"groups": groups, "aggregates": name, "us": cost / instants * 1e6, "changes": pairs[0][0][1]})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="instants of EMIT EVERY, embedded")
    parser.add_argument("--instants", type=int, default=2_000)
    parser.add_argument("--epoch", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    for line in measure(args.instants, args.epoch, args.repeats):
        print(
            f"{line['groups']} groups, {line['aggregates']}: {line['us']:.1f} us of CPU time per instant; {line['changes']:,} changes"
        )


if __name__ == "__main__":
    main()
