"""DuckDB as a yardstick: the whole input at once, the naive join, no windows to keep, nothing to forget.

Answer   Seconds to read the parquet files, join them and hold the result as an Arrow table, with two threads.
Limits   A batch system sees everything before it answers; it says what the hardware can do, not what a stream costs.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bench.peers import Result, processes
from bench.workloads import Workload


def run(workload: Workload, *, threads: int = 2, limit: float = 360.0, **_: object) -> Result:
    argument = {"query": workload.batch_query(), "threads": threads}
    report, watched = processes.run_module(__name__, argument, limit)
    if watched.stopped:
        return Result(limit, workload.rows_in, 0, watched.peak_rss, {"stopped": True})
    return Result(
        float(report["seconds"]), workload.rows_in, int(report["results"]), watched.peak_rss, {"threads": threads}
    )


def child(argument: dict[str, object], report: Path) -> None:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {argument['threads']}")
    # Once to warm the file cache and the allocator, once for the clock.
    for _ in range(2):
        start = time.perf_counter()
        answer = connection.sql(argument["query"]).to_arrow_table()
        seconds = time.perf_counter() - start
        rows = answer.num_rows
        del answer
    report.write_text(json.dumps({"seconds": seconds, "results": rows}))


if __name__ == "__main__":
    child(json.loads(sys.argv[1]), Path(sys.argv[2]))
