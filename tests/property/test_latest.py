"""JOIN LATEST: each row with the table that a query with EMIT EVERY has at its time, in any epochs, with restarts, and
on shards."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.property.embedded import run_embedded
from tests.property.specs import Case, StreamSpec, maybe_ended
from tests.property.test_aggregates import Blocks, restarted
from tests.property.test_composition import COLUMNS, INNER, arrivals
from tests.property.texts import TextQuery
from tests.seeds import cases, first_seed
from tests.spark.sharded import run_sharded

BLOCK = 15
BLOCKS = cases(4)
FIRST = first_seed(1_960_000)
SECOND = 1_000_000
Rows = list[dict[str, Any]]

#: Queries with a table over b and c, and the columns of their groups; each has k or null, and n.
TABLES = (
    ("SELECT k, sum(v) AS n FROM b [RANGE 3 SECONDS] GROUP BY k EMIT EVERY 2 SECONDS", ("k",)),
    (
        "SELECT k, v AS g, count(*) AS n FROM b [ROWS 4] GROUP BY k, v HAVING count(*) < 3 EMIT EVERY 1 SECOND",
        ("k", "g"),
    ),
    (
        "SELECT b.k AS k, c.v AS n FROM b [RANGE 4 SECONDS], c [RANGE 2 SECONDS] WHERE b.k = c.k GROUP BY b.k, c.v EMIT EVERY 3 SECONDS",
        ("k", "n"),
    ),
    ("SELECT DISTINCT k, v AS n FROM b [RANGE 2 SECONDS] EMIT EVERY 2 SECONDS", ("k", "n")),
    ("SELECT 1 AS k, count(*) AS n FROM b [RANGE 3 SECONDS] EMIT EVERY 2 SECONDS", ()),
    (
        "SELECT window_end, k, count(*) AS n FROM b GROUP BY TUMBLE(ts, '4 seconds'), k EMIT EVERY 2 SECONDS",
        ("k", "window_end"),
    ),
)


def at(changes: Rows, keys: tuple[str, ...], now: int) -> Rows:
    """The table that the changes make up to an instant."""
    table: dict[tuple[Any, ...], dict[str, Any]] = {}
    for change in changes:
        if change["_ts"] <= now:
            key = tuple(change[name] for name in keys)
            if change["_op"] == "+":
                table[key] = change
            else:
                table.pop(key, None)
    return list(table.values())


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_rows_meet_the_table_of_their_time(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        rng = Random(seed)
        table, keys = rng.choice(TABLES)
        left, named = rng.random() < 0.5, rng.random() < 0.6
        inner = rng.choice(INNER)[0] if rng.random() < 0.4 else "SELECT k, v AS x FROM a"
        latest = "t" if named else f"({table})"
        join = f"{'LEFT ' if left else ''}JOIN LATEST {latest} t ON s.k = t.k AND t.n < 9"
        text = f"SELECT s.k AS k, s.x AS x, t.n AS n FROM ({inner}) s {join} WHERE s.x > 0"
        queries = (TextQuery("t", table), TextQuery("s", inner), TextQuery("q", text))
        case = Case(tuple(StreamSpec(name, COLUMNS) for name in "abc"), queries, arrivals(rng))  # type: ignore[arg-type]
        blocks = Blocks()
        between = (lambda session: restarted(session, blocks)) if rng.random() < 0.4 else None  # noqa: B023
        final = maybe_ended(case, seed)
        outcomes = [run_embedded(final, between), run_sharded(case, rng.choice((1, 3)), seed)]
        # The end of the streams takes the table on to the time of each row.
        tables = [run_embedded(case, beat="2100-01-01") if final.final else outcomes[0], outcomes[1]]
        for outcome, known in zip(outcomes, tables, strict=True):
            expected: Counter = Counter()
            for row in outcome.results["s"]:
                if row["x"] <= 0:
                    continue
                met = [r["n"] for r in at(known.results["t"], keys, row["_ts"]) if r["k"] == row["k"] and r["n"] < 9]
                expected.update((row["k"], row["x"], n, row["_ts"]) for n in met or ([None] if left else []))
            found = Counter((r["k"], r["x"], r["n"], r["_ts"]) for r in outcome.results["q"])
            assert found == expected, f"{seed}: {text}\n{table}"
            stamps = [r["_ts"] for r in outcome.results["q"]]
            assert stamps == sorted(stamps)
