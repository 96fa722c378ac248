"""Heralds and zones: the dissertation's experiments, and what the engine promises beside them.

Answer   `python -m bench.papers.run heralds [15.2 15.3 15.4 once 15.5 15.7 15.8 clusters nothing lies band filters w1]`
         runs what is named (everything, if nothing is), checks that results are equal with and without, compares
         figures with their goals, prints a line per setting and keeps them in `results/figures.json`. It ends with 1 if
         a goal was missed.
Limits   CPU seconds of this process from the first row read to the end of the run; the least of some rounds that take
         turns. Every round draws other rows, so that no round knows the heralds of another.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from partitions import Clusters, Figure131, with_heralds

from bench import workloads
from eddyline import Session
from eddyline.settings import Settings

HERE = Path(__file__).parent
ROUNDS = 7
#: How often the 50 partitions of a window come in a run, by the size of a partition: some 20,000 rows per stream.
LENGTHS = {20: 20, 50: 10, 100: 5, 200: 3}
Setting = Figure131 | Clusters
missed: list[str] = []


def lasting(size: int = 50, **rates: Any) -> Figure131:
    """A run that goes on: windows hold 50 partitions per stream, and partitions come and go."""
    return Figure131(size=size, rounds=LENGTHS[size], **rates)


def judged(
    line: dict[str, Any], what: str, value: float, most: float | None = None, least: float | None = None
) -> None:
    """Compare a figure with its goal."""
    goal = f"{what} {value:.3f} (at most {most})" if most is not None else f"{what} {value:.3f} (at least {least})"
    is_met = (most is None or value <= most) and (least is None or value >= least)
    line.setdefault("goals", []).append({"goal": goal, "met": bool(is_met)})
    print(f"{'':44s} {goal}: {'met' if is_met else 'MISSED'}", flush=True)
    if not is_met:
        missed.append(f"{line['title']}: {goal}")


def timed(setting: Setting, mode: str, says: bool) -> tuple[float, int, dict[str, Any]]:
    """CPU seconds, results, and what was counted; `says`: the heralds are among the rows."""
    with Session(Settings(heralds=mode), keep_results=False) as session:
        for name in "ab":
            column, option = (", note STRING", ", herald = 'note'") if says else ("", "")
            session.execute(f"CREATE STREAM {name} (x BIGINT{column}, ts TIMESTAMP) WITH (time = 'ts'{option})")
        session.query(
            "q",
            f"SELECT a.x AS ax, b.x AS bx FROM a [{setting.window}], b [{setting.window}] WHERE {setting.condition}",
        )
        # A standing query: its plan is made before its rows come.
        session.step()
        for name, (rows, heralds) in setting.streams().items():
            # Contenders that hear the same heralds read texts of their own: neither finds them known.
            session.push(
                name,
                with_heralds(rows, [(place, text + " " * (mode == "off")) for place, text in heralds])
                if says
                else rows,
            )
        began = time.process_time()
        session.run(final=False)
        return time.process_time() - began, session.stats()["results"]["q"], session.stats()


def compared(title: str, setting: Setting, rounds: int = ROUNDS) -> dict[str, Any]:
    """The herald approach (`auto`) against the regular one (`off`), which has the same rows without heralds and asks no
    zones; and in a
    short run against `same`, which asks no zones and checks the heralds. In turns."""
    says = isinstance(setting, Figure131) and not setting.is_shuffled
    is_short = isinstance(setting, Figure131) and setting.rounds == 1
    modes = {"off": ("off", False), "auto": ("auto", says), **({"same": ("off", True)} if says and is_short else {})}
    seconds: dict[str, list[float]] = {name: [] for name in modes}
    counted: dict[str, Any] = {}
    for turn in range(rounds):
        drawn = replace(setting, seed=setting.seed + turn) if isinstance(setting, Figure131) else setting
        found: dict[str, int] = {}
        for name, (mode, is_said) in modes.items() if turn % 2 else reversed(modes.items()):
            took, found[name], stats = timed(drawn, mode, is_said)
            seconds[name].append(took)
            counted = stats if name == "auto" else counted
        assert len(set(found.values())) == 1, f"{title}: {found}"
    best = {name: min(took) for name, took in seconds.items()}
    ratios = {
        name: median(a / b for a, b in zip(seconds["auto"], seconds[name], strict=True))
        for name in ("off", "same")
        if name in seconds
    }
    line = {
        "title": title, **{name: round(took, 5) for name, took in best.items()}, "ratio": round(best["auto"] / best["off"], 3),
        **{f"median_ratio_to_{name}": round(ratio, 3) for name, ratio in ratios.items()}, "results": found["auto"],
        "median_auto": round(median(seconds["auto"]), 5),
        **{name: counted[name] for name in ("zones_skipped", "zones_passed", "conditions_avoided")},
    }  # fmt: skip
    print(
        f"{title:42s} "
        + "  ".join(f"{name} {took * 1e3:.2f}" for name, took in best.items())
        + f" ms  ratio {line['ratio']:.3f}; medians of turns "
        + ", ".join(f"to {name} {ratio:.3f}" for name, ratio in ratios.items())
        + f"  {found['auto']:,} results",
        flush=True,
    )
    return line


#: Of the regular approach's time at drop rate 0.9, by the size of a partition.
DROPS = {20: 0.5, 50: 0.2, 100: 0.15}


def _drops(size: int) -> list[dict[str, Any]]:
    lines = [compared(f"size {size}, drop rate {d}", lasting(size, drop=d), 5) for d in (0.0, 0.3, 0.6, 0.9)]
    judged(lines[-1], "of off", lines[-1]["median_ratio_to_off"], most=DROPS[size])
    judged(
        lines[-1], "auto of its time at rate 0, medians", lines[-1]["median_auto"] / lines[0]["median_auto"], most=1.0
    )
    return lines


def _once() -> list[dict[str, Any]]:
    """A run of 50 partitions per stream and no more: what a run costs as such counts."""
    lines = []
    for size, most in DROPS.items():
        lines.append(compared(f"50 partitions once, size {size}, drop rate 0.9", Figure131(size=size, drop=0.9)))
        judged(lines[-1], "of off", lines[-1]["median_ratio_to_off"], most=most)
    return lines


def _selects() -> list[dict[str, Any]]:
    lines = [
        compared(f"select {s}, drop rate {d}", lasting(drop=d, select=s), 5) for s in (0.1, 0.4) for d in (0.0, 0.9)
    ]
    gained = [line["median_ratio_to_off"] for line in lines if "0.9" in line["title"]]
    judged(lines[-1], "of off, to that at select 0.1", gained[1] / gained[0], most=1.0)
    return lines


def _passes() -> list[dict[str, Any]]:
    """Beside time, the share of pairs that are tested."""
    lines = []
    for rate in (0.1, 0.5, 0.9):
        line = compared(f"pass rate {rate}", Figure131(passing=rate))
        # What was counted is that of the last turn.
        rows = {
            name: rows.column("x").to_numpy()
            for name, (rows, _) in Figure131(passing=rate, seed=16 + ROUNDS - 1).streams().items()
        }
        tested = 1 - line["conditions_avoided"] / (len(rows["a"]) * np.count_nonzero(rows["b"] > 1_000))
        print(f"{'':44s} {tested:.1%} of the pairs are tested", flush=True)
        lines.append({**line, "tested": round(tested, 4)})
    judged(lines[-1], "of off", lines[-1]["median_ratio_to_off"], most=0.7)
    judged(lines[-1], "pairs tested", lines[-1]["tested"], most=0.12)
    return lines


def _clusters() -> list[dict[str, Any]]:
    line = compared("no herald, clusters of 1,000", Clusters(), 3)
    judged(line, "of off", line["median_ratio_to_off"], most=0.2)
    return [line]


def _nothing() -> list[dict[str, Any]]:
    """Rates 0 and shuffled rows."""
    lines = [compared(f"nothing to gain, size {s}", Figure131(size=s, is_shuffled=True)) for s in (20, 50, 100, 200)]
    for line in lines:
        judged(line, "speed", 1 / line["median_ratio_to_off"], least=0.97)
    return lines


def _lies() -> list[dict[str, Any]]:
    """The same rows and heralds with a false row in every tenth span, and without."""
    seconds: dict[int, list[float]] = {0: [], 10: []}
    for turn in range(3 * ROUNDS):
        for lies in (0, 10) if turn % 2 else (10, 0):
            took, _, stats = timed(lasting(100, drop=0.9, lies=lies, seed=16 + turn), "auto", True)
            assert sum(stats["violations"].values()) == (10 * LENGTHS[100] if lies else 0)
            seconds[lies].append(took)
    cost = min(seconds[10]) / min(seconds[0]), median(a / b for a, b in zip(seconds[10], seconds[0], strict=True))
    print(
        f"{'a lie in every tenth span':44s} costs {cost[0]:.3f} by the least times, median of turns {cost[1]:.3f}",
        flush=True,
    )
    line: dict[str, Any] = {
        "title": "a lie in every tenth span",
        "ratio": round(cost[0], 3),
        "median_ratio": round(cost[1], 3),
    }
    judged(line, "median of turns", cost[1], most=1.05)
    return [line]


def _band() -> list[dict[str, Any]]:
    """Beside off and auto, DuckDB's range join over the same rows."""
    import duckdb

    setting = Clusters(reach=1)
    line = compared("band join a.x BETWEEN b.x - 1 AND b.x + 1", setting, 3)
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for name, (rows, _) in setting.streams().items():
            connection.register(name, rows)
        seconds = []
        for _ in range(ROUNDS):
            began = time.process_time()
            connection.sql("SELECT a.x, b.x FROM a, b WHERE a.x BETWEEN b.x - 1 AND b.x + 1").to_arrow_table()
            seconds.append(time.process_time() - began)
    print(f"{'':44s} DuckDB {min(seconds) * 1e3:.2f} ms, over the whole input at once", flush=True)
    judged(line, "of off", line["median_ratio_to_off"], most=0.1)
    return [{**line, "duckdb": round(min(seconds), 4)}]


