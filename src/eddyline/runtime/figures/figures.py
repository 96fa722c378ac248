"""The figures of a pipeline: the report of an embedded job, and the figures of a shard.

Answer   `pipeline_report` makes a `Report`; the functions below give its parts, for shards that send them to the driver
         of their job.
Limits   Reads a pipeline at rest: between two epochs, or in the thread that runs them (`publication.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from eddyline.model.records.punctuation import KIND
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.unit import UnitFigures
from eddyline.runtime.engine.units.kinds import KINDS
from eddyline.runtime.figures.epoch_times import EpochTimes
from eddyline.runtime.figures.histogram import SecondsHistogram
from eddyline.runtime.figures.memory import resident_bytes
from eddyline.runtime.figures.open_results import left_open, unseen
from eddyline.runtime.figures.report import (
    JobFigures,
    NodeFigures,
    QueryFigures,
    Report,
    StoreFigures,
    StreamFigures,
    query_operator,
)
from eddyline.runtime.figures.response import Responses
from eddyline.settings import Settings


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of one feature: how a pipeline gives it, and how those of two shards become one."""

    #: Takes the pipeline, or the figures of all its units.
    of: Callable[[Any], Any]
    merged: Callable[[Any, Any], Any]
    of_units: bool = False


def _own(name: str, units: Sequence[UnitFigures]) -> dict[str, Any]:
    """The figures of the units of a kind under a name."""
    return {key: value for unit in units for key, value in unit.own.get(name, {}).items()}


#: Figures of single features by their names in `--stats`, in both engines: one line each. Kinds of queries bring theirs.
FURTHER: dict[str, Figure] = {
    **{
        name: Figure(partial(_own, name), merged, of_units=True)
        for kind in KINDS
        for name, merged in kind.figures.items()
    },
    "zones_skipped": Figure(lambda units: sum(unit.zones_skipped for unit in units), lambda a, b: a + b, of_units=True),
    "zones_passed": Figure(lambda units: sum(unit.zones_passed for unit in units), lambda a, b: a + b, of_units=True),
    "conditions_avoided": Figure(
        lambda units: sum(unit.conditions_avoided for unit in units), lambda a, b: a + b, of_units=True
    ),
    "row_groups": Figure(lambda pipeline: row_groups(pipeline), lambda a, b: _added_up(a, b)),
    "punctuations": Figure(lambda pipeline: promised(pipeline), lambda a, b: _added(a, b)),
    "violations": Figure(lambda pipeline: violations(pipeline), lambda a, b: _added(a, b)),
    "late_records": Figure(lambda pipeline: late_records(pipeline), lambda a, b: _added(a, b)),
    "purged_rows": Figure(lambda units: policy_count(units, "purged_rows"), lambda a, b: a + b, of_units=True),
    "dropped_rows": Figure(lambda units: policy_count(units, "dropped_rows"), lambda a, b: a + b, of_units=True),
    "results_held": Figure(lambda pipeline: pipeline.handout.peak_held, lambda a, b: max(a, b)),
    "left_open": Figure(left_open, lambda a, b: _added(a, b)),
    "unseen": Figure(unseen, lambda a, b: _added(a, b)),
    "tables": Figure(lambda pipeline: pipeline.versions.figures(), lambda a, b: a),
    "punctuations_out": Figure(lambda pipeline: punctuations_out(pipeline), lambda a, b: _added(a, b)),
}


def row_groups(pipeline: Pipeline) -> dict[str, dict[str, int]]:
    """Row groups of parquet that were skipped, and read for each reason, per stream that has any."""
    return {name: dict(intake.row_groups) for name, intake in pipeline.intakes.items() if intake.row_groups}


def promised(pipeline: Pipeline) -> dict[str, int]:
    """Punctuations that came, per stream of which there are any."""
    return {name: count for name, gate in pipeline.gating.gates.items() if (count := gate.counts.came.get(KIND, 0))}


def late_records(pipeline: Pipeline) -> dict[str, int]:
    """Punctuations and heralds that came when the frontier had passed their places, per stream of which there are
    any."""
    return {name: count for name, gate in pipeline.gating.gates.items() if (count := sum(gate.counts.late.values()))}


