"""The four situations of Section 4, measured: both extremes fit, only the bjtree, only the mjoin, only a jtree.

Answer   One chain of four streams under four pairs of budgets. The mjoin, the best bjtree and a jtree each run once; from the CPU
         that each epoch took follows the backlog that builds up when the plan may use only so much of a core, and from the
         stores whether it stays within the rows allowed. The search is asked for its choice under each pair.
Limits   CPU is that of this process. The backlog is computed from it, not waited for: work that is not done by the end of an
         epoch's event time is carried over to the next.
Reading  README.md in this folder

Run: `python bench/papers/qualified-plans/four_situations.py`; writes results/.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))
sys.path.insert(0, str(HERE))

import matplotlib  # noqa: E402 - the paths above make `bench` importable
import numpy as np  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from model_reality import Setting, rows_of  # noqa: E402

from bench import harness, plots  # noqa: E402
from eddyline import Session  # noqa: E402
from eddyline.plan.budget import SHIPPED  # noqa: E402
from eddyline.plan.cost import CostModel  # noqa: E402
from eddyline.plan.jtree.search import search  # noqa: E402
from eddyline.plan.jtree.tree import JTree  # noqa: E402
from eddyline.plan.tree_choice import orders_of, positions_of  # noqa: E402

CHAIN = Setting(
    ("a", "b", "c", "d"),
    (10_000, 40_000, 20_000, 40_000),
    (0.1, 0.1, 0.2, 0.1),
    (("a", "b", 1265), ("b", "c", 237), ("c", "d", 1407)),
    440_000,
)
STEPS, REPEATS = 40, 3
TREES = {"mjoin": "(a b c d)", "bjtree": "", "jtree": "((a b) c d)"}


def run(tree: JTree) -> tuple[list[float], list[float]]:
    """CPU seconds and rows alive, epoch by epoch."""
    spent, alive = [], []
    tables = rows_of(CHAIN)
    with Session(keep_results=False) as session:
        for name in CHAIN.names:
            columns = "".join(f"{column} BIGINT, " for column, _ in CHAIN.columns(name))
            session.execute(f"CREATE STREAM {name} ({columns}ts TIMESTAMP) WITH (time = 'ts')")
        session.query("q", CHAIN.sql, plan=str(tree), jit="off", replan="off")
        pipeline = session.pipeline
        standing = pipeline.queries["q"]
        pipeline.replant(standing.group, positions_of(tree, standing.lowered), orders_of(tree, CHAIN.graph, standing.lowered))
        for step in range(STEPS):
            for name, table in tables.items():
                first, last = len(table) * step // STEPS, len(table) * (step + 1) // STEPS
                session.push(name, table.slice(first, last - first))
            began = process_time()
            session.step()
            spent.append(process_time() - began)
            now = pipeline.frontier or 0
            kept = sum(int((one.store.mark("dead") >= now).sum()) for one in standing.group.intermediates())
            alive.append(float(kept + sum(state.store.live for state in pipeline.streams.values())))
    return spent, alive


def backlog(spent: list[float], budget: float) -> list[float]:
    """Seconds that the plan is behind after each epoch."""
    left, behind = 0.0, []
    for cpu in spent:
        left = max(left + cpu - budget * CHAIN.seconds / STEPS, 0.0)
        behind.append(left / budget)
    return behind


def main() -> None:
    model = CostModel(CHAIN.graph, SHIPPED)
    TREES["bjtree"] = str(search(CHAIN.graph, SHIPPED, method="bjtree").nearest.tree)
    trees = {name: JTree.parse(text) for name, text in TREES.items()}
    prices = {name: model.price(tree) for name, tree in trees.items()}
    measured = {}
    for name, tree in trees.items():
        runs = [run(tree) for _ in range(REPEATS)]
        measured[name] = ([min(cpus) for cpus in zip(*(one[0] for one in runs), strict=True)], runs[0][1])
    cpu = {name: sum(spent[4:]) / CHAIN.seconds * STEPS / (STEPS - 4) for name, (spent, _) in measured.items()}
    rows = {name: float(np.mean(alive[4:])) for name, (_, alive) in measured.items()}

    def between(one: float, other: float) -> float:
        return float(np.sqrt(one * other))

    much_cpu, much_room = 1.5 * max(*cpu.values(), prices["mjoin"].cpu), 1.3 * rows["bjtree"]
    little_cpu, some_cpu = between(cpu["jtree"], cpu["bjtree"]), between(cpu["jtree"], cpu["mjoin"])
    little_room, some_room = between(rows["mjoin"], rows["jtree"]), between(rows["jtree"], rows["bjtree"])
    situations = {
        "both fit": (much_cpu, much_room),
        "only the bjtree": (little_cpu, much_room),
        "only the mjoin": (much_cpu, little_room),
        "only a jtree": (some_cpu, some_room),
    }
    found = []
    for title, (cpu_budget, row_budget) in situations.items():
        # The search counts in the model's seconds: budgets are carried over by what the mjoin takes in both.
        scale = prices["mjoin"].cpu / cpu["mjoin"]
        choice = search(CHAIN.graph, SHIPPED, cpu_budget * scale, row_budget)
        fits = [name for name in trees if cpu[name] <= cpu_budget and rows[name] <= row_budget]
        late = {name: backlog(spent, cpu_budget) for name, (spent, _) in measured.items()}
        found.append(
            {"situation": title, "cpu_budget": cpu_budget, "row_budget": row_budget, "fit_as_measured": fits, "outcome": choice.outcome,
             "tree": str(choice.tree), "backlog": late, "backlog_at_the_end": {name: behind[-1] for name, behind in late.items()}}
        )  # fmt: skip
        print({name: value for name, value in found[-1].items() if name != "backlog"})
    summary = {
        name: {
            "tree": TREES[name], "predicted_cpu": prices[name].cpu, "measured_cpu": cpu[name], "predicted_rows": prices[name].memory,
            "measured_rows": rows[name], "rows_per_cpu_second": sum(CHAIN.rates) / cpu[name],
        }
        for name in trees
    }  # fmt: skip
    print(summary)
    target = HERE / "results"
    states = {name: alive for name, (_, alive) in measured.items()}
    harness.write(target / "four_situations.json", "four pairs of budgets", {"plans": summary, "situations": found, "rows_alive": states})
    draw(target / "four_situations.png", found, states)


def draw(path: Path, found: list[dict[str, object]], states: dict[str, list[float]]) -> None:
    times = (np.arange(STEPS) + 1) * CHAIN.seconds / STEPS
    with matplotlib.rc_context(plots.STYLE):
        figure = Figure(figsize=(12, 5.6))
        panels = figure.subplots(2, 4, sharex=True)
        for column, one in enumerate(found):
            upper, lower = panels[0][column], panels[1][column]
            for number, name in enumerate(TREES):
                upper.plot(times, one["backlog"][name], color=plots.COLOURS[number], label=name)
                lower.plot(times, states[name], color=plots.COLOURS[number])
            lower.axhline(one["row_budget"], color="#707070", linestyle="--")
            upper.set_title(f"{one['situation']}\n{one['cpu_budget']:.2f} cores, {one['row_budget']:,.0f} rows")
            lower.set_xlabel("event time, s")
        panels[0][0].set_ylabel("backlog, s")
        panels[1][0].set_ylabel("rows stored")
        panels[0][0].legend()
        figure.tight_layout()
        figure.savefig(path)


if __name__ == "__main__":
    main()
