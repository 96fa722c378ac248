"""Random join graphs: does the two-layer search find a qualified tree wherever there is one, and how long does it take?

Answer   As in Section 6 of the paper: for N = 3..20 streams, 100 settings each, rates 1..100 rows/s, random joins,
         selectivities in (0, 1), windows of one second. Three kinds of budgets:
           fixed     1 CPU second per second (the paper's) and 5,000 rows;
           between   drawn between the mjoin and the best binary tree, in both resources;
           edge      the price of a random tree on the exact front (N <= 8): only trees of that price or better qualify.
         Up to N = 8 the finder says whether a qualified tree exists.
         Times are CPU seconds of this process, so that what else the machine does is not counted.
Limits   Beyond N = 8 it is unknown how many settings have one; there the share found is reported without a truth.
Reading  README.md in this folder

Run: `python bench/papers/qualified-plans/random_settings.py [--settings 100] [--most 20]`; writes results/.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))

from eddyline.plan.tree.cost import CostModel, UnitCosts  # noqa: E402 - the path above makes `bench` importable
from eddyline.plan.tree.join_graph import JoinGraph, JoinInput  # noqa: E402
from eddyline.plan.tree.jtree.beam import beam, effort_for  # noqa: E402
from eddyline.plan.tree.jtree.bjtree import best_bjtree  # noqa: E402
from eddyline.plan.tree.jtree.candidates import Budgets, Candidates  # noqa: E402
from eddyline.plan.tree.jtree.finder import finder  # noqa: E402
from eddyline.plan.tree.jtree.search import search  # noqa: E402
from eddyline.plan.tree.jtree.state_removal import state_removal  # noqa: E402
from eddyline.plan.tree.jtree.state_selection import state_selection  # noqa: E402

FINDER_INPUTS = 8
FIXED = Budgets(cpu=1.0, memory=5_000.0)
KINDS = ("fixed", "between", "edge")


def random_graph(streams: int, seed: int) -> JoinGraph:
    """One setting; the same numbers give the same graph everywhere."""
    lots = random.Random(streams * 100_003 + seed)
    names = [f"s{number}" for number in range(streams)]
    inputs = [JoinInput.over_time(name, lots.uniform(1, 100), 1.0) for name in names]
    pairs = [(one, two) for place, one in enumerate(names) for two in names[place + 1 :]]
    # At least a tree's worth of joins; they need not connect all streams, so cross products occur.
    chosen = lots.sample(pairs, lots.randint(streams - 1, len(pairs)))
    return JoinGraph.of(inputs, [(one, two, max(lots.random(), 1e-6)) for one, two in chosen])


def drawn_budgets(model: CostModel, kind: str, seed: int) -> Budgets:
    """The budgets of one kind for one setting."""
    lots = random.Random(f"{kind} {model.count} {seed}")
    if kind == "fixed":
        return FIXED
    if kind == "edge":
        price = model.price_shape(lots.choice(finder(model, Budgets())))
        return Budgets(price.cpu, price.memory)
    mjoin = model.price_shape({model.everything: tuple(1 << place for place in range(model.count))})
    bjtree = model.price_shape(best_bjtree(model))
    low, high = sorted((mjoin.cpu, bjtree.cpu))
    return Budgets(low * (high / low) ** lots.random(), mjoin.memory * (bjtree.memory / mjoin.memory) ** lots.random())


def stage_found(model: CostModel, budgets: Budgets) -> str | None:
    """Which part of the two-layer search finds a qualified tree first; None if none does."""
    candidates = Candidates(model, budgets)
    everything = {model.everything: tuple(1 << place for place in range(model.count))}
    if candidates.fits(candidates.add(everything)):
        return "mjoin"
    by_cpu, by_memory = best_bjtree(model, "cpu"), best_bjtree(model, "memory")
    if candidates.fits(candidates.add(by_cpu)):
        return "bjtree"
    if state_selection(candidates):
        return "state-selection"
    if state_removal(candidates, by_cpu):
        return "state-removal"
    # From here on beyond the paper.
    if candidates.fits(candidates.add(by_memory)) or state_removal(candidates, by_memory):
        return "second bjtree"
    return "beam" if beam(candidates, effort_for(model.count)) else None


@dataclass
class Tally:
    """What was seen for one N and one kind of budgets."""

    settings: int = 0
    exists: int = 0
    found: int = 0
    by_paper: int = 0
    missed: list[int] | None = None
    stages: Counter[str] | None = None
    seconds: list[float] | None = None
    finder_seconds: list[float] | None = None

    def record(self) -> dict[str, object]:
        seconds, finder_seconds = self.seconds or [0.0], self.finder_seconds or []
        return {
            "settings": self.settings,
            "qualified_by_finder": self.exists if finder_seconds else None,
            "qualified_by_two_layer": self.found,
            "qualified_by_paper_steps": self.by_paper,
            "missed_seeds": self.missed or [],
            "stages": dict(sorted((self.stages or Counter()).items())),
            "seconds_median": round(median(seconds), 5),
            "seconds_max": round(max(seconds), 5),
            "finder_seconds_median": round(median(finder_seconds), 5) if finder_seconds else None,
            "finder_seconds_max": round(max(finder_seconds), 5) if finder_seconds else None,
        }


def tally(streams: int, kind: str, settings: int, finder_inputs: int = FINDER_INPUTS) -> Tally:
    """Run all settings of one N and one kind of budgets."""
    result = Tally(missed=[], stages=Counter(), seconds=[], finder_seconds=[])
    assert (
        result.missed is not None
        and result.stages is not None
        and result.seconds is not None
        and result.finder_seconds is not None
    )
    for seed in range(settings):
        graph, costs = random_graph(streams, seed), UnitCosts()
        model = CostModel(graph, costs)
        budgets = drawn_budgets(model, kind, seed)
        started = process_time()
        choice = search(graph, costs, budgets.cpu, budgets.memory)
        result.seconds.append(process_time() - started)
        stage = stage_found(model, budgets)
        assert (stage is None) == (choice.tree is None), "the driver and its stages must agree"
        result.settings += 1
        result.found += choice.tree is not None
        result.by_paper += stage in ("mjoin", "bjtree", "state-selection", "state-removal")
        result.stages[stage or "none"] += 1
        if streams <= finder_inputs:
            started = process_time()
            exists = bool(finder(CostModel(graph, costs), budgets))
            result.finder_seconds.append(process_time() - started)
            result.exists += exists
            if exists and choice.tree is None:
                result.missed.append(seed)
    return result


def main() -> None:
    from bench import harness

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--settings", type=int, default=100)
    parser.add_argument("--most", type=int, default=20)
    parser.add_argument("--beyond", type=int, default=10, help="settings for N = 9 and 10 that the finder checks too")
    args = parser.parse_args()
    sizes = list(range(3, args.most + 1))
    results: dict[str, dict[str, dict[str, object]]] = {kind: {} for kind in KINDS}
    for streams in sizes:
        for kind in KINDS:
            if kind != "edge" or streams <= FINDER_INPUTS:
                record = tally(streams, kind, args.settings).record()
                results[kind][str(streams)] = record
                print(streams, kind, record, flush=True)
    for streams in (9, 10) if args.most >= 10 else ():
        for kind in ("between", "edge"):
            record = tally(streams, kind, args.beyond, finder_inputs=10).record()
            results.setdefault("beyond", {})[f"{streams} {kind}"] = record
            print(streams, "beyond", kind, record, flush=True)
    target = HERE / "results"
    harness.write(target / "random_settings.json", "1,800 random settings", {"results": results})
    draw(target, sizes, results)


def draw(target: Path, sizes: list[int], results: dict[str, dict[str, dict[str, object]]]) -> None:
    """Two pictures: how long the searches take, and which share of the settings with a qualified tree they solve."""
    from bench import plots as pictures

    def column(kind: str, name: str, places: list[int]) -> list[float]:
        values = [results[kind].get(str(place), {}).get(name) for place in places]
        return [float("nan") if value is None else float(str(value)) for value in values]

    def milliseconds(name: str) -> list[float]:
        return [1_000 * value for value in column("between", name, sizes)]

    pictures.lines(
        target / "times.png",
        "Time of one search (budgets between mjoin and bjtree)",
        sizes,
        {
            "two-layer, median": milliseconds("seconds_median"),
            "two-layer, slowest": milliseconds("seconds_max"),
            "finder, median": milliseconds("finder_seconds_median"),
            "finder, slowest": milliseconds("finder_seconds_max"),
        },
        across="streams",
        unit="CPU milliseconds",
    )
    small = [size for size in sizes if size <= FINDER_INPUTS]

    def share(kind: str, name: str) -> list[float]:
        pairs = zip(column(kind, name, small), column(kind, "qualified_by_finder", small), strict=True)
        return [100 * one / all_of_them if all_of_them else float("nan") for one, all_of_them in pairs]

    pictures.lines(
        target / "found.png",
        "Settings with a qualified tree in which one is found",
        small,
        {
            "two-layer, budgets in between": share("between", "qualified_by_two_layer"),
            "two-layer, budgets at the edge": share("edge", "qualified_by_two_layer"),
            "paper's steps, budgets in between": share("between", "qualified_by_paper_steps"),
            "paper's steps, budgets at the edge": share("edge", "qualified_by_paper_steps"),
        },
        across="streams",
        unit="%",
    )


if __name__ == "__main__":
    main()
