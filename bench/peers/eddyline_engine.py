"""Our own engine, as a user runs it: `eddyline run job.sql --once --stats FILE`.

Answer   The seconds of the statistics file. Embedded: all epochs. On Spark: all micro-batches after the first. `ran`
         has the whole file.
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
        said, watched = ran(job, Path(name), engine=engine, write=write, cores=cores, limit=limit)
        if watched.stopped:
            return Result(limit, workload.rows_in, 0, watched.peak_rss, {"stopped": True, "engine": engine})
        results = said["results"]["q"]
        if write:
            written = sum(pq.read_metadata(file).num_rows for file in sorted(Path(name).glob("results/q/*.parquet")))
            if written != results:
                raise RuntimeError(f"the statistics say {results} results, the files hold {written}")
        seconds = sum(said["epoch_seconds"][1:]) if on_spark else said["elapsed_s"]
        timed = workload.rows_in * (workload.files - 1) // workload.files if on_spark else workload.rows_in
        details = {
            "engine": engine,
            "written": write,
            "timed_rows": timed,
            **{key: said[key] for key in KEPT if key in said},
        }
        return Result(seconds, workload.rows_in, results, watched.peak_rss, details)


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
