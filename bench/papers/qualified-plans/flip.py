"""Selectivities that change places in the middle of a run: does the plan follow, and is that worth it?

Answer   `a.x = b.x AND a.y = c.y` over three streams. In the first half a and b hardly ever meet and a and c often do;
         then it is the other way round. The planner's run is compared with fixed trees: probes and partial results, as
         counted by the engine, the migrations' own work included. (b c) alone would be a cross product.
Limits   Counts, not times: they are the same on every machine.
Reading  README.md in this folder

Run: `python bench/papers/qualified-plans/flip.py`; writes results/.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from settings import RESULTS

from bench import harness, plots
from eddyline import Session

ROWS, EPOCHS = 60_000, 60
SPARSE, DENSE = 20_000, 60
PLANS = ("auto", "(a b c)", "((a b) c)", "((a c) b)")


def rows_of() -> dict[str, dict[str, np.ndarray]]:
    lots = np.random.default_rng(1)
    first = np.arange(ROWS) < ROWS // 2

    def keys(before: int, after: int) -> np.ndarray:
        return np.where(first, lots.integers(0, before, ROWS), lots.integers(0, after, ROWS))

    ts = np.arange(ROWS) * 1000
    return {
        "a": {"x": keys(SPARSE, DENSE), "y": keys(DENSE, SPARSE), "ts": ts},
        "b": {"x": keys(SPARSE, DENSE), "ts": ts},
        "c": {"y": keys(DENSE, SPARSE), "ts": ts},
    }


def run(plan: str) -> dict[str, object]:
    window = "[RANGE 1 SECOND]"
    per_epoch: list[int] = []
    before = 0
    with Session(keep_results=False) as session:
        session.execute("CREATE STREAM a (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.execute("CREATE STREAM b (x BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.execute("CREATE STREAM c (y BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        sql = f"SELECT a.ts AS at FROM a {window}, b {window}, c {window} WHERE a.x = b.x AND a.y = c.y"
        session.query("q", sql, plan=plan, jit="off")
        streams = rows_of()
        size = ROWS // EPOCHS
        for first in range(0, ROWS, size):
            for name, columns in streams.items():
                part = {key: pa.array(values[first : first + size]) for key, values in columns.items()}
                session.push(name, pa.table({**part, "ts": part["ts"].cast(pa.timestamp("us"))}))
            session.step()
            stats = session.stats()
            work = stats["probes"] + stats["partials_produced"]
            per_epoch.append(work - before)
            before = work
        session.run(final=False)
        stats = session.stats()
    return {
        "plan": plan,
        "work": stats["probes"] + stats["partials_produced"],
        "results": stats["results"]["q"],
        "migrations": stats["migrations"],
        "work_per_epoch": per_epoch,
    }


def main() -> None:
    found = [run(plan) for plan in PLANS]
    auto = found[0]
    flip = EPOCHS // 2
    followed = next((m["epoch"] - flip for m in auto["migrations"] if m["epoch"] > flip), None)
    summary = {
        "followed_after_epochs": followed,
        "work": {one["plan"]: one["work"] for one in found},
        "same_results": len({one["results"] for one in found}) == 1,
    }
    print(summary)
    for migration in auto["migrations"]:
        print(migration)
    harness.write(RESULTS / "flip.json", "selectivities that change places", {"summary": summary, "found": found})
    plots.lines(
        RESULTS / "flip.png",
        "Probes and partial results per epoch; selectivities change places at 30",
        list(range(EPOCHS)),
        {f"plan = {one['plan']}": one["work_per_epoch"] for one in found[:4]},
        across="epoch",
        unit="probes and partial results",
        log=True,
    )


if __name__ == "__main__":
    main()
