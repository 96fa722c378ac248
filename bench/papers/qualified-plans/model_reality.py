"""The model against the clock: predicted and measured CPU and state of every tree of random queries.

Answer   For 20 random queries over 3 to 5 streams: each jtree (all of them up to four streams, a sample of five) runs with the probe
         orders that the planner would give it. Per query: the rank correlation of predicted and measured CPU over its trees,
         and by how much the rows stored differ from the prediction.
         CPU is that of this process, so that what else the machine does is not counted; each tree runs several times, the least counts.
Limits   Keys are uniform and independent, as the model has them; what skew does to selectivities is the statistics' concern.
         Queries whose trees all cost about the same are not drawn: there is nothing to rank. Trees predicted to take more than a
         second (cross products of full windows) are left out: the model puts them last, and the clock would agree at length.
Reading  README.md in this folder

Run: `python bench/papers/qualified-plans/model_reality.py [--queries 20] [--repeats 2]`; writes results/.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))

import matplotlib  # noqa: E402 - the path above makes `bench` importable
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from bench import harness, plots  # noqa: E402
from eddyline import Session  # noqa: E402
from eddyline.plan.budget import SHIPPED  # noqa: E402
from eddyline.plan.cost import CostModel  # noqa: E402
from eddyline.plan.join_graph import JoinGraph, JoinInput  # noqa: E402
from eddyline.plan.jtree.enumeration import every_shape, random_shape  # noqa: E402
from eddyline.plan.jtree.tree import JTree  # noqa: E402
from eddyline.plan.tree_choice import orders_of, positions_of  # noqa: E402

ROWS, EPOCH = 240_000, 24_000
MOST_TREES = 14
LEAST_TREES = {3: 4, 4: 12, 5: 12}
#: Predicted CPU seconds: a run should not be all overhead, and a tree with a large cross product is not waited for.
LEAST_WORK, MOST_WORK = 0.15, 1.2
LEAST_SPREAD = 2.5


@dataclass(frozen=True)
class Setting:
    """A random query: streams with rates and windows, and per joined pair the number of values of its key."""

    names: tuple[str, ...]
    rates: tuple[int, ...]
    windows: tuple[float, ...]
    keys: tuple[tuple[str, str, int], ...]
    rows: int = ROWS

    @property
    def seconds(self) -> float:
        return self.rows / sum(self.rates)

    @property
    def graph(self) -> JoinGraph:
        inputs = [JoinInput.over_time(*of) for of in zip(self.names, self.rates, self.windows, strict=True)]
        return JoinGraph.of(inputs, [(one, two, 1 / values) for one, two, values in self.keys])

    def columns(self, name: str) -> list[tuple[str, int]]:
        return [(f"k_{one}{two}", values) for one, two, values in self.keys if name in (one, two)]

    @property
    def sql(self) -> str:
        references = ", ".join(f"{n} [RANGE {round(w * 1000)} MILLISECONDS]" for n, w in zip(self.names, self.windows, strict=True))
        joins = " AND ".join(f"{one}.k_{one}{two} = {two}.k_{one}{two}" for one, two, _ in self.keys)
        return f"SELECT {self.names[0]}.ts AS at FROM {references} WHERE {joins}"


def random_setting(streams: int, lots: random.Random) -> Setting:
    """Draw until the trees differ and the work is of a size to measure."""
    while True:
        names = tuple("abcde"[:streams])
        rates = tuple(lots.randint(200, 2000) for _ in names)
        windows = tuple(round(lots.uniform(1, 6), 1) for _ in names)
        pairs = [(names[lots.randrange(place)], names[place]) for place in range(1, streams)]
        others = [(one, two) for place, one in enumerate(names) for two in names[place + 1 :] if (one, two) not in pairs]
        pairs += lots.sample(others, min(len(others), lots.choice((0, 0, 1, 1, 2))))
        rows = {n: r * w for n, r, w in zip(names, rates, windows, strict=True)}
        keys = tuple((one, two, max(2, round(max(rows[one], rows[two]) / 10 ** lots.uniform(-1.0, 0.8)))) for one, two in pairs)
        setting = Setting(names, rates, windows, keys)
        model = CostModel(setting.graph, SHIPPED)
        work = [model.price(tree).cpu * setting.seconds for tree in trees_of(setting, random.Random(0))]
        if len(work) >= LEAST_TREES[streams] and max(work) > LEAST_WORK and max(work) > LEAST_SPREAD * min(work):
            return setting


def trees_of(setting: Setting, lots: random.Random) -> list[JTree]:
    model = CostModel(setting.graph, SHIPPED)
    count = len(setting.names)
    shapes = every_shape(count) if count <= 4 else (random_shape(count, lots) for _ in range(4 * MOST_TREES))
    drawn = {str(model.tree(shape)): shape for shape in shapes if model.price_shape(shape).cpu * setting.seconds < MOST_WORK}
    chosen = sorted(drawn) if count <= 4 else lots.sample(sorted(drawn), min(MOST_TREES, len(drawn)))
    return [model.tree(drawn[text]) for text in chosen]


def rows_of(setting: Setting) -> dict[str, pa.Table]:
    lots = np.random.default_rng(11)
    made = {}
    for name, rate in zip(setting.names, setting.rates, strict=True):
        count = int(setting.seconds * rate)
        columns = {column: pa.array(lots.integers(0, values, count)) for column, values in setting.columns(name)}
        ts = np.sort(lots.integers(0, int(setting.seconds * 1e6), count))
        made[name] = pa.table({**columns, "ts": pa.array(ts).cast(pa.timestamp("us"))})
    return made


def measured(setting: Setting, tree: JTree, tables: dict[str, pa.Table]) -> tuple[float, float, float]:
    """CPU seconds, mean rows alive and mean rows held (dead ones that were not swept yet included) of one run."""
    alive, held = [], []
    with Session(keep_results=False) as session:
        for name in setting.names:
            columns = "".join(f"{column} BIGINT, " for column, _ in setting.columns(name))
            session.execute(f"CREATE STREAM {name} ({columns}ts TIMESTAMP) WITH (time = 'ts')")
        session.query("q", setting.sql, plan=str(tree), jit="off", replan="off")
        pipeline = session.pipeline
        standing = pipeline.queries["q"]
        orders = orders_of(tree, setting.graph, standing.lowered)
        pipeline.replant(standing.group, positions_of(tree, standing.lowered), orders)
        steps = ROWS // EPOCH
        spent = 0.0
        for step in range(steps):
            for name, table in tables.items():
                first, last = len(table) * step // steps, len(table) * (step + 1) // steps
                session.push(name, table.slice(first, last - first))
            began = process_time()
            session.step()
            spent += process_time() - began
            now = pipeline.frontier or 0
            if now > 1e6 * max(setting.windows):
                kept = list(standing.group.intermediates())
                streams = sum(state.store.live for state in pipeline.streams.values())
                alive.append(streams + sum(int((one.store.mark("dead") >= now).sum()) for one in kept))
                held.append(streams + sum(one.store.live for one in kept))
    return spent, float(np.mean(alive)), float(np.mean(held))


def ranks(values: list[float]) -> np.ndarray:
    return np.argsort(np.argsort(np.array(values)))


def one_query(streams: int, seed: int, repeats: int) -> dict[str, object]:
    lots = random.Random(seed)
    setting = random_setting(streams, lots)
    model = CostModel(setting.graph, SHIPPED)
    tables = rows_of(setting)
    trees = []
    chosen = trees_of(setting, lots)
    # Trees take turns, so that a busy moment of the machine does not hit all runs of one of them.
    rounds = [[measured(setting, tree, tables) for tree in chosen] for _ in range(repeats)]
    for place, tree in enumerate(chosen):
        runs = [one[place] for one in rounds]
        price = model.price(tree)
        trees.append(
            {
                "tree": str(tree),
                "predicted_cpu": price.cpu * setting.seconds,
                "measured_cpu": min(run[0] for run in runs),
                "predicted_rows": price.memory,
                "alive_rows": runs[0][1],
                "held_rows": runs[0][2],
            }
        )
    predicted, clock = [t["predicted_cpu"] for t in trees], [t["measured_cpu"] for t in trees]
    errors = [abs(t["predicted_rows"] / t["alive_rows"] - 1) for t in trees]
    best = min(trees, key=lambda t: t["predicted_cpu"])
    return {
        "streams": streams,
        "seed": seed,
        "sql": setting.sql,
        "rank_correlation": round(float(np.corrcoef(ranks(predicted), ranks(clock))[0, 1]), 6),
        "state_error_median": median(errors),
        "state_error_max": max(errors),
        "held_over_alive": max(t["held_rows"] / t["alive_rows"] for t in trees),
        "chosen_over_fastest": best["measured_cpu"] / min(clock),
        "slowest_over_fastest": max(clock) / min(clock),
        "trees": trees,
    }


def draw(path: Path, found: list[dict[str, object]]) -> None:
    with matplotlib.rc_context(plots.STYLE):
        figure = Figure(figsize=(9, 3.8))
        left, right = figure.subplots(1, 2)
        for query in found:
            colour = plots.COLOURS[query["streams"] - 3]
            trees = query["trees"]
            left.plot([t["predicted_cpu"] for t in trees], [t["measured_cpu"] for t in trees], ".", color=colour, alpha=0.6)
            right.plot([t["predicted_rows"] for t in trees], [t["alive_rows"] for t in trees], ".", color=colour, alpha=0.6)
        for axes, title in ((left, "CPU seconds of a run"), (right, "rows stored")):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("predicted")
            axes.set_ylabel("measured")
            axes.set_title(title)
            low, high = axes.get_xlim()
            axes.plot((low, high), (low, high), color="#707070", linewidth=0.8)
        figure.tight_layout()
        figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    found = []
    for number in range(args.queries):
        found.append(one_query(3 + number % 3, number, args.repeats))
        print({name: value for name, value in found[-1].items() if name not in ("trees", "sql")}, flush=True)
    correlations = [query["rank_correlation"] for query in found]
    summary = {
        "queries": len(found),
        "trees": sum(len(query["trees"]) for query in found),
        "rank_correlation_median": median(correlations),
        "rank_correlation_least": min(correlations),
        "at_least_0.8": sum(one >= 0.8 for one in correlations),
        "state_error_max": max(query["state_error_max"] for query in found),
        "chosen_over_fastest_median": median(query["chosen_over_fastest"] for query in found),
        "chosen_over_fastest_max": max(query["chosen_over_fastest"] for query in found),
    }
    print(summary)
    target = HERE / "results"
    harness.write(target / "model_reality.json", "predicted and measured cost of join trees", {"summary": summary, "found": found})
    draw(target / "model_reality.png", found)


if __name__ == "__main__":
    main()
