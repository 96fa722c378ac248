"""The engine itself, by the wall clock: how soon each window is answered, and what working strip by strip costs.

Answer   Response times per window in the settings of Figures 5 to 8: the four window distributions by hash, by nested loop and
         with windows of rows, bursts of mean 1 to 5; plain (no schedule) and under each scheduler, with the CPU seconds of an
         epoch.
Limits   Table 1's windows at 100 rows/s, as in the paper (nested loop: 15 rows/s): 600 s of history, then epochs of some thousand
         new rows. All rows of an epoch arrive when it begins: the engine's bursts are its epochs. Contenders take turns epoch
         by epoch in one session; the first turn does not count, medians over the others do. On a machine that others use too,
         the CPU time of the process says more than the wall clock.
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
from eddyline.operators.join import release
from eddyline.runtime.clock import Clock
from eddyline.runtime.response import Responses

NAMES = ("lwo", "swf", "mqt")
#: New rows of an epoch, and epochs per contender.
EPOCH, EPOCHS = 4_000, 5
LOOP_RATE, LOOP_EPOCH = 15.0, 4_000


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
    rows: Rows, windows: Sequence[str], queries: Sequence[int], probe: str = "hash", clock: Clock | None = None
) -> dict[str, object]:
    """Per contender: mean response over queries and per window, CPU seconds per epoch; medians over its epochs."""
    epoch = LOOP_EPOCH if probe == "loop" else EPOCH
    with Session(keep_results=False, clock=clock) as session:
        for name in "ab":
            session.execute(f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.set("epoch_rows", 10**7)
        places: dict[str, int] = {}
        for number, (size, count) in enumerate(zip(windows, queries, strict=True)):
            for copy in range(count):
                name = f"w{number + 1}_{copy}"
                places[name] = number
                session.query(name, f"SELECT a.k AS k, b.ts AS other FROM a [{size}], b [{size}] WHERE a.k = b.k", probe=probe)
        assert session.driver is not None
        session.driver.settings = session.job.settings
        pushed(session, rows, slice(0, rows.first))
        session.step()
        for name in places:
            session.on_results(name, lambda table: None)
        (group,) = session.pipeline.groups.values()
        handout = session.pipeline.handout
        ways = {"plain": None} | {name: release.shared_schedule(group, name) for name in NAMES}
        found: dict[str, list[tuple[list[float], float]]] = {name: [] for name in ways}
        begin = rows.first
        for turn in range(EPOCHS + 1):
            for name, schedule in ways.items():
                handout._schedules[group] = schedule
                handout.measure(Responses(session.driver.clock))
                pushed(session, rows, slice(begin, begin + epoch))
                began = time.process_time()
                session.step()
                seconds = time.process_time() - began
                begin += epoch
                response = session.stats()["response"]
                means = [np.mean([response[query]["mean"] for query, at in places.items() if at == n]) for n in range(len(windows))]
                if turn:
                    found[name].append(([float(mean) for mean in means], seconds))
    told: dict[str, object] = {}
    for name, epochs in found.items():
        mean = np.median([one for one, _ in epochs], axis=0)
        overall = float(np.average(mean, weights=queries))
        told[name] = {"overall": overall, "mean": mean.tolist(), "cpu_s": float(np.median([cpu for _, cpu in epochs]))}
    return told


def ranges(sizes: Sequence[float]) -> list[str]:
    return [f"RANGE {int(size)} SECONDS" for size in sizes]


def wall_clock() -> dict[str, object]:
    """Figures 5 to 7 by the wall clock."""
    one, rows, small_large = [1] * 7, arrivals(1), TABLE_1["small-large"]
    return {
        "load_before": os.getloadavg()[0],
        "epoch_rows": EPOCH,
        "epochs": EPOCHS,
        "distributions": {name: setting(rows, ranges(sizes), one) for name, sizes in TABLE_1.items()},
        "bursts": {f"{burst:g}": setting(arrivals(2, burst=burst), ranges(small_large), one) for burst in BURSTS},
    }


def cpu_clock() -> dict[str, object]:
    """The distributions by hash, by nested loop and with windows of rows, and bursts of 3, by the CPU time of this process."""
    one, clock, small_large = [1] * 7, CpuClock(), TABLE_1["small-large"]
    rows, slow = arrivals(1), arrivals(1, rate=LOOP_RATE, rows=4 * LOOP_EPOCH * (EPOCHS + 2))
    counted = {name: [f"ROWS {int(100 * size)}" for size in sizes] for name, sizes in TABLE_1.items()}
    return {
        "distributions": {name: setting(rows, ranges(sizes), one, clock=clock) for name, sizes in TABLE_1.items()},
        "distributions_loop": {name: setting(slow, ranges(sizes), one, "loop", clock) for name, sizes in TABLE_1.items()},
        "distributions_rows": {name: setting(rows, windows, one, clock=clock) for name, windows in counted.items()},
        "bursts": {"3": setting(arrivals(2, burst=3.0), ranges(small_large), one, clock=clock)},
    }
