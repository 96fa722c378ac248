"""Queries over queries: what is built on results equals plain loops over these results, in any epochs, with restarts,
and on shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.oracle.group_windows import windows_of
from tests.property.compare import Outcome
from tests.property.embedded import run_embedded
from tests.property.specs import Case, StreamSpec
from tests.property.test_aggregates import Blocks, restarted
from tests.property.texts import TextQuery
from tests.seeds import cases, first_seed
from tests.spark.sharded import run_sharded

BLOCK = cases(15)
BLOCKS = 5
#: Cases per block of three queries one over another.
CHAINS = cases(8)
FIRST = first_seed(1_950_000)
SECOND = 1_000_000
COLUMNS = (("k", "INT"), ("v", "INT"), ("ts", "TIMESTAMP"))
Rows = list[dict[str, Any]]
Expected = Callable[[Outcome], Counter]

#: Final results over a, b and c that others are built on: text, its columns.
INNER = (
    ("SELECT k, v + 1 AS x FROM a WHERE v <> 2", ("k", "x")),
    ("SELECT a.k AS k, b.v AS x FROM a [RANGE 5 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k", ("k", "x")),
    ("SELECT k, count(*) AS x, window_end FROM a GROUP BY TUMBLE(ts, '4 seconds'), k", ("k", "x")),
    ("SELECT k, v AS x FROM a UNION ALL SELECT k, -v FROM b WHERE v > 0", ("k", "x")),
    (
        "SELECT a.k AS k, coalesce(b.v, -1) AS x FROM a [RANGE 4 SECONDS] LEFT JOIN b [RANGE 2 SECONDS] ON a.k = b.k AND b.v > 1",
        ("k", "x"),
    ),
    (
        "SELECT coalesce(a.k, b.k, c.k) AS k, coalesce(c.v, -1) AS x FROM a [RANGE 4 SECONDS] FULL JOIN b [RANGE 2 SECONDS] ON a.k = b.k "
        "RIGHT JOIN c [RANGE 3 SECONDS] ON c.k = a.k AND c.v > 0",
        ("k", "x"),
    ),
    (
        "SELECT a.k AS k, count(b.v) AS x, window_end FROM a [RANGE 4 SECONDS] LEFT JOIN b [RANGE 2 SECONDS] ON a.k = b.k "
        "GROUP BY TUMBLE(a.ts, '4 seconds'), a.k",
        ("k", "x"),
    ),
    (
        "SELECT k, v AS x FROM a [ROWS 3] WHERE v > 0 AND NOT EXISTS (SELECT 1 FROM b [RANGE 5 SECONDS] WHERE b.k = a.k)",
        ("k", "x"),
    ),
    (
        "SELECT l AS k, r AS x FROM (EVENT SEQ(1 a, 2 b) FROM c TYPE v PARTITION BY k WITHIN 6 SECONDS RETURN a.k AS l, b.v AS r) m",
        ("k", "x"),
    ),
    ("SELECT k, coalesce(v - lag(v) OVER (PARTITION BY k ORDER BY ts), 7) AS x FROM a", ("k", "x")),
    (
        "SELECT k, v AS x FROM TABLE(TUMBLE(TABLE a , DESCRIPTOR(ts), '4 seconds')) "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY v DESC) <= 2",
        ("k", "x"),
    ),
    (
        "SELECT k, arg_max(v, ts) AS x, string_agg(CAST(v AS STRING), '+') AS t, window_end FROM a GROUP BY TUMBLE(ts, '4 seconds'), k",
        ("k", "x"),
    ),
    (
        "WITH p AS (SELECT k, v AS x FROM a WHERE v > 0) "
        "SELECT p.k AS k, p.x + c.v AS x FROM p [RANGE 4 SECONDS], c [RANGE 4 SECONDS] WHERE p.k = c.k",
        ("k", "x"),
    ),
)


def arrivals(rng: Random) -> tuple[tuple[tuple[str, tuple[tuple[int, int, int], ...]], ...], ...]:
    rows: dict[str, list[tuple[int, int, int]]] = {"a": [], "b": [], "c": []}
    now, keys = 0, rng.choice((1, 4))
    for _ in range(rng.randint(0, 30)):
        now += rng.choice((0, 0, 1, 1, 2, 5)) * SECOND
        rows[rng.choice("abc")].append((rng.randint(0, keys), rng.randint(0, 3), now))
    epochs = []
    count = rng.randint(1, 5)
    for number in range(count):
        epochs.append(
            tuple((s, tuple(r[len(r) * number // count : len(r) * (number + 1) // count])) for s, r in rows.items())
        )
    return tuple(epochs)


def joined(left: Rows, left_range: int, right: Rows, right_range: int) -> Counter:
    """Combinations of rows with equal k that are in their windows at the newer one."""
    found: Counter = Counter()
    for one in left:
        for other in right:
            newest = max(one["_ts"], other["_ts"])
            if one["k"] == other["k"] and newest - one["_ts"] <= left_range and newest - other["_ts"] <= right_range:
                found[one["k"], one["x"], other["x"], newest] += 1
    return found


def outer(
    rng: Random, inner: str, named: bool
) -> tuple[str, Callable[[Rows, Rows, int], Counter], Callable[[Rows], Counter]]:
    """A query over the inner one: its text, its answer from the inner results, the rows of c and the end of time, and
    how to read it."""
    source = "inner_results" if named else f"({inner})"
    kind = rng.choice(("filter", "join", "itself", "window", "groups", "union"))
    if kind == "filter":
        text = f"SELECT k, x, _ts AS at FROM {source} i WHERE x > 0"
        return (
            text,
            lambda i, c, end: Counter((r["k"], r["x"], r["_ts"]) for r in i if r["x"] > 0),
            lambda rows: Counter((r["k"], r["x"], r["at"]) for r in rows),
        )
    if kind == "join":
        text = f"SELECT i.k AS k, i.x AS x, c.v AS v FROM {source} i [RANGE 3 SECONDS], c [RANGE 6 SECONDS] WHERE i.k = c.k"
        return (
            text,
            lambda i, c, end: joined(i, 3 * SECOND, c, 6 * SECOND),
            lambda rows: Counter((r["k"], r["x"], r["v"], r["_ts"]) for r in rows),
        )
    if kind == "itself":
        text = f"SELECT i.k AS k, i.x AS x, j.x AS v FROM {source} i [RANGE 3 SECONDS], {source} j [RANGE 6 SECONDS] WHERE i.k = j.k"
        return (
            text,
            lambda i, c, end: joined(i, 3 * SECOND, i, 6 * SECOND),
            lambda rows: Counter((r["k"], r["x"], r["v"], r["_ts"]) for r in rows),
        )
    if kind == "groups":
        text = f"SELECT k, window_end, count(*) AS n FROM {source} i GROUP BY TUMBLE(_ts, '5 seconds'), k"

        def of_keys(i: Rows, c: Rows, end: int) -> Counter:
            found: Counter = Counter()
            for row in i:
                found[row["k"], windows_of("tumble", row["_ts"], [5 * SECOND])[0][1]] += 1
            return Counter({(k, e, n): 1 for (k, e), n in found.items() if e <= end})

        return text, of_keys, lambda rows: Counter((r["k"], r["window_end"], r["n"]) for r in rows)
    if kind == "window":
        text = f"SELECT window_end, count(*) AS n FROM {source} i GROUP BY TUMBLE(_ts, '5 seconds')"

        def counted(i: Rows, c: Rows, end: int) -> Counter:
            found: Counter = Counter()
            for row in i:
                (window,) = windows_of("tumble", row["_ts"], [5 * SECOND])
                found[window[1]] += 1
            return Counter({(e, n): 1 for e, n in found.items() if e <= end})

        return text, counted, lambda rows: Counter((r["window_end"], r["n"]) for r in rows)
    text = f"SELECT k, x FROM {source} i UNION ALL SELECT k, CAST(v AS BIGINT) FROM c"
    text = text.replace("SELECT k, x FROM", "SELECT k, CAST(x AS BIGINT) AS x FROM")
    return (
        text,
        lambda i, c, end: Counter((r["k"], r["x"], r["_ts"]) for r in [*i, *c]),
        lambda rows: Counter((r["k"], r["x"], r["_ts"]) for r in rows),
    )


@pytest.mark.parametrize("block", range(3))
def test_what_is_built_on_results(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        rng = Random(seed)
        inner, _ = rng.choice(INNER)
        named = rng.random() < 0.5
        built = [outer(rng, inner, named) for _ in range(3)]
        before = (f"CREATE STREAM inner_results AS {inner}",) if named else ()
        over = [TextQuery(f"q{at}", text, () if at else before) for at, (text, _, _) in enumerate(built)]
        queries = (TextQuery("i", inner), TextQuery("c", "SELECT k, v AS x FROM c"), *over)
        streams = tuple(StreamSpec(name, COLUMNS) for name in "abc")
        case = Case(streams, queries, arrivals(rng))  # type: ignore[arg-type]
        blocks = Blocks()
        between = (lambda session: restarted(session, blocks)) if rng.random() < 0.5 else None  # noqa: B023
        for outcome in (run_embedded(case, between), run_sharded(case, rng.choice((1, 2, 3, 5)), seed)):
            for at, (text, answer, read) in enumerate(built):
                reads = [s for s in "abc" if f" {s} " in f"{inner} {text} ".replace(",", " ")]
                newest = max(
                    (row[2] for epoch in case.arrivals for s, rows in epoch for row in rows if s in reads), default=-1
                )
                expected = answer(outcome.results["i"], outcome.results["c"], newest + 1)
                assert read(outcome.results[f"q{at}"]) == expected, f"{seed}: {text}\n{inner}"
                stamps = [r["_ts"] for r in outcome.results[f"q{at}"]]
                assert stamps == sorted(stamps)


#: Joins that keep rows, the reference whose buckets close, and how much later than its rows results may come.
KEPT = (
    ("a [RANGE 4 SECONDS] LEFT JOIN b [RANGE 2 SECONDS] ON a.k = b.k", "a", 4),
    ("a [RANGE 4 SECONDS] RIGHT JOIN b [RANGE 2 SECONDS] ON a.k = b.k AND a.v > 0", "b", 2),
    ("a [RANGE 3 SECONDS] WHERE a.v > 0 AND NOT EXISTS (SELECT 1 FROM b [ROWS 2] WHERE b.k = a.k)", "a", 3),
    ("a [RANGE 3 SECONDS] WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)", "a", 3),
    (
        "a [RANGE 3 SECONDS] LEFT JOIN b [RANGE 5 SECONDS] ON a.k = b.k LEFT JOIN c [RANGE 2 SECONDS] ON c.k = b.k",
        "a",
        8,
    ),
    ("a [RANGE 3 SECONDS] JOIN b [RANGE 2 SECONDS] ON a.k = b.k LEFT JOIN c [NOW] ON c.k = b.k", "b", 5),
    (
        "a [RANGE 3 SECONDS] FULL JOIN b [RANGE 2 SECONDS] ON a.k = b.k RIGHT JOIN c [RANGE 1 SECOND] ON c.k = b.k",
        "c",
        4,
    ),
)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_groups_that_close_over_outer_joins(block: int) -> None:
    for seed in range(FIRST + 5_000 + block * BLOCK, FIRST + 5_000 + (block + 1) * BLOCK):
        rng = Random(seed)
        source, alias, delay = rng.choice(KEPT)
        joined, _, where = source.partition(" WHERE ")
        where = f" WHERE {where}" if where else ""
        rows = f"SELECT {alias}.k AS k, a.v AS v, {alias}.ts AS at FROM {joined}{where}"
        groups = f"SELECT {alias}.k AS k, count(*) AS n, sum(a.v) AS s, window_end FROM {joined}{where}"
        groups += f" GROUP BY TUMBLE({alias}.ts, '4 seconds'), {alias}.k"
        emit = rng.choice(("", " EMIT ON CLOSE", " EMIT EVERY 1 SECOND"))
        queries = (TextQuery("i", rows), TextQuery("q", groups + emit))
        case = Case(tuple(StreamSpec(name, COLUMNS) for name in "abc"), queries, arrivals(rng))  # type: ignore[arg-type]
        blocks = Blocks()
        between = (lambda session: restarted(session, blocks)) if rng.random() < 0.5 else None  # noqa: B023
        reads = [s for s in "abc" if f" {s} " in f" {source} "]
        end = max((row[2] for epoch in case.arrivals for s, found in epoch for row in found if s in reads), default=-1)
        for outcome in (run_embedded(case, between), run_sharded(case, rng.choice((1, 3)), seed)):
            found: dict[tuple[int, int], list[int | None]] = {}
            for row in outcome.results["i"]:
                found.setdefault((row["k"], (row["at"] // (4 * SECOND) + 1) * 4 * SECOND), []).append(row["v"])
            expected = {
                key: (
                    len(values),
                    sum(v for v in values if v is not None) if any(v is not None for v in values) else None,
                )
                for key, values in found.items()
            }
            given = {}
            for row in outcome.results["q"]:
                given[row["k"], row["window_end"]] = (row["n"], row["s"])
                assert "EVERY" in emit or row["_ts"] == row["window_end"] - 1 + delay * SECOND, f"{seed}: {groups}"
            if "EVERY" in emit:
                expected = {key: value for key, value in expected.items() if key in given}
                over = {key for key in found if key[1] - 1 + delay * SECOND < end // SECOND * SECOND}
                assert over <= set(given), f"{seed}: {groups}"
                given, expected = ({key: of[key] for key in over} for of in (given, expected))
            else:
                expected = {key: value for key, value in expected.items() if key[1] - 1 + delay * SECOND <= end}
            assert given == expected, f"{seed}: {groups}{emit}"


#: What is built on results with k and x, and has k and x itself.
MIDDLE = (
    "SELECT k, x FROM {} i WHERE x > 0",
    "SELECT x AS k, k AS x FROM {} i",
    "SELECT k % 2 AS k, x FROM {} i",
    "SELECT i.k AS k, CAST(i.x + c.v AS BIGINT) AS x FROM {} i [RANGE 3 SECONDS], c [RANGE 4 SECONDS] WHERE i.k = c.k",
    "SELECT i.k AS k, j.x AS x FROM {} i [RANGE 3 SECONDS], {} j [RANGE 2 SECONDS] WHERE i.k = j.k AND i.x <= j.x",
    "SELECT k, count(*) AS x, window_end FROM {} i GROUP BY TUMBLE(_ts, '3 seconds'), k",
    "SELECT k, x FROM {} i UNION ALL SELECT CAST(k AS BIGINT), CAST(v AS BIGINT) FROM c",
    "SELECT i.k AS k, CAST(coalesce(c.v, -1) AS BIGINT) AS x FROM {} i [RANGE 3 SECONDS] LEFT JOIN c [RANGE 3 SECONDS] ON i.k = c.k",
    "SELECT CAST(c.k AS BIGINT) AS k, i.x AS x FROM c [RANGE 3 SECONDS] LEFT JOIN {} i [RANGE 3 SECONDS] ON i.k = c.k",
    "SELECT i.k AS k, i.x AS x FROM {} i [RANGE 3 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM c [RANGE 2 SECONDS] WHERE c.k = i.k)",
)
TOP = (
    "SELECT k, count(*) AS n, sum(x) AS s FROM {two} i GROUP BY k EMIT EVERY 2 SECONDS",
    "SELECT k % 2 AS r, count(*) AS n FROM {two} i [RANGE 5 SECONDS] GROUP BY k % 2 EMIT EVERY 2 SECONDS",
    "SELECT x, count(*) AS n, window_end FROM {two} i GROUP BY TUMBLE(_ts, '4 seconds'), x",
    "SELECT count(*) AS n, window_end FROM {two} i GROUP BY TUMBLE(_ts, '4 seconds')",
    "SELECT i.k AS k, i.x AS x, j.x AS y FROM {two} i [RANGE 3 SECONDS], {one} j [RANGE 3 SECONDS] WHERE i.k = j.k",
    "SELECT i.k AS k, i.x AS x, j.k AS y FROM {two} i [RANGE 3 SECONDS], {one} j [RANGE 3 SECONDS] WHERE i.x = j.k",
    "SELECT c.k, c.v, t.n FROM c JOIN LATEST (SELECT k, count(*) AS n FROM {two} i GROUP BY k EMIT EVERY 1 SECOND) t ON c.k = t.k",
)


@pytest.mark.parametrize("block", range(3))
def test_chains_of_three_are_the_same_on_shards(block: int) -> None:
    """Named streams one over another, with two queries on top: shards find the same rows as one process."""
    for seed in range(FIRST + 5_000 + block * CHAINS, FIRST + 5_000 + (block + 1) * CHAINS):
        rng = Random(seed)
        inner, middle = rng.choice(INNER)[0], rng.choice(MIDDLE)
        plain = "SELECT CAST(k AS BIGINT) AS k, CAST(x AS BIGINT) AS x FROM"
        made = (f"CREATE STREAM one AS {plain} ({inner}) o", f"CREATE STREAM two AS {middle.format('one', 'one')}")
        tops = [text.format(one="one", two="two") for text in rng.sample(TOP, 2)]
        queries = (TextQuery("p", tops[0], made), TextQuery("q", tops[1]))
        case = Case(tuple(StreamSpec(name, COLUMNS) for name in "abc"), queries, arrivals(rng))  # type: ignore[arg-type]
        expected, found = run_embedded(case), run_sharded(case, rng.choice((2, 3, 5)), seed)
        for name in "pq":
            rows = [Counter(tuple(row.items()) for row in outcome.results[name]) for outcome in (expected, found)]
            assert rows[0] == rows[1], f"{seed}: {made}, {tops}"
