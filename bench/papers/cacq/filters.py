"""Grouped filters: does the cost per row follow the matches rather than the queries?

Answer   Rows per second of the filter step for growing sets of standing queries that together match 200,000 of 200,000
         rows, beside the same queries evaluated one by one with NumPy; the price of adding and removing one query;
         bytes per query; epochs of a few rows. Prints each figure with its goal and writes `results/filters.json` and
         `.png`.
Limits   One process, one thread; the best of several rounds, in which all take turns. Parsing and binding are not
         included.

    python bench/papers/cacq/filters.py [--rounds 9]
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import matplotlib
import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import BIGINT, BOOLEAN, DOUBLE, STRING, DataType
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal
from eddyline.operators.sharing.grouped_filter import GroupedFilter

ROWS, BATCH = 200_000, 20_000
RESULTS = Path(__file__).parent / "results"

Query = tuple[Expression, Callable[[dict[str, np.ndarray]], np.ndarray]]


def compare(function: str, column: str, kind: DataType, value: object) -> Expression:
    return Call(function, (ColumnRef("s", column, kind), Literal(value, kind)), BOOLEAN)


def both(*parts: Expression) -> Expression:
    whole = parts[0]
    for part in parts[1:]:
        whole = Call("and", (whole, part), BOOLEAN)
    return whole


def stream(random: np.random.Generator) -> dict[str, np.ndarray]:
    codes = random.integers(0, 100_000, ROWS)
    return {
        "x": random.random(ROWS),
        "y": random.random(ROWS),
        "k": codes,
        "name": np.array([f"item-{c:06d}" for c in codes]),
    }


def ranges(random: np.random.Generator, count: int, column: str = "x", width: float | None = None) -> Iterable[Query]:
    """Two-sided ranges that together match each row once on average."""
    width = 1 / count if width is None else width
    for low in random.random(count) * (1 - width):
        high = float(low) + width
        yield (
            both(compare(">=", column, DOUBLE, float(low)), compare("<", column, DOUBLE, high)),
            lambda rows, low=low, high=high: (rows[column] >= low) & (rows[column] < high),
        )


def two_columns(random: np.random.Generator, count: int) -> Iterable[Query]:
    """Boxes in x and y with as many matches in all; one side is much narrower than the other, now x, now y."""
    for at in range(count):
        narrow, wide = ("x", "y") if at % 2 else ("y", "x")
        (a, test_a), (b, test_b) = (*ranges(random, 1, narrow, 4 / count), *ranges(random, 1, wide, 0.25))
        yield both(a, b), lambda rows, test_a=test_a, test_b=test_b: test_a(rows) & test_b(rows)


def equalities(random: np.random.Generator, count: int) -> Iterable[Query]:
    """Point queries on a key; 100,000 keys, so that a row is matched by count / 100,000 queries."""
    for key in random.integers(0, 100_000, count).tolist():
        yield compare("=", "k", BIGINT, key), lambda rows, key=key: rows["k"] == key


def prefixes(random: np.random.Generator, count: int) -> Iterable[Query]:
    for key in random.integers(0, 1_000, count).tolist():
        prefix = f"item-{key:03d}" if count <= 1_000 else f"item-{key:03d}{key % 10}"
        yield (
            compare("like", "name", STRING, prefix + "%"),
            lambda rows, prefix=prefix: np.char.startswith(rows["name"], prefix),
        )


def mixture(random: np.random.Generator, count: int) -> Iterable[Query]:
    quarter = count // 4
    for make in (ranges, two_columns, equalities, prefixes):
        yield from make(random, quarter) if make is not ranges else ranges(random, quarter, "y", 1 / count)


def filters_of(queries: list[Query]) -> tuple[GroupedFilter, float]:
    filters = GroupedFilter()
    begin = time.perf_counter()
    for slot, (predicate, _) in enumerate(queries):
        filters.add(slot, predicate, "s")
    return filters, time.perf_counter() - begin


Round = Callable[[], int]


def grouped_round(filters: GroupedFilter, columns: dict[str, pa.Array]) -> Round:
    """The whole stream through the grouped filter, batch by batch; answers with the number of matches."""
    parts = [
        ({name: values.slice(at, BATCH) for name, values in columns.items()}, min(BATCH, ROWS - at))
        for at in range(0, ROWS, BATCH)
    ]
    return lambda: sum(filters.match_pairs(part, size)[0].size for part, size in parts)


def one_by_one_round(queries: list[Query], columns: dict[str, np.ndarray]) -> Round:
    """The same with one NumPy expression per query and batch."""
    parts = [{name: values[at : at + BATCH] for name, values in columns.items()} for at in range(0, ROWS, BATCH)]
    return lambda: sum(np.flatnonzero(test(part)).size for part in parts for _, test in queries)


def best_seconds(contestants: dict[str, Round], rounds: int) -> dict[str, tuple[float, int]]:
    """Per contestant the best time and the matches. They take turns, so that a busy moment of the machine meets all
    alike."""
    found = {name: (np.inf, run()) for name, run in contestants.items()}
    for _ in range(rounds):
        for name, run in contestants.items():
            begin = time.perf_counter()
            matches = run()
            found[name] = (min(found[name][0], time.perf_counter() - begin), matches)
    return found


def change_seconds(filters: GroupedFilter, queries: list[Query], sample: int = 200) -> dict[str, float]:
    """Mean and worst time to add and to remove one query beside the others, and of the next epoch of one row."""
    count = len(queries)
    row = {"x": pa.array([0.5]), "y": pa.array([0.5]), "k": pa.array([1]), "name": pa.array(["item-000001"])}
    added, removed, after = [], [], []
    for at in range(sample):
        begin = time.perf_counter()
        filters.add(count + at, queries[at][0], "s")
        middle = time.perf_counter()
        filters.match_pairs(row, 1)
        added.append(middle - begin)
        after.append(time.perf_counter() - middle)
    for at in range(sample):
        begin = time.perf_counter()
        filters.remove(count + at)
        removed.append(time.perf_counter() - begin)
    return {
        "add_ms_mean": 1e3 * float(np.mean(added)),
        "add_ms_worst": 1e3 * max(added),
        "remove_ms_mean": 1e3 * float(np.mean(removed)),
        "remove_ms_worst": 1e3 * max(removed),
        "next_epoch_ms_mean": 1e3 * float(np.mean(after)),
        "next_epoch_ms_worst": 1e3 * max(after),
    }


def epoch_microseconds(filters: GroupedFilter, columns: dict[str, pa.Array]) -> dict[str, float]:
    """Median time of an epoch of few rows."""
    found = {}
    for size in (1, 10, 100, 1_000, 10_000):
        times = []
        for at in range(50):
            part = {name: values.slice(at * size % ROWS, size) for name, values in columns.items()}
            begin = time.perf_counter()
            filters.match_pairs(part, size)
            times.append(time.perf_counter() - begin)
        found[str(size)] = 1e6 * float(np.median(times))
    return found


def measure(rounds: int) -> dict[str, object]:
    random = np.random.default_rng(7)
    plain = stream(random)
    columns = {name: pa.array(values) for name, values in plain.items()}
    report: dict[str, object] = {
        "rows": ROWS,
        "batch": BATCH,
        "machine": platform.processor() or platform.machine(),
        "sets": {},
    }
    for name, make, counts in (
        ("ranges", ranges, (10, 100, 1_000, 10_000, 100_000)),
        ("two columns", two_columns, (1_000, 10_000)),
        ("equalities", equalities, (1_000, 10_000)),
        ("prefixes", prefixes, (1_000, 10_000)),
        ("mixture", mixture, (1_000, 10_000)),
    ):
        lines: dict[str, dict[str, object]] = {}
        sets = {count: list(make(random, count)) for count in counts}
        built = {count: filters_of(queries) for count, queries in sets.items()}
        contestants = {f"{count}": grouped_round(built[count][0], columns) for count in counts}
        if name != "prefixes":
            contestants |= {
                f"{count} one by one": one_by_one_round(sets[count], plain) for count in counts if count <= 1_000
            }
        seconds = best_seconds(contestants, rounds)
        for count in counts:
            filters, adding = built[count]
            taken, matches = seconds[str(count)]
            line: dict[str, object] = {
                "rows_per_s": ROWS / taken,
                "matches": matches,
                "bytes_per_query": filters.nbytes / count,
            }
            line["add_all_s"] = adding
            if f"{count} one by one" in seconds:
                slow, expected = seconds[f"{count} one by one"]
                assert matches == expected, f"{name}: {matches} matches, one by one {expected}"
                line |= {"one_by_one_rows_per_s": ROWS / slow, "times_faster": slow / taken}
            if count == 10_000:
                line |= {"epoch_us": epoch_microseconds(filters, columns), **change_seconds(filters, sets[count])}
            lines[str(count)] = line
            faster = f", {line['times_faster']:.1f}x one by one" if "times_faster" in line else ""
            print(f"{name:12} {count:>7,} queries  {ROWS / taken / 1e6:7.2f} M rows/s  {matches:>9,} matches{faster}")
        report["sets"][name] = lines  # type: ignore[index]
    return report


def goals(report: dict[str, object]) -> list[dict[str, object]]:
    sets = report["sets"]
    few, many = sets["ranges"]["1000"], sets["ranges"]["10000"]  # type: ignore[index]
    checks = [
        ("rows/s at 10,000 queries over rows/s at 1,000", many["rows_per_s"] / few["rows_per_s"], ">=", 0.3),
        ("rows/s at 10,000 queries", many["rows_per_s"], ">=", 1e6),
        ("times faster than one by one at 1,000 queries", few["times_faster"], ">=", 20),
        ("milliseconds to add one query to 10,000, worst", many["add_ms_worst"], "<", 50),
        ("milliseconds to remove one of 10,000, worst", many["remove_ms_worst"], "<", 50),
        ("bytes per query", many["bytes_per_query"], "<", 2_000),
    ]
    return [
        {
            "what": what,
            "value": value,
            "goal": f"{sign} {goal:g}",
            "met": bool(value >= goal if sign == ">=" else value < goal),
        }
        for what, value, sign, goal in checks
    ]


def draw(report: dict[str, object], path: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.8))
    sets = report["sets"]
    for name, lines in sets.items():  # type: ignore[attr-defined]
        left.loglog(
            [int(n) for n in lines], [line["rows_per_s"] for line in lines.values()], "o-", label=f"grouped: {name}"
        )
    slow = {
        int(n): line["one_by_one_rows_per_s"] for n, line in sets["ranges"].items() if "one_by_one_rows_per_s" in line
    }  # type: ignore[index]
    left.loglog(list(slow), list(slow.values()), "k--s", label="one by one (NumPy): ranges")
    left.set(xlabel="standing queries", ylabel="rows per second", title=f"Filter step, batches of {BATCH:,} rows")
    left.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncol=2, frameon=False)
    epochs = sets["ranges"]["10000"]["epoch_us"]  # type: ignore[index]
    right.loglog([int(n) for n in epochs], list(epochs.values()), "o-")
    right.set(xlabel="rows in the epoch", ylabel="microseconds", title="10,000 range queries: time of one epoch")
    for axes in (left, right):
        axes.grid(True, which="both", alpha=0.25)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    report = measure(parser.parse_args().rounds)
    report["goals"] = goals(report)
    for goal in report["goals"]:  # type: ignore[attr-defined]
        print(f"{'met   ' if goal['met'] else 'MISSED'} {goal['what']}: {goal['value']:,.3f} ({goal['goal']})")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "filters.json").write_text(json.dumps(report, indent=1) + "\n")
    draw(report, RESULTS / "filters.png")


if __name__ == "__main__":
    main()
