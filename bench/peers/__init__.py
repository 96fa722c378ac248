"""The same queries on other systems, behind one switch.

Answer   Every runner is a module with `run(workload, **options) -> Result`; `RUNNERS` names them for the command line.
Limits   A runner starts its system in a process of its own, so that memory is its own and a run that takes too long can
         be stopped. Options that a runner has no use for are ignored by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Result:
    """What one run of one workload gave."""

    #: Without start-up; on Spark also without the first micro-batch, which compiles the plan and its code.
    seconds: float
    #: Rows of all streams together.
    rows_in: int
    #: Rows of the answer.
    results: int
    peak_rss: int
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def stopped(self) -> bool:
        """The run was ended because it took too long: its seconds are a lower bound and its results are not the
        answer."""
        return bool(self.details.get("stopped"))


#: Name on the command line -> module, and options that it fixes.
RUNNERS: dict[str, tuple[str, dict[str, object]]] = {
    "duckdb": ("bench.peers.duckdb_batch", {}),
    "eddyline": ("bench.peers.eddyline_engine", {}),
    "eddyline-csv": ("bench.peers.eddyline_engine", {"csv": True}),
    "eddyline-spark": ("bench.peers.eddyline_engine", {"engine": "spark", "write": True}),
    "spark-native": ("bench.peers.spark_native", {}),
    "flink": ("bench.peers.flink", {}),
    "bytewax": ("bench.peers.bytewax", {}),
    "pathway": ("bench.peers.pathway", {}),
}

#: Per runner: what it reads, and what it does not guarantee in these runs.
NOTES: dict[str, str] = {
    "duckdb": "Reads parquet. A batch: it sees all rows before it answers, knows no event time and answers again from the beginning.",
    "eddyline": "Reads parquet. One process; results in order of time. No checkpoints in these runs: a crash begins anew.",
    "eddyline-csv": "Reads csv with times as text; otherwise as `eddyline`.",
    "eddyline-spark": "Reads parquet and writes parquet. Exactly once, with checkpoints; results come per micro-batch.",
    "spark-native": "Reads parquet and writes parquet. Exactly once, with checkpoints. Results in no order of time; "
    "more than two streams keep only the event time of the first.",
    "flink": "Reads csv. No checkpoints in these runs: a crash begins anew. Results in no order of time, event times of milliseconds.",
    "bytewax": "Reads parquet. No recovery store in these runs. The join is a program of the user; no watermark spans keys, "
    "so later joins of a cascade forget nothing; results in no order of time.",
    "pathway": "Reads csv, as a bounded input in one step: no result before the end of the input, nothing is forgotten, no persistence.",
}
