"""Heralds and zones: the dissertation's parameters, with and without.

Answer   `python -m bench.papers.run heralds [15.2 13.1 15.5 15.7 15.8 clusters nothing lies band filters]` runs what is named
         (everything, if nothing is), checks that results are equal with and without, prints a line per setting and keeps them in
         `results/figures.json`.
Limits   CPU seconds of this process without the reading of the data, the least of a few rounds that take turns.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline import Session
from eddyline.settings import Settings

HERE = Path(__file__).parent
ROUNDS = 3
WIDTH = 1_000


@dataclass(frozen=True)
class Setting:
    """50 partitions per stream; a pair of partitions can match with probability 1 - drop, and must with probability `passing`."""

    size: int = 50
    drop: float = 0.0
    #: What the filters of the first and of the second stream let through: the plan of the dissertation has one on its first input.
    select: float = 0.2
    second: float = 1.0
    passing: float = 0.0
    partitions: int = 50
    heralds: bool = True
    #: Every so many-th herald is false for one row; 0: none is.
    lies: int = 0
    is_shuffled: bool = False
    condition: str = "a.x BETWEEN b.x - 1000 AND b.x + 1000"


def stream(setting: Setting, rng: np.random.Generator, is_second: bool) -> pa.Table:
    """The rows of a stream, each partition after its herald; `s` is what the filter looks at."""
    rows = setting.size * setting.partitions
    buckets = max(1, round(1 / (1 - setting.drop))) if setting.drop < 1 else 1
    if setting.passing:
        # Second partitions lie above all first ones, or among them.
        above = rng.permutation(setting.partitions) < setting.passing * setting.partitions
        base = np.where(above, 5 * WIDTH, 0) if is_second else np.zeros(setting.partitions, np.int64)
    else:
        base = rng.integers(0, buckets, setting.partitions) * 4 * WIDTH
    x = np.repeat(base, setting.size) + rng.integers(0, WIDTH, rows)
    if setting.is_shuffled:
        rng.shuffle(x)
    notes: list[str | None] = [None] * rows
    places = np.arange(rows) * 1_000 + is_second
    table = pa.table({"x": x, "s": rng.random(rows), "note": pa.array(notes, pa.string()), "ts": pa.array(places, pa.timestamp("us"))})
    if not setting.heralds:
        return table
    pieces = []
    for at, low in enumerate(base.tolist()):
        wrong = setting.lies and at % setting.lies == 0
        text = f"x >= {low + (10 if wrong else 0)} AND x < {low + WIDTH} FOR {setting.size} ROWS"
        first = at * setting.size
        said = {"x": [None], "s": [None], "note": [text], "ts": pa.array([int(places[first])], pa.timestamp("us"))}
        pieces += [pa.table(said, schema=table.schema), table.slice(first, setting.size)]
    return pa.concat_tables(pieces)


def timed(setting: Setting, mode: str) -> tuple[float, int, dict[str, Any]]:
    """CPU seconds, results, and what was counted."""
    rng = np.random.default_rng(16)
    with Session(Settings(heralds=mode), keep_results=False) as session:
        for name in "ab":
            session.execute(f"CREATE STREAM {name} (x BIGINT, s DOUBLE, note STRING, ts TIMESTAMP) WITH (time = 'ts', herald = 'note')")
        session.query(
            "q",
            f"SELECT a.x AS ax, b.x AS bx FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE {setting.condition} AND a.s < {setting.select} "
            f"AND b.s < {setting.second}",
        )
        # A standing query: its plan is made before its rows come.
        session.step()
        for name in "ab":
            session.push(name, stream(setting, rng, name == "b"))
        began = time.process_time()
        session.run(once=True)
        return time.process_time() - began, session.stats()["results"]["q"], session.stats()


def compared(title: str, setting: Setting, rounds: int = ROUNDS) -> dict[str, Any]:
    """The least time with zones against the least without, in turns; results are equal."""
    best: dict[str, float] = {}
    join: dict[str, float] = {}
    found: dict[str, int] = {}
    stats: dict[str, Any] = {}
    for _ in range(rounds):
        for mode in ("off", "auto"):
            seconds, results, counted = timed(setting, mode)
            best[mode] = min(best.get(mode, seconds), seconds)
            alone = sum(one["seconds"] for name, one in counted["operators"].items() if not name.startswith("input "))
            join[mode] = min(join.get(mode, alone), alone)
            found[mode] = results
            stats = counted if mode == "auto" else stats
    assert found["off"] == found["auto"], f"{title}: {found}"
    line = {
        "title": title, "off": round(best["off"], 4), "auto": round(best["auto"], 4), "ratio": round(best["auto"] / best["off"], 3),
        "results": found["auto"], "zones_skipped": stats["zones_skipped"], "zones_passed": stats["zones_passed"],
        "conditions_avoided": stats["conditions_avoided"], "violations": stats["violations"],
        "join_off": round(join["off"], 5), "join_auto": round(join["auto"], 5), "join_ratio": round(join["auto"] / join["off"], 3),
    }  # fmt: skip
    print(
        f"{title:44s} off {line['off']:8.3f} s   auto {line['auto']:8.3f} s   ratio {line['ratio']:.3f}   "
        f"join alone {line['join_ratio']:.3f}   {line['results']:,} results",
        flush=True,
    )
    return line


LARGE = Setting(select=1.0)


def _drops() -> list[dict[str, Any]]:
    return [compared(f"size {s}, drop rate {d}", replace(LARGE, size=s, drop=d)) for s in (20, 50, 100) for d in (0.0, 0.5, 0.9)]


def _plan() -> list[dict[str, Any]]:
    """The plan of the dissertation: one select of 0.2."""
    sizes = (20, 50, 100)
    return [compared(f"select 0.2, size {s}, drop rate {d}", Setting(size=s, drop=d), 9) for s in sizes for d in (0.0, 0.5, 0.9)]


def _selects() -> list[dict[str, Any]]:
    return [compared(f"select {s}, drop rate 0.9", Setting(drop=0.9, select=s), 9) for s in (0.1, 0.4)]


def _select_alone() -> list[dict[str, Any]]:
    """10,000 ranges over partitions of 200 rows, of which a share lies beyond all ranges: milliseconds for 50 partitions."""
    lines = []
    for rate in (0.0, 0.3, 0.6, 0.9):
        rng = np.random.default_rng(16)
        far = rng.permutation(50) < rate * 50
        starts = [int(rng.integers(0, 990_000)) + (2_000_000 if away else 0) for away in far]
        batches = [{"x": pa.array(rng.integers(start, start + 10_000, 200))} for start in starts]
        off, on = _ranges_over(batches)
        lines.append({"title": f"select alone, drop rate {rate}", "off_ms": round(off, 3), "on_ms": round(on, 3)})
        print(f"{lines[-1]['title']:44s} off {off:8.3f} ms  on {on:8.3f} ms", flush=True)
    return lines


def _passes() -> list[dict[str, Any]]:
    return [compared(f"pass rate {p}", replace(LARGE, passing=p, condition="a.x < b.x")) for p in (0.0, 0.5, 0.9)]


def _clusters() -> list[dict[str, Any]]:
    return [compared("no herald, clusters of 1,000", replace(LARGE, size=1_000, partitions=5, drop=0.9, heralds=False))]


def _nothing() -> list[dict[str, Any]]:
    return [compared(f"nothing to gain, size {s}", replace(LARGE, size=s, is_shuffled=True, heralds=False)) for s in (20, 50, 100, 200)]


def _lies() -> list[dict[str, Any]]:
    return [compared(f"a lie in {n} spans" if n else "no lie", replace(LARGE, drop=0.9, lies=n)) for n in (0, 10)]


def _band() -> list[dict[str, Any]]:
    """Beside off and auto, DuckDB's range join over the same rows."""
    import duckdb

    setting = replace(LARGE, size=1_000, partitions=5, drop=0.9, heralds=False, condition="a.x BETWEEN b.x - 1 AND b.x + 1")
    line = compared("band join a.x BETWEEN b.x - 1 AND b.x + 1", setting)
    rng = np.random.default_rng(16)
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for name in "ab":
            connection.register(name, stream(setting, rng, name == "b"))
        seconds = []
        for _ in range(ROUNDS):
            began = time.process_time()
            found = connection.sql("SELECT a.x, b.x FROM a, b WHERE a.x BETWEEN b.x - 1 AND b.x + 1").to_arrow_table()
            seconds.append(time.process_time() - began)
        assert len(found) == line["results"]
    print(f"{'':44s} DuckDB {min(seconds):.4f} s, over the whole input at once", flush=True)
    return [{**line, "duckdb": round(min(seconds), 4)}]


