"""What a run did, as one JSON object: the figures behind `--stats`, the progress display and the benchmarks.

Answer   Exact counts since the start: rows, results, probes, partial results, rows stored; seconds per epoch and operator.
Limits   `elapsed_s` runs from the first row read to the last result handed out or written; no start-up is in it.
"""

from __future__ import annotations

from typing import Any

from eddyline.runtime.epoch_times import EpochTimes
from eddyline.runtime.pipeline import Pipeline
from eddyline.runtime.unit import UnitFigures


def report(pipeline: Pipeline, elapsed: float, times: EpochTimes) -> dict[str, Any]:
    units = figures(pipeline)
    return {
        "elapsed_s": elapsed,
        "epochs": times.count,
        "epoch_seconds": list(times.newest),
        "epoch_times": times.summary(),
        "rows_in": {name: intake.rows_in for name, intake in pipeline.intakes.items()},
        "late": {name: intake.late for name, intake in pipeline.intakes.items()},
        "bad": {name: intake.bad for name, intake in pipeline.intakes.items()},
        "results": {name: query.results for name, query in pipeline.queries.items()},
        "partials_produced": sum(unit.partials for unit in units),
        "probes": sum(unit.probes for unit in units),
        "probes_shared": sum(unit.probes_shared for unit in units),
        "visited": sum(unit.visited for unit in units),
        "peak_stored_rows": pipeline.peak_rows,
        "stored_rows": stored_rows(pipeline),
        "peak_state_bytes": pipeline.peak_bytes,
        "state_bytes": pipeline.spilling.held,
        "spilled_bytes": pipeline.spilling.spilled(),
        "response": response_times(pipeline),
        "null_results": dict(pipeline.issues.counts),
        "frontier": pipeline.frontier,
        "plan": {name: query.plan(pipeline) for name, query in pipeline.queries.items()},
        "migrations": list(pipeline.planner.migrations),
        "operators": operators(pipeline),
        **demand(pipeline),
    }


def figures(pipeline: Pipeline) -> list[UnitFigures]:
    """What each unit has done so far."""
    return [unit.report() for unit in pipeline.kinds.units()]


def response_times(pipeline: Pipeline) -> dict[str, dict[str, float | None]]:
    """Seconds from the arrival of a result's newest row to its release, per query with a join group that selects."""
    responses = pipeline.handout.responses
    if responses is None:
        return {}
    return responses.summary(name for name, query in pipeline.queries.items() if query.is_timed)


def stored_rows(pipeline: Pipeline) -> dict[str, int]:
    """Peak rows per store, streams and intermediates."""
    peaks = {name: stream.peak for name, stream in pipeline.streams.items()}
    for unit in figures(pipeline):
        peaks.update(unit.stored)
    return peaks


def operators(pipeline: Pipeline) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {name: dict(seen) for unit in figures(pipeline) for name, seen in unit.operators.items()}
    for query in pipeline.queries.values():
        found[f"query {query.name}"] = {"rows_in": query.rows_in, "rows_out": query.results, "seconds": query.seconds}
    return found


#: What edges count, by its name in the report and in an edge.
DEMAND = {"suspensions": "suspensions", "resumptions": "resumptions", "marks": "marks", "demand_checks": "checks"}


def demand(pipeline: Pipeline) -> dict[str, Any]:
    """What just-in-time joins held back and made later; per edge, what it did and whether it listens."""
    found = {name: edge for unit in figures(pipeline) for name, edge in unit.edges.items()}
    return {
        **demand_counts(pipeline),
        "suspended_peak": sum(edge["suspended_peak"] for edge in found.values()),
        "partials_avoided": {"estimate": avoided(pipeline)},
        "demand": found,
    }


def demand_counts(pipeline: Pipeline) -> dict[str, int]:
    """Sums over all edges, those of earlier trees included."""
    edges = [edge for unit in figures(pipeline) for edge in (*unit.edges.values(), *unit.earlier_edges)]
    return {name: sum(edge[key] for edge in edges) for name, key in DEMAND.items()}


def avoided(pipeline: Pipeline) -> int:
    """About how many partial results were not made."""
    edges = [edge for unit in figures(pipeline) for edge in (*unit.edges.values(), *unit.earlier_edges)]
    return sum(edge["partials_avoided"]["estimate"] for edge in edges)
