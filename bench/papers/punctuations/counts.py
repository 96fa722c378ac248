"""Punctuations by counting: rows held, values told, rows left out. `python bench/papers/punctuations/counts.py [--seconds 200]`

Answer   Two streams with a row every 2 ms on average (Poisson). Every stream has 20 open keys, draws from them, and closes the oldest after
         so many rows. Figure 5.1: rows held with punctuations and without, at the end and at the quarters. Figure 5.2: rows held for 10,
         20 and 30 rows per punctuation. Figure 5.10: how many of the closed keys are told. Figure 8.7: four streams, of whose rows two in
         five find a partner that is closed: rows that are not joined.
State    results/counts.json.
Limits   Rows are counted, not seconds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from eddyline import Session
from eddyline.settings import Settings

RESULTS = Path(__file__).parent / "results"
OPEN_KEYS = 20
EPOCHS = 40


def stream(seconds: float, per_punctuation: int, seed: int) -> pa.Table:
    """Rows and punctuations in order: key, whether it is closed, time."""
    rng = np.random.default_rng(seed)
    rows = int(seconds * 500)
    ts = np.cumsum(rng.exponential(2_000, rows)).astype(np.int64)
    oldest = np.arange(rows) // per_punctuation
    keys = oldest + rng.integers(0, OPEN_KEYS, rows)
    closing = np.arange(per_punctuation - 1, rows, per_punctuation)
    place = np.concatenate([np.arange(rows) * 2, closing * 2 + 1])
    order = np.argsort(place)
    columns = {
        "k": np.concatenate([keys, oldest[closing]])[order],
        "done": np.concatenate([np.zeros(rows, np.bool_), np.ones(len(closing), np.bool_)])[order],
        "ts": np.concatenate([ts, ts[closing]])[order],
    }
    return pa.table({**columns, "ts": pa.array(columns["ts"]).cast(pa.timestamp("us"))})


def run(tables: dict[str, pa.Table], settings: Settings, select: str) -> dict[str, object]:
    """Rows held after every epoch, and the figures of the run."""
    with Session(settings) as session:
        for name in tables:
            session.execute(f"CREATE STREAM {name} (k BIGINT, done BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'done')")
        query = session.query("q", select)
        held = []
        for epoch in range(EPOCHS):
            for name, table in tables.items():
                first, last = (len(table) * n // EPOCHS for n in (epoch, epoch + 1))
                session.push(name, table.slice(first, last - first))
            session.step()
            held.append(sum(one.store.live for one in session.pipeline.stores()))
        session.run(once=True)
        held.append(sum(one.store.live for one in session.pipeline.stores()))
        stats = session.stats()
        told = query.punctuations().num_rows
        return {
            "held": held,
            "told": told,
            **{key: stats[key] for key in ("results", "purged_rows", "dropped_rows", "violations", "punctuations")},
        }


def pair(seconds: float, per_punctuation: int) -> dict[str, pa.Table]:
    return {"a": stream(seconds, per_punctuation, 1), "b": stream(seconds, per_punctuation, 2)}


JOIN = "SELECT a.k, b.ts AS at FROM a, b WHERE a.k = b.k"


def figure_5_1(seconds: float) -> dict[str, object]:
    tables = pair(seconds, 40)
    on, off = run(tables, Settings(), JOIN), run(tables, Settings(punctuations="off"), JOIN)
    assert on["results"] == off["results"]
    held, rest = on["held"], off["held"]
    assert isinstance(held, list) and isinstance(rest, list)
    quarters = [held[EPOCHS * n // 4 - 1] for n in (1, 2, 3, 4)]
    return {"on": held[-1], "off": rest[-1], "share": held[-1] / rest[-1], "quarters": quarters}


def figure_5_2(seconds: float) -> dict[str, float]:
    means = {}
    for per_punctuation in (10, 20, 30):
        held = run(pair(seconds, per_punctuation), Settings(purge="eager"), JOIN)["held"]
        assert isinstance(held, list)
        means[str(per_punctuation)] = float(np.mean(held[EPOCHS // 4 : EPOCHS]))
    return means


def figure_5_10(seconds: float) -> dict[str, float]:
    found = run(pair(seconds, 40), Settings(propagate="on"), "SELECT a.k FROM a, b WHERE a.k = b.k")
    both = min(found["punctuations"].values())  # type: ignore[attr-defined]
    return {"closed": both, "told": int(str(found["told"])), "share": int(str(found["told"])) / both}


def figure_8_7(seconds: float) -> dict[str, object]:
    """Four streams; in one of them two rows in five have keys that another has closed."""
    tables = {name: stream(seconds, 40, seed) for seed, name in enumerate("abcd")}
    rng = np.random.default_rng(9)
    keys = tables["a"].column("k").to_numpy().copy()
    early = (rng.random(len(keys)) < 0.4) & ~tables["a"].column("done").to_numpy()
    keys[early] -= 40
    tables["a"] = pa.table({"k": keys, "done": pa.array(np.zeros(len(keys), np.bool_)), "ts": tables["a"].column("ts")})
    windows = ", ".join(f"{name} [RANGE 100 MILLISECONDS]" for name in "abcd")
    join = f"SELECT a.k, d.ts AS at FROM {windows} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"
    on, off = run(tables, Settings(), join), run(tables, Settings(punctuations="off"), join)
    assert on["results"] == off["results"]
    return {"rows": len(keys), "droppable": int(early.sum()), "dropped": on["dropped_rows"]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=200.0)
    seconds = parser.parse_args().seconds
    found = {
        "seconds": seconds,
        "5.1 rows held": figure_5_1(seconds),
        "5.2 rows held by rows per punctuation": figure_5_2(seconds),
        "5.10 keys told": figure_5_10(seconds),
        "8.7 rows left out": figure_8_7(min(seconds, 10.0)),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "counts.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