def _filters() -> list[dict[str, Any]]:
    """10,000 range queries on batches of 1,000 rows within 1 % of the domain: milliseconds per batch."""
    rng, domain = np.random.default_rng(16), 1_000_000
    starts = rng.integers(0, domain - domain // 100, 200).tolist()
    batches = [{"x": pa.array(rng.integers(start, start + domain // 100, 1_000))} for start in starts]
    off, on = (total / len(batches) for total in _ranges_over(batches))
    print(f"{'10,000 ranges, batches within 1 %':44s} off {off:8.4f} ms  on {on:8.4f} ms  speed {off / on:.2f}", flush=True)
    return [{"title": "filters", "off_ms": round(off, 4), "on_ms": round(on, 4), "speed": round(off / on, 3)}]


def _ranges_over(batches: list[dict[str, pa.Array]]) -> tuple[float, float]:
    """Milliseconds that 10,000 ranges within a million take for all batches, without zones and with them; the least of some rounds."""
    from eddyline.model.datatypes import BIGINT
    from eddyline.model.expression import Call, ColumnRef, Literal
    from eddyline.model.functions import resolve
    from eddyline.operators.sharing.grouped_filter import GroupedFilter
    from eddyline.tuning import SharingTuning

    rng, domain = np.random.default_rng(16), 1_000_000
    groups = {sorts_out: GroupedFilter(None, SharingTuning(), sorts_out) for sorts_out in (False, True)}
    for slot in range(10_000):
        low, column = int(rng.integers(0, domain)), ColumnRef("a", "x", BIGINT)
        parts = resolve(">=", (column, Literal(low, BIGINT))), resolve("<", (column, Literal(low + 100, BIGINT)))
        for group in groups.values():
            group.add(slot, Call("and", parts, parts[0].type), "a")
    best: dict[bool, float] = {}
    for _ in range(3 * ROUNDS):
        for sorts_out, group in groups.items():
            began = time.process_time()
            for batch in batches:
                group.match_pairs(batch, len(batch["x"]))
            seconds = time.process_time() - began
            best[sorts_out] = min(best.get(sorts_out, seconds), seconds)
    return best[False] * 1e3, best[True] * 1e3


FIGURES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "15.2": _drops,
    "13.1": _plan,
    "15.5": _selects,
    "15.7": _passes,
    "15.8": _select_alone,
    "clusters": _clusters,
    "nothing": _nothing,
    "lies": _lies,
    "band": _band,
    "filters": _filters,
}


def main() -> None:
    wanted = sys.argv[1:] or list(FIGURES)
    if unknown := [name for name in wanted if name not in FIGURES]:
        sys.exit(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    timed(replace(LARGE, size=5), "auto")
    timed(replace(LARGE, size=5), "off")
    path = HERE / "results" / "figures.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    for name in wanted:
        known[name] = FIGURES[name]()
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
