"""`python -m bench.nexmark [--query q0…] [--engine embedded spark flink]`: NEXMark in turns, and the table of what was
found.

Answer   Query after query runs on every engine in turns, round after round; engines of `--once` have a turn in the
         first round only, and the samples of Flink and Spark come from one process each, in that round. The numbers of
         results are compared with a batch computation. After every round the JSON file of the query and the table
         `results/table.md` are written. An engine that fails in a query is named with the reason and has no further
         turn in it; the run goes on. `--minutes` begins no further query when they are over. `--add` adds to the
         samples of earlier files, of the same engines or of others. `--table` only writes the table. `--answers` runs
         no clock: it compares Flink's rows with those of the batch computation. Exit code 1 when a number of results or
         an answer differs, or an engine has failed.
Limits   rows/s per core is the rows of the streams that a query reads by the median of seconds and by the cores that
         every engine may use.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import harness
from bench.nexmark import answers, engines
from bench.nexmark import data as streams
from bench.peers import Result, environments

RESULTS = Path(__file__).resolve().parent / "results"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.nexmark", description="NEXMark on several engines.")
    parser.add_argument("--query", nargs="+", default=engines.present(), choices=engines.present(), metavar="QUERY")
    parser.add_argument("--engine", nargs="+", default=list(engines.ENGINES), choices=engines.ENGINES)
    parser.add_argument("--rate", type=float, default=20_000, help="events per second of event time")
    parser.add_argument(
        "--seconds", type=float, default=60, help="length in event time; ten seconds are one file and one micro-batch"
    )
    parser.add_argument("--repeats", type=int, default=3, help="rounds; in each of them every engine has one turn")
    parser.add_argument(
        "--once",
        nargs="*",
        default=[],
        choices=engines.ENGINES,
        help="engines with a turn in the first round only",
    )
    parser.add_argument("--add", action="store_true", help="keep the samples of earlier files, and add to them")
    parser.add_argument("--cores", type=int, default=2, help="task slots of Flink, threads of Spark")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which one run is stopped")
    parser.add_argument("--minutes", type=float, metavar="N", help="begin no further query after so many minutes")
    parser.add_argument(
        "--answers", action="store_true", help="compare Flink's rows with the batch computation, without a clock"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON files and the table")
    parser.add_argument("--table", action="store_true", help="only write the table from the files that are there")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.table:
        write_table(options.results)
        return 0
    # Before the first query: what other processes do. Later it would be the work of the engines themselves.
    load = round(os.getloadavg()[0], 2)
    data = streams.make(options.rate, options.seconds, options.cores)
    if options.answers:
        equal = [answers.agree(query, data, options.cores, options.limit) for query in options.query]
        return 0 if all(equal) else 1
    began = time.monotonic()
    states = []
    for query in options.query:
        if options.minutes is not None and time.monotonic() - began > 60 * options.minutes:
            say(f"{options.minutes:g} minutes are over before {query}")
            break
        states.append(Turns(query, data, options, load))
        for turn in range(options.repeats):
            states[-1].take(turn)
            states[-1].write()
            write_table(options.results)
        states[-1].report()
    if options.results == RESULTS:
        # The page of the docs is made of the files.
        subprocess.run([sys.executable, str(engines.ROOT / "docs" / "benchmark_tables.py")], check=True)
    return 0 if all(state.agrees for state in states) else 1


def say(text: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def write_table(folder: Path) -> None:
    (folder / "table.md").write_text("\n".join(table(folder)) + "\n")


class Turns:
    """One query on all engines: its samples so far."""

    def __init__(self, query: str, data: streams.Data, options: argparse.Namespace, load: float) -> None:
        self.query, self.data, self.options, self.load = query, data, options, load
        #: Engine -> why it does not run the query, or why it no longer does.
        self.absent = {engine: reason for engine in options.engine if (reason := engines.cannot(engine, query))}
        for engine, reason in self.absent.items():
            say(f"{query}: {engine} is left out: {reason}")
        self.failed: dict[str, str] = {}
        self.samples: dict[str, list[harness.Sample]] = {
            engine: [] for engine in options.engine if engine not in self.absent
        }
        self.last: dict[str, Result] = {}
        self.differing: dict[str, str] = {}
        self.earlier: dict[str, Any] | None = None
        self.rows = engines.rows_in(query, data)
        self.expected = 0

    @property
    def target(self) -> Path:
        folder: Path = self.options.results
        return folder / f"{self.query}.json"

    @property
    def agrees(self) -> bool:
        return not self.differing and not self.failed

    def take(self, turn: int) -> None:
        """One round: every engine has one turn."""
        if turn == 0:
            self.expected = engines.expected(self.query, self.data)
            self.earlier = harness.read(self.target) if self.options.add and self.target.is_file() else None
            if "embedded" in self.samples:
                # Kernels are compiled once per machine: no sample has that in it.
                self._run("embedded")
        for engine in [engine for engine in self.samples if engine not in self.failed]:
            if turn and (engine in self.options.once or engine in engines.WARM):
                continue
            taken = self._run(engine)
            self.samples[engine] += taken
            if taken:
                shown = ", ".join(f"{sample.seconds:.2f}" for sample in taken)
                say(f"{self.query}: {engine}, round {turn + 1} of {self.options.repeats}: {shown} s")

    def _run(self, engine: str) -> list[harness.Sample]:
        options = self.options
        times = 1 if engine in options.once else options.repeats
        try:
            results = engines.runs(engine, self.query, self.data, times=times, cores=options.cores, limit=options.limit)
        except Exception as problem:
            self.failed[engine] = " ".join(str(problem).split())[:300] or type(problem).__name__
            say(f"{self.query}: {engine} FAILED: {self.failed[engine]}")
            return []
        self.last[engine] = results[-1]
        return [
            harness.Sample(
                result.seconds,
                result.peak_rss,
                {key: value for key, value in asdict(result).items() if key != "seconds"},
            )
            for result in results
        ]

    def write(self) -> None:
        """Keep what was found so far."""
        measures = {name: harness.Measure(name, tuple(taken)) for name, taken in self.samples.items() if taken}
        comparison = harness.Comparison(measures, self.load)
        if self.earlier is not None:
            comparison = comparison.after(self.earlier, others=True)
        self.differing = differences(self.query, self.expected, self.last)
        options = self.options
        content: dict[str, object] = {
            "query": self.query,
            "rate": options.rate,
            "seconds": options.seconds,
            "cores": options.cores,
        }
        content |= {
            "rows_in": self.rows,
            "results": self.expected,
            "differing": self.differing,
            "absent": self.absent,
            "failed": self.failed,
        }
        harness.write(
            self.target,
            f"NEXMark {self.query}",
            {**content, "flink": environments.version("flink"), **comparison.as_json()},
        )
        for name, text in self.differing.items():
            say(f"{self.query}: {name}: {text}")

    def report(self) -> None:
        for name, taken in self.samples.items():
            if taken:
                measure, last = harness.Measure(name, tuple(taken)), self.last[name]
                note = "stopped: took too long" if last.stopped else f"{last.results:,} results"
                speed = int(str(last.details.get("timed_rows", self.rows))) / measure.median / self.options.cores
                shown = f"{measure.median:9.3f} s {speed:12,.0f} rows/s per core {measure.peak_rss / 1e6:8,.0f} MB"
                print(f"{self.query:4} {name:9} {shown}  {note}", flush=True)
        for name, text in {**self.differing, **{name: f"failed: {text}" for name, text in self.failed.items()}}.items():
            print(f"{self.query:4} {name:9} {text}", flush=True)


def differences(query: str, expected: int, found: dict[str, Result]) -> dict[str, str]:
    """Engines whose number of results is not the expected one. The changes of a changelog of ours are not counted."""
    return {
        name: f"{last.results:,} results, expected {expected:,}"
        for name, last in found.items()
        if not last.stopped and last.results != expected and (name == "flink" or query not in engines.CHANGING)
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
            f"{speeds[name] / speeds['flink']:.1f}" if speeds.get(name) and speeds.get("flink") else ""
            for name in ("embedded", "spark")
        ]
        lines.append(
            f"| {record['query']} | {record['rows_in']:,} | {record['results']:,} | {' | '.join(cells + ratios)} |"
        )
    return lines


def speed(record: dict[str, Any], measure: dict[str, Any]) -> float:
    """Rows per second and core, from the median; 0 when a run was stopped."""
    details = measure["samples"][-1]["details"].get("details", {})
    return (
        0.0
        if details.get("stopped")
        else float(details.get("timed_rows", record["rows_in"])) / measure["median"] / record["cores"]
    )


def _measures(record: dict[str, Any]) -> list[dict[str, Any]]:
    return list(record["measures"])


if __name__ == "__main__":
    sys.exit(main())
