"""The model against the clock: predicted and measured CPU and state of every tree of random queries.

Answer   For 20 random queries over 3 to 5 streams, every jtree runs with the probe orders that the planner would give
         it. Per query: the rank correlation of predicted and measured CPU over its trees, and by how much the rows
         stored differ from the prediction. CPU is that of this process, so that what else the machine does is not
         counted; each tree runs several times, and of each epoch the least counts.
Limits   Queries whose trees all cost about the same are not drawn: there is nothing to rank. Trees predicted to take
         more than 1.5 CPU seconds (cross products of full windows) do not run; each query says how many.
Reading  README.md in this folder

Run: `python bench/papers/qualified-plans/model_reality.py [--first 0] [--queries 20] [--streams 3 4 5] [--out
model_reality]`; writes results/. Queries that the file has already and that are not run again stay in it.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from statistics import median

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from settings import RESULTS, Run, random_setting, rows_of

from bench import harness, plots
from eddyline.plan.tree.budget import SHIPPED
from eddyline.plan.tree.cost import CostModel

ROWS, EPOCHS = 300_000, 20
#: Runs of each tree; the fewer trees, the closer together they may lie.
REPEATS = {3: 15, 4: 5, 5: 3}
#: CPU seconds of a run as predicted: at least one tree has this number, none more; and the least ratio of the slowest
#: to the fastest.
LEAST_WORK, MOST_WORK, LEAST_SPREAD = 0.15, 1.5, 2.5


def ranks(values: list[float]) -> np.ndarray:
    """Places in order, equal values sharing theirs."""
    array = np.array(values)
    return np.array([(array < value).sum() + (array == value).sum() / 2 for value in array])


def one_query(streams: int, seed: int) -> dict[str, object]:
    setting = random_setting(streams, random.Random(seed), ROWS, LEAST_WORK, MOST_WORK, LEAST_SPREAD)
    model = CostModel(setting.graph, SHIPPED)
    chosen, of_all = setting.trees(SHIPPED, MOST_WORK)
    tables = rows_of(setting)
    # Trees take turns, so that a busy moment of the machine does not hit all runs of one of them.
    rounds = [[list(Run(setting, tree, tables, EPOCHS)) for tree in chosen] for _ in range(REPEATS[streams])]
    trees = []
    for place, tree in enumerate(chosen):
        price = model.price(tree)
        full = [epoch for epoch in rounds[0][place] if epoch.now > max(setting.windows)]
        trees.append(
            {
                "tree": str(tree),
                "predicted_cpu": price.cpu * setting.seconds,
                # Every repeat does the same in an epoch: the least of each is what was disturbed least.
                "measured_cpu": sum(
                    min(epoch.cpu for epoch in same) for same in zip(*(one[place] for one in rounds), strict=True)
                ),
                "predicted_rows": price.memory,
                "alive_rows": float(np.mean([epoch.alive for epoch in full])),
                "held_rows": float(np.mean([epoch.held for epoch in full])),
            }
        )
    return {
        "streams": streams,
        "seed": seed,
        "sql": setting.sql,
        "trees_in_all": of_all,
        **judged(trees),
        "trees": trees,
    }


def judged(trees: list[dict[str, float]]) -> dict[str, float]:
    predicted, clock = [t["predicted_cpu"] for t in trees], [t["measured_cpu"] for t in trees]
    errors = [abs(t["predicted_rows"] / t["alive_rows"] - 1) for t in trees]
    best = min(trees, key=lambda t: t["predicted_cpu"])
    return {
        "rank_correlation": round(float(np.corrcoef(ranks(predicted), ranks(clock))[0, 1]), 6),
        "state_error_median": median(errors),
        "state_error_max": max(errors),
        "held_over_alive": max(t["held_rows"] / t["alive_rows"] for t in trees),
        "chosen_over_fastest": best["measured_cpu"] / min(clock),
        "slowest_over_fastest": max(clock) / min(clock),
        "measured_over_predicted": median(one / other for one, other in zip(clock, predicted, strict=True)),
    }


def summary_of(found: list[dict[str, object]]) -> dict[str, float]:
    correlations = [query["rank_correlation"] for query in found]
    return {
        "queries": len(found),
        "trees": sum(len(query["trees"]) for query in found),
        "trees_in_all": sum(query["trees_in_all"] for query in found),
        "rank_correlation_median": median(correlations),
        "rank_correlation_least": min(correlations),
        "at_least_0.8": sum(one >= 0.8 for one in correlations),
        "state_error_max": max(query["state_error_max"] for query in found),
        "chosen_over_fastest_median": median(query["chosen_over_fastest"] for query in found),
        "chosen_over_fastest_max": max(query["chosen_over_fastest"] for query in found),
        "measured_over_predicted_least": min(query["measured_over_predicted"] for query in found),
        "measured_over_predicted_most": max(query["measured_over_predicted"] for query in found),
    }


def draw(path: Path, found: list[dict[str, object]]) -> None:
    with matplotlib.rc_context(plots.STYLE):
        figure = Figure(figsize=(10.5, 3.8))
        left, right = figure.subplots(1, 2)
        for query in found:
            colour = plots.COLOURS[query["streams"] - 3]
            trees = query["trees"]
            left.plot(
                [t["predicted_cpu"] for t in trees], [t["measured_cpu"] for t in trees], ".", color=colour, alpha=0.6
            )
            right.plot(
                [t["predicted_rows"] for t in trees], [t["alive_rows"] for t in trees], ".", color=colour, alpha=0.6
            )
        for axes, title in ((left, "CPU seconds of a run"), (right, "rows stored")):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("predicted")
            axes.set_ylabel("measured")
            axes.set_title(title)
            low, high = axes.get_xlim()
            axes.plot((low, high), (low, high), color="#707070", linewidth=0.8, label="measured = predicted")
            # Decades are enough: the labels between them would lie upon each other.
            axes.xaxis.set_minor_formatter(NullFormatter())
        for streams in sorted({query["streams"] for query in found}):
            right.plot([], [], ".", color=plots.COLOURS[streams - 3], label=f"trees of queries\nover {streams} streams")
        right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.tight_layout()
        figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument(
        "--streams", type=int, nargs="+", default=[3, 4, 5], help="only queries over these numbers of streams"
    )
    parser.add_argument("--out", default="model_reality", help="name of the result files")
    args = parser.parse_args()
    target = RESULTS / f"{args.out}.json"
    known = {query["seed"]: query for query in json.loads(target.read_text())["found"]} if target.exists() else {}
    for seed in range(args.first, args.first + args.queries):
        if 3 + seed % 3 not in args.streams:
            continue
        known[seed] = one_query(3 + seed % 3, seed)
        print({name: value for name, value in known[seed].items() if name not in ("trees", "sql")}, flush=True)
        # Written after every query: a run can be taken up where it was stopped.
        found = [known[each] for each in sorted(known)]
        harness.write(
            target, "predicted and measured cost of join trees", {"summary": summary_of(found), "found": found}
        )
        draw(RESULTS / f"{args.out}.png", found)
    print(summary_of(list(known.values())))


if __name__ == "__main__":
    main()
