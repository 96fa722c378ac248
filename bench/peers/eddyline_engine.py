"""Our own engine, as a user runs it: `eddyline run job.sql --once --stats FILE`.

Answer   Embedded: the seconds of the statistics file, all epochs; `ran` has the whole file. On Spark the job runs twice in
         one session (`inside_session.py`), and the second run counts, all micro-batches of it; `warm` has all runs.
Limits   Results are produced and dropped, or written to parquet with `write=True`. `csv=True` reads the same rows as
         csv.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.peers import Result, processes, stripes
from bench.workloads import Workload

#: The statistics that a comparison may want to show.
KEPT = ("epochs", "epoch_seconds", "partials_produced", "peak_stored_rows", "peak_state_bytes", "late", "bad")


def run(
    workload: Workload,
    *,
    engine: str = "embedded",
    write: bool = False,
    csv: bool = False,
    settings: Sequence[str] = ("epoch_rows = 20000",),
    cores: int = 2,
    limit: float = 360.0,
    **_: object,
) -> Result:
    with tempfile.TemporaryDirectory(prefix="eddyline-bench-") as name:
        on_spark = engine == "spark"
        job = workload.job(*settings, files_per_batch=1 if on_spark else None)
        if csv:
            folder = stripes.in_order(workload)
            job = job.replace("format='parquet'", "format='csv', header='false'").replace(
                f"{workload.folder}/", f"{folder}/"
            )
        if on_spark:
            (result,) = warm(job, workload.rows_in, "q", times=1, cores=cores, limit=limit, write=write)
            return result
        said, watched = ran(job, Path(name), engine=engine, write=write, cores=cores, limit=limit)
        if watched.stopped:
            return Result(limit, workload.rows_in, 0, watched.peak_rss, {"stopped": True, "engine": engine})
        results = said["results"]["q"]
        if write:
            written = sum(pq.read_metadata(file).num_rows for file in sorted(Path(name).glob("results/q/*.parquet")))
            if written != results:
                raise RuntimeError(f"the statistics say {results} results, the files hold {written}")
        details = {
            "engine": engine,
            "written": write,
            "timed_rows": workload.rows_in,
            **{key: said[key] for key in KEPT if key in said},
        }
        return Result(said["elapsed_s"], workload.rows_in, results, watched.peak_rss, details)


def warm(
    job: str,
    rows: int,
    query: str,
    *,
    times: int,
    cores: int,
    limit: float,
    engine: str = "spark",
    write: bool = False,
) -> list[Result]:
    """Runs of a job in one warm session, after one that does not count."""
    argument = {"engine": engine, "cores": cores, "runs": times + 1, "job": job, "write": write}
    said, watched = processes.run_module("bench.peers.inside_session", argument, limit * (times + 1))
    if watched.stopped:
        return [Result(limit, rows, 0, watched.peak_rss, {"stopped": True, "engine": engine})]
    return [
        Result(
            float(found["seconds"]),
            rows,
            int(found["results"][query]),
            watched.peak_rss,
            {
                "engine": engine,
                "timed_rows": rows,
                "batches": found["batches"],
                "settling": found["settling"],
                "cpu_seconds": found["cpu_seconds"],
                **found["stats"],
            },
        )
        for found in said["runs"][1:]
    ]


def ran(
    job: str, folder: Path, *, engine: str, write: bool, cores: int = 2, limit: float = 3600.0
) -> tuple[dict[str, Any], processes.Watched]:
    """The whole statistics of a job's run in a folder, empty when it was stopped, and how it went; results are in
    `results`, if written."""
    on_spark = engine == "spark"
    (folder / "job.sql").write_text(job)
    command = [
        str(Path(sys.executable).with_name("eddyline")),
        "run",
        "job.sql",
        "--engine",
        engine,
        "--once",
        "--no-final",
        "--stats",
        "stats.json",
    ]
    # Windows that are open at the end have no answers, as those of the other engines.
    if on_spark:
        command += ["--master", f"local[{cores}]", "--checkpoint", "checkpoint"]
    if write:
        command += ["--out", "results"]
    watched = processes.watch(command, limit, folder)
    return {} if watched.stopped else json.loads((folder / "stats.json").read_text()), watched
