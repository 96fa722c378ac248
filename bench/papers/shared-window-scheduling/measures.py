"""What is measured for each figure, under the virtual clock.

Answer   One function per figure; each returns plain data for the results file.
Limits   Costs are set so that the largest window keeps one server busy for `LOAD` of the time, two fifths of it for
         making results (section 3.4 of the paper). The paper's machine, and so its load, is not known.
"""

from __future__ import annotations

import numpy as np
from workload import KEYS, LARGEST, TABLE_1, Rows, arrivals

from bench.simulation.model import Costs, Played, Work, play, work

NAMES = ("lwo", "swf", "mqt")
LOAD = 0.8
SEEDS = (1, 2, 3, 4, 5)
#: The output buffer's share of a join buffer (rows of one stream in the largest window), as the paper has it.
OUTPUT_SHARE = 0.03
BURSTS = (1.0, 2.0, 3.0, 4.0, 5.0)
#: One query per second of window, from 1 second to 10 minutes, for the formulas.
SPREAD = (1, 5, 15, 60, 150, 300, 600)


def job(rows: Rows, windows: tuple[float, ...], rate: float = 100.0, load: float = LOAD, loop: bool = False) -> Work:
    seen = rate * LARGEST * (1 if loop else 1 / KEYS)
    made = rate * LARGEST / KEYS
    second = load / (2 * rate)
    costs = Costs(per_row=0.6 * second / seen, per_result=0.4 * second / made)
    return work(rows.side, rows.ts, rows.key, windows, first=rows.first, buckets=1 if loop else KEYS, costs=costs)


def told(played: Played, queries: list[int] | None = None) -> dict[str, object]:
    return {
        "overall": played.overall(queries or [1] * len(played.mean)),
        "per_output": float(np.average(played.mean, weights=played.results)),
        "mean": played.mean.tolist(),
        "p95": played.p95.tolist(),
        "max": played.worst.tolist(),
        "scheduling_buffer": played.scheduling_buffer,
        "output_rows": played.output_rows,
        "output_buffer": played.output_buffer,
    }


def all_three(work_: Work, queries: list[int] | None = None, rate: float = 100.0) -> dict[str, dict[str, object]]:
    """Under each scheduler, and under those that hold results back with an output buffer of no more results than the
    paper's share of
    a join buffer."""
    room = int(OUTPUT_SHARE * rate * LARGEST)
    return {name: told(play(work_, name, queries), queries) for name in NAMES} | {
        f"{name} bounded": told(play(work_, name, queries, room=room), queries) for name in ("swf", "mqt")
    }


def formulas() -> dict[str, object]:
    """Figures 2(b), 3(b): 50 rows at once, every pair joins, 1 microsecond a pair; formula and simulation."""
    m, tp = 50, 1e-6
    sizes = np.array(SPREAD) * 100
    most = int(sizes[-1])
    side = np.array([1] * most + [0] * m)
    ts = np.concatenate([np.arange(most) - most + 0.5, np.zeros(m)])
    one = work(side, ts, np.zeros(most + m, np.int64), [float(s) for s in sizes], first=most, costs=Costs(per_row=tp))
    before = np.append(0, sizes[:-1])
    return {
        "windows": list(SPREAD),
        "isolated": (tp / 2 * (m * sizes + 1)).tolist(),
        "formula": {
            "lwo": (tp / 2 * ((sizes + 1) + (m - 1) * most)).tolist(),
            "swf": (m * before * tp + (m + 1) / 2 * (sizes - before) * tp).tolist(),
        },
        "simulated": {name: play(one, name).mean.tolist() for name in NAMES},
    }


def distributions(loop: bool = False) -> dict[str, object]:
    """Figures 5 and 6: the four window distributions; by hash at 100 rows/s, by nested loop at 15."""
    rate = 15.0 if loop else 100.0
    rows = arrivals(1, rate=rate)
    return {name: all_three(job(rows, windows, rate, loop=loop), rate=rate) for name, windows in TABLE_1.items()}


def bursts() -> dict[str, object]:
    """Figures 7 and 8: Pareto bursts of mean 1 to 5 over the small-large windows, several seeds."""
    found: dict[str, object] = {}
    for burst in BURSTS:
        runs = [all_three(job(arrivals(seed, burst=burst), TABLE_1["small-large"])) for seed in SEEDS]
        found[f"{burst:g}"] = runs
    return found


def counted() -> dict[str, object]:
    """The four distributions with windows of rows instead of seconds: as many rows as come in the time."""
    rows = arrivals(1)
    found: dict[str, object] = {}
    for name, windows in TABLE_1.items():
        second = LOAD / (2 * 100.0)
        costs = Costs(
            per_row=0.6 * second * KEYS / (100.0 * LARGEST), per_result=0.4 * second * KEYS / (100.0 * LARGEST)
        )
        sizes = tuple(100.0 * w for w in windows)
        found[name] = all_three(
            work(rows.side, rows.ts, rows.key, sizes, first=rows.first, counted=True, buckets=KEYS, costs=costs)
        )
    return found


def buffers() -> dict[str, object]:
    """How the buffers follow the load: bursts of mean 5 at lower loads, several seeds."""
    found: dict[str, object] = {}
    for load in (0.3, 0.5, 0.65):
        found[f"{load:g}"] = [
            all_three(job(arrivals(seed, burst=5.0), TABLE_1["small-large"], load=load)) for seed in SEEDS
        ]
    return found


def skewed() -> dict[str, object]:
    """Figure 9: 30 queries, 24 of them on window i."""
    one = job(arrivals(1), TABLE_1["small-large"])
    found: dict[str, object] = {}
    for crowded in range(7):
        queries = [24 if i == crowded else 1 for i in range(7)]
        found[f"w{crowded + 1}"] = all_three(one, queries)
    return found


def loads() -> dict[str, object]:
    """The same comparison for other loads than the one chosen."""
    rows = {"1": arrivals(1), "3": arrivals(2, burst=3.0)}
    found: dict[str, object] = {}
    for load in (0.3, 0.5, 0.7, 0.9):
        for burst, these in rows.items():
            one = job(these, TABLE_1["small-large"], load=load)
            found[f"small-large, load {load}, burst {burst}"] = all_three(one)
        found[f"mostly-small, load {load}, burst 1"] = all_three(job(rows["1"], TABLE_1["mostly-small"], load=load))
    return found
