"""Pathway: interval joins over csv files, read as a bounded input.

Answer   Seconds of the whole run, one thread per core; rows are counted and dropped.
State    Everything: a bounded input is one step for Pathway, in which no row is forgotten.
Limits   Its csv reader takes a header and plain names: the streams are written once more for it.
"""

from __future__ import annotations

from bench.peers import Result, inside, stripes
from bench.workloads import Workload


def run(workload: Workload, *, cores: int = 2, limit: float = 360.0, **_: object) -> Result:
    folder = stripes.with_header(workload)
    argument = {
        "streams": {
            name: {"path": str(folder / name), "keys": list(workload.shape.streams[name])} for name in workload.streams
        },
        "equalities": [equality.split(" = ") for equality in workload.shape.equalities],
        "window_us": workload.shape.window_seconds * 1_000_000,
    }
    report, watched = inside.run("pathway", "pathway_join", argument, limit, PATHWAY_THREADS=str(cores))
    if watched.stopped:
        return Result(limit, workload.rows_in, 0, watched.peak_rss, {"stopped": True})
    return Result(float(report["seconds"]), workload.rows_in, int(report["results"]), watched.peak_rss, report)
