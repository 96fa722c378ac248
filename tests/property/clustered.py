"""Random clustered streams and joins on inequalities, for zones and heralds.

Answer   `random_world(rng)` is three streams whose values come in clusters, with nulls, NaN, texts and times, and
         queries over two to four references. `expected` is what DuckDB says of a query over the same rows.
         `with_heralds` puts heralds among the rows, true ones and lies, and says which rows stay: a judge of its own
         looks at one row after the other.
Limits   Every row of a world has its own time, so that windows by time need no order of equal times. No value
         overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from math import isfinite, isnan
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

DECLARED = "x BIGINT, i INT, d DOUBLE, t STRING, k BIGINT, day DATE, ts TIMESTAMP"
COLUMNS = pa.schema(
    [
        ("x", pa.int64()),
        ("i", pa.int32()),
        ("d", pa.float64()),
        ("t", pa.string()),
        ("k", pa.int64()),
        ("day", pa.date32()),
    ]
    + [("ts", pa.timestamp("us"))]
)
#: What stands on the two sides of a comparison; {0} and {1} are references.
SIDES = (
    ("{0}.x", "{1}.x"),
    ("{0}.x", "{1}.x + 7"),
    ("{0}.i", "{1}.x - 3"),
    ("{0}.i + 2", "{1}.i"),
    ("{0}.x * 2", "{1}.x + 5"),
    ("0 - {0}.x", "{1}.x - 60"),
    ("{0}.d", "{1}.d"),
    ("{0}.d + 0.2", "{1}.d * 1.5"),
    ("{0}.d * -1.0", "{1}.d - 40.0"),
    ("{0}.x", "{1}.d"),
    ("{0}.t", "{1}.t"),
    ("{0}.day", "{1}.day"),
    ("date_trunc('second', {0}.ts)", "{1}.ts"),
    ("{0}.ts", "{1}.ts + INTERVAL '1 second'"),
)
NARROW = (
    "{0}.x BETWEEN {1}.x - 2 AND {1}.x + 2",
    "{0}.d BETWEEN {1}.d - 1.5 AND {1}.d + 1.5",
    "{0}.i = {1}.i",
    "{0}.k = {1}.k",
    "{0}.t = {1}.t",
    "{0}.x >= {1}.x AND {0}.x < {1}.x + 3",
)
FILTERS = (
    "{0}.x < 30",
    "{0}.d > 10.0",
    "{0}.t < 'm'",
    "{0}.i BETWEEN 5 AND 40",
    "{0}.k IN (1, 2)",
    "{0}.x IS NOT NULL",
)


@dataclass(frozen=True)
class World:
    #: Per epoch and stream its rows.
    epochs: list[dict[str, pa.Table]]
    #: Per query its references (alias, stream, seconds of its window), its conditions and its options.
    queries: list[tuple[list[tuple[str, str, int]], list[str], dict[str, str]]]

    @property
    def rows(self) -> int:
        return sum(len(rows) for epoch in self.epochs for rows in epoch.values())

    def text(self, number: int) -> str:
        references, where, _ = self.queries[number]
        outputs = ", ".join(f"{alias}.ts AS {alias}" for alias, _, _ in references)
        sources = ", ".join(f"{stream} [RANGE {span} SECONDS] {alias}" for alias, stream, span in references)
        return f"SELECT {outputs} FROM {sources} WHERE {' AND '.join(where)}"


def random_world(rng: Random, queries: int, rows: int = 40) -> World:
    epochs, now = [], 0
    clusters = {name: rng.choice((1, 5, 12, 30)) for name in "abc"}
    nulls = rng.choice((0.0, 0.0, 0.05, 0.3))
    for _ in range(3):
        drawn: dict[str, list[tuple[object, ...]]] = {"a": [], "b": [], "c": []}
        for _ in range(3 * rows):
            now += rng.randint(1, 40_000)
            name = rng.choice("abc")
            drawn[name].append(_row(rng, len(drawn[name]) // clusters[name], nulls, now))
        epochs.append({name: _table(found) for name, found in drawn.items()})
    return World(epochs, [_query(rng) for _ in range(queries)])


def _row(rng: Random, cluster: int, nulls: float, ts: int) -> tuple[object, ...]:
    """Values near a centre that the cluster has; a few of no number at all."""
    centre = Random(cluster * 7919).randint(0, 60)

    def some(value: object) -> object:
        return None if rng.random() < nulls else value

    double = rng.choice((float("nan"), float("inf"), -0.0, 0.0)) if rng.random() < 0.02 else centre + rng.random() * 4
    text = rng.choice(("", "prefix", "prefix-of-more")) + chr(97 + centre % 26) + rng.choice(("", "y", "z"))
    return (
        some(centre + rng.randint(0, 3)), some(centre + rng.randint(0, 2)), some(double), some(text), some(rng.randint(0, 3)),
        some(centre // 4), ts,
    )  # fmt: skip


def _table(rows: list[tuple[object, ...]]) -> pa.Table:
    arrays = []
    for at, field in enumerate(COLUMNS):
        kind = (
            pa.int32() if field.type == pa.date32() else pa.int64() if field.type == pa.timestamp("us") else field.type
        )
        arrays.append(pa.array([row[at] for row in rows], kind).cast(field.type))
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


def with_heralds(world: World, rng: Random, lies: float) -> tuple[World, World]:
    """The world with heralds in a column `said`, and the world that they leave: rows that break a herald are
    removed."""
    said: list[dict[str, pa.Table]] = [{} for _ in world.epochs]
    kept: list[dict[str, pa.Table]] = [{} for _ in world.epochs]
    for name in "abc":
        rows = [(at, row) for at, epoch in enumerate(world.epochs) for row in epoch[name].to_pylist()]
        listed: list[list[dict[str, Any]]] = [[] for _ in world.epochs]
        left: list[list[dict[str, Any]]] = [[] for _ in world.epochs]
        at = 0
        while at < len(rows):
            part = rows[at : at + rng.randint(3, 12)]
            spoken = _herald(rng, [row for _, row in part], lies) if rng.random() < 0.7 else None
            if spoken is not None:
                # It stands before its first row, perhaps at the end of the epoch before.
                epoch = part[0][0] if rng.random() < 0.8 or not at else rows[at - 1][0]
                ts = part[0][1]["ts"] if epoch == part[0][0] else rows[at - 1][1]["ts"]
                span = (
                    f"{len(part)} ROWS"
                    if rng.random() < 0.5
                    else f"{(part[-1][1]['ts'] - ts) // timedelta(microseconds=1)} MICROSECONDS"
                )
                listed[epoch].append({"said": f"{spoken[0]} FOR {span}", "ts": ts})
            for epoch, row in part:
                listed[epoch].append(row)
                if spoken is None or spoken[1](row):
                    left[epoch].append(row)
            at += len(part)
        for epoch, (all_rows, stay) in enumerate(zip(listed, left, strict=True)):
            said[epoch][name] = pa.Table.from_pylist(all_rows, COLUMNS.append(pa.field("said", pa.string())))
            kept[epoch][name] = pa.Table.from_pylist(stay, COLUMNS)
    return replace(world, epochs=said), replace(world, epochs=kept)


def _herald(
    rng: Random, rows: list[dict[str, Any]], lies: float
) -> tuple[str, Callable[[dict[str, Any]], bool]] | None:
    """A condition and what it says of a row; it is made from the rows, or from some of them, and then it may be a
    lie."""
    name = rng.choice(("x", "i", "d", "t", "day", "k"))
    shown = rows if rng.random() >= lies else rows[: len(rows) // 2]
    values = [row[name] for row in shown]
    if all(value is None for value in values):
        return f"{name} IS NULL", lambda row: row[name] is None
    if None in values:
        return None
    least, most = min(values, key=_rank), max(values, key=_rank)
    if not all(isfinite(end) for end in (least, most) if isinstance(end, float)):
        return None
    low, high = _rank(least), _rank(most)
    form = rng.choice(("{0} >= {1} AND {0} <= {2}", "{0} BETWEEN {1} AND {2}", "{1} <= {0} AND {2} >= {0}"))
    return form.format(
        name, _written(least), _written(most)
    ), lambda row: row[name] is not None and low <= _rank(row[name]) <= high


def _rank(value: Any) -> Any:
    """What values of one column are ordered by: NaN is above all numbers, texts are bytes."""
    if isinstance(value, float):
        return (isnan(value), 0.0 if isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def _written(value: Any) -> str:
    return f"DATE '{value}'" if isinstance(value, date) else repr(value)


def _query(rng: Random) -> tuple[list[tuple[str, str, int]], list[str], dict[str, str]]:
    count = rng.choice((2, 2, 2, 3, 3, 4))
    references = [(f"r{n}", rng.choice("abc"), rng.choice((1, 2) if count < 4 else (1,))) for n in range(count)]
    where = []
    for at in range(1, count):
        pair = [f"r{at}", f"r{rng.randrange(at)}"]
        rng.shuffle(pair)
        if count > 2 or rng.random() < 0.3:
            where.append(rng.choice(NARROW).format(*pair))
        if count == 2 or rng.random() < 0.6:
            left, right = rng.choice(SIDES)
            where.append(
                f"{left.format(*pair)} {rng.choice(('<', '<=', '>', '>=', '<', '>', '=', '<>'))} {right.format(*pair)}"
            )
    where += [rng.choice(FILTERS).format(alias) for alias, _, _ in references if rng.random() < 0.2]
    rng.shuffle(where)
    names = [alias for alias, _, _ in references]
    tree = names[0]
    for name in names[1:]:
        tree = f"({tree} {name})"
    options = {
        "plan": rng.choice(("auto", "mjoin", tree)),
        "jit": rng.choice(("off", "auto", "exact")),
        "route": rng.choice(("fixed", "fixed", "lottery")),
        "probe": rng.choice(("hash", "hash", "hash", "loop")),
    }
    return references, where, options


def expected(world: World, connection: duckdb.DuckDBPyConnection, number: int) -> list[tuple[object, ...]]:
    """The times of the rows of every result, sorted; `connection` has the streams as tables."""
    references, where, _ = world.queries[number]
    newest = "greatest(" + ", ".join(f"{alias}.ts" for alias, _, _ in references) + ")"
    inside = [f"{newest} <= {alias}.ts + INTERVAL '{span} seconds'" for alias, _, span in references]
    outputs = ", ".join(f"epoch_us({alias}.ts)" for alias, _, _ in references)
    sources = ", ".join(f"{stream} {alias}" for alias, stream, _ in references)
    found = connection.execute(f"SELECT {outputs} FROM {sources} WHERE {' AND '.join([*where, *inside])}").fetchall()
    return sorted(found)


def declare(world: World, connection: duckdb.DuckDBPyConnection) -> None:
    for name in "abc":
        whole = pa.concat_tables([epoch[name] for epoch in world.epochs])
        connection.register("given", whole)
        connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
        connection.unregister("given")
