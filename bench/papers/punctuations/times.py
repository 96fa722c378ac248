"""Punctuations by time. `PYTHONPATH=. python bench/papers/punctuations/times.py [--seconds 200] [--turns 5]`

Answer   Contenders in turns, CPU seconds of this process, the least of all turns. Figure 5.3: results per second of the
         last quarter against the first, and with `probe = 'loop'` and `heralds = 'off'` on against off. 5.5: `purge =
         auto` against thresholds. 5.8: lazy and eager purging against `punctuations = off` where one stream closes keys
         twice as often as the other. 5.10: announcing values against not; it has no goal. 8.3: punctuations of keys
         that no row has, against `punctuations = off` over the same streams, and against streams without any. 8.7: four
         streams, 40 % of whose rows can be dropped, on against off, and off over the streams without these rows. Prints
         each with its goal. Rows come in epochs of the usual size (`epoch_rows`), the same for all contenders; `--rows
         2500` makes them smaller, and what an epoch costs whatever it brings counts for more.
State    results/times.json: of each figure what was found last. `--figures 8.3,8.7` measures these only.
Limits   A machine that does other work at the same time makes all of them slower, in turns about alike; `busy` in the
         file says whether that was so.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent))

from streams import JOIN, by_count, four_streams, pair, without_droppable

from eddyline import Session
from eddyline.settings import Settings

RESULTS = Path(__file__).parent / "results"
#: Rows of an epoch, of all streams together.
ROWS = Settings().epoch_rows


def epochs_of(tables: Mapping[str, pa.Table]) -> int:
    """Four quarters of so many epochs that none has more rows than `ROWS`."""
    return 4 * -(-sum(map(len, tables.values())) // (4 * ROWS))


def seconds_of(tables: Mapping[str, pa.Table], settings: Settings, select: str, epochs: int = 0) -> list[float]:
    """CPU seconds of every epoch."""
    found = []
    epochs = epochs or epochs_of(tables)
    # What the run before has left behind is not this one's.
    gc.collect()
    with Session(settings, keep_results=False) as session:
        for name in tables:
            session.execute(
                f"CREATE STREAM {name} (k BIGINT, done BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'done')"
            )
        session.query("q", select)
        for epoch in range(epochs):
            for name, table in tables.items():
                first, last = (len(table) * n // epochs for n in (epoch, epoch + 1))
                session.push(name, table.slice(first, last - first))
            began = process_time()
            session.step()
            found.append(process_time() - began)
    return found


def in_turns(contenders: Mapping[str, Callable[[], list[float]]], turns: int) -> dict[str, np.ndarray]:
    """The least seconds of every epoch over all turns, by contender; one turn more warms up."""
    best: dict[str, np.ndarray] = {}
    for turn in range(turns + 1):
        for name, run in contenders.items():
            times = np.array(run())
            if turn:
                best[name] = np.minimum(best[name], times) if name in best else times
    return best


def totals(contenders: Mapping[str, Callable[[], list[float]]], turns: int) -> dict[str, float]:
    return {name: float(times.sum()) for name, times in in_turns(contenders, turns).items()}


def figure_5_3(seconds: float, turns: int) -> dict[str, Any]:
    tables = pair(seconds, 40)
    hashed = in_turns({"on": lambda: seconds_of(tables, Settings(), JOIN)}, turns)["on"]
    quarter = len(hashed) // 4
    rate = float(hashed[:quarter].sum() / hashed[-quarter:].sum())
    # A loop looks at every stored row; with heralds, ranges of stored stretches would leave out those whose keys lie
    # elsewhere.
    speeds = {}
    for heralds, rounds in (("off", max(1, turns // 2)), ("auto", turns)):
        wanted = {p: Settings(probe="loop", heralds=heralds, punctuations=p) for p in ("on", "off")}
        found = totals({p: (lambda s=s: seconds_of(tables, s, JOIN)) for p, s in wanted.items()}, rounds)
        speeds[heralds] = found["off"] / found["on"]
    shares = {
        "last quarter to first": rate,
        "loop, on to off": speeds["off"],
        "loop with ranges of stretches, on to off": speeds["auto"],
    }
    return {**shares, "met": rate >= 0.95 and speeds["off"] >= 5}


def figure_5_5(seconds: float, turns: int) -> dict[str, Any]:
    """One punctuation per 10 rows, and the dissertation's thresholds."""
    tables = pair(seconds, 10)
    wanted = ("auto", "eager", "10", "100", "400", "800")
    found = totals({p: (lambda p=p: seconds_of(tables, Settings(purge=p), JOIN)) for p in wanted}, turns)
    return {
        "seconds": found,
        "auto to best": found["auto"] / min(found.values()),
        "met": found["auto"] <= 1.05 * min(found.values()),
    }