def _filters() -> list[dict[str, Any]]:
    """10,000 range queries on batches of 1,000 rows within 1 % of the domain: milliseconds per batch."""
    rng, domain = np.random.default_rng(16), 1_000_000
    starts = rng.integers(0, domain - domain // 100, 200).tolist()
    batches = [{"x": pa.array(rng.integers(start, start + domain // 100, 1_000))} for start in starts]
    off, on = (total / len(batches) for total in _ranges_over(batches))
    print(
        f"{'10,000 ranges, batches within 1 %':44s} off {off:8.4f} ms  on {on:8.4f} ms  speed {off / on:.2f}",
        flush=True,
    )
    line: dict[str, Any] = {
        "title": "filters",
        "off_ms": round(off, 4),
        "on_ms": round(on, 4),
        "speed": round(off / on, 3),
    }
    judged(line, "speed", off / on, least=1.5)
    return [line]


def _select_alone() -> list[dict[str, Any]]:
    """10,000 ranges over 50 partitions of 200 rows in one batch, of which a share lies beyond all ranges: milliseconds
    per batch."""
    lines = []
    for rate in (0.0, 0.3, 0.6, 0.9):
        rng = np.random.default_rng(16)
        far = rng.permutation(50) < rate * 50
        starts = [int(rng.integers(0, 990_000)) + (2_000_000 if away else 0) for away in far]
        values = np.concatenate([rng.integers(start, start + 10_000, 200) for start in starts])
        off, on = (total / 5 for total in _ranges_over([{"x": pa.array(values)}] * 5))
        lines.append({"title": f"select alone, drop rate {rate}", "off_ms": round(off, 3), "on_ms": round(on, 3)})
        print(f"{lines[-1]['title']:44s} off {off:8.3f} ms  on {on:8.3f} ms", flush=True)
        # In proportion: what is left is the share of partitions that is left, and a tenth of the whole.
        judged(lines[-1], "on of its time at rate 0", on / lines[0]["on_ms"], most=round(1 - rate + 0.1, 2))
    return lines


def _ranges_over(batches: list[dict[str, pa.Array]]) -> tuple[float, float]:
    """Milliseconds that 10,000 ranges within a million take for all batches, without zones and with them; the least of
    some rounds."""
    from eddyline.model.datatypes import BIGINT
    from eddyline.model.expressions.expression import Call, ColumnRef, Literal
    from eddyline.model.expressions.functions import resolve
    from eddyline.operators.sharing.grouped_filter import GroupedFilter
    from eddyline.tuning import SharingTuning

    rng, domain = np.random.default_rng(16), 1_000_000
    groups = {sorts_out: GroupedFilter(None, SharingTuning(), sorts_out) for sorts_out in (False, True)}
    for slot in range(10_000):
        low, column = int(rng.integers(0, domain)), ColumnRef("a", "x", BIGINT)
        parts = resolve(">=", (column, Literal(low, BIGINT))), resolve("<", (column, Literal(low + 100, BIGINT)))
        for group in groups.values():
            group.add(slot, Call("and", parts, parts[0].type), "a")
    # A batch takes less than a millisecond: the least time of each counts, of many.
    best: dict[tuple[bool, int], float] = {}
    for _ in range(10 * ROUNDS):
        for sorts_out, group in groups.items():
            for at, batch in enumerate(batches):
                began = time.process_time()
                group.match_pairs(batch, len(batch["x"]))
                seconds = time.process_time() - began
                best[sorts_out, at] = min(best.get((sorts_out, at), seconds), seconds)
    off, on = (1e3 * sum(took for (way, _), took in best.items() if way == sorts_out) for sorts_out in (False, True))
    return off, on


def _w1() -> list[dict[str, Any]]:
    """W1 with `auto` against `off`: nine turns of both, the median of the ratios."""
    made, ratios = workloads.make("W1"), []

    def once(mode: str) -> float:
        session = Session(Settings(heralds=mode), keep_results=False)
        session.execute(made.job("epoch_rows = 20000"))
        began = time.process_time()
        session.run(final=False)
        return time.process_time() - began

    for turn in range(10):
        first, second = ("off", "auto") if turn % 2 else ("auto", "off")
        took = {first: once(first), second: once(second)}
        if turn:
            ratios.append(took["off"] / took["auto"])
    print(
        f"{'W1, speed of auto against off':44s} median {median(ratios):.3f} of {[round(r, 3) for r in ratios]}",
        flush=True,
    )
    line: dict[str, Any] = {"title": "W1", "speed": round(median(ratios), 3), "turns": [round(r, 3) for r in ratios]}
    judged(line, "speed", median(ratios), least=0.98)
    return [line]


FIGURES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "15.2": partial(_drops, 50),
    "15.3": partial(_drops, 20),
    "15.4": partial(_drops, 100),
    "once": _once,
    "15.5": _selects,
    "15.7": _passes,
    "15.8": _select_alone,
    "clusters": _clusters,
    "nothing": _nothing,
    "lies": _lies,
    "band": _band,
    "filters": _filters,
    "w1": _w1,
}


def main() -> None:
    wanted = sys.argv[1:] or list(FIGURES)
    if unknown := [name for name in wanted if name not in FIGURES]:
        sys.exit(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    for setting in (Figure131(size=5), Figure131(passing=0.9), lasting(drop=0.9), Clusters(size=100)):
        for mode, says in (("auto", True), ("off", True), ("off", False)):
            timed(setting, mode, says and isinstance(setting, Figure131))
    path = HERE / "results" / "figures.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known = {name: lines for name, lines in known.items() if name in FIGURES}
    path.parent.mkdir(exist_ok=True)
    for name in wanted:
        known[name] = FIGURES[name]()
        path.write_text(json.dumps(known, indent=1) + "\n")
    if missed:
        sys.exit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
