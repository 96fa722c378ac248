"""Figures 22.1 and 22.4, the workloads of Table 22.1, and what lies beyond them: templates against the dissertation's
claims.

Answer   Prints one JSON line per measurement and writes all of them to `results/figures.json`.

    python -m bench.papers.run templates [--steps visits,times,search,tuning,batch,million,storing,costs]

Limits   Counts are exact and the same on every machine. CPU seconds are those of this process: contenders in turns,
         median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
from load import EXAMPLES, SECOND, VALUES, Running
from searches import search

from eddyline import Session, Settings
from eddyline.cli.lab.calibrate_index import measure_index
from eddyline.kernels.requests.request_blocks import Alone, scan_each
from eddyline.kernels.requests.requests import Probes, RequestStretch, scan, table_of
from eddyline.operators.template.blocks import Fields, clustered
from eddyline.operators.template.search import PatternLoad
from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.plan.index_choice.search import choose_index
from eddyline.plan.index_choice.templates import TemplatePrice
from eddyline.plan.index_choice.workload import Attribute, Workload
from eddyline.plan.tree.budget import SHIPPED_INDEX, index_costs
from eddyline.tuning import TemplateTuning

HERE = Path(__file__).parent
BLOCK = 1 << 16
PROBING = IndexCosts(hash=0, run=0, visit=1)
Line = dict[str, object]


def best_bits(statistics: dict[str, float], bits: int = 16) -> tuple[int, ...]:
    """The configuration with the fewest rows visited."""
    attributes = [Attribute(name, VALUES) for name in "abc"]
    patterns = [(list(kind), weight, 1.0) for kind, weight in statistics.items()]
    return choose_index(Workload.of(attributes, patterns, 1, 1), PROBING, bits).bits


def contenders(statistics: dict[str, float]) -> dict[str, str]:
    """The IMP index and its rivals: a hash of the attribute that is fixed most often, and of the most frequent
    pattern."""
    weight = {name: sum(w for kind, w in statistics.items() if name in kind) for name in "abc"}
    frequent = max(statistics, key=lambda kind: statistics[kind])
    imp = ", ".join(map(str, best_bits(statistics)))
    return {
        "imp": f"imp({imp})",
        "1-attr": f"hash({max(weight, key=lambda n: weight[n])})",
        "m-attr": f"hash({', '.join(frequent)})",
    }


def predicted(statistics: dict[str, float], index: str) -> float:
    """The share of the window that a request visits, by the dissertation's model."""
    if index.startswith("imp"):
        bits = dict(zip("abc", best_bits(statistics), strict=True))
        return sum(weight * 2.0 ** -sum(bits[name] for name in kind) for kind, weight in statistics.items())
    columns = index[5:-1].split(", ")
    # A hash of 16 bits tells all values of one attribute apart.
    served = min(2.0**-16, 1.0) if len(columns) > 1 else 1 / VALUES
    return sum(weight * (served if all(c in kind for c in columns) else 1.0) for kind, weight in statistics.items())


def visits(requests: int = 400) -> Iterator[Line]:
    """Figure 22.1 by counting, over windows of two and four whole blocks: there rows are visited through the index
    alone."""
    for name, statistics in EXAMPLES.items():
        for blocks in (2, 4):
            for contender, index in contenders(statistics).items():
                running = Running(blocks * BLOCK, index, tuning="off")
                running.rows(blocks * BLOCK + 1)
                running.step()
                cost = running.ask(statistics, requests)
                said = predicted(statistics, index)
                yield {
                    "figure": "22.1 visited", "load": name, "window": blocks * BLOCK, "contender": contender, "index": index,
                    "visited": round(cost.visited, 5), "predicted": round(said, 5), "off": round(cost.visited / said - 1, 4),
                }  # fmt: skip


def configured(statistics: dict[str, float], window: int, bits: int = 16) -> str:
    """The IMP index that the cost model finds for a load and a window."""
    price = TemplatePrice(3, bits, index_costs())
    patterns = [
        PatternLoad(sum(1 << "abc".index(name) for name in kind), 1e6 * w, float(window), 1e6 * w)
        for kind, w in statistics.items()
    ]
    found = price.best(patterns, [VALUES] * 3, float(window))
    return f"imp({', '.join(map(str, found.layout.bits))})"