def figure_5_8(seconds: float, turns: int) -> dict[str, Any]:
    """One punctuation per 10 rows of the first stream and per 20 of the second; the lazy one is `purge = auto`."""
    tables = {"a": by_count(seconds, 10, 1), "b": by_count(seconds, 20, 2)}
    wanted = {
        "lazy": Settings(),
        "400": Settings(purge="400"),
        "eager": Settings(purge="eager"),
        "off": Settings(punctuations="off"),
    }
    found = totals({n: (lambda s=s: seconds_of(tables, s, JOIN)) for n, s in wanted.items()}, turns)
    shares = {f"{name} to off": found["off"] / spent for name, spent in found.items() if name != "off"}
    return {**shares, "met": shares["lazy to off"] >= 0.97}


def figure_5_10(seconds: float, turns: int) -> dict[str, Any]:
    tables = pair(seconds, 40)
    found = totals(
        {p: (lambda p=p: seconds_of(tables, Settings(propagate=p), JOIN)) for p in ("off", "on", "1000")}, turns
    )
    return {f"{name} to off": found["off"] / found[name] for name in ("on", "1000")}


def figure_8_3(seconds: float, turns: int) -> dict[str, Any]:
    """Punctuations of keys below zero, which no row has, one per 30 rows."""
    tables = pair(seconds, 30)
    none = {name: table.filter(pa.array(~table.column("done").to_numpy())) for name, table in tables.items()}
    useless = {}
    for name, table in tables.items():
        done = table.column("done").to_numpy()
        useless[name] = table.set_column(
            0, "k", pa.array(np.where(done, -1 - table.column("k").to_numpy(), table.column("k").to_numpy()))
        )
    select = JOIN.replace("FROM a, b", "FROM a [RANGE 1 SECOND] AS a, b [RANGE 1 SECOND] AS b")
    off = Settings(punctuations="off")
    wanted = {"none": (none, Settings()), "off": (useless, off), "useless": (useless, Settings())}
    found = totals({n: (lambda t=t, s=s: seconds_of(t, s, select)) for n, (t, s) in wanted.items()}, turns)
    shares = {f"useless to {name}": found[name] / found["useless"] for name in ("off", "none")}
    return {**shares, "met": shares["useless to off"] >= 0.97}


def figure_8_7(seconds: float, turns: int) -> dict[str, Any]:
    """One join of all four streams, as the dissertation's (`plan = 'mjoin'`), with the punctuated stream first and last
    in FROM; beside it
    with the tree that the planner chooses. What dropping could save at most: `off` over the streams without the rows
    that can be dropped, in the same epochs."""
    tables, _, join = four_streams(seconds)
    less = without_droppable(tables)
    epochs = epochs_of(tables)
    shares = {}
    for name, order, plan in (
        ("first", "abcd", "mjoin"),
        ("last", "dbca", "mjoin"),
        ("first, tree of the planner", "abcd", "auto"),
    ):
        given = {
            "on": (tables, Settings(plan=plan)),
            "off": (tables, Settings(punctuations="off", plan=plan)),
            "off without them": (less, Settings(punctuations="off", plan=plan)),
        }
        placed = {
            of: {to: streams[at] for to, at in zip("abcd", order, strict=True)} for of, (streams, _) in given.items()
        }
        run = {of: (lambda of=of, s=s, p=placed: seconds_of(p[of], s, join, epochs)) for of, (_, s) in given.items()}
        found = totals(run, turns)
        shares |= {f"{of} to off, punctuated stream {name}": found[of] / found["off"] for of in given if of != "off"}
    return {**shares, "met": max(share for name, share in shares.items() if name.startswith("on")) <= 0.85}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of an epoch")
    parser.add_argument("--figures", default="", help="those to measure, separated by commas; all otherwise")
    parser.add_argument("--busy", action="store_true", help="the machine does other work at the same time")
    args = parser.parse_args()
    figures = {
        "5.3 rate of the last quarter at least 0.95 of the first; loop: at least 5x off": figure_5_3,
        "5.5 auto within 5 % of the best threshold": figure_5_5,
        "5.8 lazy: at least 0.97 of off": figure_5_8,
        "5.10 announcing values, no goal": figure_5_10,
        "8.3 useless punctuations: at least 0.97": figure_8_3,
        "8.7 four streams: at most 0.85": figure_8_7,
    }
    globals()["ROWS"] = args.rows
    path = RESULTS / "times.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    chosen = [title for title in figures if not args.figures or title.split()[0] in args.figures.split(",")]
    for title in chosen:
        measured = figures[title](args.seconds, args.turns)
        about = {
            "seconds of event time": args.seconds,
            "turns": args.turns,
            "busy": args.busy,
            "rows of an epoch": args.rows,
        }
        found[title if args.rows == Settings().epoch_rows else f"{title}; epochs of {args.rows:,} rows"] = {
            **measured,
            **about,
        }
        print(title, json.dumps(measured), flush=True)
        RESULTS.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
