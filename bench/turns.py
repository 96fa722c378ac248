"""Two checkouts of eddyline in turns: `python -m bench.turns --before FOLDER [--case W1 filters …] [--rounds 9]`.

Answer   Per case the speed of this checkout against the other one: time before divided by time after, within each
         round, and the median over the rounds. 1.00 is the same speed; less is slower.
State    Each sample is a process of its own, so that neither checkout lives on what the other has loaded. The first
         process of each checkout compiles kernels, the first run inside a process loads them: neither counts.
Limits   Cases use only names that both checkouts have. CPU time decides where one process works, wall time where Spark
         does.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench import workloads

if TYPE_CHECKING:
    from eddyline import Session

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "micro" / "results" / "turns.json"
FILTER_ROWS, JOIN_ROWS, KEYS, QUERIES = 200_000, 250_000, 1_000, 100
NEXMARK = ("q4", "q7", "q18")


def _timed(run: Callable[[], object]) -> dict[str, float]:
    cpu, wall = process_time(), perf_counter()
    run()
    return {"cpu": process_time() - cpu, "wall": perf_counter() - wall}


def _run(session: Session) -> dict[str, float]:
    """A bounded run that closes nothing, also where the checkout knows no other."""
    known = inspect.signature(session.run).parameters
    return _timed(lambda: session.run(**({"final": False} if "final" in known else {})))


def _workload(name: str, durable: bool) -> dict[str, float]:
    """A join over files; `durable` writes results and takes checkpoints at the default period."""
    from eddyline import Session

    def once(rows: int | None) -> dict[str, float]:
        made = workloads.make(name, rows=rows)
        with tempfile.TemporaryDirectory(prefix="eddyline-turns-") as folder:
            places = {"checkpoint": f"{folder}/checkpoint", "out": f"{folder}/out"} if durable else {}
            session = Session(keep_results=False, **places)
            session.execute(made.job("epoch_rows = 20000"))
            return _run(session)

    once(2_000)
    return once(None)


def _times(rows: int) -> pa.Array:
    return pa.array(np.arange(rows) * 1_000, pa.timestamp("us"))


def _filters() -> dict[str, float]:
    """10,000 ranges over one stream that together match each row about once."""
    from eddyline import Session

    def once(count: int) -> dict[str, float]:
        rng = np.random.default_rng(1)
        session = Session(keep_results=False)
        session.execute("CREATE STREAM s (x DOUBLE, v BIGINT, ts TIMESTAMP) WITH (time='ts')")
        session.execute("CREATE SINK everything FOR ALL WITH (format='drop')")
        for number, low in enumerate(rng.uniform(0, 1, count)):
            session.query(f"q{number}", f"SELECT v, x FROM s WHERE x >= {low:.9f} AND x < {low + 1 / count:.9f}")
        session.push(
            "s", pa.table({"x": rng.uniform(0, 1, FILTER_ROWS), "v": np.arange(FILTER_ROWS), "ts": _times(FILTER_ROWS)})
        )
        return _run(session)

    once(100)
    return once(10_000)


def _joins() -> dict[str, float]:
    """100 queries over one join, with different filters and windows."""
    from eddyline import Session

    def once(rows: int) -> dict[str, float]:
        session = Session(keep_results=False)
        for name in "ab":
            session.execute(f"CREATE STREAM {name} (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time='ts')")
        for number in range(QUERIES):
            window = f"[RANGE {5 + number % 11} SECONDS]"
            where = f"a.k = b.k AND a.v >= {number / QUERIES:.6f} AND a.v < {(number + 1) / QUERIES:.6f}"
            session.query(f"q{number}", f"SELECT a.k, a.v AS av, b.v AS bv FROM a {window}, b {window} WHERE {where}")
        rng = np.random.default_rng(2)
        for name in "ab":
            session.push(
                name, pa.table({"k": rng.integers(0, KEYS, rows), "v": rng.uniform(0, 1, rows), "ts": _times(rows)})
            )
        return _run(session)

    once(20_000)
    return once(JOIN_ROWS)


def _nexmark(query: str) -> dict[str, float]:
    """A query of NEXMark over csv files; `main` has written its job, since generators have other names elsewhere."""
    from eddyline import Session

    text = _job_file(query).read_text()

    def once() -> dict[str, float]:
        session = Session(keep_results=False)
        session.execute(text)
        return _run(session)

    once()
    return once()


def _job_file(query: str) -> Path:
    return Path(os.environ["EDDYLINE_BENCH_DATA"], f"turns-{query}.sql")


def _write_jobs(data: Path) -> None:
    from bench.nexmark import data as streams
    from bench.nexmark import engines

    made = streams.make(20_000, 60, 2, data)
    for query in NEXMARK:
        (data / f"turns-{query}.sql").write_text(engines.job_of(query, made))


def _cold() -> dict[str, float]:
    """A join of few rows by the command, in a process of its own: what a start costs."""
    made = workloads.make("W1", rows=2_000)
    with tempfile.TemporaryDirectory(prefix="eddyline-turns-") as folder:
        Path(folder, "job.sql").write_text(made.job("epoch_rows = 20000"))
        command = [sys.executable, "-m", "eddyline", "run", "job.sql", "--once", "--out", "results"]

        def once(_: object = None) -> dict[str, float]:
            before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return {"cpu": cpu, "wall": perf_counter() - wall}

        once()
        command[-1] = "again"
        return once()


def _spark() -> dict[str, float]:
    """W1 on Spark in 50 micro-batches; the first batch does not count."""
    made = workloads.make("W1", files=50)
    with tempfile.TemporaryDirectory(prefix="eddyline-turns-") as folder:
        Path(folder, "job.sql").write_text(made.job("epoch_rows = 20000", files_per_batch=1))
        command = [
            sys.executable,
            "-m",
            "eddyline",
            "run",
            "job.sql",
            "--engine",
            "spark",
            "--once",
            "--stats",
            "stats.json",
        ]
        command += ["--master", "local[2]", "--checkpoint", "checkpoint", "--out", "results"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        seconds = json.loads(Path(folder, "stats.json").read_text())["epoch_seconds"][1:]
    return {"cpu": sum(seconds), "wall": sum(seconds)}


CASES: dict[str, Callable[[], dict[str, float]]] = {
    **{name: lambda name=name: _workload(name, durable=False) for name in ("W1", "W1s", "W2", "W3")},  # type: ignore[misc]
    "W1 durable": lambda: _workload("W1", durable=True),
    "filters": _filters,
    "joins": _joins,
    **{query: lambda query=query: _nexmark(query) for query in NEXMARK},  # type: ignore[misc]
    "cold": _cold,
    "spark": _spark,
}


def _data() -> Path:
    return Path(os.environ.get("EDDYLINE_BENCH_DATA", "data/bench")).resolve()


def sample(checkout: Path, case: str) -> dict[str, float]:
    """One run of a case with the package of a checkout, in a process of its own."""
    path = os.pathsep.join([str(checkout / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "EDDYLINE_BENCH_DATA": str(_data())}
    # Nothing that lies in the current folder is imported.
    command = [sys.executable, "-P", "-m", "bench.turns", "--child", case]
    said = subprocess.run(
        command, cwd=tempfile.gettempdir(), env=environment, check=True, capture_output=True, text=True
    ).stdout
    found: dict[str, float] = json.loads(said.splitlines()[-1])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.turns", description="Two checkouts in turns.")
    parser.add_argument("--before", type=Path, help="the checkout to compare with")
    parser.add_argument("--case", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--child", choices=list(CASES), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(CASES[options.child]()))
        return 0
    if options.before is None:
        parser.error("--before names the checkout to compare with")
    print(f"{'case':12} {'before':>9} {'after':>9} {'speed':>7}   load before {os.getloadavg()[0]:.2f}")
    found: dict[str, object] = {"load_before": round(os.getloadavg()[0], 2), "rounds": options.rounds, "cases": {}}
    if set(options.case) & set(NEXMARK):
        _write_jobs(_data())
    for case in options.case:
        rounds = 3 if case == "spark" else options.rounds
        pairs = []
        for checkout in (options.before, ROOT):
            sample(checkout, case)
        for turn in range(rounds):
            order = (options.before, ROOT) if turn % 2 == 0 else (ROOT, options.before)
            taken = {checkout: sample(checkout, case) for checkout in order}
            pairs.append((taken[options.before], taken[ROOT]))
        speed = {unit: statistics.median(b[unit] / a[unit] for b, a in pairs) for unit in ("cpu", "wall")}
        before, after = (statistics.median(pair[side]["cpu"] for pair in pairs) for side in (0, 1))
        print(f"{case:12} {before:8.3f}s {after:8.3f}s {speed['cpu']:7.3f}   wall {speed['wall']:.3f}", flush=True)
        found["cases"][case] = {"speed": speed, "samples": pairs}  # type: ignore[index]
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.results.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
