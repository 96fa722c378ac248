"""bytewax: the join as a dataflow in Python, with state per key that the dataflow keeps and forgets itself.

Answer   Seconds between the first row read and the end of the dataflow, in one process per core; rows are counted and
         dropped.
State    Lists of rows per key, in Python objects; no recovery store.
Limits   bytewax has no interval join and no watermark that spans keys: joins of more than two streams keep every row of
         the later steps.
"""

from __future__ import annotations

from bench.peers import Result, inside
from bench.workloads import Workload


def run(workload: Workload, *, cores: int = 2, limit: float = 360.0, **_: object) -> Result:
    argument = {
        "streams": {
            name: {"path": str(workload.path(name)), "keys": list(workload.shape.streams[name])}
            for name in workload.streams
        },
        "equalities": [equality.split(" = ") for equality in workload.shape.equalities],
        "window_us": workload.shape.window_seconds * 1_000_000,
        "processes": cores,
    }
    report, watched = inside.run("bytewax", "bytewax_join", argument, limit)
    if watched.stopped:
        return Result(limit, workload.rows_in, 0, watched.peak_rss, {"stopped": True})
    return Result(float(report["seconds"]), workload.rows_in, int(report["results"]), watched.peak_rss, report)
