"""The figures of a job for Prometheus.

Answer   `metrics` gives the newest report in Prometheus' text form. Names, units and labels are those of
         docs/dashboard.md, "Metrics".
State    None: a report is turned into samples when it is asked for. One of an earlier version may lack figures.
Limits   Counters begin anew with every run of the job; `eddyline_start_time_seconds` says when. Queries that have gone
         have no samples.
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

#: What a job says when a sink or a callback fails, by the beginning of its message: `hand_over_problem` and `FileSink`.
_SINK_FAILS = ("results could not be handed over", "results cannot be written to")
_HISTOGRAMS = {
    "epoch": ("eddyline_epoch_seconds", "Seconds of single epochs, on Spark of micro-batches"),
    "response": (
        "eddyline_response_seconds",
        "Seconds from the arrival of a result's newest row to its release, over all queries",
    ),
}
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
        feed = self._feed
        document = feed.document
        running = document is not None and document["state_of_job"] == "running" and feed.is_running
        yield GaugeMetricFamily("eddyline_up", "1 while the job runs", value=float(running))
        if document is None:
            return
        stats = document["stats"]
        yield GaugeMetricFamily(
            "eddyline_start_time_seconds", "When the run began, in seconds since 1970", value=document["started"]
        )
        yield GaugeMetricFamily(
            "eddyline_report_time_seconds", "When the report was made, in seconds since 1970", value=document["written"]
        )
        yield _failure(document, running)
        yield CounterMetricFamily("eddyline_epochs", "Epochs, on Spark micro-batches", value=stats["epochs"])
        yield CounterMetricFamily("eddyline_busy_seconds", "Seconds of all epochs", value=stats["epoch_times"]["sum"])
        yield _labelled(
            CounterMetricFamily, "eddyline_stage_seconds", "Seconds by stage", "stage", document["stage_seconds"]
        )
        yield _labelled(CounterMetricFamily, "eddyline_rows", "Rows that came", "stream", stats["rows_in"])
        yield _labelled(CounterMetricFamily, "eddyline_late_rows", "Rows that came too late", "stream", stats["late"])
        yield _labelled(CounterMetricFamily, "eddyline_bad_rows", "Rows that could not be read", "stream", stats["bad"])
        horizons = {name: stream["horizon"] for name, stream in document["streams"].items()}
        yield _instants("eddyline_horizon_seconds", "Event time that later rows do not fall below", "stream", horizons)
        newest = {name: stream["newest"] for name, stream in document["streams"].items()}
        yield _instants("eddyline_newest_seconds", "Event time of the newest row", "stream", newest)
        if stats["frontier"] is not None:
            yield GaugeMetricFamily(
                "eddyline_frontier_seconds", "Event time below which all is answered", value=stats["frontier"] / 1e6
            )
        for key, (name, text) in _HISTOGRAMS.items():
            if (found := document.get("histograms", {}).get(key)) is not None:
                yield _histogram(name, text, found)
        yield from self._queries(stats)
        yield _labelled(GaugeMetricFamily, "eddyline_stored_rows", "Rows held now", "store", document["stores"])
        yield GaugeMetricFamily(
            "eddyline_state_bytes", "Bytes of the streams' stores", value=document["state"]["bytes"]
        )
        yield GaugeMetricFamily(
            "eddyline_held_bytes", "Bytes of all state in memory, inner stores of joins too", value=stats["state_bytes"]
        )
        if document.get("memory_budget") is not None:
            text = "Bytes of state that all queries may hold: the smallest memory_budget"
            yield GaugeMetricFamily("eddyline_memory_budget_bytes", text, value=document.get("memory_budget"))
        yield GaugeMetricFamily(
            "eddyline_waiting_rows", "Rows that wait for the frontier", value=document["state"]["waiting"]
        )
        yield GaugeMetricFamily(
            "eddyline_memory_bytes",
            "Memory of the process, on Spark of the largest worker",
            value=document["memory_bytes"],
        )
        yield _labelled(
            CounterMetricFamily,
            "eddyline_null_results",
            "Values that could not be computed",
            "function",
            stats["null_results"],
        )
        for name in COUNTS:
            yield CounterMetricFamily(f"eddyline_{name}", _JOB[name], value=stats[name])
        yield CounterMetricFamily("eddyline_migrations", "Plans that moved", value=len(stats["migrations"]))
        for key, name in (
            ("rows", "rows"),
            ("bytes", "bytes"),
            ("waiting", "waiting_rows"),
            ("worker_bytes", "worker_bytes"),
        ):
            each = {shard: one[key] for shard, one in document["each_shard"].items()}
            if each:
                yield _labelled(GaugeMetricFamily, f"eddyline_shard_{name}", "Of each shard", "shard", each)

    def _queries(self, stats: Mapping[str, Any]) -> Iterator[Metric]:
        yield _labelled(CounterMetricFamily, "eddyline_results", "Results", "query", stats["results"])
        seconds = {n: own["seconds"] for n in stats["results"] if (own := stats["operators"].get(query_operator(n)))}
        yield _labelled(
            CounterMetricFamily, "eddyline_query_seconds", "Seconds of a query's own work", "query", seconds
        )
        for key, name in (("mean", "mean"), ("p95", "p95")):
            found = {n: one[key] for n, one in stats.get("response", {}).items() if one[key] is not None}
            if found:
                what = "Seconds from a result's newest row to its release"
                yield _labelled(GaugeMetricFamily, f"eddyline_response_{name}_seconds", what, "query", found)


def _failure(document: Mapping[str, Any], running: bool) -> Metric:
    """Which part of the job ended it, if one did; a process that has gone without an end is a part too."""
    problem = document["error"] or ""
    in_sink = any(text in problem for text in _SINK_FAILS)
    failed = {"sink": float(in_sink), "job": float(not in_sink)}
    has_failed = document["state_of_job"] == "failed"
    text = "1 where the job has failed: in a sink or a callback, elsewhere, or with its process"
    is_gone = document["state_of_job"] == "running" and not running
    parts = {part: has_failed * one for part, one in failed.items()} | {"process": float(is_gone)}
    return _labelled(GaugeMetricFamily, "eddyline_failed", text, "part", parts)


def _histogram(name: str, text: str, found: Mapping[str, Any]) -> Metric:
    made = HistogramMetricFamily(name, text)
    bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
    made.add_metric([], list(zip(bounds, accumulate(found["counts"]), strict=True)), found["sum"])
    return made


def _labelled(
    family: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    text: str,
    label: str,
    values: Mapping[str, float],
) -> Metric:
    made = family(name, text, labels=[label])
    for key, value in values.items():
        made.add_metric([key], value)
    return made


def _instants(name: str, text: str, label: str, values: Mapping[str, int | None]) -> Metric:
    return _labelled(
        GaugeMetricFamily, name, text, label, {key: value / 1e6 for key, value in values.items() if value is not None}
    )


def metrics(feed: Feed) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Collector(feed))
    return generate_latest(registry)


def names(feed: Feed) -> Iterable[str]:
    """The names of all metrics that a feed has now."""
    return [metric.name for metric in _Collector(feed).collect()]
