"""Random clustered streams and joins on inequalities, for zones and heralds.

Answer   `random_world(rng)` is three streams whose values come in clusters, with nulls, NaN, texts and times, and queries over two to four
         references. `expected` is what DuckDB says of a query over the same rows.
Limits   Every row of a world has its own time, so that windows by time need no order of equal times. No value overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import duckdb
import pyarrow as pa

DECLARED = "x BIGINT, i INT, d DOUBLE, t STRING, k BIGINT, day DATE, ts TIMESTAMP"
COLUMNS = pa.schema(
    [("x", pa.int64()), ("i", pa.int32()), ("d", pa.float64()), ("t", pa.string()), ("k", pa.int64()), ("day", pa.date32())]
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
FILTERS = ("{0}.x < 30", "{0}.d > 10.0", "{0}.t < 'm'", "{0}.i BETWEEN 5 AND 40", "{0}.k IN (1, 2)", "{0}.x IS NOT NULL")


@dataclass(frozen=True)
class World:
    #: Per epoch and stream its rows.
    epochs: list[dict[str, pa.Table]]
    #: Per query its references (alias, stream, seconds of its window), its conditions and its options.
    queries: list[tuple[list[tuple[str, str, int]], list[str], dict[str, str]]]

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
        kind = pa.int32() if field.type == pa.date32() else pa.int64() if field.type == pa.timestamp("us") else field.type
        arrays.append(pa.array([row[at] for row in rows], kind).cast(field.type))
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


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
            where.append(f"{left.format(*pair)} {rng.choice(('<', '<=', '>', '>=', '<', '>', '=', '<>'))} {right.format(*pair)}")
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
