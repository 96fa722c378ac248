"""Which output columns decide the shard of their results."""

from __future__ import annotations

import pytest

from eddyline.language import bind_script
from eddyline.plan.shards.decided import finished_line
from eddyline.plan.shards.shares import route

STREAMS = ";".join(
    f"CREATE STREAM {name} (x BIGINT, y BIGINT, z INT, ts TIMESTAMP) WITH (time = 'ts', key = 'x')" for name in "abc"
)


def line(select: str, shards: int = 4) -> str:
    query = bind_script(f"{STREAMS}; CREATE QUERY q WITH (propagate = 'on') AS {select}").queries[0]
    return finished_line(query, route(query, {}, shards), dict.fromkeys("abc", "ts"))


@pytest.mark.parametrize(
    ("select", "said"),
    [
        (
            "SELECT a.x, b.y, a.ts FROM a, b WHERE a.x = b.x",
            "of x; not of y: results with one value of it are in several shards",
        ),
        ("SELECT b.x, a.x AS other FROM a, b WHERE a.x = b.x", "of x, other"),
        # The key is computed from the column.
        ("SELECT a.x, b.z FROM a, b WHERE a.x = b.z", "of x, z"),
        # Two columns together place the rows.
        (
            "SELECT a.x FROM a, b WHERE a.x = b.x AND a.y = b.y",
            "not of x: results with one value of it are in several shards",
        ),
        (
            "SELECT a.x, c.y FROM a, b, c WHERE a.x = b.x AND b.y = c.y",
            "not of x, y: results with one value of it are in several shards",
        ),
        ("SELECT x, count(*) AS n FROM a GROUP BY x EMIT ON CLOSE", "each shard announces the groups that it closes"),
    ],
)
def test_what_shards_tell(select: str, said: str) -> None:
    assert line(select) == f"  punctuations: {said}"


def test_one_shard_tells_everything() -> None:
    assert line("SELECT a.x, c.y FROM a, b, c WHERE a.x = b.x AND b.y = c.y", 1) == "  punctuations: of x, y"


def test_a_query_without_punctuations_says_nothing() -> None:
    query = bind_script(f"{STREAMS}; CREATE QUERY q AS SELECT a.x FROM a").queries[0]
    assert finished_line(query, route(query, {}, 4), {}) == ""
