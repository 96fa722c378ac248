"""A report as the document that files, pages and programs read.

Answer   `report_document` has the figures of `--stats` under `stats`, without plans and with the newest epochs only. The
         other fields are for displays: the horizons of streams, the rows of stores, each shard alone. `overview_line`
         and `query_figures` are the parts of a document that histories keep.
State    None.
Limits   The fields are those of docs/dashboard.md, "The report". Releases may add fields; removing one needs a new
         `format`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eddyline.runtime.figures.report import Report, query_operator

#: The version of the document.
FORMAT = 1
#: How many single epochs, batches and largest stores are in a document or a line.
_EPOCHS, _STORES = 60, 12
_OTHERS = "others"


def report_document(report: Report) -> dict[str, Any]:
    stats = report.as_json()
    del stats["plan"]
    stats["epoch_seconds"] = stats["epoch_seconds"][-_EPOCHS:]
    if "stages" in stats:
        stats["stages"] = {stage: seconds[-_EPOCHS:] for stage, seconds in stats["stages"].items()}
        stats["worker_bytes"] = stats["worker_bytes"][-_EPOCHS:]
    job, each = report.job, {} if report.shards is None else report.shards.each
    return {
        "format": FORMAT,
        "stats": stats,
        # A dropped query keeps its figures for some reports, and has no unit.
        "names": [name for name, query in report.queries.items() if query.unit],
        "streams": {name: {"newest": one.newest, "horizon": one.horizon} for name, one in report.streams.items()},
        "stores": {name: store.rows for name, store in report.stores.items()},
        "operator_units": {name: node.unit for name, node in report.nodes.items() if node.unit},
        "units": {name: query.unit for name, query in report.queries.items()},
        "state": {"rows": job.stored_rows, "bytes": job.stored_bytes, "waiting": job.waiting},
        "memory_bytes": job.memory_bytes,
        "memory_budget": job.memory_budget,
        "histograms": {name: dict(one) for name, one in job.histograms.items()},
        "stage_seconds": dict(job.stage_seconds),
        "refused_plans": [dict(one) for one in job.refused_plans],
        "each_shard": {str(shard): dict(one) for shard, one in each.items()},
    }


def overview_line(document: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a report in the history of its job: sums since the start, and the rows and bytes held now."""
    stats, state, streams = document["stats"], document["state"], document["streams"]
    return {
        "t": round(document["written"], 2),
        "run": document["started"],
        "rows": stats["rows_in"],
        "results": sum(stats["results"].values()),
        "late": sum(stats["late"].values()),
        "bad": sum(stats["bad"].values()),
        "nulls": sum(stats["null_results"].values()),
        "stored": state["rows"],
        "bytes": state["bytes"],
        "waiting": state["waiting"],
        "memory": document["memory_bytes"],
        "epochs": stats["epochs"],
        "busy": round(stats["epoch_times"]["sum"], 4),
        "stages": {stage: round(seconds, 4) for stage, seconds in document["stage_seconds"].items()},
        "frontier": stats["frontier"],
        "horizons": {name: stream["horizon"] for name, stream in streams.items()},
        "newest": {name: stream["newest"] for name, stream in streams.items()},
        "stores": largest(document["stores"]),
    }


def largest(stores: Mapping[str, int]) -> dict[str, int]:
    """The largest stores, and all others as one.

    >>> largest({"a": 3, "b": 0})
    {'a': 3, 'b': 0}
    """
    if len(stores) <= _STORES:
        return dict(stores)
    kept = dict(sorted(stores.items(), key=lambda one: -one[1])[:_STORES])
    return {**kept, _OTHERS: sum(stores.values()) - sum(kept.values())}


def query_figures(document: Mapping[str, Any]) -> dict[str, tuple[int, float, float | None]]:
    """Per query results, seconds of its own, and the 95th percentile of its response time."""
    stats = document["stats"]
    responses, operators = stats.get("response", {}), stats["operators"]
    found = {}
    for name, results in stats["results"].items():
        seconds = operators.get(query_operator(name), {}).get("seconds", 0.0)
        slow = responses.get(name, {}).get("p95")
        found[name] = (results, round(seconds, 4), None if slow is None else round(slow, 5))
    return found
