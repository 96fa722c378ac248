"""Punctuations by counting: rows held, values told, rows left out. `python bench/papers/punctuations/counts.py
[--seconds 200]`

Answer   The figures of the dissertation that rows decide: 5.1 rows held with punctuations and without; 5.2 rows held
         for 10, 20 and 30 rows per punctuation; 5.6 state of the stream whose partner closes keys four times as often;
         5.10 how many of the closed keys are told; 8.1 rows held in windows of 1, 5 and 15 s with keys that live 2 s;
         5.4 and 5.9 rows held with eager and with lazy purging; 8.4 when finished keys are told with windows and
         without; 8.7 four streams, two of five rows of which have a partner that is closed and has left its window.
         Prints each with its goal.
State    results/counts.json, results/held.png.
Limits   Rows are counted; `times.py` measures.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent))

from streams import EPOCHS, JOIN, by_clock, by_count, four_streams, pair, run

from bench import plots
from eddyline.settings import Settings

RESULTS = Path(__file__).parent / "results"
EAGER = Settings(purge="eager")
#: Figure 8.1: window -> share of the window join's rows, where a key lives 2 s, and 4 s.
FAST_KEYS, SLOW_KEYS = {"1": 0.75, "5": 0.20, "15": 0.07}, {"1": 0.88, "5": 0.40, "15": 0.14}
Figure = dict[str, Any]


def figure_5_1(seconds: float) -> Figure:
    tables = pair(seconds, 40)
    on, off = run(tables, Settings(), JOIN), run(tables, Settings(punctuations="off"), JOIN)
    assert on.stats["results"] == off.stats["results"]
    share = on.held[-1] / off.held[-1]
    quarters = [on.held[EPOCHS * n // 4 - 1] for n in (1, 2, 3, 4)]
    instants = [seconds * (n + 1) / EPOCHS for n in range(EPOCHS)]
    curves = {"punctuations on": on.held[:EPOCHS], "punctuations off": off.held[:EPOCHS]}
    RESULTS.mkdir(exist_ok=True)
    plots.lines(
        RESULTS / "held.png",
        "A join without windows: rows held",
        instants,
        curves,
        across="seconds of event time",
        unit="rows",
        log=True,
    )
    return {
        "on": on.held[-1],
        "off": off.held[-1],
        "share": share,
        "quarters": quarters,
        "met": share <= 0.01 and max(quarters) <= 1.5 * min(quarters),
    }


def figure_5_2(seconds: float) -> Figure:
    means = {str(rows): run(pair(seconds, rows), EAGER, JOIN).mean for rows in (10, 20, 30)}
    ratios = [means["20"] / means["10"] / 2, means["30"] / means["10"] / 3]
    return {"rows held": means, "of proportion": ratios, "met": all(0.8 <= ratio <= 1.2 for ratio in ratios)}


def figure_5_4(tables: dict[str, pa.Table]) -> Figure:
    """Eager purging, and looks after every 10 punctuations."""
    means = {purge: run(tables, Settings(purge=purge), JOIN).mean for purge in ("eager", "10")}
    return {"rows held": means, "met": means["eager"] <= means["10"]}


def figure_5_6(seconds: float) -> Figure:
    found = run({"a": by_count(seconds, 10, 1), "b": by_count(seconds, 40, 2)}, EAGER, JOIN)
    a, b = (float(np.mean(found.by_stream[name][EPOCHS // 4 : EPOCHS])) for name in "ab")
    return {"a": a, "b": b, "share": b / a, "met": b <= 0.05 * a}


def figure_5_10(seconds: float) -> Figure:
    found = run(pair(seconds, 40), Settings(propagate="on"), "SELECT a.k FROM a, b WHERE a.k = b.k")
    assert found.told is not None
    closed = min(found.stats["punctuations"].values())
    # Told in proportion to time: the quarters have equally many.
    times = found.told.column("_ts").cast(pa.int64()).to_numpy()
    quarters = np.bincount((times * 4 // (times.max() + 1)).astype(int), minlength=4).tolist()
    share = len(found.told) / closed
    return {"closed": closed, "told": len(found.told), "share": share, "quarters": quarters, "met": share >= 0.99}


def figure_8_1(seconds: float, per_punctuation: int, goals: dict[str, float]) -> Figure:
    """20 open keys, one closes every so many rows: with 50 each lives 2 s."""
    tables, shares = pair(seconds, per_punctuation), {}
    for window in (1, 5, 15):
        select = JOIN.replace("FROM a, b", f"FROM a [RANGE {window} SECONDS] AS a, b [RANGE {window} SECONDS] AS b")
        on, off = run(tables, EAGER, select), run(tables, Settings(punctuations="off"), select)
        assert on.stats["results"] == off.stats["results"]
        shares[str(window)] = on.mean / off.mean
    return {
        "of the window join": shares,
        "goals": goals,
        "met": all(abs(shares[w] / goal - 1) <= 0.1 for w, goal in goals.items())
        and shares["1"] > shares["5"] > shares["15"],
    }


def figure_8_4(tables: dict[str, pa.Table]) -> Figure:
    """When finished keys are told, with windows and without."""
    told = []
    for window in ("", " [RANGE 1 SECOND]"):
        select = f"SELECT a.k FROM a{window} AS a, b{window} AS b WHERE a.k = b.k"
        found = run(tables, Settings(propagate="on", purge="eager"), select).told
        assert found is not None
        told.append(
            dict(zip(found.column("k").to_pylist(), found.column("_ts").cast(pa.int64()).to_pylist(), strict=True))
        )
    plain, windowed = told
    later = sum(windowed.get(key, 1 << 62) > at for key, at in plain.items())
    earlier = sum(windowed[key] < at for key, at in plain.items() if key in windowed)
    # The rate: how many are told in the first half of the time.
    half = max(*plain.values(), *windowed.values()) // 2
    halves = {
        name: sum(at <= half for at in found.values()) for name, found in (("without", plain), ("with", windowed))
    }
    counts = {"keys": len(plain), "earlier with windows": earlier, "later with windows": later}
    return {**counts, "told in the first half": halves, "met": later == 0}


def figure_8_7(seconds: float) -> Figure:
    tables, droppable, join = four_streams(seconds)
    on, off = run(tables, EAGER, join), run(tables, Settings(punctuations="off"), join)
    assert on.stats["results"] == off.stats["results"]
    share = on.mean / off.mean
    return {"droppable": droppable, "dropped": on.stats["dropped_rows"], "rows held": share, "met": share <= 0.7}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=200.0)
    seconds = parser.parse_args().seconds
    shorter, short = min(seconds, 100.0), min(seconds, 50.0)
    asymmetric = {"a": by_count(seconds, 10, 1), "b": by_count(seconds, 20, 2)}
    found = {
        "seconds": seconds,
        "5.1 rows held at the end: at most 1 % of off, and flat": figure_5_1(seconds),
        "5.2 rows held by rows per punctuation: in proportion, 20 %": figure_5_2(seconds),
        "5.6 state of B: at most 5 % of A's": figure_5_6(seconds),
        "5.10 keys told: at least 99 %": figure_5_10(seconds),
        "5.4 rows held: eager at most as many as with looks after 10 punctuations": figure_5_4(pair(seconds, 10)),
        "5.9 the same where B closes a key per 20 rows": figure_5_4(asymmetric),
        "8.1 rows held of the window join: 75, 20, 7 %, within 10 %": figure_8_1(shorter, 50, FAST_KEYS),
        "8.1 as printed, one punctuation per 100 rows: fewer with larger windows": figure_8_1(shorter, 100, SLOW_KEYS),
        "8.4 keys told: never later with windows": figure_8_4(
            {"a": by_clock(short, 40, 1), "b": by_count(short, 44, 2)},
        ),
        "8.4 as printed, one punctuation per 30 rows in both streams": figure_8_4(
            {"a": by_count(short, 30, 1), "b": by_count(short, 30, 2)},
        ),
        "8.7 rows held where 40 % can be dropped: at most 0.7": figure_8_7(seconds),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "counts.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
