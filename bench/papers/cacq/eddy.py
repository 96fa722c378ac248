"""Does the eddy follow selectivities that flip? A star of four streams, the lottery against every fixed order.

Answer   Rows of the hub meet three others. In each phase one of the three has a partner for few hub rows and the others
         for most; which one it is changes three times. Work is counted (probes and partial results) and timed (CPU
         seconds of this process), per phase from the sixth epoch on and over the whole run. A second run has one phase
         only. In a third the rows of one stream are wanted by two queries, each half by the one for which another order
         is best.
State    results/eddy.json, results/eddy.png.
"""

from __future__ import annotations

import argparse
import json
import statistics
from itertools import permutations
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa

from bench.plots import lines
from eddyline import Session
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import JoinPolicy, Order

RESULTS = Path(__file__).parent / "results"
OTHERS = ("a", "b", "c")
KEYS = 400
EPOCHS = 14
HUB_ROWS = 12_000
OTHER_ROWS = 800
#: In which order a phase's selective stream changes.
PHASES = ("a", "b", "c", "a")
SETTLING = 5


class FixedRoute(JoinPolicy):
    """One preference among the three, whatever the origin; the hub comes as soon as it is needed."""

    def __init__(self, preference: tuple[str, ...]) -> None:
        self.preference = preference

    def route(self, node: JoinNode, origin: int, rows: Combinations) -> list[tuple[Combinations, Order]]:
        places = {one.stream.name: n for n, one in enumerate(node.inputs)}  # type: ignore[attr-defined]
        rest = [places[name] for name in self.preference if places[name] != origin]
        return [(rows, tuple(rest) if places["hub"] == origin else (places["hub"], *rest))]


def epoch(rng: np.random.Generator, number: int, selective: str) -> dict[str, pa.Table]:
    """One second of event time: the hub's keys hit the selective stream rarely, the others nearly always."""
    first = number * 1_000_000
    keys = {name: rng.integers(0, KEYS * (40 if name == selective else 1), HUB_ROWS) for name in OTHERS}
    tables = {"hub": pa.table({**keys, "ts": times(rng, first, HUB_ROWS)})}
    for name in OTHERS:
        tables[name] = pa.table({"k": rng.integers(0, KEYS, OTHER_ROWS), "ts": times(rng, first, OTHER_ROWS)})
    return tables


def times(rng: np.random.Generator, first: int, rows: int) -> pa.Array:
    return pa.array(np.sort(rng.integers(first, first + 1_000_000, rows)), pa.timestamp("us"))


