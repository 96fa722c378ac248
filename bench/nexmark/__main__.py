"""`python -m bench.nexmark [--query q0…] [--engine embedded spark flink]`: NEXMark in turns, and the table of what was found.

Answer   Runs each query on the engines in turns, compares the numbers of results with a batch computation, writes one JSON file per
         query and the table `results/table.md` from all of them. `--table` only writes the table. `--add` adds rounds to those of
         earlier files. Exit code 1 when a number of results differs.
Limits   rows/s per core is the rows of the streams that a query reads by the median of seconds and by the cores that every engine may use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import harness
from bench.nexmark import data as streams
from bench.nexmark import engines
from bench.peers import Result, environments

RESULTS = Path(__file__).resolve().parent / "results"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.nexmark", description="NEXMark on several engines.")
    parser.add_argument("--query", nargs="+", default=engines.present(), choices=engines.present(), metavar="QUERY")
    parser.add_argument("--engine", nargs="+", default=list(engines.ENGINES), choices=engines.ENGINES)
    parser.add_argument("--rate", type=float, default=20_000, help="events per second of event time")
    parser.add_argument("--seconds", type=float, default=60, help="length in event time; ten seconds are one file and one micro-batch")
    parser.add_argument("--repeats", type=int, default=3, help="rounds; in each of them every engine has one turn")
    parser.add_argument("--add", action="store_true", help="keep the samples of earlier files, and add to them")
    parser.add_argument("--cores", type=int, default=2, help="task slots of Flink, threads of Spark")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which one run is stopped")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON files and the table")
    parser.add_argument("--table", action="store_true", help="only write the table from the files that are there")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    agree = True
    if not options.table:
        data = streams.make(options.rate, options.seconds, options.cores)
        for query in options.query:
            agree &= one(query, data, options)
    (options.results / "table.md").write_text("\n".join(table(options.results)) + "\n")
    return 0 if agree else 1


def one(query: str, data: streams.Data, options: argparse.Namespace) -> bool:
    """Run one query on all engines and keep what was found; whether the numbers of results are the expected ones."""
    absent = {engine: reason for engine in options.engine if (reason := engines.cannot(engine, query))}
    for engine, reason in absent.items():
        print(f"{query}: {engine} is left out: {reason}", file=sys.stderr)
    names = [engine for engine in options.engine if engine not in absent]
    found: dict[str, list[Result]] = {name: [] for name in names}

    def taking(name: str) -> Callable[[], harness.Sample]:
        def once() -> harness.Sample:
            result = engines.run(name, query, data, cores=options.cores, limit=options.limit)
            found[name].append(result)
            return harness.Sample(
                result.seconds, result.peak_rss, {key: value for key, value in asdict(result).items() if key != "seconds"}
            )

        return once

    if "embedded" in names:
        # Kernels are compiled once per machine: no sample has that in it.
        engines.run("embedded", query, data, cores=options.cores, limit=options.limit)
    comparison = harness.compare({name: taking(name) for name in names}, warmup=0, repeats=options.repeats)
    target = options.results / f"{query}.json"
    if options.add and target.is_file():
        comparison = comparison.after(harness.read(target))
    expected = engines.expected(query, data)
    differing = differences(query, expected, found)
    rows = engines.rows_in(query, data)
    content: dict[str, object] = {"query": query, "rate": options.rate, "seconds": options.seconds, "cores": options.cores, "rows_in": rows}
    content |= {"results": expected, "differing": differing, "absent": absent, "flink": environments.version("flink")}
    harness.write(target, f"NEXMark {query}", {**content, **comparison.as_json()})
    for name, measure in comparison.measures.items():
        last = found[name][-1]
        note = "stopped: took too long" if last.stopped else f"{last.results:,} results"
        speed = int(str(last.details.get("timed_rows", rows))) / measure.median / options.cores
        print(
            f"{query:4} {name:9} {measure.median:9.3f} s {speed:12,.0f} rows/s per core {measure.peak_rss / 1e6:8,.0f} MB  {note}",
            flush=True,
        )
    for name, text in differing.items():
        print(f"{query}: {name}: {text}", file=sys.stderr)
    return not differing


def differences(query: str, expected: int, found: dict[str, list[Result]]) -> dict[str, str]:
    """Engines whose number of results is not the expected one. The changes of a changelog of ours are not counted."""
    return {
        name: f"{last.results:,} results, expected {expected:,}"
        for name, results in found.items()
        if not (last := results[-1]).stopped and last.results != expected and (name == "flink" or query not in engines.CHANGING)
    }


def table(folder: Path) -> list[str]:
    """The table of all queries that have a file."""
    records = [harness.read(file) for file in folder.glob("q*.json")]
    records.sort(key=lambda record: int(str(record["query"])[1:]))
    head = [
        "query",
        "rows",
        "results",
        *(f"{name}, rows/s per core | {name}, MB" for name in engines.ENGINES),
        "embedded / flink",
        "spark / flink",
    ]
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * (5 + 2 * len(engines.ENGINES))]
    for record in records:
        speeds = {measure["name"]: speed(record, measure) for measure in _measures(record)}
        peaks = {measure["name"]: f"{measure['peak_rss'] / 1e6:,.0f}" for measure in _measures(record)}
        cells = [f"{speeds[name]:,.0f} | {peaks[name]}" if speeds.get(name) else " | " for name in engines.ENGINES]
        ratios = [
            f"{speeds[name] / speeds['flink']:.1f}" if speeds.get(name) and speeds.get("flink") else "" for name in ("embedded", "spark")
        ]
        lines.append(f"| {record['query']} | {record['rows_in']:,} | {record['results']:,} | {' | '.join(cells + ratios)} |")
    return lines


def speed(record: dict[str, Any], measure: dict[str, Any]) -> float:
    """Rows per second and core, from the median; 0 when a run was stopped."""
    details = measure["samples"][-1]["details"].get("details", {})
    return 0.0 if details.get("stopped") else float(details.get("timed_rows", record["rows_in"])) / measure["median"] / record["cores"]


def _measures(record: dict[str, Any]) -> list[dict[str, Any]]:
    return list(record["measures"])


if __name__ == "__main__":
    sys.exit(main())
