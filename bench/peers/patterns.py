"""`python -m bench.peers.patterns`: one event pattern on this engine, on Flink (MATCH_RECOGNIZE) and on bytewax, in
turns.

Answer   A sequence of three types, each at most once per trace, over the orders generator: seconds and peak of memory
         per contender, the number of matches compared (exit code 1 when it differs), one JSON file. All answers are
         equal for such a pattern; MATCH_RECOGNIZE asks for adjacent rows, so that the rows between are named in its
         pattern. Flink's event time has milliseconds: rows of one are ordered by their microseconds, and its watermark
         stays one behind, so that none of them is late.
State    `orders-<events>` below `$EDDYLINE_BENCH_DATA` or `data/bench`: parquet files in order, and for Flink one csv
         file per task slot.
Limits   The embedded engine and bytewax read parquet, Flink reads csv. Peers that are not installed are left out and
         named.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from bench import harness
from bench.peers import Result, eddyline_engine, environments, inside
from eddyline.connectors.generators.draws import GeneratorShape
from eddyline.connectors.generators.generate import orders

RESULTS = Path(__file__).resolve().parent / "results" / "patterns"
TYPES = ("CheckInventory", "UseRemoteStock", "GenerateInvoice")
CONTENDERS = ("eddyline", "flink", "bytewax")
_COLUMNS = "trace_id BIGINT, type STRING, customer BIGINT, quantity BIGINT, price BIGINT, item STRING, region STRING, ts TIMESTAMP"


def make(events: int, slots: int) -> Path:
    folder = Path(os.environ.get("EDDYLINE_BENCH_DATA") or "data/bench").resolve() / f"orders-{events}-{slots}"
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.{os.getpid()}")
        orders(str(partial), GeneratorShape(rate=100.0, seconds=events / 100), quotes=1)
        table = pq.read_table(partial / "orders", columns=["trace_id", "type", "ts"])
        timed = table.set_column(2, "us", table["ts"].cast("int64"))
        (partial / "slots").mkdir()
        for slot in range(slots):
            rows = timed.take(pa.array(np.arange(slot, timed.num_rows, slots)))
            options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
            pa.csv.write_csv(rows, partial / "slots" / f"part-{slot:05d}.csv", options)
        partial.rename(folder)
    return folder


def eddyline(folder: Path, events: int, cores: int, limit: float) -> Result:
    job = (
        f"CREATE STREAM orders ({_COLUMNS}) WITH (format = 'parquet', path = '{folder}/orders', time = 'ts');\n"
        f"CREATE QUERY q AS EVENT SEQ({', '.join(TYPES)}) FROM orders TYPE type PARTITION BY trace_id WITHIN 10 MINUTES RETURN trace_id;\n"
    )
    with tempfile.TemporaryDirectory(prefix="eddyline-bench-") as name:
        said, watched = eddyline_engine.ran(job, Path(name), engine="embedded", write=False, limit=limit)
    if watched.stopped:
        return Result(limit, events, 0, watched.peak_rss, {"stopped": True})
    return Result(said["elapsed_s"], events, said["results"]["q"], watched.peak_rss)


def flink(folder: Path, events: int, cores: int, limit: float) -> Result:
    first, second, third = TYPES
    statement = (
        "CREATE TABLE orders (trace_id BIGINT, type STRING, us BIGINT, ts AS TO_TIMESTAMP_LTZ(us / 1000, 3),"
        " WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)"
        f" WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = 'file://{folder}/slots')"
    )
    query = (
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY trace_id ORDER BY ts, us MEASURES C.us AS us ONE ROW PER MATCH"
        " AFTER MATCH SKIP PAST LAST ROW PATTERN (A N* B M* C) WITHIN INTERVAL '10' MINUTE"
        f" DEFINE A AS A.type = '{first}', N AS N.type <> '{second}', B AS B.type = '{second}',"
        f" M AS M.type <> '{third}', C AS C.type = '{third}')"
    )
    report, watched = inside.run(
        "flink", "flink_sql", {"statements": [statement], "query": query, "slots": cores}, limit
    )
    return _reported(report, watched.peak_rss, watched.stopped, events, limit)


def bytewax(folder: Path, events: int, cores: int, limit: float) -> Result:
    argument = {"path": str(folder / "orders"), "types": list(TYPES), "processes": cores}
    report, watched = inside.run("bytewax", "bytewax_pattern", argument, limit)
    return _reported(report, watched.peak_rss, watched.stopped, events, limit)


def _reported(report: dict, peak: int, stopped: bool, events: int, limit: float) -> Result:
    if stopped:
        return Result(limit, events, 0, peak, {"stopped": True})
    return Result(float(report["seconds"]), events, int(report["results"]), peak, report)


RUN: dict[str, Callable[[Path, int, int, float], Result]] = {"eddyline": eddyline, "flink": flink, "bytewax": bytewax}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers.patterns", description="One event pattern on several systems."
    )
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which one run is stopped")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON file")
    options = parser.parse_args(arguments)
    absent = {
        name: reason for name in CONTENDERS if name in environments.PEERS and (reason := environments.absent(name))
    }
    for name, reason in absent.items():
        print(f"{name} is left out: {reason}", file=sys.stderr)
    folder = make(options.events, options.cores)
    found: dict[str, list[Result]] = {name: [] for name in CONTENDERS if name not in absent}

    def taking(name: str) -> Callable[[], harness.Sample]:
        def once() -> harness.Sample:
            result = RUN[name](folder, options.events, options.cores, options.limit)
            found[name].append(result)
            return harness.Sample(
                result.seconds,
                result.peak_rss,
                {key: value for key, value in asdict(result).items() if key != "seconds"},
            )

        return once

    # Kernels are compiled once per machine: no sample has that in it.
    eddyline(folder, options.events, options.cores, options.limit)
    comparison = harness.compare({name: taking(name) for name in found}, warmup=0, repeats=options.repeats)
    for name, measure in comparison.measures.items():
        last = found[name][-1]
        speed = f"{options.events / measure.median:12,.0f} events/s"
        print(
            f"{name:10} {measure.median:9.3f} s {speed} {last.results:8,} matches {measure.peak_rss / 1e6:8,.0f} MB",
            flush=True,
        )
    counts = {result.results for results in found.values() for result in results if not result.stopped}
    content = {"rows_in": options.events, "cores": options.cores, "agree": len(counts) == 1, "absent": absent}
    content["peers"] = {name: environments.version(name) for name in found if name in environments.PEERS}
    harness.write(
        options.results / f"sequence-{options.events}.json",
        f"SEQ({', '.join(TYPES)})",
        {**content, **comparison.as_json()},
    )
    if len(counts) > 1:
        print(f"the numbers of matches differ: {sorted(counts)}", file=sys.stderr)
    return 0 if len(counts) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
