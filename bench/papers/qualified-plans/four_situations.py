"""The four situations of Section 4, measured: both extremes fit, only the bjtree, only the mjoin, only a jtree.

Answer   One chain of four streams under four pairs of budgets. The mjoin, the best bjtree and a jtree each run; from
         the CPU that each epoch took follows what a plan gets done, and what it leaves undone, when it may use only so
         much of a core; from the stores, whether it stays within the rows allowed. The search is asked for its choice
         under each pair.
Limits   CPU is that of this process, of each epoch the least of several runs. Throughput and backlog are computed from
         it, not waited for: work that is not done by the end of an epoch's event time is carried over to the next.
Reading  README.md in this folder

Run: `python bench/papers/qualified-plans/four_situations.py`; writes results/.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from settings import RESULTS, Run, Setting, rows_of

from bench import harness, plots
from eddyline.plan.tree.budget import SHIPPED
from eddyline.plan.tree.cost import CostModel
from eddyline.plan.tree.jtree.search import search
from eddyline.plan.tree.jtree.tree import JTree

CHAIN = Setting(
    ("a", "b", "c", "d"),
    (10_000, 40_000, 20_000, 40_000),
    (0.1, 0.1, 0.2, 0.1),
    (("a", "b", 1265), ("b", "c", 237), ("c", "d", 1407)),
    440_000,
)
EPOCHS, REPEATS = 40, 5
#: Epochs in which the windows fill.
FILLING = 4
LENGTH = CHAIN.seconds / EPOCHS


@dataclass(frozen=True)
class Plan:
    """A tree and what its epochs took; `cores` and `rows` with full windows."""

    tree: JTree
    cpu: list[float]
    alive: list[int]

    @property
    def cores(self) -> float:
        return sum(self.cpu[FILLING:]) / (LENGTH * (EPOCHS - FILLING))

    @property
    def rows(self) -> float:
        return float(np.mean(self.alive[FILLING:]))


def measured(tree: JTree) -> Plan:
    tables = rows_of(CHAIN)
    runs = [list(Run(CHAIN, tree, tables, EPOCHS)) for _ in range(REPEATS)]
    return Plan(
        tree, [min(epoch.cpu for epoch in same) for same in zip(*runs, strict=True)], [epoch.alive for epoch in runs[0]]
    )


def served(cpu: list[float], cores: float) -> tuple[list[float], list[float]]:
    """Rows done per second, and rows waiting, after each epoch of a plan that may use `cores` cores."""
    per_epoch = CHAIN.rows / EPOCHS
    done, waiting = [], []
    undone: list[list[float]] = []
    for spent in cpu:
        undone.append([per_epoch, spent])
        room, rows = cores * LENGTH, 0.0
        while undone and room > 0:
            part = min(1.0, room / undone[0][1])
            rows += part * undone[0][0]
            room -= part * undone[0][1]
            undone[0] = [value * (1 - part) for value in undone[0]]
            if part == 1.0:
                undone.pop(0)
        done.append(rows / LENGTH)
        waiting.append(sum(left for left, _ in undone))
    return done, waiting


def between(one: float, other: float) -> float:
    return float(np.sqrt(one * other))


def situations(plans: dict[str, Plan]) -> dict[str, tuple[float, float]]:
    """Cores and rows: halfway between what two plans take, or more than all of them take."""
    mjoin, bjtree, jtree = plans["mjoin"], plans["bjtree"], plans["jtree"]
    much_cpu, much_room = 1.5 * max(plan.cores for plan in plans.values()), 1.3 * bjtree.rows
    return {
        "both fit": (much_cpu, much_room),
        "only the bjtree": (between(jtree.cores, bjtree.cores), much_room),
        "only the mjoin": (much_cpu, between(mjoin.rows, jtree.rows)),
        "only a jtree": (between(jtree.cores, mjoin.cores), between(jtree.rows, bjtree.rows)),
    }


def main() -> None:
    model = CostModel(CHAIN.graph, SHIPPED)
    trees = {
        "mjoin": "(a b c d)",
        "bjtree": str(search(CHAIN.graph, SHIPPED, method="bjtree").nearest.tree),
        "jtree": "((a b) c d)",
    }
    plans = {name: measured(JTree.parse(text)) for name, text in trees.items()}
    prices = {name: model.price(plan.tree) for name, plan in plans.items()}
    # The search counts in the model's seconds: budgets are carried over by what the three plans take in both.
    scale = float(np.mean([prices[name].cpu / plan.cores for name, plan in plans.items()]))
    found = []
    for title, (cores, rows) in situations(plans).items():
        choice = search(CHAIN.graph, SHIPPED, cores * scale, rows)
        over_time = {name: served(plan.cpu, cores) for name, plan in plans.items()}
        found.append(
            {
                "situation": title,
                "cpu_budget": cores,
                "row_budget": rows,
                "fit_as_measured": [name for name, plan in plans.items() if plan.cores <= cores and plan.rows <= rows],
                "outcome": choice.outcome,
                "tree": str(choice.tree),
                "rows_per_second": {name: done for name, (done, _) in over_time.items()},
                "rows_waiting": {name: waiting for name, (_, waiting) in over_time.items()},
                "rows_waiting_at_the_end": {name: waiting[-1] for name, (_, waiting) in over_time.items()},
            }
        )
        print({name: value for name, value in found[-1].items() if name not in ("rows_per_second", "rows_waiting")})
    summary = {
        name: {
            "tree": str(plan.tree), "predicted_cpu": prices[name].cpu, "measured_cpu": plan.cores, "predicted_rows": prices[name].memory,
            "measured_rows": plan.rows, "rows_per_cpu_second": sum(CHAIN.rates) / plan.cores,
        }
        for name, plan in plans.items()
    }  # fmt: skip
    print(summary)
    states = {name: plan.alive for name, plan in plans.items()}
    content = {"plans": summary, "model_over_clock": scale, "situations": found, "rows_alive": states}
    harness.write(RESULTS / "four_situations.json", "four pairs of budgets", content)
    draw(RESULTS / "four_situations.png", found, states)


def draw(path: Path, found: list[dict[str, object]], states: dict[str, list[int]]) -> None:
    times = (np.arange(EPOCHS) + 1) * LENGTH
    with matplotlib.rc_context(plots.STYLE):
        figure = Figure(figsize=(13.5, 7.5))
        panels = figure.subplots(3, 4, sharex=True, sharey="row")
        for column, one in enumerate(found):
            top, middle, bottom = (panels[row][column] for row in range(3))
            for number, name in enumerate(states):
                look = {"color": plots.COLOURS[number], "label": name, "linestyle": ("-", "--", ":")[number]}
                top.plot(times, np.array(one["rows_per_second"][name]) / 1000, **look)
                middle.plot(times, np.array(states[name]) / 1000, **look)
                bottom.plot(times, np.array(one["rows_waiting"][name]) / 1000, **look)
            middle.axhline(one["row_budget"] / 1000, color="#707070", linewidth=0.8, label="budget of rows")
            top.set_title(f"{one['situation']}\n{one['cpu_budget']:.2f} cores, {one['row_budget']:,.0f} rows")
            bottom.set_xlabel("event time, s")
        for row, label in enumerate(
            ("rows done per second, thousands", "rows stored, thousands", "rows waiting, thousands")
        ):
            panels[row][0].set_ylabel(label)
        panels[0][0].set_ylim(bottom=0)
        panels[1][-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.tight_layout()
        figure.savefig(path)


if __name__ == "__main__":
    main()
