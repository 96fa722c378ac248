"""Views of the newest report, for pages and programs.

Answer   `overview` is small and goes to every page. `queries` has one column per figure, for tables of ten thousand
         queries. `query` is one query with the drawing of its plan and its newest rows. `shards` has the figures that
         only jobs on Spark have.
State    None: each call computes its view from the feed.
Limits   Figures of `--stats` keep their names. With a single report of a run there are no rates.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from eddyline.dashboard.feed import Document, Feed
from eddyline.dashboard.plan_notes import plan_notes
from eddyline.plan.picture import draw
from eddyline.plan.shape import Part
from eddyline.runtime.figures.report import COUNTS, query_operator
from eddyline.runtime.reporting.document import largest

#: Keys of `--stats` that views arrange anew. All others are figures of single features, which pages show as they are.
_SHOWN = {
    "elapsed_s", "epochs", "epoch_seconds", "epoch_times", "rows_in", "late", "bad", "results", *COUNTS, "peak_stored_rows",
    "stored_rows", "peak_state_bytes", "state_bytes", "spilled_bytes", "response", "null_results", "frontier", "frontiers", "plan",
    "migrations", "operators", "suspended_peak", "partials_avoided", "demand", "shards", "stages", "shard_seconds", "worker_bytes",
    "reopened",
}  # fmt: skip
#: Keys of `--stats` that an overview has under the same name.
_FIGURES = ("elapsed_s", "epochs", "epoch_times", "rows_in", "late", "bad", "null_results", "frontier")
#: How many entries of a feature an overview has.
_ENTRIES = 50


def overview(feed: Feed) -> dict[str, Any]:
    """The part of a report that every page gets."""
    document = feed.document
    if document is None:
        return {"sequence": 0, "running": feed.is_running, "engine": None}
    stats = document["stats"]
    return {
        **{key: document[key] for key in ("sequence", "written", "started", "engine", "error", "state_of_job", "pid")},
        "running": feed.job_runs,
        **{key: stats[key] for key in _FIGURES},
        "results": sum(stats["results"].values()),
        "queries": len(document["names"]),
        "counts": {name: stats[name] for name in COUNTS},
        "streams": document["streams"],
        "held_by": held_by(document),
        "state": document["state"],
        "peak_stored_rows": stats["peak_stored_rows"],
        "state_bytes": stats["state_bytes"],
        "spilled_bytes": sum(stats["spilled_bytes"].values()),
        "stores": largest(document["stores"]),
        "memory_bytes": document["memory_bytes"],
        "stage_seconds": document["stage_seconds"],
        "dead": document["dead"],
        "migrations": len(stats["migrations"]),
        "features": features(stats),
    }


def held_by(document: Document) -> str | None:
    """The stream with the smallest horizon, for which the frontier waits; None: all horizons are equal, or fewer than two
    are known."""
    horizons = {name: one["horizon"] for name, one in document["streams"].items() if one["horizon"] is not None}
    if len(horizons) < 2 or len(set(horizons.values())) == 1:
        return None
    return min(horizons, key=lambda name: horizons[name])


def features(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of single features (patterns, templates, zones, punctuations, …) as `--stats` has them."""
    found = {name: value for name, value in stats.items() if name not in _SHOWN and value not in ({}, [], 0, None)}
    return {name: dict(list(v.items())[:_ENTRIES]) if isinstance(v, Mapping) else v for name, v in found.items()}


def queries(feed: Feed) -> dict[str, Any]:
    """One list per figure, all in the order of `names`."""
    document = feed.document
    if document is None:
        return {"sequence": 0, "names": []}
    stats, earlier = document["stats"], feed.earlier
    names = document["names"]
    seconds = 0.0 if earlier is None else document["written"] - earlier["written"]
    then = {} if earlier is None else earlier["stats"]["results"]
    now, responses = stats["results"], stats.get("response", {})
    rates = [max(0.0, (now[n] - then[n]) / seconds) if seconds > 0 and n in then else None for n in names]
    described = [feed.described.get(n, {}) for n in names]
    return {
        "sequence": document["sequence"],
        "names": names,
        "results": [now[n] for n in names],
        "rate": rates,
        "mean": [responses.get(n, {}).get("mean") for n in names],
        "p95": [responses.get(n, {}).get("p95") for n in names],
        "share": shares(document),
        "state": ["pending" if not one else "stopping" if one["stop"] is not None else "running" for one in described],
        "lease": [one.get("lease") is not None for one in described],
        "since": [one.get("since") for one in described],
        "sql": [one.get("sql", "") for one in described],
    }


def shares(document: Document) -> list[float | None]:
    """Each query's part of the seconds of all operators: its own seconds, and its part of those of its unit, which the
    queries of the unit share equally."""
    operators, units = document["stats"]["operators"], document["units"]
    total = sum(one["seconds"] for one in operators.values())
    if not total:
        return [None] * len(document["names"])
    shared, members = defaultdict[str, float](float), Counter(units.values())
    for name, unit in document.get("operator_units", {}).items():
        shared[unit] += operators[name]["seconds"] if name in operators else 0.0
    found = []
    for name in document["names"]:
        unit = units.get(name, "")
        own = operators.get(query_operator(name), {}).get("seconds", 0.0)
        found.append((own + shared[unit] / max(members[unit], 1)) / total)
    return found


def query(feed: Feed, name: str) -> dict[str, Any] | None:
    """One query. Its plan and rows are in the first report after a page began to show the query."""
    document = feed.document
    if document is None or (name not in document["names"] and name not in feed.described):
        return None
    table = queries(feed)
    figures: dict[str, Any] = {}
    if name in table["names"]:
        place = table["names"].index(name)
        figures = {key: column[place] for key, column in table.items() if isinstance(column, list) and key != "names"}
    response = document["stats"].get("response", {}).get(name, {})
    detail = document["details"].get(name)
    nothing: dict[str, Any] = {"plan": None, "shared_with": [], "shared": 0}
    return {
        "name": name,
        "sequence": document["sequence"],
        **figures,
        "max": response.get("max"),
        "frontier": document["stats"]["frontiers"].get(name),
        **{key: feed.described.get(name, {}).get(key) for key in ("start", "stop", "streams")},
        "tail": document["tails"].get(name),
        **{key: value if detail is None else detail[key] for key, value in nothing.items()},
        "drawing": None if detail is None else _drawn(feed, detail),
    }


def _drawn(feed: Feed, detail: Mapping[str, Any]) -> str:
    shape = Part.of(detail["shape"])
    return draw(shape, plan_notes(feed, shape, detail.get("zones")))


def shards(feed: Feed) -> dict[str, Any]:
    document = feed.document
    if document is None or not document["each_shard"]:
        return {"shards": 0, "each": {}}
    stats, each = document["stats"], document["each_shard"]
    return {
        "shards": stats["shards"],
        "each": each,
        "skew": {key: _skew([one[key] for one in each.values()]) for key in ("rows", "bytes")},
        "seconds_skew": _skew([sum(one["seconds"].values()) for one in each.values()]),
        "reopened": stats["reopened"],
        "shard_seconds": stats["shard_seconds"],
        "stages": stats["stages"],
    }


def _skew(values: list[float]) -> float | None:
    """The largest against the mean.

    >>> _skew([1, 3]), _skew([0, 0])
    (1.5, None)
    """
    total = sum(values)
    return max(values) * len(values) / total if total else None
