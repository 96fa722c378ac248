"""The engine itself, by the wall clock: what working strip by strip costs, and how soon each window is answered.

Answer   Seconds of a whole run, plain and under each scheduler, taking turns; response times per window.
Limits   Windows are a tenth of Table 1's, so that a run takes seconds. All rows of an epoch arrive when it begins.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
from workload import KEYS, TABLE_1

from bench.harness import Sample, compare
from eddyline import Session
from eddyline.operators.join import release

ROWS, RATE, EPOCH = 60_000, 100, 8_000
WINDOWS = [size / 10 for size in TABLE_1["small-large"]]


def streams() -> dict[str, pa.Table]:
    rng = np.random.default_rng(1)
    found = {}
    for name in "ab":
        ts = np.cumsum(rng.exponential(1e6 / RATE, ROWS)).astype(np.int64)
        found[name] = pa.table({"k": rng.integers(0, KEYS, ROWS), "ts": pa.array(ts, pa.timestamp("us"))})
    return found


def run(tables: dict[str, pa.Table], scheduler: str | None) -> Sample:
    began = time.process_time()
    least, release.LEAST_ROWS = release.LEAST_ROWS, release.LEAST_ROWS if scheduler else 1 << 60
    try:
        with Session(keep_results=False) as session:
            for name in "ab":
                session.execute(f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
            session.set("scheduler", scheduler or "mqt")
            for number, size in enumerate(WINDOWS):
                span = f"[RANGE {int(size * 1000)} MILLISECONDS]"
                session.query(f"w{number + 1}", f"SELECT a.k AS k, b.ts AS other FROM a {span}, b {span} WHERE a.k = b.k")
            for begin in range(0, ROWS, EPOCH // 2):
                for name in "ab":
                    session.push(name, tables[name].slice(begin, EPOCH // 2))
                session.step()
            session.run(once=True)
            stats = session.stats()
        details = {"response": stats["response"], "results": sum(stats["results"].values()), "cpu": time.process_time() - began}
        return Sample(sum(stats["epoch_seconds"]), 0, details)
    finally:
        release.LEAST_ROWS = least


def wall_clock(repeats: int = 9) -> dict[str, object]:
    tables = streams()
    contenders = {"plain": lambda: run(tables, None)} | {name: (lambda name=name: run(tables, name)) for name in ("lwo", "swf", "mqt")}
    found = compare(contenders, warmup=1, repeats=repeats)
    responses = {}
    for name, measure in found.measures.items():
        per_run = [[one["mean"] for one in sample.details["response"].values()] for sample in measure.samples]
        responses[name] = np.median(per_run, axis=0).tolist()
    return {
        "rows": 2 * ROWS,
        "epoch_rows": EPOCH,
        "results": found.measures["plain"].samples[0].details["results"],
        "windows": WINDOWS,
        "seconds": {name: measure.median for name, measure in found.measures.items()},
        "cpu_seconds": {name: min(s.details["cpu"] for s in measure.samples) for name, measure in found.measures.items()},
        "ratio_to_plain": {name: found.ratio(name) for name in found.measures},
        "load_before": found.load_before,
        "mean_response": responses,
    }
