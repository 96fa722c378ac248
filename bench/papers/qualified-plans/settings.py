"""Streams to measure with: rates, windows and keys as the cost model has them, the rows to match, and a session that
runs one tree.

Answer   `Setting` is a query over streams whose keys are uniform and independent; `rows_of` makes its rows; `Run`
         pushes them through a tree epoch by epoch and says what each epoch took and what is stored. `random_setting`
         draws one.
Limits   What skew does to selectivities is the statistics' concern, not the model's: there is none here.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
sys.path.insert(0, str(HERE.parents[2]))

import numpy as np  # noqa: E402 - the path above makes `bench` importable
import pyarrow as pa  # noqa: E402

from eddyline import Session  # noqa: E402
from eddyline.plan.tree.cost import CostModel, UnitCosts  # noqa: E402
from eddyline.plan.tree.join_graph import JoinGraph, JoinInput  # noqa: E402
from eddyline.plan.tree.jtree.enumeration import every_shape  # noqa: E402
from eddyline.plan.tree.jtree.tree import JTree  # noqa: E402
from eddyline.plan.tree.tree_choice import orders_of, positions_of  # noqa: E402

#: Queries are drawn with these costs, whatever is shipped: the same seed gives the same query.
DRAWN_WITH = UnitCosts(insert=3e-8, delete=1.5e-8, join=4e-8, probe=3e-8, arrive=1e-7)


@dataclass(frozen=True)
class Setting:
    """Streams with rates and windows, and per joined pair the number of values of its key."""

    names: tuple[str, ...]
    rates: tuple[int, ...]
    windows: tuple[float, ...]
    keys: tuple[tuple[str, str, int], ...]
    rows: int

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
        references = ", ".join(
            f"{n} [RANGE {round(w * 1000)} MILLISECONDS]" for n, w in zip(self.names, self.windows, strict=True)
        )
        joins = " AND ".join(f"{one}.k_{one}{two} = {two}.k_{one}{two}" for one, two, _ in self.keys)
        return f"SELECT {self.names[0]}.ts AS at FROM {references} WHERE {joins}"

    def trees(self, costs: UnitCosts, most_seconds: float) -> tuple[list[JTree], int]:
        """All jtrees that are predicted to take no more CPU than this, and how many there are in all."""
        model = CostModel(self.graph, costs)
        shapes = list(every_shape(len(self.names)))
        return [model.tree(s) for s in shapes if model.price_shape(s).cpu * self.seconds < most_seconds], len(shapes)


def rows_of(setting: Setting) -> dict[str, pa.Table]:
    lots = np.random.default_rng(11)
    made = {}
    for name, rate in zip(setting.names, setting.rates, strict=True):
        count = int(setting.seconds * rate)
        columns = {column: pa.array(lots.integers(0, values, count)) for column, values in setting.columns(name)}
        ts = np.sort(lots.integers(0, int(setting.seconds * 1e6), count))
        made[name] = pa.table({**columns, "ts": pa.array(ts).cast(pa.timestamp("us"))})
    return made


def random_setting(streams: int, lots: random.Random, rows: int, least: float, most: float, spread: float) -> Setting:
    """Draw until there is something to rank: half of all trees take at most `most` CPU seconds, one of these at least
    `least`, and one `spread` times as many as another."""
    while True:
        names = tuple("abcde"[:streams])
        rates = tuple(lots.randint(1000, 8000) for _ in names)
        windows = tuple(round(lots.uniform(1, 6), 1) for _ in names)
        pairs = [(names[lots.randrange(place)], names[place]) for place in range(1, streams)]
        others = [
            (one, two) for place, one in enumerate(names) for two in names[place + 1 :] if (one, two) not in pairs
        ]
        pairs += lots.sample(others, min(len(others), lots.choice((0, 0, 1, 1, 2))))
        held = {n: r * w for n, r, w in zip(names, rates, windows, strict=True)}
        keys = tuple(
            (one, two, max(2, round(max(held[one], held[two]) / 10 ** lots.uniform(-1.0, 0.8)))) for one, two in pairs
        )
        setting = Setting(names, rates, windows, keys, rows)
        model = CostModel(setting.graph, DRAWN_WITH)
        trees, all_of_them = setting.trees(DRAWN_WITH, most)
        work = [model.price(tree).cpu * setting.seconds for tree in trees]
        if 2 * len(work) >= all_of_them and max(work) > least and max(work) > spread * min(work):
            return setting


@dataclass(frozen=True, slots=True)
class Epoch:
    cpu: float
    #: Event time so far, in seconds, and rows alive and rows held (dead ones that were not swept yet included).
    now: float
    alive: int
    held: int


class Run:
    """One tree of a setting, with the probe orders that the planner would give it; just-in-time joins off."""

    def __init__(self, setting: Setting, tree: JTree, tables: dict[str, pa.Table], epochs: int) -> None:
        self.setting, self.tree, self.tables, self.epochs = setting, tree, tables, epochs

    def __iter__(self) -> Iterator[Epoch]:
        setting = self.setting
        with Session(keep_results=False) as session:
            for name in setting.names:
                columns = "".join(f"{column} BIGINT, " for column, _ in setting.columns(name))
                session.execute(f"CREATE STREAM {name} ({columns}ts TIMESTAMP) WITH (time = 'ts')")
            session.query("q", setting.sql, plan=str(self.tree), jit="off", replan="off")
            pipeline = session.pipeline
            query = pipeline.queries["q"]
            orders = orders_of(self.tree, setting.graph, query.lowered)
            pipeline.replant(query.group, positions_of(self.tree, query.lowered), orders)
            for epoch in range(self.epochs):
                for name, table in self.tables.items():
                    first, last = len(table) * epoch // self.epochs, len(table) * (epoch + 1) // self.epochs
                    session.push(name, table.slice(first, last - first))
                began = process_time()
                session.step()
                cpu = process_time() - began
                now = pipeline.frontier or 0
                kept = list(query.group.intermediates)
                streams = sum(state.store.live for state in pipeline.stores())
                alive = streams + sum(int((one.store.column("dead") >= now).sum()) for one in kept)
                yield Epoch(cpu, now / 1e6, alive, streams + sum(one.store.live for one in kept))
