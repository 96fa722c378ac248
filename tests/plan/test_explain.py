"""The one text of a plan."""

from eddyline.language import bind_script
from eddyline.plan.explain import explain
from eddyline.plan.lower import lower
from eddyline.plan.tree.tree_choice import choose_tree

WORLD = """
    CREATE STREAM bids (item BIGINT, bidder STRING, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
    CREATE STREAM asks (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
    CREATE TABLE items (item BIGINT, title STRING) WITH (format = 'parquet', path = 'items.parquet');
"""


def lines(statements: str, **more: str) -> list[str]:
    lowered = lower(bind_script(WORLD + statements).queries[0])
    return explain(lowered, choose_tree(lowered), more).splitlines()


def test_everything_a_join_has() -> None:
    query = """CREATE QUERY q WITH (plan = '((b a) c)', probe = 'loop', seed = 3) AS
        SELECT a.item, b.price * 2 AS twice FROM asks a [RANGE 5 SECONDS], bids [ROWS 7] b, bids c, items i
        WHERE a.item = b.item AND c.item = i.item AND a.item = c.item AND a.price < b.price AND b.price > 1.0
          AND (b.bidder = 'x' OR b.bidder IS NULL) AND i.title = 'it''s'"""
    assert lines(query, cost="0.5") == [
        "query: q",
        "tree: ((b a) c i)",
        "  a: asks [RANGE 5 SECONDS]",
        "  b: bids [ROWS 7] where b.price > 1.0 AND ((b.bidder = 'x') OR b.bidder IS NULL)",
        "  c: bids [UNBOUNDED]",
        "  i: items table where i.title = 'it''s'",
        "join: a.item = b.item, c.item = i.item, a.item = c.item",
        "condition: a.price < b.price",
        "select: a.item AS item, b.price * 2.0 AS twice",
        "probe: loop",
        "set: seed = 3",
        "cost: 0.5",
    ]


def test_everything_an_aggregate_has() -> None:
    query = """CREATE QUERY q AS SELECT bidder, count(*) AS n FROM bids [RANGE 1 MINUTE] WHERE price > 1.0 OR price < 0.0
        GROUP BY bidder HAVING count(*) > 1 EMIT EVERY 10 SECONDS"""
    assert lines(query) == [
        "query: q",
        "tree: bids",
        "  bids: bids [RANGE 1 MINUTE] where (bids.price > 1.0) OR (bids.price < 0.0)",
        "select: bids.bidder AS bidder, count(*) AS n",
        "group by: bids.bidder",
        "having: count(*) > 1",
        "emit: EVERY 10 SECONDS",
        "probe: hash",
    ]


def test_constants_are_written_as_in_sql() -> None:
    assert "  bids: bids [UNBOUNDED] where FALSE AND bids.bidder = NULL" in lines(
        "CREATE QUERY q AS SELECT item FROM bids WHERE FALSE AND bidder = NULL"
    )
