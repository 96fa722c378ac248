"""The engine itself, by real clocks: how soon each window is answered, and what working strip by strip costs.

Answer   Response times per window in the settings of Figures 5 to 9: the four window distributions by hash, by nested
         loop and with windows of rows, bursts of mean 1 to 5, 24 of 30 queries on one window; plain (no schedule) and
         under each scheduler, with the CPU seconds of an epoch and the most results in the output buffer.
Limits   Table 1's windows at 100 rows/s, as in the paper (nested loop: 15 rows/s): 600 s of history, then epochs of new
         rows. All rows of an epoch arrive when it begins: the engine's bursts are its epochs. Contenders take turns
         epoch by epoch in one session, in an order drawn anew for each turn; the first two turns do not count
         (schedules learn what windows cost), medians over the others do. `compared` are medians of the ratios within a
         turn: the machine's speed changes from turn to turn. On a machine that others use too, the CPU time of the
         process says more than the wall clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from measures import BURSTS
from workload import TABLE_1, Rows, arrivals

from eddyline import Session
from eddyline.model.clock import Clock
from eddyline.operators.join.scheduling.release import SharedSchedule
from eddyline.runtime.engine.units.joins import JoinKind
from eddyline.runtime.figures.response import Responses
from eddyline.settings import Settings

NAMES = ("lwo", "swf", "mqt")
#: New rows of an epoch, as many as the engine takes by itself, and epochs per contender. *Plain* works such an epoch
#: off in two slices.
EPOCH, EPOCHS = Settings().epoch_rows, 15
#: Turns that do not count.
LEARNING = 2
LOOP_RATE = 15.0
#: 30 queries instead of 7 have up to ten times the results: fewer rows are as much work where results are handed out
#: one by one.
SKEWED_EPOCH, SKEWED_EPOCHS = 5_000, 9


class CpuClock:
    """Seconds of CPU that this process has used: a wall clock that stands still while others have the machine."""

    def now(self) -> float:
        return time.process_time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def pushed(session: Session, rows: Rows, part: slice) -> None:
    for side, name in enumerate("ab"):
        mine = rows.side[part] == side
        ts = ((rows.ts[part][mine] + 10_000) * 1e6).astype(np.int64)
        session.push(name, pa.table({"k": rows.key[part][mine], "ts": pa.array(ts, pa.timestamp("us"))}))


def setting(
    rows: Rows,
    windows: Sequence[str],
    queries: Sequence[int],
    probe: str = "hash",
    clock: Clock | None = None,
    epoch: int = EPOCH,
    epochs: int = EPOCHS,
) -> dict[str, dict[str, object]]:
    """Per contender: mean response over queries and per window, CPU seconds per epoch; medians over its epochs."""
    with Session(keep_results=False, clock=clock) as session:
        for name in "ab":
            session.execute(f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.set("epoch_rows", 10**7)
        places: dict[str, int] = {}
        for number, (size, count) in enumerate(zip(windows, queries, strict=True)):
            for copy in range(count):
                name = f"w{number + 1}_{copy}"
                places[name] = number
                session.query(
                    name, f"SELECT a.k AS k, b.ts AS other FROM a [{size}], b [{size}] WHERE a.k = b.k", probe=probe
                )
        assert session.driver is not None
        session.driver.settings = session.job.settings
        for name in places:
            session.on_results(name, lambda table: None)
        pushed(session, rows, slice(0, rows.first))
        session.step()
        (group,) = session.pipeline.groups.values()
        (unit,) = session.pipeline.kinds.one(JoinKind).units.values()
        results, handout = unit.results, session.pipeline.handout
        ways = {"plain": None} | {name: group.schedule(Settings(scheduler=name)) for name in NAMES}
        found: dict[str, dict[int, tuple[list[float], float]]] = {name: {} for name in ways}
        begin = rows.first
        order = np.random.default_rng(1)
        for turn in range(epochs + LEARNING):
            for name in order.permutation(list(ways)).tolist():
                schedule = ways[name]
                results.schedule, results._is_scheduled = schedule, True
                handout.measure(Responses(session.driver.clock))
                pushed(session, rows, slice(begin, begin + epoch))
                began = time.process_time()
                session.step()
                seconds = time.process_time() - began
                begin += epoch
                response = session.stats()["response"]
                # A burst that is longer than an epoch waits for the other stream: such an epoch has no results, and
                # does not count.
                if turn >= LEARNING and all(response[query]["mean"] is not None for query in places):
                    means = [
                        np.mean([response[query]["mean"] for query, at in places.items() if at == n])
                        for n in range(len(windows))
                    ]
                    found[name][turn] = ([float(mean) for mean in means], seconds)
    told: dict[str, dict[str, object]] = {}
    for name, turns in found.items():
        assert len(turns) >= epochs // 2, f"{name} has results in {len(turns)} of {epochs} epochs"
        mean = np.median([one for one, _ in turns.values()], axis=0)
        overall = float(np.average(mean, weights=queries))
        told[name] = {
            "overall": overall,
            "mean": mean.tolist(),
            "cpu_s": float(np.median([cpu for _, cpu in turns.values()])),
        }
        schedule = ways[name]
        if isinstance(schedule, SharedSchedule):
            told[name]["output_buffer"] = schedule.buffer.peak
    told["compared"] = compared(
        {name: {turn: means for turn, (means, _) in found[name].items()} for name in NAMES}, queries
    )
    return told


def compared(found: dict[str, dict[int, list[float]]], queries: Sequence[int]) -> dict[str, object]:
    """MQT against the others within the turns that all of them have results in: medians of ratios."""
    turns = sorted(set.intersection(*(set(of) for of in found.values())))
    mqt, lwo, swf = (np.array([found[name][turn] for turn in turns]) for name in ("mqt", "lwo", "swf"))
    overall = {name: np.average(of, axis=1, weights=queries) for name, of in (("mqt", mqt), ("lwo", lwo), ("swf", swf))}
    return {
        "turns": len(turns),
        "mqt_to_lwo": float(np.median(overall["mqt"] / overall["lwo"])),
        "mqt_to_swf": float(np.median(overall["mqt"] / overall["swf"])),
        "smallest_window_sooner": float(np.median(lwo[:, 0] / mqt[:, 0])),
    }


def ranges(sizes: Sequence[float]) -> list[str]:
    return [f"RANGE {int(size)} SECONDS" for size in sizes]


def measured(clock: Clock | None) -> dict[str, object]:
    """All settings by one clock."""
    one, small_large = [1] * 7, TABLE_1["small-large"]
    needed = 4 * EPOCH * (EPOCHS + LEARNING)
    rows, slow = arrivals(1, rows=needed), arrivals(1, rate=LOOP_RATE, rows=needed)
    counted = {name: [f"ROWS {int(100 * size)}" for size in sizes] for name, sizes in TABLE_1.items()}
    skewed = {f"w{i + 1}": [24 if i == j else 1 for j in range(7)] for i in range(7)}
    return {
        "load_before": os.getloadavg()[0],
        "epoch_rows": EPOCH,
        "epochs": EPOCHS,
        "distributions": {name: setting(rows, ranges(sizes), one, clock=clock) for name, sizes in TABLE_1.items()},
        "distributions_loop": {
            name: setting(slow, ranges(sizes), one, "loop", clock) for name, sizes in TABLE_1.items()
        },
        "distributions_rows": {name: setting(rows, windows, one, clock=clock) for name, windows in counted.items()},
        "bursts": {
            f"{b:g}": setting(arrivals(2, burst=b, rows=needed), ranges(small_large), one, clock=clock) for b in BURSTS
        },
        "skewed": {
            name: setting(rows, ranges(small_large), queries, clock=clock, epoch=SKEWED_EPOCH, epochs=SKEWED_EPOCHS)
            for name, queries in skewed.items()
        },
        "load_after": os.getloadavg()[0],
    }


def wall_clock() -> dict[str, object]:
    return measured(None)


def cpu_clock() -> dict[str, object]:
    return measured(CpuClock())
