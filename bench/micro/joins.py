"""How fast window joins are embedded: W1, W1s, W2, W3 against DuckDB in one run, written, and over longer runs.

Answer   Rows per second, the ratio to DuckDB's batch join of the same data, what writing costs, whether cost stays
         linear, bytes of state per live row beyond the payload, and seconds from the start of the process to the first
         result.
Limits   DuckDB sees the whole input at once; it is a yardstick, not a rival.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import harness, plots
from bench.harness import Sample
from bench.peers import duckdb_batch, eddyline_engine
from bench.workloads import Workload, make

RESULTS = Path(__file__).parent / "results"
#: Bytes of payload per row of W1: k, v and ts.
PAYLOAD = 24
REPEATS = 3


def main() -> None:
    found: dict[str, object] = {"machine": harness.machine()}
    for name in ("W1", "W1s", "W2", "W3"):
        found[name] = against_duckdb(make(name))
    found["written"] = written(make("W1"))
    found["linear"] = linear()
    found["state"] = state(make("W1"))
    found["start_seconds"] = start_up()
    print(json.dumps({k: v for k, v in found.items() if k != "machine"}, indent=1))
    harness.write(RESULTS / "joins.json", "window joins, embedded", found)


def _sample(result: object) -> Sample:
    return Sample(result.seconds, result.peak_rss, {"results": result.results})  # type: ignore[attr-defined]


def against_duckdb(workload: Workload) -> dict[str, object]:
    ran = harness.compare(
        {
            "duckdb": lambda: _sample(duckdb_batch.run(workload)),
            "eddyline": lambda: _sample(eddyline_engine.run(workload)),
        },
        warmup=1,
        repeats=REPEATS,
    )
    ours, theirs = ran.measures["eddyline"], ran.measures["duckdb"]
    return {
        "seconds": ours.median,
        "rows_per_second": workload.rows_in / ours.median,
        "duckdb_seconds": theirs.median,
        "ratio_to_duckdb": ran.ratio("eddyline"),
        "results": ours.samples[0].details["results"],
        "load_before": ran.load_before,
    }


def written(workload: Workload) -> dict[str, object]:
    ran = harness.compare(
        {
            "dropped": lambda: _sample(eddyline_engine.run(workload)),
            "written": lambda: _sample(eddyline_engine.run(workload, write=True)),
        },
        warmup=1,
        repeats=REPEATS,
    )
    return {name: m.median for name, m in ran.measures.items()} | {"ratio": ran.ratio("written")}


def linear() -> dict[str, object]:
    """The same rates for 1, 4 and 16 times as long."""
    rates, memory = [], []
    factors = (1, 4, 16)
    for factor in factors:
        workload = make("W1", factor, files=10 * factor)
        runs = [eddyline_engine.run(workload) for _ in range(2 if factor == 16 else REPEATS)]
        rates.append(workload.rows_in / min(r.seconds for r in runs))
        memory.append(max(r.peak_rss for r in runs) / 1e6)
    plots.lines(
        RESULTS / "linear.png",
        "W1, longer and longer",
        factors,
        {"rows/s": rates},
        across="length",
        unit="input rows per second",
    )
    return {"length": factors, "rows_per_second": rates, "peak_rss_mb": memory}


def state(workload: Workload) -> dict[str, float]:
    details = eddyline_engine.run(workload).details
    rows, size = int(details["peak_stored_rows"]), int(details["peak_state_bytes"])  # type: ignore[call-overload]
    return {"bytes_per_row": size / rows, "beyond_payload": size / rows - PAYLOAD}


def start_up() -> float:
    """Process start to the end of a run with one result, kernels compiled before."""
    with tempfile.TemporaryDirectory() as folder:
        script = (
            "import eddyline; s = eddyline.Session()\n"
            "s.execute(\"CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time='ts')\")\n"
            "q = s.query('q', 'SELECT x.k FROM a [ROWS 5] x, a [ROWS 5] y WHERE x.k = y.k')\n"
            "s.push('a', [{'k': 1, 'ts': 1}]); s.run(); assert q.table().num_rows == 1\n"
        )
        best = float("inf")
        for _ in range(REPEATS):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", script], check=True, cwd=folder)
            best = min(best, time.perf_counter() - began)
    return best


if __name__ == "__main__":
    main()
