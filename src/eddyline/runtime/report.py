"""What a run did, as one JSON object: the figures behind `--stats`, the progress display and the benchmarks.

Answer   Exact counts since the start: rows, results, probes, partial results, rows stored; seconds per epoch and operator.
Limits   `elapsed_s` runs from the first row read to the last result handed out or written; no start-up is in it.
"""

from __future__ import annotations

from typing import Any

from eddyline.model.joining import Tree
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.sharing.filter_group import FilterGroup
from eddyline.plan.explain import explain
from eddyline.plan.jtree.tree import JTree
from eddyline.runtime.epoch_times import EpochTimes
from eddyline.runtime.pipeline import Pipeline
from eddyline.runtime.standing import AnyQuery, SelectQuery


def report(pipeline: Pipeline, elapsed: float, times: EpochTimes) -> dict[str, Any]:
    counters = [c for group in pipeline.groups.values() for c in group.counters.values()]
    return {
        "elapsed_s": elapsed,
        "epochs": times.count,
        "epoch_seconds": list(times.newest),
        "epoch_times": times.summary(),
        "rows_in": {name: intake.rows_in for name, intake in pipeline.intakes.items()},
        "late": {name: intake.late for name, intake in pipeline.intakes.items()},
        "bad": {name: intake.bad for name, intake in pipeline.intakes.items()},
        "results": {name: query.results for name, query in pipeline.queries.items()},
        "partials_produced": sum(c.partials for c in counters),
        "probes": sum(c.probes for c in counters),
        "probes_shared": sum(c.probes_shared for c in counters),
        "visited": sum(c.visited for c in counters),
        "peak_stored_rows": pipeline.peak_rows,
        "stored_rows": stored_rows(pipeline),
        "peak_state_bytes": pipeline.peak_bytes,
        "state_bytes": pipeline.spilling.held,
        "spilled_bytes": pipeline.spilling.spilled(),
        "response": response_times(pipeline),
        "null_results": dict(pipeline.issues.counts),
        "frontier": pipeline.frontier,
        "plan": {name: plan_text(query, pipeline) for name, query in pipeline.queries.items()},
        "migrations": list(pipeline.planner.migrations),
        "operators": operators(pipeline),
        **demand(pipeline),
    }


def response_times(pipeline: Pipeline) -> dict[str, dict[str, float | None]]:
    """Seconds from the arrival of a result's newest row to its release, per query with a join group that selects."""
    responses = pipeline.handout.responses
    if responses is None:
        return {}
    return responses.summary(name for name, query in pipeline.queries.items() if isinstance(query, SelectQuery))


def stored_rows(pipeline: Pipeline) -> dict[str, int]:
    """Peak rows per store, streams and intermediates."""
    peaks = {name: stream.peak for name, stream in pipeline.streams.items()}
    for group in pipeline.groups.values():
        peaks.update({kept.store.name: kept.peak for kept in group.intermediates()})
    return peaks


def operators(pipeline: Pipeline) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for group in pipeline.groups.values():
        for name, counters in group.counters.items():
            found[name] = {"rows_in": counters.rows_in, "rows_out": counters.rows_out, "seconds": counters.seconds}
    for stream, filters in pipeline.filters.items():
        found[f"filters of {stream}"] = {"rows_in": filters.rows_in, "rows_out": filters.rows_out, "seconds": filters.seconds}
    for query in pipeline.queries.values():
        found[f"query {query.name}"] = {"rows_in": query.rows_in, "rows_out": query.results, "seconds": query.seconds}
    return found


#: What edges count, by its name in the report and in an edge.
DEMAND = {"suspensions": "suspensions", "resumptions": "resumptions", "marks": "marks", "demand_checks": "checks"}


def demand(pipeline: Pipeline) -> dict[str, Any]:
    """What just-in-time joins held back and made later; per edge, what it did and whether it listens."""
    found = {name: edge for group in pipeline.groups.values() for name, edge in group.edges().items()}
    return {
        **demand_counts(pipeline),
        "suspended_peak": sum(edge["suspended_peak"] for edge in found.values()),
        "partials_avoided": {"estimate": avoided(pipeline)},
        "demand": found,
    }


def demand_counts(pipeline: Pipeline) -> dict[str, int]:
    """Sums over all edges, those of earlier trees included."""
    groups = list(pipeline.groups.values())
    return {
        name: sum(edge[key] for group in groups for edge in [*group.edges().values(), *group.earlier_edges]) for name, key in DEMAND.items()
    }


def avoided(pipeline: Pipeline) -> int:
    """About how many partial results were not made."""
    groups = pipeline.groups.values()
    return sum(edge["partials_avoided"]["estimate"] for group in groups for edge in [*group.edges().values(), *group.earlier_edges])


def tree_text(group: JoinGroup | FilterGroup, query: AnyQuery) -> JTree:
    """The tree that is running, in the query's own aliases."""
    return _tree(group.tree, query.lowered.aliases)


def _tree(tree: Tree, aliases: tuple[str, ...]) -> JTree:
    if isinstance(tree, int):
        return JTree.leaf(aliases[tree])
    return JTree.node(_tree(branch, aliases) for branch in tree)


def plan_text(query: AnyQuery, pipeline: Pipeline | None = None) -> str:
    """How a query is answered now, with what that costs where the pipeline is at hand."""
    more = None if pipeline is None else pipeline.planner.lines(query.group, query.lowered)
    return explain(query.lowered, tree_text(query.group, query), more)
