"""The first query on a cold machine: CPU and wall seconds of a process without compiled kernels, and again with them.

Answer   Per kind of query two processes, over 200 rows per stream: the first with an empty folder for compiled kernels.
Reading  `python -m bench.micro.first [filter join aggregate]`
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import datetime, timedelta
from tempfile import TemporaryDirectory

QUERIES = {
    "filter": "SELECT k, v FROM a WHERE v > 3",
    "join": "SELECT a.k, b.v FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k",
    "aggregate": "SELECT k, SUM(v) AS s FROM a [RANGE 1 MINUTE] GROUP BY k EMIT EVERY 10 SECONDS",
}


def run(name: str) -> None:
    from eddyline import Session

    start = datetime(2024, 1, 1)
    with Session() as session:
        for stream in "ab":
            session.execute(f"CREATE STREAM {stream} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.query("q", QUERIES[name])
        for stream in "ab":
            session.push(stream, [(i % 7, i, start + timedelta(seconds=i)) for i in range(200)])
        session.run(once=True)
        assert session.stats()["results"]["q"]


def main() -> None:
    for name in sys.argv[1:] or QUERIES:
        with TemporaryDirectory() as folder:
            for what in ("without compiled kernels", "with them"):
                began, before = time.perf_counter(), os.times()
                command = [sys.executable, "-m", "bench.micro.first", "--run", name]
                subprocess.run(command, check=True, env=os.environ | {"NUMBA_CACHE_DIR": folder})
                after = os.times()
                cpu = after.children_user + after.children_system - before.children_user - before.children_system
                print(f"{name} {what}: {cpu:.1f} s of CPU, {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2])
    else:
        main()