def run(route: tuple[str, ...] | str, phases: tuple[str, ...], seed: int) -> list[tuple[int, float]]:
    """Per epoch, work and CPU seconds."""
    session = Session(keep_results=False)
    session.execute("CREATE STREAM hub (a BIGINT, b BIGINT, c BIGINT, ts TIMESTAMP) WITH (time='ts')")
    for name in OTHERS:
        session.execute(f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (time='ts')")
    options = {"plan": "mjoin", "jit": "off", "replan": "off", "route": "lottery" if route == "lottery" else "fixed"}
    sources = ", ".join(f"{name} [RANGE 1 SECOND]" for name in ("hub", *OTHERS))
    where = " AND ".join(f"hub.{name} = {name}.k" for name in OTHERS)
    session.query("star", f"SELECT hub.a FROM {sources} WHERE {where}", **options)
    session.set("epoch_rows", 10**7)
    group = session.pipeline.queries["star"].group
    if not isinstance(route, str):
        for node, _ in group.nodes:  # type: ignore[union-attr]
            node.poll((FixedRoute(route),))
    session.driver.settings = session.job.settings
    rng = np.random.default_rng(seed)
    found = []
    number = 0
    for selective in phases:
        for _ in range(EPOCHS):
            for stream, rows in epoch(rng, number, selective).items():
                session.push(stream, rows)
            before, began = work(session), process_time()
            session.step()
            found.append((work(session) - before, process_time() - began))
            number += 1
    return found


def run_kinds(route: tuple[str, ...] | str, seed: int) -> list[tuple[int, float]]:
    """Two queries over one join: one wants the hub's rows of kind 0 and few rows of a, the other those of kind 1 and
    few of b."""
    session = Session(keep_results=False)
    session.execute("CREATE STREAM hub (g BIGINT, k BIGINT, ts TIMESTAMP) WITH (time='ts')")
    for name in "ab":
        session.execute(f"CREATE STREAM {name} (k BIGINT, f BIGINT, ts TIMESTAMP) WITH (time='ts')")
    options = {"plan": "mjoin", "jit": "off", "replan": "off", "route": "lottery" if route == "lottery" else "fixed"}
    sources = ", ".join(f"{name} [RANGE 1 SECOND]" for name in ("hub", "a", "b"))
    for kind, name in enumerate("ab"):
        where = f"hub.k = a.k AND hub.k = b.k AND hub.g = {kind} AND {name}.f = 0"
        session.query(f"few_{name}", f"SELECT hub.k FROM {sources} WHERE {where}", **options)
    (group,) = session.pipeline.groups.values()
    if not isinstance(route, str):
        for node, _ in group.nodes:
            node.poll((FixedRoute(route),))
    rng = np.random.default_rng(seed)
    found = []
    for number in range(EPOCHS):
        first = number * 1_000_000
        session.push(
            "hub",
            pa.table(
                {
                    "g": rng.integers(0, 2, HUB_ROWS),
                    "k": rng.integers(0, KEYS, HUB_ROWS),
                    "ts": times(rng, first, HUB_ROWS),
                }
            ),
        )
        for name in "ab":
            keys = {"k": rng.integers(0, KEYS, OTHER_ROWS), "f": rng.integers(0, 40, OTHER_ROWS)}
            session.push(name, pa.table({**keys, "ts": times(rng, first, OTHER_ROWS)}))
        before, began = work(session), process_time()
        session.step()
        found.append((work(session) - before, process_time() - began))
    return found


def work(session: Session) -> int:
    counters = [c for group in session.pipeline.groups.values() for c in group.counters.values()]
    return sum(c.probes + c.partials for c in counters)


def settled(values: list[float]) -> float:
    return sum(values[SETTLING:])


def measure(rounds: int) -> dict[str, object]:
    fixed = list(permutations(OTHERS))
    run("lottery", ("a",), 0)
    report: dict[str, object] = {"epochs_per_phase": EPOCHS, "phases": list(PHASES), "rounds": rounds}
    for title, phases in (("flips", PHASES), ("stable", ("b",) * 3)):
        runs: dict[str, list[list[tuple[int, float]]]] = {}
        for turn in range(rounds):
            for route in (*fixed, "lottery"):
                runs.setdefault(route if isinstance(route, str) else " ".join(route), []).append(
                    run(route, phases, turn)
                )
        contestants: dict[str, object] = {}
        for name, found in runs.items():
            work_of = [statistics.median(one[0] for one in epochs) for epochs in zip(*found, strict=True)]
            cpu_of = [min(one[1] for one in epochs) for epochs in zip(*found, strict=True)]
            parts = [slice(i * EPOCHS, (i + 1) * EPOCHS) for i in range(len(phases))]
            contestants[name] = {
                "work": sum(work_of),
                "cpu_s": sum(cpu_of),
                "work_per_epoch": work_of,
                "settled_work": [settled(work_of[p]) for p in parts],
                "settled_cpu_s": [settled(cpu_of[p]) for p in parts],
            }
        report[title] = contestants
    kinds: dict[str, object] = {}
    for route in (("a", "b"), ("b", "a"), "lottery"):
        runs_of = [run_kinds(route, turn) for turn in range(rounds)]
        kinds[route if isinstance(route, str) else " ".join(route)] = {
            "work": sum(statistics.median(one[0] for one in epochs) for epochs in zip(*runs_of, strict=True)),
            "cpu_s": sum(min(one[1] for one in epochs) for epochs in zip(*runs_of, strict=True)),
        }
    report["lineages"] = kinds
    return report


def goals(report: dict[str, object]) -> list[dict[str, object]]:
    checks: list[tuple[str, float, float]] = []
    for kind in ("work", "cpu"):
        key = kind if kind == "work" else "cpu_s"
        flips: dict[str, dict] = report["flips"]  # type: ignore[assignment]
        fixed = {name: values for name, values in flips.items() if name != "lottery"}
        mine = flips["lottery"]
        for phase in range(len(PHASES)):
            best = min(values[f"settled_{key}"][phase] for values in fixed.values())
            checks.append(
                (
                    f"{kind}, phase {phase + 1} after {SETTLING} epochs, over the best order",
                    mine[f"settled_{key}"][phase] / best,
                    1.15,
                )
            )
        checks.append(
            (f"{kind}, whole run, over the best fixed order", mine[key] / min(v[key] for v in fixed.values()), 1.0)
        )
        stable: dict[str, dict] = report["stable"]  # type: ignore[assignment]
        best = min(v[key] for name, v in stable.items() if name != "lottery")
        checks.append((f"{kind}, stable input, over the best fixed order", stable["lottery"][key] / best, 1.05))
        kinds: dict[str, dict] = report["lineages"]  # type: ignore[assignment]
        best = min(v[key] for name, v in kinds.items() if name != "lottery")
        checks.append(
            (
                f"{kind}, two lineages that want other orders, over the best fixed order",
                kinds["lottery"][key] / best,
                1.0,
            )
        )
    return [
        {"what": what, "value": value, "goal": f"<= {goal:g}", "met": bool(value <= goal)}
        for what, value, goal in checks
    ]


def shown(name: str) -> str:
    """A contender as the legend says it."""
    return "lottery (the eddy)" if name == "lottery" else f"fixed order {', '.join(name.split())}"


def draw(report: dict[str, object]) -> None:
    flips: dict[str, dict] = report["flips"]  # type: ignore[assignment]
    values = {
        shown(name): one["work_per_epoch"]
        for name, one in flips.items()
        if name in ("a b c", "b c a", "c a b", "lottery")
    }
    places = list(range(len(next(iter(values.values())))))
    lines(
        RESULTS / "eddy.png",
        "Star of four: the selective stream changes three times",
        places,
        values,
        across="epoch",
        unit="probes and partials",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    report = measure(parser.parse_args().rounds)
    report["goals"] = goals(report)
    for goal in report["goals"]:  # type: ignore[attr-defined]
        print(f"{'met   ' if goal['met'] else 'MISSED'} {goal['what']}: {goal['value']:,.3f} ({goal['goal']})")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "eddy.json").write_text(json.dumps(report, indent=1) + "\n")
    draw(report)


if __name__ == "__main__":
    main()
