"""A job on several shards: how it would be cut, and its figures afterwards.

Answer   `planned_routing` says how rows would find shards; `job_report` has the figures of a job, in the form that all
         engines share.
Limits   Times are those of the driver, or of Spark; shards run at the same time, so their seconds do not add up to
         them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eddyline.language import Job
from eddyline.model.query import BoundQuery
from eddyline.operators.stream.reading import timeline_name
from eddyline.plan.shards.routing import RoutingTable
from eddyline.plan.shards.shares import books_of, declared_rates, route_all
from eddyline.runtime.figures.figures import memory_budget, merged_further, nodes_of
from eddyline.runtime.figures.report import JobFigures, QueryFigures, Report, ShardFigures, StoreFigures, StreamFigures
from eddyline.runtime.figures.response import Times
from eddyline.runtime.sharded.job.ledger import Ledger
from eddyline.runtime.sharded.job.progress import StreamProgress
from eddyline.runtime.sharded.shard.pipeline import model_pipeline

if TYPE_CHECKING:
    from eddyline.runtime.sharded.front.driver import ShardedDriver


def planned_routing(checkpoint: str, job: Job, queries: Sequence[BoundQuery], usual: int) -> RoutingTable:
    """How rows would find shards if a run with these queries began now.

    Args:
        checkpoint: The folder.
        job: The job.
        queries: Those of the run.
        usual: Shards, if neither the job nor the checkpoint says it.
    """
    ledger = Ledger.read(checkpoint)
    shards = job.settings.shards or ledger.shards or usual
    rates, books = declared_rates(job.streams), books_of(job.streams)
    return route_all(queries, [s.name for s in job.streams], rates, shards, books=books, steps=ledger.steps or None)


def job_report(driver: ShardedDriver, plans: bool = True) -> Report:
    """How a job stands, in the form that both engines share; `plans`: with the plan of every query as text."""
    stages, progress = driver.stages(), driver.progress
    held = [note["statistics"] for note in progress.notes.values()]
    late, peaks, spilled = progress.late, progress.peaks("stored_rows"), progress.peaks("spilled_bytes")
    streams = [stream.name for stream in driver.layout.streams]
    bad = progress.bad
    layout = driver.layout if driver.roster is None else driver.roster.layout
    frontiers = {
        query.name: progress.frontiers.get(timeline_name(r.source for r in query.streams)) for query in layout.queries
    }
    newest, horizons = (
        progress.newest,
        {s.name: progress.newest[s.name] - s.lateness for s in layout.streams if s.name in progress.newest},
    )
    kept = progress.peaks("held_rows")
    # Before the first batch too.
    results = {**dict.fromkeys((query.name for query in layout.queries), 0), **progress.results}
    registered = {} if driver.roster is None else driver.roster.model.queries
    units = {name: query.unit.name for name, query in registered.items()}
    timed = {
        name: progress.responses.get(name, Times()).summary() for name, query in registered.items() if query.is_timed
    }
    return Report(
        JobFigures(
            elapsed_s=stages.whole.sum,
            epochs=progress.batches,
            epoch_seconds=tuple(stages.whole.newest),
            epoch_times=stages.whole.summary(),
            frontier=progress.frontier,
            waiting=progress.waiting,
            stored_rows=sum(figures.get("live_rows", 0) for figures in held),
            stored_bytes=sum(figures.get("live_bytes", 0) for figures in held),
            peak_stored_rows=progress.peak("peak_stored_rows"),
            peak_state_bytes=progress.peak("peak_state_bytes"),
            state_bytes=progress.peak("state_bytes"),
            counts=dict(progress.counts),
            suspended_peak=progress.peak("suspended_peak"),
            partials_avoided=progress.counts.get("partials_avoided", 0),
            null_results=dict(progress.null_results),
            migrations=() if driver.roster is None else tuple(driver.roster.replanning.migrations),
            stage_seconds={stage: times.sum for stage, times in stages.parts.items()},
            memory_bytes=max(progress.worker_bytes, default=0),
            refused_plans=() if driver.roster is None else tuple(driver.roster.model.planner.refused),
            histograms={"epoch": stages.whole.histogram.as_json(), "response": progress.histogram.as_json()},
            memory_budget=memory_budget(query.settings for query in layout.queries),
        ),
        {
            name: StreamFigures(
                progress.rows_in.get(name, 0) + bad.get(name, 0),
                late.get(name, 0),
                bad.get(name, 0),
                newest.get(name),
                horizons.get(name),
            )
            for name in streams
        },
        {
            name: QueryFigures(made, frontiers.get(name), timed.get(name), units.get(name, ""))
            for name, made in results.items()
        },
        nodes_of(progress.operators, progress.operator_units),
        # Of each shard since it was last opened.
        {str(shard): note["statistics"].get("demand", {}) for shard, note in sorted(progress.notes.items())},
        {
            name: StoreFigures(peaks.get(name, 0), spilled.get(name, 0), kept.get(name, 0))
            for name in dict.fromkeys((*peaks, *spilled))
        },
        ShardFigures(
            driver.layout.width,
            stages.newest(),
            dict(progress.seconds),
            tuple(progress.worker_bytes),
            dict(progress.came_from),
            _each_shard(progress),
        ),
        merged_further([figures.get("further", {}) for figures in held]),
        _plans(driver) if plans else {},
    )


def _each_shard(progress: StreamProgress) -> dict[int, dict[str, Any]]:
    """What each shard held at the end of its last batch, and how long its stages took."""
    return {
        shard: {
            "rows": note["statistics"].get("live_rows", 0),
            "bytes": note["statistics"].get("live_bytes", 0),
            "waiting": note["waiting"],
            "worker_bytes": note["worker_bytes"],
            "came_from": note["came_from"],
            "seconds": note["seconds"],
        }
        for shard, note in sorted(progress.notes.items())
    }


def _plans(driver: ShardedDriver) -> dict[str, str]:
    model = model_pipeline(driver.layout) if driver.roster is None else driver.roster.model
    layout = driver.layout if driver.roster is None else driver.roster.layout
    routings = layout.routing.routings
    return {
        name: f"{query.plan(model)}\n{routings[name].explain()}"
        for name, query in model.queries.items()
        if name in routings
    }
