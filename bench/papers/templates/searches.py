"""The workloads of Table 22.1: Hybrid against the optimum, and the seconds of the exact search.

Answer   `search` gives per kind of workload in how many cases Hybrid, OWL and PCL find the optimum, how far they are
         off at worst, and the longest exact search.
Limits   Every kind with 3, 8 and 10 attributes, 16 bits, windows of 0.1 and 1 M rows, rates from 0.01 to 100.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.plan.index_choice.search import choose_index
from eddyline.plan.index_choice.workload import Attribute, Workload

BITS = 16
#: The dissertation's price: hashing a row and looking at one cost the same, runs are free.
PRINTED = IndexCosts(hash=1, run=0, visit=1)


def _weights(kind: str, attributes: int, random: np.random.Generator) -> np.ndarray:
    """The weight of every pattern that fixes something, by its bits."""
    masks = np.arange(1, 1 << attributes)
    alone = (masks & masks - 1) == 0
    if kind == "Uniform":
        return np.ones(len(masks))
    if kind in ("Asc", "Desc"):
        first = masks == (1 if kind == "Asc" else 1 << attributes - 1)
        return np.where(first, 0.5, 0.5 / len(masks))
    if kind == "Exclusive":
        return alone.astype(float)
    if kind.startswith("normal"):
        return np.maximum(random.normal(128, np.sqrt(float(kind.split()[1])), len(masks)), 0.0)
    return random.permutation(1.0 / np.arange(1, len(masks) + 1) ** float(kind.split()[1]))


def _workload(weights: np.ndarray, attributes: int, window: float, ratio: float) -> Workload:
    names = [chr(ord("A") + n) for n in range(attributes)]
    patterns = [
        ([n for at, n in enumerate(names) if mask >> at & 1], float(w), window)
        for mask, w in enumerate(weights / weights.sum(), 1)
    ]
    return Workload.of([Attribute(name, 2_048) for name in names], patterns, ratio, 1.0)


def search() -> Iterator[dict[str, object]]:
    random = np.random.default_rng(2)
    kinds = [
        "Uniform",
        "Asc",
        "Desc",
        "Exclusive",
        *(f"normal {v}" for v in (2, 8, 32, 128)),
        *(f"zipf {a}" for a in (0.7, 0.9, 1.1)),
    ]
    for kind in kinds:
        cases, slowest, worst = 0, 0.0, {"hybrid": 1.0, "owl": 1.0, "pcl": 1.0}
        optimal = dict.fromkeys(worst, 0)
        for attributes, window, ratio in product((3, 8, 10), (1e5, 1e6), (0.01, 1.0, 100.0)):
            if attributes == 10 and window == 1e5:
                continue
            workload = _workload(_weights(kind, attributes, random), attributes, window, ratio)
            best = choose_index(workload, PRINTED, BITS, "exact")
            slowest, cases = max(slowest, best.seconds), cases + 1
            for name in worst:
                found = (
                    choose_index(workload, PRINTED, BITS, "hybrid")
                    if name == "hybrid"
                    else choose_index(workload, PRINTED, BITS, "rgreedy", name)
                )
                optimal[name] += found.cost <= best.cost * (1 + 1e-9)
                worst[name] = max(worst[name], found.cost / best.cost)
        yield {
            "table": "22.1", "load": kind, "cases": cases, "optimal": optimal, "worst": {n: round(w, 4) for n, w in worst.items()},
            "exact_seconds": round(slowest, 3),
        }  # fmt: skip
