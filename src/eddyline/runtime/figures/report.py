"""What a run did: one frozen record for `--stats`, progress displays and observers, the same for both engines.

Answer   A `Report` has the figures of the job, its streams, queries, operators, edges, stores and shards at the end of
         an epoch: exact counts since the start, seconds per epoch and operator. `as_json` is what `--stats` writes.
State    None: a report never changes. `figures.py` makes one of a pipeline, `sharded/front/figures.py` one of the notes of
         all shards.
Limits   `elapsed_s` runs from the first row read to the last result handed out or written; no start-up is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: The sums over all operators, by their names in `--stats`.
COUNTS = (
    "partials_produced",
    "probes",
    "probes_shared",
    "visited",
    "suspensions",
    "resumptions",
    "marks",
    "demand_checks",
)


@dataclass(frozen=True, slots=True)
class JobFigures:
    elapsed_s: float
    epochs: int
    epoch_seconds: Sequence[float]
    epoch_times: Mapping[str, float]
    #: Event times strictly below are answered by all queries.
    frontier: int | None
    #: Rows that wait for the frontier of some query.
    waiting: int
    #: Rows and bytes of the streams' stores now.
    stored_rows: int
    stored_bytes: int
    peak_stored_rows: int
    peak_state_bytes: int
    state_bytes: int
    #: One figure per name in `COUNTS`.
    counts: Mapping[str, int]
    suspended_peak: int
    #: About how many partial results were not made.
    partials_avoided: int
    null_results: Mapping[str, int]
    migrations: Sequence[Mapping[str, Any]]
    #: Seconds by stage of an epoch or micro-batch, over all of them.
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    #: Resident memory of the process, on Spark of the largest worker.
    memory_bytes: int = 0
    #: Other plans that were found and not taken, each with the reason; the newest.
    refused_plans: Sequence[Mapping[str, Any]] = ()
    #: `epoch` and `response`: how many epochs and results took how long, as `SecondsHistogram.as_json` gives it.
    histograms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Bytes of state that all queries may hold (the smallest `memory_budget`); None: as many as it takes.
    memory_budget: int | None = None


@dataclass(frozen=True, slots=True)
class StreamFigures:
    rows_in: int
    late: int
    bad: int
    #: The newest event time so far, and the one that later rows do not fall below; None: no row has come, or it is not
    #: known.
    newest: int | None = None
    horizon: int | None = None
    #: Whether its rows are results of queries.
    derived: bool = False


class QueryFigures(NamedTuple):
    """One per query: a tuple is made in a third of the time that a frozen dataclass takes."""

    results: int
    #: Event times strictly below are answered.
    frontier: int | None = None
    #: Seconds from the arrival of a result's newest row to its release; None: not measured.
    response: Mapping[str, float | None] | None = None
    #: What answers it, together with the other queries of that unit.
    unit: str = ""


class NodeFigures(NamedTuple):
    """An operator: a join node, the filters of a stream, or a query."""

    rows_in: int
    rows_out: int
    seconds: float
    #: The unit that it works for; empty: the work is that of one query alone.
    unit: str = ""


def query_operator(query: str) -> str:
    """The name of a query among the operators of a report: it is the query's own work."""
    return f"query {query}"


@dataclass(frozen=True, slots=True)
class StoreFigures:
    peak_rows: int
    spilled_bytes: int = 0
    #: Rows that it holds now.
    rows: int = 0


@dataclass(frozen=True, slots=True)
class ShardFigures:
    """What only a job on several shards has."""

    shards: int
    stages: Mapping[str, Sequence[float]]
    seconds: Mapping[str, float]
    worker_bytes: Sequence[int]
    reopened: Mapping[str, int]
    #: Per shard: rows, bytes, waiting, worker_bytes, came_from, and seconds by stage of its last batch.
    each: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    job: JobFigures
    streams: Mapping[str, StreamFigures]
    queries: Mapping[str, QueryFigures]
    nodes: Mapping[str, NodeFigures]
    #: Per edge of a just-in-time join, along which a consumer limits what its producer makes;
    #: on Spark by shard, then by
    #: edge.
    edges: Mapping[str, Mapping[str, Any]]
    stores: Mapping[str, StoreFigures]
    shards: ShardFigures | None = None
    #: Figures of single features, by their names in `--stats` (see `figures.FURTHER`).
    further: Mapping[str, Any] = field(default_factory=dict)
    #: The plan of each query as text; empty in a report without plans.
    plans: Mapping[str, str] = field(default_factory=dict)

    # -- for displays

    @property
    def rows_in(self) -> int:
        """Rows that came from outside since the run began."""
        return sum(stream.rows_in for stream in self.streams.values() if not stream.derived)

    @property
    def results(self) -> dict[str, int]:
        """query -> results."""
        return {name: query.results for name, query in self.queries.items()}

    @property
    def frontier(self) -> int | None:
        return self.job.frontier

    @property
    def waiting(self) -> int:
        return self.job.waiting

    @property
    def stored_rows(self) -> int:
        return self.job.stored_rows

    @property
    def stored_bytes(self) -> int:
        return self.job.stored_bytes

    # -- for `--stats`

    def as_json(self) -> dict[str, Any]:
        job = self.job
        responses = {name: dict(query.response) for name, query in self.queries.items() if query.response is not None}
        return {
            "elapsed_s": job.elapsed_s,
            "epochs": job.epochs,
            "epoch_seconds": list(job.epoch_seconds),
            "epoch_times": dict(job.epoch_times),
            "rows_in": {name: stream.rows_in for name, stream in self.streams.items()},
            "late": {name: stream.late for name, stream in self.streams.items()},
            "bad": {name: stream.bad for name, stream in self.streams.items()},
            "results": self.results,
            **{name: job.counts.get(name, 0) for name in COUNTS},
            "peak_stored_rows": job.peak_stored_rows,
            "stored_rows": {name: store.peak_rows for name, store in self.stores.items()},
            "peak_state_bytes": job.peak_state_bytes,
            "state_bytes": job.state_bytes,
            "spilled_bytes": {name: store.spilled_bytes for name, store in self.stores.items() if store.spilled_bytes},
            "response": responses,
            "null_results": dict(job.null_results),
            "frontier": job.frontier,
            "frontiers": {name: query.frontier for name, query in self.queries.items()},
            "plan": dict(self.plans),
            "migrations": list(job.migrations),
            "operators": {
                name: {"rows_in": node.rows_in, "rows_out": node.rows_out, "seconds": node.seconds}
                for name, node in self.nodes.items()
            },
            "suspended_peak": job.suspended_peak,
            "partials_avoided": {"estimate": job.partials_avoided},
            "demand": dict(self.edges),
            **self.further,
            **({} if self.shards is None else _of_shards(self.shards)),
        }


def _of_shards(shards: ShardFigures) -> dict[str, Any]:
    return {
        "shards": shards.shards,
        "stages": dict(shards.stages),
        "shard_seconds": dict(shards.seconds),
        "worker_bytes": list(shards.worker_bytes),
        "reopened": dict(shards.reopened),
    }
