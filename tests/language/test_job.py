"""Scripts, statement by statement."""

from __future__ import annotations

import pytest

from eddyline.errors import BindingProblem, Unsupported
from eddyline.language import Dropped, ExplainRequest, Job, bind_script, parse_script, parse_select
from eddyline.language.job import UNNAMED
from eddyline.settings import Settings
from tests.language.world import WORLD, world

DEMO = """
CREATE STREAM auctions (item_id BIGINT, category STRING, seller BIGINT, ts TIMESTAMP)
  WITH (format='parquet', path='data/auctions', time='ts', lateness='0 seconds');
CREATE STREAM bids (item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP)
  WITH (format='parquet', path='data/bids', time='ts');
CREATE TABLE categories (category STRING, vat DOUBLE) WITH (format='parquet', path='data/categories.parquet');
SET epoch_rows = 20000;
CREATE QUERY big_bids AS
  SELECT a.item_id, a.category, b.bidder, b.price * (1 + c.vat) AS gross
  FROM auctions [RANGE 10 MINUTES] a, bids [RANGE 10 MINUTES] b, categories c
  WHERE a.item_id = b.item_id AND a.category = c.category AND b.price > 100;
CREATE QUERY pairs WITH (plan = '((a b) c)') AS
  SELECT a.item_id, b.price AS p1, c.price AS p2
  FROM auctions [RANGE 1 HOUR] a JOIN bids b [ROWS 1000] ON a.item_id = b.item_id, bids [RANGE 5 MINUTES] c
  WHERE c.item_id = a.item_id AND b.price < c.price;
"""


def test_a_whole_script() -> None:
    job = bind_script(DEMO)
    assert [s.name for s in job.streams] == ["auctions", "bids"]
    assert [t.name for t in job.tables] == ["categories"]
    assert [(q.name, [o.name for o in q.outputs], q.settings.plan) for q in job.queries] == [
        ("big_bids", ["item_id", "category", "bidder", "gross"], "auto"),
        ("pairs", ["item_id", "p1", "p2"], "((a b) c)"),
    ]
    assert job.settings.epoch_rows == 20_000


def test_set_counts_for_what_comes_after_it() -> None:
    job = bind_script(
        WORLD
        + """
        CREATE QUERY a AS SELECT item FROM bids; SET seed = 5; CREATE QUERY b AS SELECT item FROM bids;
        CREATE QUERY c WITH (seed = 6) AS SELECT item FROM bids; SET Seed = 7;
        """,
        Settings(probe="loop"),
    )
    assert [q.settings.seed for q in job.queries] == [0, 5, 6]
    assert (job.settings.seed, job.queries[0].settings.probe) == (7, "loop")


def test_drop_and_create_again() -> None:
    job = bind_script(
        WORLD
        + "CREATE QUERY q AS SELECT item FROM bids; DROP QUERY Q; DROP STREAM bids; CREATE TABLE Bids (x INT) WITH (path = 'x')"
    )
    assert (list(job.queries), [t.name for t in job.tables]) == ([], ["items", "Bids"])


def test_apply_returns_what_it_made() -> None:
    job = world()
    create, sink, drop = parse_script(
        "CREATE QUERY q AS SELECT item FROM bids; CREATE SINK s FOR q WITH (path = 'x'); DROP QUERY q"
    )
    query = job.apply(create)
    made = job.apply(sink)
    assert job.apply(drop) == Dropped("query", query, (made,))  # type: ignore[arg-type]
    assert not job.sinks


def test_explain_is_kept_and_adds_no_query() -> None:
    job = bind_script(
        WORLD + "CREATE QUERY q AS SELECT item FROM bids; EXPLAIN Q; EXPLAIN ANALYZE SELECT seller FROM asks;"
    )
    assert job.explains == [ExplainRequest(job.queries[0], False), ExplainRequest(job.explains[1].query, True)]
    assert job.explains[1].query.name == UNNAMED and len(job.queries) == 1


def test_a_select_gets_its_name_from_the_caller() -> None:
    job = world()
    with pytest.raises(Unsupported, match="no name"):
        job.apply(parse_select("SELECT item FROM bids"))
    query = job.query("mine", parse_select("SELECT item FROM bids"))
    assert job.queries == (query,)


def test_an_error_changes_nothing() -> None:
    job = world()
    for text in (
        "CREATE QUERY q AS SELECT nothing FROM bids",
        "CREATE STREAM bids (ts TIMESTAMP) WITH (time = 'ts')",
        "DROP QUERY q",
    ):
        with pytest.raises(BindingProblem):
            job.apply(parse_script(text)[0])
    assert (len(job.streams), len(job.tables), len(job.queries), job.catalog.next_position) == (2, 1, 0, 2)


def test_ten_thousand_queries_are_bound_in_seconds() -> None:
    job = Job()
    for statement in parse_script(WORLD):
        job.apply(statement)
    select = parse_select("SELECT item FROM bids WHERE price > 3")
    for i in range(10_000):
        job.query(f"q{i}", select)
    assert job.catalog.query("Q9999").name == "q9999"