def times(requests: int = Settings().epoch_rows // 2, rounds: int = 5) -> Iterator[Line]:
    """Figure 22.1 by CPU time: rows and requests in turns, windows as printed and of a million rows. Also what `auto`
    takes.

    An epoch has as many rows of both streams together as by default.
    """
    for name, statistics in EXAMPLES.items():
        for window in (100_000, 200_000, 1_000_000):
            running = {}
            rivals = {contender: index for contender, index in contenders(statistics).items() if contender != "imp"}
            given = {"imp": configured(statistics, window), **rivals, "scan": "scan", "auto": "auto"}
            for contender, index in given.items():
                running[contender] = one = Running(window, index)
                one.rows(window + 1)
                one.step()
                # Enough requests for two looks at them, and for blocks to be rebuilt.
                for _ in range(8):
                    one.turn(statistics, 300)
            taken: dict[str, list[tuple[float, float]]] = {contender: [] for contender in running}
            for _ in range(rounds):
                for contender, one in running.items():
                    cost = one.turn(statistics, requests)
                    taken[contender].append((cost.cpu / cost.requests * 1e6, cost.finding / cost.requests * 1e6))
            whole = {contender: median(w for w, _ in found) for contender, found in taken.items()}
            finding = {contender: median(f for _, f in found) for contender, found in taken.items()}
            better = min(whole["1-attr"], whole["m-attr"]), min(finding["1-attr"], finding["m-attr"])
            best = min((c for c in whole if c != "auto"), key=lambda c: whole[c])
            # These two once more, alone and in turns: of short times the ratios within a round say most, other work
            # comes and goes.
            pairs = [
                (running[best].turn(statistics, requests).cpu, running["auto"].turn(statistics, requests).cpu)
                for _ in range(15)
            ]
            yield {
                "figure": "22.1 CPU", "load": name, "window": window, "index": given["imp"],
                "microseconds": {c: round(v, 1) for c, v in whole.items()}, "finding": {c: round(v, 1) for c, v in finding.items()},
                "imp_to_rival": round(whole["imp"] / better[0], 3), "imp_to_rival_finding": round(finding["imp"] / better[1], 3),
                "best": best, "auto_to_best": round(median(auto / fixed for fixed, auto in pairs), 3),
                "auto_to_best_least": round(min(auto for _, auto in pairs) / min(fixed for fixed, _ in pairs), 3),
            }  # fmt: skip


def tuning(requests: int = 200_000, at_once: int = 2_000) -> Iterator[Line]:
    """Figure 22.4: three stages, with the index tuned, and with the one that is best for the first stage. Rows and
    requests in turns."""
    window = 8 * BLOCK
    stages = [EXAMPLES[name] for name in ("Example 2", "Example 1", "Example 3")]
    found = {}
    for contender, index in (("tuned", "auto"), ("fixed", configured(stages[0], window))):
        running = Running(window, index)
        running.rows(window + 1)
        running.step()
        for _ in range(6):
            running.turn(stages[0], at_once)
        # The fixed one has seen the first stage, and stays as it is.
        running.registered.tuned = contender == "tuned"
        running.building, running.rebuilding, visited, cpu, finding = 0.0, 0.0, 0.0, 0.0, 0.0
        running.epochs = []
        per_stage = []
        for statistics in stages:
            before = cpu
            for _ in range(requests // at_once):
                cost = running.turn(statistics, at_once)
                visited, cpu, finding = visited + cost.visited * cost.requests, cpu + cost.cpu, finding + cost.finding
            per_stage.append(round(cpu - before, 3))
        # Within a stage: requests of the stages differ in what they cost.
        share = [np.array(part) for part in np.array_split(running.epochs, len(stages))]
        found[contender] = cpu, finding
        yield {
            "figure": "22.4", "contender": contender, "index": index, "visited": round(visited / (3 * requests), 5), "cpu": round(cpu, 3),
            "stages": per_stage, "finding": round(finding, 3), "rebuilding_share": round(running.rebuilding / cpu, 4),
            "building_share": round(running.building / cpu, 4), "changes": running.registered.adjustment.changes,
            "p99_to_median": [round(float(np.percentile(times, 99) / np.median(times)), 2) for times in share],
        }  # fmt: skip
    tuned, not_tuned = found["tuned"], found["fixed"]
    yield {
        "figure": "22.4",
        "tuned_to_fixed": round(tuned[0] / not_tuned[0], 3),
        "finding": round(tuned[1] / not_tuned[1], 3),
    }


def batch(requests: int = 10_000, single: int = 300) -> Iterator[Line]:
    """Many requests of one epoch together, each alone in one epoch, and each as a call of its own."""
    statistics = EXAMPLES["Example 1"]
    taken = {}
    for setting in ("on", "off"):
        running = Running(200_000, "auto", batch=setting)
        running.rows(200_001)
        running.step()
        for count in (2_000, 2_000, requests):
            cost = running.ask(statistics, count)
        taken[setting] = cost.cpu / cost.requests
    session = running.session
    texts = [
        f"total, n FROM t WHERE {kind} = {number * 7 % VALUES} GROUP BY ()"
        for number in range(single)
        for kind in "aabc"
    ]
    began = process_time()
    for text in texts:
        session.request(text)
    calls = (process_time() - began) / len(texts)
    began = process_time()
    session.request(texts)
    listed = (process_time() - began) / len(texts)
    yield {
        "figure": "batch", "together_us": round(taken["on"] * 1e6, 2), "alone_us": round(taken["off"] * 1e6, 2),
        "calls_us": round(calls * 1e6, 1), "listed_us": round(listed * 1e6, 1), "faster_than_calls": round(calls / taken["on"], 1),
    }  # fmt: skip


def million(rounds: int = 15, in_turn: int = 10) -> Iterator[Line]:
    """One request over a million rows: index, scan, and DuckDB over the same rows.

    A turn is ten requests, each for itself. The first of a turn finds what the others left in the caches of the
    processor: its time is given too.
    """
    import duckdb

    rows = 16 * BLOCK
    running = {index: Running(rows, index, bits=11) for index in ("imp(11, 0, 0)", "scan")}
    for one in running.values():
        one.rows(rows + 1)
        one.step()
    random = np.random.default_rng(22)
    columns = {name: random.integers(0, VALUES, rows).astype(np.int32) for name in "abc"}
    given = pa.table(
        {**columns, "v": np.ones(rows, np.int64), "ts": pa.array(np.arange(rows) * SECOND, pa.timestamp("us"))}
    )
    duck = duckdb.connect()
    duck.execute("SET threads = 1")
    duck.register("given", given)
    duck.execute("CREATE TABLE r AS SELECT * FROM given")
    taken: dict[str, list[float]] = {name: [] for name in (*running, "duckdb", "imp(11, 0, 0) finding", "scan finding")}
    firsts: dict[str, list[float]] = {name: [] for name in (*running, "duckdb")}

    def note(name: str, clock: list[float]) -> None:
        taken[name].append((clock[-1] - clock[0]) / in_turn)
        firsts[name].append(clock[1] - clock[0])

    for number in range(rounds):
        asked = [(number * in_turn + n) * 7 % VALUES for n in range(in_turn)]
        for name, one in running.items():
            finding = one.finding
            clock = [process_time()]
            for value in asked:
                one.session.request(f"total, n FROM t WHERE a = {value} GROUP BY ()")
                clock.append(process_time())
            note(name, clock)
            taken[f"{name} finding"].append((one.finding - finding) / in_turn)
        clock = [process_time()]
        for value in asked:
            duck.execute(
                f"SELECT SUM(v), COUNT(*) FROM r WHERE a = {value} AND ts <= TIMESTAMP '2100-01-01'"
            ).fetchall()
            clock.append(process_time())
        note("duckdb", clock)
    found = {name: round(median(times) * 1e6, 1) for name, times in taken.items()}
    cold = {name: round(median(times) * 1e6, 1) for name, times in firsts.items()}
    yield {
        "figure": "one request over a million rows", "microseconds": found, "first_of_a_turn": cold,
        "scan_to_imp": round(found["scan"] / found["imp(11, 0, 0)"], 2),
        "scan_to_imp_finding": round(found["scan finding"] / found["imp(11, 0, 0) finding"], 2),
    }  # fmt: skip


def storing(rows: int = 400_000, rounds: int = 25) -> Iterator[Line]:
    """A stream whose rows are stored for a template that is not asked, against the same port without a template behind
    it."""
    text = "CREATE STREAM r (a INT, b INT, c INT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts');"
    template = "CREATE TEMPLATE t AS SELECT a, b, c, SUM(v) AS total FROM r [RANGE 100000 SECONDS] GROUP BY a, b, c;"
    random = np.random.default_rng(3)
    columns = {name: pa.array(random.integers(0, VALUES, rows), pa.int32()) for name in "abc"}
    whole = pa.table(
        {**columns, "v": np.ones(rows, np.int64), "ts": pa.array(np.arange(rows) * SECOND, pa.timestamp("us"))}
    )

    def ready(plain: bool) -> Session:
        session = Session(keep_results=False)
        session.execute(f"SET epoch_rows = 20000; {text} {template}")
        # Both pipelines are built before the clock runs.
        unit = session.pipeline.kinds.templates.unit("t")
        if plain:
            # The rows are stored for a port, and nothing is done with them.
            unit.advance = lambda end, outcome: None  # type: ignore[method-assign]
        session.push("r", whole)
        return session

    def taken(plain: bool) -> float:
        session = ready(plain)
        began = process_time()
        session.step_pending()
        return process_time() - began

    def called(plain: bool) -> int:
        """Calls of functions, in Python and from it: the same on every machine."""
        session, calls = ready(plain), 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        session.step_pending()
        sys.setprofile(None)
        return calls

    taken(False)
    times = [
        (taken(False), taken(True)) if number % 2 else (taken(True), taken(False))[::-1] for number in range(rounds)
    ]
    least = [min(one) for one in zip(*times, strict=True)]
    yield {
        "figure": "a template without requests", "to_storing": round(least[0] / least[1], 3),
        "median_of_ratios": round(median(t / p for t, p in times), 3), "calls": [called(False), called(True)],
        "ns_per_row": round(least[0] / rows * 1e9, 1),
    }  # fmt: skip


def costs(rounds: int = 9) -> Iterator[Line]:
    """What scans and the building of blocks cost per row, as `TemplateTuning` has it, and what `eddyline calibrate`
    finds: least of all."""
    random = np.random.default_rng(5)
    key_columns, nulls, every = random.integers(0, VALUES, (3, BLOCK)), np.zeros(BLOCK, np.int64), np.empty(0, np.bool_)
    room = np.empty(1 << 20, np.int64), np.empty(1 << 20, np.int64)
    keys = random.integers(0, VALUES, (1, 400))
    # Pairs cost the same on every path: here hardly a row has one.
    rare, asked = random.integers(0, 1 << 40, (1, BLOCK)), random.integers(0, 1 << 40, (1, 400))
    few = Alone(np.zeros(1, np.int64), 1, keys[:, :40].copy(), np.zeros(40, np.int64), np.full(40, BLOCK))
    many = Probes(asked, np.zeros(400, np.int64), np.full(400, BLOCK))
    stretch, chains = RequestStretch(rare, nulls, every, 0), table_of(asked)
    work: dict[str, tuple[int, Callable[[], object]]] = {
        "single_scan": (40, lambda: scan_each(key_columns, nulls, every, 0, BLOCK, 0, few, 0, *room)),
        "shared_scan": (1, lambda: scan(stretch, 1, many, *chains, 0, *room)),
        "build": (
            1,
            lambda: clustered(Fields((6, 5, 5)), key_columns, nulls, np.arange(BLOCK), 0, BLOCK, TemplateTuning()),
        ),
    }
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, (times, call) in work.items():
            began = process_time()
            call()
            taken[name].append((process_time() - began) / times / BLOCK)
    found = {name: round(min(times[1:]) * 1e9, 2) for name, times in taken.items()}
    yield {"figure": "costs", "ns_per_row": found, "assumed": {name: round(getattr(TemplateTuning(), name) * 1e9, 2) for name in work},
           "calibrated": asdict(measure_index(3)), "shipped": asdict(SHIPPED_INDEX)}  # fmt: skip


STEPS: dict[str, Callable[[], Iterator[Line]]] = {
    "visits": visits, "times": times, "search": search, "tuning": tuning, "batch": batch, "million": million, "storing": storing,
    "costs": costs,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", default=",".join(STEPS), help="comma list (default: all)")
    chosen = parser.parse_args().steps.split(",")
    path = HERE / "results" / "figures.json"
    kept: dict[str, object] = json.loads(path.read_text()) if path.exists() else {}
    for step in chosen:
        lines, began = [], perf_counter()
        for line in STEPS[step]():
            lines.append(line)
            print(json.dumps(line), flush=True)
        # The load of the machine, this process included, and how long the step has taken.
        kept[step] = {"load": round(os.getloadavg()[0], 2), "seconds": round(perf_counter() - began, 1), "lines": lines}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