def violations(pipeline: Pipeline) -> dict[str, int]:
    """Rows that broke what a record before them had said, per stream that records speak of."""
    return {name: pipeline.intakes[name].violations for name in pipeline.gating.gates}


def punctuations_out(pipeline: Pipeline) -> dict[str, int]:
    """Punctuations of results, per query that puts out any."""
    return {
        name: query.punctuations_out
        for name, query in pipeline.queries.items()
        if query.query.settings.propagate != "off"
    }


def policy_count(units: Sequence[UnitFigures], name: str) -> int:
    """What the policies of all joins have counted under a name."""
    return sum(unit.counts.get(name, 0) for unit in units)


def _added(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {name: a.get(name, 0) + b.get(name, 0) for name in {**a, **b}}


def _added_up(a: Mapping[str, Mapping[str, int]], b: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {name: _added(a.get(name, {}), b.get(name, {})) for name in {**a, **b}}


def further(pipeline: Pipeline, units: Sequence[UnitFigures]) -> dict[str, Any]:
    return {name: figure.of(units if figure.of_units else pipeline) for name, figure in FURTHER.items()}


def merged_further(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of all shards as those of their job."""
    found: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            found[name] = FURTHER[name].merged(found[name], value) if name in found else value
    return found


def pipeline_report(
    pipeline: Pipeline, elapsed: float, times: EpochTimes, plans: bool = True, stages: Mapping[str, float] | None = None
) -> Report:
    """The figures of a job in this process; `plans`: with the plan of every query as text."""
    units = units_of(pipeline)
    edges = demand(units)
    stores = [stream.store for stream in pipeline.stores()]
    spilled = pipeline.spilling.spilled()
    peaks, held = stored_rows(pipeline, units), held_rows(pipeline)
    responses = response_times(pipeline)
    frontiers = pipeline.frontiers
    return Report(
        JobFigures(
            elapsed_s=elapsed,
            epochs=times.count,
            epoch_seconds=tuple(times.newest),
            epoch_times=times.summary(),
            frontier=pipeline.frontier,
            waiting=pipeline.waiting,
            stored_rows=sum(store.live for store in stores),
            stored_bytes=sum(store.nbytes for store in stores),
            peak_stored_rows=pipeline.held.peak_rows,
            peak_state_bytes=pipeline.held.peak_bytes,
            state_bytes=pipeline.spilling.held,
            counts=counts(units),
            suspended_peak=sum(edge["suspended_peak"] for edge in edges.values()),
            partials_avoided=avoided(units),
            null_results=dict(pipeline.issues.counts),
            migrations=tuple(pipeline.planner.migrations),
            stage_seconds=dict(stages or {}),
            memory_bytes=resident_bytes(),
            refused_plans=tuple(pipeline.planner.refused),
            histograms=histograms(times, pipeline.handout.responses),
            memory_budget=memory_budget(query.query.settings for query in pipeline.queries.values()),
        ),
        {
            name: StreamFigures(one.rows_in, one.late, one.bad, one.newest, one.horizon, one.stream.is_derived)
            for name, one in pipeline.intakes.items()
        },
        {
            name: QueryFigures(query.results, frontiers[name], responses.get(name), query.unit.name)
            for name, query in pipeline.queries.items()
        },
        nodes(pipeline, units),
        edges,
        {
            name: StoreFigures(peaks.get(name, 0), spilled.get(name, 0), held.get(name, 0))
            for name in dict.fromkeys((*peaks, *spilled))
        },
        further=further(pipeline, units),
        plans={name: query.plan(pipeline) for name, query in pipeline.queries.items()} if plans else {},
    )


def units_of(pipeline: Pipeline) -> list[UnitFigures]:
    """What each unit has done so far."""
    return [unit.report() for unit in pipeline.kinds.units()]


def counts(units: Sequence[UnitFigures]) -> dict[str, int]:
    """Sums over all units; the names are `report.COUNTS`."""
    edges = _edges(units)
    return {
        "partials_produced": sum(unit.partials for unit in units),
        "probes": sum(unit.probes for unit in units),
        "probes_shared": sum(unit.probes_shared for unit in units),
        "visited": sum(unit.visited for unit in units),
        **{name: sum(edge[key] for edge in edges) for name, key in DEMAND.items()},
    }


#: What edges count, by its name in the report and in an edge.
DEMAND = {"suspensions": "suspensions", "resumptions": "resumptions", "marks": "marks", "demand_checks": "checks"}


def _edges(units: Sequence[UnitFigures]) -> list[Mapping[str, Any]]:
    """All edges, those of earlier trees included."""
    return [edge for unit in units for edge in (*unit.edges.values(), *unit.earlier_edges)]


def avoided(units: Sequence[UnitFigures]) -> int:
    """About how many partial results were not made."""
    return sum(edge["partials_avoided"]["estimate"] for edge in _edges(units))


def demand(units: Sequence[UnitFigures]) -> dict[str, Mapping[str, Any]]:
    """Per edge of just-in-time joins, what it held back and made later, and whether it listens."""
    return {name: edge for unit in units for name, edge in unit.edges.items()}


def response_times(pipeline: Pipeline) -> Mapping[str, Mapping[str, float | None]]:
    """Seconds from the arrival of a result's newest row to its release, per query with a join group that selects."""
    responses = pipeline.handout.responses
    if responses is None:
        return {}
    return responses.summary(name for name, query in pipeline.queries.items() if query.is_timed)


def histograms(times: EpochTimes, responses: Responses | None) -> dict[str, Mapping[str, Any]]:
    """Of epochs, and of the response times of all queries together."""
    made: Mapping[str, Any] = SecondsHistogram().as_json() if responses is None else responses.histogram.as_json()
    return {"epoch": times.histogram.as_json(), "response": made}


def memory_budget(settings: Iterable[Settings]) -> int | None:
    """The smallest budget of state of any query."""
    return min((one.memory_budget for one in settings if one.memory_budget is not None), default=None)


def stored_rows(pipeline: Pipeline, units: Sequence[UnitFigures]) -> dict[str, int]:
    """Peak rows per store, streams and intermediates."""
    peaks = dict.fromkeys(pipeline.intakes, 0)
    for stream in pipeline.stores():
        peaks[stream.name] += stream.peak
    for unit in units:
        peaks.update(unit.stored)
    return peaks


def held_rows(pipeline: Pipeline) -> dict[str, int]:
    """Rows per store now: those of streams, and those that inner nodes of joins keep."""
    held = dict.fromkeys(pipeline.intakes, 0)
    for stream in pipeline.stores():
        held[stream.name] += stream.store.live
    for group in pipeline.groups.values():
        held.update({kept.store.name: kept.store.live for kept in group.intermediates})
    return held


def operators(pipeline: Pipeline, units: Sequence[UnitFigures]) -> dict[str, dict[str, float]]:
    """What every operator did, as shards send it: join nodes, filters of streams, queries."""
    found: dict[str, dict[str, float]] = {name: dict(seen) for unit in units for name, seen in unit.operators.items()}
    for query in pipeline.queries.values():
        found[query_operator(query.name)] = {
            "rows_in": query.rows_in,
            "rows_out": query.results,
            "seconds": query.seconds,
        }
    return found


def nodes(pipeline: Pipeline, units: Sequence[UnitFigures]) -> dict[str, NodeFigures]:
    """What every operator did: join nodes, filters of streams, queries."""
    found = nodes_of(
        {name: seen for unit in units for name, seen in unit.operators.items()}, operator_units(pipeline, units)
    )
    for name, query in pipeline.queries.items():
        found[query_operator(name)] = NodeFigures(query.rows_in, query.results, query.seconds)
    return found


def operator_units(pipeline: Pipeline, units: Sequence[UnitFigures]) -> dict[str, str]:
    """Operator -> the unit that it works for; operators of single queries have none."""
    return {
        name: unit.name for unit, mine in zip(pipeline.kinds.units(), units, strict=True) for name in mine.operators
    }


def nodes_of(seen: Mapping[str, Mapping[str, float]], units: Mapping[str, str]) -> dict[str, NodeFigures]:
    return {
        name: NodeFigures(int(one["rows_in"]), int(one["rows_out"]), one["seconds"], units.get(name, ""))
        for name, one in seen.items()
    }
