"""`python -m bench.peers --runner NAME…|all`: one switch for all peers.

Answer   Runs the workloads on the runners named, in turns, prints a table, writes one JSON file per workload and says
         when two runners disagree about the number of results, or one fails (exit code 1). A peer that is not installed
         is left out, and the output and the file say why. A runner that fails or takes too long has no further turn in
         that workload; the others go on. With `--add` the rounds are added to those of an earlier file.
Limits   Counts are compared here; that the rows are right is the business of the tests.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType

import psutil

from bench import harness, workloads
from bench.peers import RUNNERS, Result, environments

RESULTS = Path(__file__).resolve().parent / "results"


def runner(name: str, workload: workloads.Workload, **options: object) -> Callable[[], Result]:
    module, fixed = RUNNERS[name]
    run = importlib.import_module(module).run
    return lambda: run(workload, **{**options, **fixed})


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="The same queries on several systems.")
    parser.add_argument(
        "--runner",
        nargs="+",
        required=True,
        choices=[*RUNNERS, "all"],
        help="which contenders run; the first is the baseline",
    )
    parser.add_argument("--workload", nargs="+", default=list(workloads.SHAPES), choices=list(workloads.SHAPES))
    parser.add_argument("--batches", type=int, default=10, help="files per stream, on Spark micro-batches")
    parser.add_argument("--factor", type=int, default=1, help="how many times as long as usual, at the same rates")
    parser.add_argument("--rows", type=int, help="rows per stream instead of the workload's own number")
    parser.add_argument(
        "--part", type=float, metavar="F", help="this part of each workload's rows per stream, at the same rates: 0.2"
    )
    parser.add_argument("--repeats", type=int, default=3, help="rounds; in each of them every contender has one turn")
    parser.add_argument(
        "--add", action="store_true", help="keep the samples of the earlier file of the same run, and add to them"
    )
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--engine", choices=["embedded", "spark"], default="embedded", help="for --runner eddyline")
    parser.add_argument("--write", action="store_true", help="for --runner eddyline: write the results to parquet")
    parser.add_argument(
        "--set", nargs="+", default=["epoch_rows = 20000"], metavar="'NAME = VALUE'", help="for eddyline"
    )
    parser.add_argument(
        "--variants",
        nargs="+",
        default=["hdfs", "rocksdb-v4"],
        help="for --runner spark-native: hdfs, rocksdb, rocksdb-v4",
    )
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--limit", type=float, default=360.0, help="seconds after which one run is stopped")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON files")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    wanted = list(RUNNERS) if "all" in options.runner else list(dict.fromkeys(options.runner))
    absent = {name: reason for name in wanted if name in environments.PEERS and (reason := environments.absent(name))}
    names = [name for name in wanted if name not in absent]
    for name, reason in absent.items():
        print(f"{name} is left out: {reason}", file=sys.stderr)
    passed = {
        "engine": options.engine,
        "write": options.write,
        "settings": options.set,
        "variants": tuple(options.variants),
        "threads": options.cores,
        "cores": options.cores,
        "limit": options.limit,
    }
    # Before the first workload: what other processes do. Later it would be the work of the contenders themselves.
    agree, load = True, round(os.getloadavg()[0], 2)
    for name in options.workload if names else ():
        rows = round(options.part * workloads.SHAPES[name].rows) if options.part else options.rows
        workload = workloads.make(name, options.factor, options.batches, rows=rows)
        target = options.results / file_name(options, name, names, rows)
        found: dict[str, list[Result]] = {one: [] for one in names}
        contenders = {
            one: _kept(one, runner(one, workload, **passed), found[one], workload, options.limit) for one in names
        }
        if "eddyline" in names:
            # Kernels are compiled once per machine: no sample has that in it.
            runner("eddyline", workload, **passed)()
        comparison = replace(
            harness.compare(contenders, warmup=options.warmup, repeats=options.repeats), load_before=load
        )
        if options.add and target.is_file():
            comparison = comparison.after(harness.read(target))
        for line in table(workload, comparison, found):
            print(line, flush=True)
        counts = {one: {result.results for result in results if not result.stopped} for one, results in found.items()}
        agree &= not any("failed" in result.details for results in found.values() for result in results)
        if len(set().union(*counts.values())) > 1:
            agree = False
            print(f"{name}: the numbers of results differ: {counts}", file=sys.stderr)
        title = f"{name}, {workload.shape.title}, {options.batches} batches, {options.factor}x"
        content = {"workload": name, "batches": options.batches, "factor": options.factor, "rows_in": workload.rows_in}
        content |= {
            "results": max(set().union(*counts.values()), default=0),
            "agree": agree,
            "absent": absent,
            "cores": options.cores,
        }
        content["peers"] = {one: environments.version(one) for one in names if one in environments.PEERS}
        harness.write(target, title, {**content, **comparison.as_json()})
    return 0 if agree else 1


def file_name(options: argparse.Namespace, workload: str, names: Sequence[str], rows: int | None) -> str:
    """Runs of the same kind have the same name: the later one replaces the earlier one, or adds to it."""
    fewer = f"-{rows}rows" if rows else ""
    return f"{workload}{fewer}-{options.batches}batches-{options.factor}x-{'all' if 'all' in options.runner else '+'.join(names)}.json"


def _kept(
    name: str, run: Callable[[], Result], results: list[Result], workload: workloads.Workload, limit: float
) -> Callable[[], harness.Sample]:
    """A turn of a runner, or what its last turn gave where that did not come to an end."""

    def turn() -> Result:
        if results and results[-1].stopped:
            return results[-1]
        try:
            return run()
        except Exception as problem:
            reason = " ".join(str(problem).split())[:300] or type(problem).__name__
            print(f"{workload.name}: {name} FAILED: {reason}", file=sys.stderr, flush=True)
            return Result(limit, workload.rows_in, 0, 0, {"stopped": True, "failed": reason})

    def once() -> harness.Sample:
        result = turn()
        results.append(result)
        return harness.Sample(
            result.seconds, result.peak_rss, {key: value for key, value in asdict(result).items() if key != "seconds"}
        )

    return once


def unfinished(details: Mapping[str, object]) -> str:
    return "failed" if "failed" in details else "stopped: took too long"


def table(workload: workloads.Workload, comparison: harness.Comparison, found: dict[str, list[Result]]) -> list[str]:
    lines = [
        f"{workload.name}: {workload.shape.title}, {workload.rows_in} rows in, {workload.files} batches, {workload.factor}x"
    ]
    for name, measured in comparison.measures.items():
        last = found[name][-1]
        timed = int(str(last.details.get("timed_rows", workload.rows_in)))
        note = (
            f" ({unfinished(last.details)})"
            if last.stopped
            else f" ({last.details['variant']})"
            if "variant" in last.details
            else ""
        )
        lines.append(
            f"  {name:15} {measured.median:9.3f} s {timed / measured.median:12,.0f} rows/s {last.results:12,} results"
            f" {measured.peak_rss / 1e6:8,.0f} MB {comparison.ratio(name):7.2f}x{note}"
        )
    return lines


def _end(number: int, frame: FrameType | None) -> None:
    """End with everything that was started: also a process whose start the signal interrupts and that is in no list
    yet."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main())
