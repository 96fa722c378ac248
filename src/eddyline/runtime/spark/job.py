"""A job file on Spark, from its text to the figures of the run.

Answer   `run_job` is what `eddyline run --engine spark` calls: the same contract as embedded, the same files, the same figures.
         `make_layout` settles a job with its checkpoint and routes its queries.
Limits   Without a checkpoint, state lives in a temporary folder that goes with the run.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from types import FrameType
from typing import Any

from pyspark.sql import SparkSession

from eddyline.connectors.files import read_table
from eddyline.connectors.output import prepare_output
from eddyline.errors import UserError
from eddyline.language import Job, bind_script
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.plan.shares import route_all
from eddyline.runtime.spark.driver import SparkDriver
from eddyline.runtime.spark.layout import Layout, with_absolute_paths
from eddyline.runtime.spark.ledger import Ledger
from eddyline.runtime.spark.progress import Progress
from eddyline.runtime.spark.session import open_session, shard_labels
from eddyline.runtime.spark.shard import plan_texts
from eddyline.runtime.spark.sinks import Delivered
from eddyline.runtime.spark.spool import spool_folder
from eddyline.settings import Settings


def make_layout(
    spark: SparkSession,
    checkpoint: str,
    streams: Sequence[Stream],
    queries: Sequence[BoundQuery],
    tables: Sequence[Table] = (),
    settings: Settings | None = None,
    engine: str = "eddyline.runtime.spark.shard:ShardPipeline",
) -> Layout:
    """The layout of a job over a checkpoint, new or continued; refuses what does not fit the checkpoint."""
    settings = settings or Settings()
    checkpoint = os.path.abspath(checkpoint)
    ledger = Ledger.read(checkpoint)
    shards = settings.shards or ledger.shards or spark.sparkContext.defaultParallelism
    records = ledger.settle(streams, queries, shards)
    rates = {stream.name: float(stream.options.get("rate", 1.0)) for stream in streams}
    routing = route_all(queries, [s.name for s in streams], rates, shards, records)
    ledger.write(streams, queries, routing, shards)
    return Layout(
        streams=with_absolute_paths(streams),
        queries=tuple(queries),
        routing=routing,
        labels=shard_labels(spark, shards),
        checkpoint=checkpoint,
        spool=spool_folder(checkpoint),
        engine=engine,
        tables=tuple((table, ledger.table(table, read_table)) for table in tables),
        settings=settings,
    )


def run_job(
    text: str,
    *,
    master: str = "local[*]",
    once: bool = True,
    checkpoint: str | None = None,
    out: str | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Run a job file; returns its figures. SIGTERM and SIGINT end it after the batch at hand."""
    job = bind_script(text)
    if not job.queries:
        raise UserError("the job has no query", hint="CREATE QUERY name AS SELECT …")
    folder = checkpoint or tempfile.mkdtemp(prefix="eddyline-")
    if out is not None:
        prepare_output(out, overwrite, Ledger.read(folder).exists)
    spark = open_session(master)
    try:
        layout = make_layout(spark, folder, job.streams, job.queries, job.tables, job.settings)
        plans = _explained(job, layout)
        driver = SparkDriver(spark, layout, out=out, told=None if quiet else _tell)
        driver.add_queries(job.catalog)
        _run(driver, once)
        return statistics(driver, plans)
    finally:
        spark.stop()
        if checkpoint is None:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(spool_folder(folder), ignore_errors=True)


def _run(driver: SparkDriver, once: bool) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        driver.ask_to_stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        if once:
            driver.run()
        else:
            driver.start()
            driver.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _explained(job: Job, layout: Layout) -> dict[str, str]:
    """How each query is answered and routed; EXPLAINs of the job are printed."""
    plans = {name: f"{plan}\n{layout.routing.routings[name].explain()}" for name, plan in plan_texts(layout).items()}
    for request in job.explains:
        if request.query.name in plans:
            print(plans[request.query.name])
    return plans


def _tell(delivered: Delivered, progress: Progress) -> None:
    print(progress.line(delivered), file=sys.stderr, flush=True)


def statistics(driver: SparkDriver, plans: dict[str, str]) -> dict[str, Any]:
    """The figures of a run, in the form that both engines share."""
    stages = driver.stages()
    seconds = stages["triggerExecution"]
    progress = driver.progress
    names = [stream.name for stream in driver.layout.streams]
    return {
        "elapsed_s": sum(seconds),
        "epochs": progress.batches,
        "epoch_seconds": seconds,
        "rows_in": {name: progress.rows_in.get(name, 0) + progress.bad.get(name, 0) for name in names},
        "late": {name: progress.late.get(name, 0) for name in names},
        "bad": {name: progress.bad.get(name, 0) for name in names},
        "results": dict(progress.results),
        **progress.counts,
        "peak_stored_rows": progress.peak("peak_stored_rows"),
        "stored_rows": progress.peaks("stored_rows"),
        "peak_state_bytes": progress.peak("peak_state_bytes"),
        "frontier": progress.frontier,
        "plan": plans,
        "operators": progress.operators,
        "shards": driver.layout.shards,
        "stages": stages,
        "shard_seconds": progress.seconds,
        "reopened": progress.came_from,
    }
