"""Jobs over files for several cores, and what processes of theirs there are."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil
import pyarrow as pa
import pyarrow.parquet as parquet

from eddyline import Session
from tests.spark.asked import engines_below
from tests.spark.conducted import own_processes

JOB = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = '{0}/a', time = 'ts');
CREATE QUERY pairs AS SELECT x.v AS xv, y.v AS yv FROM a [RANGE 40 MILLISECONDS] x, a [RANGE 40 MILLISECONDS] y WHERE x.k = y.k;
CREATE QUERY sums AS SELECT k, date_trunc('second', ts) AS s, SUM(v) AS v FROM a GROUP BY k, date_trunc('second', ts) EMIT ON CLOSE;
CREATE QUERY few AS SELECT v FROM a WHERE v % 100 = 3;
"""
ROWS = 3000
QUERIES = ("pairs", "sums", "few")


def write(folder: Path, number: int) -> None:
    """One more file of the stream."""
    (folder / "a").mkdir(exist_ok=True)
    values = range(number * ROWS, (number + 1) * ROWS)
    times = pa.array([1_700_000_000_000_000 + value * 1000 for value in values], pa.timestamp("us"))
    rows = pa.table({"k": [value % 17 for value in values], "v": list(values), "ts": times})
    parquet.write_table(rows, folder / "a" / f"{number:03}.parquet")


def results(out: Path) -> dict[str, list[tuple[object, ...]]]:
    """The results of each query, sorted: closed groups of one instant have no order."""
    found = {}
    for query in QUERIES:
        rows: list[tuple[object, ...]] = []
        for path in (out / query).glob("*.parquet"):
            rows += [tuple(row.values()) for row in parquet.read_table(path).to_pylist()]
        found[query] = sorted(rows, key=str)
    return found


def right(folder: Path, runs: list[int]) -> dict[str, list[tuple[object, ...]]]:
    """What one core makes of the files, run after run of a session."""
    with Session(out=str(folder / "right"), checkpoint=str(folder / "right-ck")) as session:
        session.execute(JOB.format(folder))
        first = 0
        for last in runs:
            for number in range(first, last):
                write(folder, number)
            session.run()
            first = last
    return results(folder / "right")


def engines(session: Session | None = None) -> set[psutil.Process]:
    """The processes with slices of a session, or of this program."""
    if session is None:
        return set(engines_below(os.getpid()))
    processes = session._runner._processes  # type: ignore[attr-defined]
    return set() if processes is None else set(engines_below(processes.forking))


def kill(session: Session, count: int = 1) -> int:
    """Kill processes with slices; how many there were."""
    found = engines(session)
    for process in sorted(found, key=lambda process: process.pid)[:count]:
        process.kill()
    return len(found)


def kill_some(random: Random) -> None:
    """Kill one of the processes that all tests have in common, now or in the next batch."""
    found = engines_below(own_processes().forking)
    if found and random.random() < 0.3:
        threading.Timer(random.random() / 50, _kill, (random.choice(found),)).start()


def _kill(process: psutil.Process) -> None:
    # An idle one may have left.
    with suppress(psutil.NoSuchProcess):
        process.kill()
