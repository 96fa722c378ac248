"""The figures of a job for Prometheus.

Answer   `metrics` gives the newest report in Prometheus' text form. Names, units and labels are those of
         docs/dashboard.md, "Metrics".
State    None: each call makes its samples from the report. A report of an earlier version may lack figures.
Limits   Counters begin anew with every run of the job; `eddyline_start_time_seconds` is its start. Dropped queries that
         have delivered all results have no samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from eddyline.dashboard.feed import Feed
from eddyline.runtime.figures.histogram import BOUNDS
from eddyline.runtime.figures.report import COUNTS, query_operator

Labelled = Mapping[str, float]

#: What a job reports when a sink or a callback fails, by the beginning of its message: `hand_over_problem` and `FileSink`.
_SINK_FAILS = ("results could not be handed over", "results cannot be written to")
_HISTOGRAMS = {
    "epoch": ("epoch_seconds", "Seconds of single epochs, on Spark of micro-batches"),
    "response": (
        "response_seconds",
        "Seconds from the arrival of a result's newest row to its release, over all queries",
    ),
}
#: Counts of the whole job, by their names in `--stats`.
_JOB = {
    "probes": "Probes of stored rows",
    "probes_shared": "Probes that were made for several joins",
    "visited": "Stored rows that probes looked at",
    "partials_produced": "Partial results that were made",
    "suspensions": "Rows that joins held back because nothing asked for them",
    "resumptions": "Rows held back that were made after all",
    "marks": "Demands that joins noted",
    "demand_checks": "Rows that were compared with demands",
}


class _Collector:
    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def collect(self) -> Iterator[Metric]:
        document = self._feed.document
        yield _gauge("up", "1 while the job runs", float(self._feed.job_runs))
        if document is None:
            return
        stats, state = document["stats"], document["state"]
        yield _gauge("start_time_seconds", "When the run began, in seconds since 1970", document["started"])
        yield _gauge("report_time_seconds", "When the report was made, in seconds since 1970", document["written"])
        yield _failure(document, self._feed.job_runs)
        yield _counter("epochs", "Epochs, on Spark micro-batches", stats["epochs"])
        yield _counter("busy_seconds", "Seconds of all epochs", stats["epoch_times"]["sum"])
        yield _counter("stage_seconds", "Seconds by stage", document["stage_seconds"], "stage")
        yield _counter("rows", "Rows that came", stats["rows_in"], "stream")
        yield _counter("late_rows", "Rows that came too late", stats["late"], "stream")
        yield _counter("bad_rows", "Rows that could not be read", stats["bad"], "stream")
        for key, text in (
            ("horizon", "Event time that later rows do not fall below"),
            ("newest", "Event time of the newest row"),
        ):
            instants = {name: one[key] / 1e6 for name, one in document["streams"].items() if one[key] is not None}
            yield _gauge(f"{key}_seconds", text, instants, "stream")
        if stats["frontier"] is not None:
            yield _gauge("frontier_seconds", "Event time below which all is answered", stats["frontier"] / 1e6)
        for key, (name, text) in _HISTOGRAMS.items():
            if (counted := document.get("histograms", {}).get(key)) is not None:
                yield _histogram(name, text, counted)
        yield _counter("results", "Results", stats["results"], "query")
        seconds = {n: own["seconds"] for n in stats["results"] if (own := stats["operators"].get(query_operator(n)))}
        yield _counter("query_seconds", "Seconds of a query's own work", seconds, "query")
        for key in ("mean", "p95"):
            found = {n: one[key] for n, one in stats.get("response", {}).items() if one[key] is not None}
            if found:
                text = "Seconds from a result's newest row to its release"
                yield _gauge(f"response_{key}_seconds", text, found, "query")
        yield _gauge("stored_rows", "Rows held now", document["stores"], "store")
        yield _gauge("state_bytes", "Bytes of the streams' stores", state["bytes"])
        yield _gauge("held_bytes", "Bytes of all state in memory, inner stores of joins too", stats["state_bytes"])
        if (budget := document.get("memory_budget")) is not None:
            text = "Bytes of state that all queries may hold: the smallest memory_budget"
            yield _gauge("memory_budget_bytes", text, budget)
        yield _gauge("waiting_rows", "Rows that wait for the frontier", state["waiting"])
        yield _gauge("memory_bytes", "Memory of the process, on Spark of the largest worker", document["memory_bytes"])
        yield _counter("null_results", "Values that could not be computed", stats["null_results"], "function")
        for name in COUNTS:
            yield _counter(name, _JOB[name], stats[name])
        yield _counter("migrations", "Plans that moved", len(stats["migrations"]))
        names = {"rows": "rows", "bytes": "bytes", "waiting": "waiting_rows", "worker_bytes": "worker_bytes"}
        for key, name in names.items():
            each = {shard: one[key] for shard, one in document["each_shard"].items()}
            if each:
                yield _gauge(f"shard_{name}", "Of each shard", each, "shard")


def _failure(document: Mapping[str, Any], running: bool) -> Metric:
    """Which part of the job ended it, if one did; a process that has gone without an end is a part too."""
    problem, state = document["error"] or "", document["state_of_job"]
    in_sink = any(text in problem for text in _SINK_FAILS)
    parts = {
        "sink": state == "failed" and in_sink,
        "job": state == "failed" and not in_sink,
        "process": state == "running" and not running,
    }
    text = "1 where the job has failed: in a sink or a callback, elsewhere, or with its process"
    return _gauge("failed", text, {part: float(is_so) for part, is_so in parts.items()}, "part")


def _histogram(name: str, text: str, found: Mapping[str, Any]) -> Metric:
    made = HistogramMetricFamily(f"eddyline_{name}", text)
    bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
    made.add_metric([], list(zip(bounds, accumulate(found["counts"]), strict=True)), found["sum"])
    return made


def _counter(name: str, text: str, value: float | Labelled, label: str = "") -> Metric:
    return _metric(CounterMetricFamily, name, text, value, label)


def _gauge(name: str, text: str, value: float | Labelled, label: str = "") -> Metric:
    return _metric(GaugeMetricFamily, name, text, value, label)


def _metric(
    family: type[CounterMetricFamily | GaugeMetricFamily], name: str, text: str, value: float | Labelled, label: str
) -> Metric:
    """One value, or one per value of a label."""
    if not isinstance(value, Mapping):
        return family(f"eddyline_{name}", text, value=value)
    made = family(f"eddyline_{name}", text, labels=[label])
    for key, one in value.items():
        made.add_metric([key], one)
    return made


def metrics(feed: Feed) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Collector(feed))
    return generate_latest(registry)


def names(feed: Feed) -> Iterable[str]:
    """The names of all metrics that a feed has now."""
    return [metric.name for metric in _Collector(feed).collect()]
