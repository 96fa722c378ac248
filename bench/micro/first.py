"""The first query on a cold machine: CPU and wall seconds of a process without compiled kernels, and again with them.

Answer   Per kind of query two processes, over 200 rows per stream: the first with an empty folder for compiled kernels.
         `readme` is the first query of README.md. Before them a process that only imports what eddyline is built on:
         that part of each time is Python's, with pandas where it is installed, which pyarrow imports. All processes
         find bytecode, as those of an installed wheel do, whatever PYTHONDONTWRITEBYTECODE says here.
Reading  `python -m bench.micro.first [readme filter join aggregate]`; another checkout by `PYTHONPATH=…/src`
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

QUERIES = {
    "filter": "SELECT k, v FROM a WHERE v > 3",
    "join": "SELECT a.k, b.v FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k",
    "aggregate": "SELECT k, SUM(v) AS s FROM a [RANGE 1 MINUTE] GROUP BY k EMIT EVERY 10 SECONDS",
}
#: What every job imports beside eddyline, and what pyarrow imports with its first array.
IMPORTS = "import numpy, pyarrow.compute, pyarrow.parquet, numba, sqlglot; pyarrow.array([1])"
BYTECODE = "from eddyline import Session; Session()"
README = Path(__file__).parents[2] / "README.md"


def run(name: str) -> None:
    if name == "readme":
        exec(README.read_text().split("```python\n")[1].partition("```")[0], {})
        return
    from eddyline import Session

    start = datetime(2024, 1, 1)
    with Session() as session:
        for stream in "ab":
            session.execute(f"CREATE STREAM {stream} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.query("q", QUERIES[name])
        for stream in "ab":
            session.push(stream, [(i % 7, i, start + timedelta(seconds=i)) for i in range(200)])
        session.run(final=False)
        assert session.stats()["results"]["q"]


def measured(what: str, arguments: list[str], folder: str) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *arguments], check=True, env=environment, stdout=subprocess.DEVNULL)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"{what}: {cpu:.2f} s of CPU, {time.perf_counter() - began:.2f} s", flush=True)


def main() -> None:
    for name in sys.argv[1:] or ("readme", *QUERIES):
        with TemporaryDirectory() as folder:
            # Writes the bytecode of what a query imports.
            subprocess.run(
                [sys.executable, "-c", BYTECODE], check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
            )
            measured("imports alone", ["-c", IMPORTS], folder)
            for what in ("without compiled kernels", "with them"):
                measured(f"{name} {what}", ["-m", "bench.micro.first", "--run", name], folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2])
    else:
        main()
