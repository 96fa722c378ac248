"""A job on Spark: what it is before it runs, and its figures afterwards.

Answer   `make_layout` settles a job with its checkpoint and routes its queries; `statistics` has what `--stats` writes, in the
         form that both engines share.
Limits   Times are those of the driver and of Spark; shards run at the same time, so their seconds do not add up to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from eddyline.language import Job
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.plan.shares import RoutingTable, declared_rates, route_all
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.runtime.spark.job.layout import Layout
from eddyline.runtime.spark.job.ledger import Ledger
from eddyline.runtime.spark.job.session import shard_labels
from eddyline.runtime.spark.job.settle import settled
from eddyline.runtime.spark.shard.pipeline import model_pipeline
from eddyline.settings import Settings


def make_layout(
    spark: SparkSession,
    checkpoint: str,
    streams: Sequence[Stream],
    queries: Sequence[BoundQuery],
    tables: Sequence[Table] = (),
    settings: Settings | None = None,
) -> Layout:
    """The layout of a job over a checkpoint, new or continued; refuses what does not fit the checkpoint."""
    return settled(
        checkpoint,
        streams,
        queries,
        tables,
        settings or Settings(),
        shard_labels,
        spark.sparkContext.defaultParallelism,
    )


def planned_routing(spark: SparkSession, checkpoint: str, job: Job, queries: Sequence[BoundQuery]) -> RoutingTable:
    """How rows would find shards if a run with these queries began now."""
    shards = job.settings.shards or Ledger.read(checkpoint).shards or spark.sparkContext.defaultParallelism
    return route_all(queries, [s.name for s in job.streams], declared_rates(job.streams), shards)


def statistics(driver: SparkDriver) -> dict[str, Any]:
    """The figures of a run, in the form that both engines share."""
    model = model_pipeline(driver.layout) if driver.roster is None else driver.roster.model
    layout = driver.layout if driver.roster is None else driver.roster.layout
    routings = layout.routing.routings
    plans = {name: f"{query.plan(model)}\n{routings[name].explain()}" for name, query in model.queries.items()}
    stages = driver.stages()
    progress = driver.progress
    names = [stream.name for stream in driver.layout.streams]
    return {
        "elapsed_s": stages.whole.sum,
        "epochs": progress.batches,
        "epoch_seconds": list(stages.whole.newest),
        "epoch_times": stages.whole.summary(),
        "rows_in": {name: progress.rows_in.get(name, 0) + progress.bad.get(name, 0) for name in names},
        "late": {name: progress.late.get(name, 0) for name in names},
        "bad": {name: progress.bad.get(name, 0) for name in names},
        "results": dict(progress.results),
        **progress.counts,
        "partials_avoided": {"estimate": progress.counts.get("partials_avoided", 0)},
        "suspended_peak": progress.peak("suspended_peak"),
        # Of each shard since it was last opened.
        "demand": {str(shard): note["statistics"].get("demand", {}) for shard, note in sorted(progress.notes.items())},
        "peak_stored_rows": progress.peak("peak_stored_rows"),
        "stored_rows": progress.peaks("stored_rows"),
        "peak_state_bytes": progress.peak("peak_state_bytes"),
        "state_bytes": progress.peak("state_bytes"),
        "spilled_bytes": progress.peaks("spilled_bytes"),
        "null_results": dict(progress.null_results),
        "frontier": progress.frontier,
        "migrations": [] if driver.roster is None else list(driver.roster.replanning.migrations),
        "plan": plans,
        "operators": progress.operators,
        "shards": driver.layout.shards,
        "stages": stages.newest(),
        "shard_seconds": progress.seconds,
        "worker_bytes": list(progress.worker_bytes),
        "reopened": progress.came_from,
    }
