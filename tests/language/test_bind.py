"""SELECT to bound query."""

from __future__ import annotations

import pytest

from eddyline.errors import BindingProblem
from eddyline.language import parse_script
from eddyline.language.binding.bind import bind_query, bind_settings
from eddyline.language.parse import parse_select
from eddyline.language.syntax import CreateQuery, WithOption
from eddyline.model.datatypes import BIGINT, BOOLEAN, DOUBLE
from eddyline.model.query import Emit, Reference
from eddyline.model.window import UNBOUNDED, Range, Rows
from eddyline.settings import Settings
from tests.language.world import bound, shown, world


def test_references_with_their_windows() -> None:
    query = bound("SELECT b.item FROM BIDS [ROWS 3] b, asks [RANGE 1 SECOND], items AS i, Bids AS other")
    assert query.references == (
        Reference("b", "bids", Rows(3)),
        Reference("asks", "asks", Range(1_000_000)),
        Reference("i", "items", None),
        Reference("other", "bids", UNBOUNDED),
    )
    assert [r.alias for r in query.streams] == ["b", "asks", "other"]


def test_where_and_on_are_split_at_and() -> None:
    query = bound(
        "SELECT b.item FROM bids b JOIN asks a ON b.item = a.item AND a.open, items i"
        " WHERE (i.item = b.item AND b.price > 1) AND a.price < 2"
    )
    assert [str(e) for e in query.where] == [
        "b.item = CAST(a.item AS BIGINT)",
        "a.open",
        "i.item = b.item",
        "b.price > 1.0",
        "a.price < 2.0",
    ]
    assert all(e.type == BOOLEAN for e in query.where)


def test_between_is_two_conditions() -> None:
    assert [str(e) for e in bound("SELECT item FROM bids WHERE price BETWEEN 1 AND 2").where] == [
        "bids.price >= 1.0",
        "bids.price <= 2.0",
    ]


def test_star_over_one_reference_keeps_names() -> None:
    assert list(shown("SELECT * FROM items i, asks [ROWS 1]"))[:2] == ["i_item", "i_title"]
    assert list(shown("SELECT * FROM asks a")) == ["item", "seller", "price", "open", "ts"]
    assert list(shown("SELECT a.* FROM asks a")) == ["item", "seller", "price", "open", "ts"]


def test_star_over_several_references_names_the_alias() -> None:
    assert list(shown("SELECT i.*, a.price FROM asks a, items i")) == ["i_item", "i_title", "price"]
    names = list(shown("SELECT * FROM bids, asks"))
    assert names[0] == "bids_item" and names[-1] == "asks_ts" and len(names) == 11


def test_default_names() -> None:
    assert shown("SELECT ITEM, lower(bidder), price + 1, CAST(price AS INT), 5, item IS NULL FROM bids") == {
        "item": "bids.item",
        "lower": "lower(bids.bidder)",
        "column_3": "bids.price + 1.0",
        "column_4": "CAST(bids.price AS INT)",
        "column_5": "5",
        "column_6": "bids.item IS NULL",
    }


def test_grouping_by_column_name_number_and_expression() -> None:
    by_name = bound("SELECT date_trunc('minute', ts) AS minute, count(*) AS n FROM bids GROUP BY minute")
    by_number = bound("SELECT date_trunc('minute', ts) AS minute, count(*) AS n FROM bids GROUP BY 1")
    by_expression = bound(
        "SELECT date_trunc('minute', ts) AS minute, count(*) AS n FROM bids GROUP BY date_trunc('minute', ts), minute"
    )
    assert by_name.group_by == by_number.group_by == by_expression.group_by
    assert [str(g) for g in by_name.group_by] == ["date_trunc('minute', bids.ts)"]
    assert by_name.is_aggregate


def test_a_column_comes_before_an_output_of_its_name() -> None:
    query = bound("SELECT item AS price, price AS item FROM bids GROUP BY item, price")
    assert [str(g) for g in query.group_by] == ["bids.item", "bids.price"]


def test_having_may_use_outputs() -> None:
    query = bound("SELECT item, sum(price) AS total FROM bids GROUP BY item HAVING total > 5 AND count(*) > 1")
    assert str(query.having) == "(sum(bids.price) > 5.0) AND (count(*) > 1)"


def test_types_of_outputs() -> None:
    query = bound(
        "SELECT item, count(DISTINCT bidder) AS n, avg(price) AS mean, sum(item) AS total FROM bids GROUP BY item"
    )
    assert [o.type for o in query.outputs] == [BIGINT, BIGINT, DOUBLE, BIGINT]


def test_distinct_stays_where_it_says_something() -> None:
    assert bound("SELECT DISTINCT item FROM bids").distinct
    grouped = bound("SELECT DISTINCT item, count(*) AS n FROM bids GROUP BY item")
    assert not grouped.distinct and grouped.is_aggregate
    assert not bound("SELECT DISTINCT count(*) AS n FROM bids").distinct


def test_emit() -> None:
    assert bound("SELECT count(*) AS n FROM bids").emit == Emit("change")
    assert bound("SELECT DISTINCT item FROM bids EMIT EVERY 10 SECONDS").emit == Emit("every", 10_000_000)
    assert bound("SELECT date_trunc('hour', ts) AS h FROM bids GROUP BY h EMIT ON CLOSE").emit == Emit("close")


def test_the_text_is_kept() -> None:
    assert bound("SELECT item  FROM bids").text == "SELECT item  FROM bids"


def test_settings_of_a_query_override_those_in_force() -> None:
    (query,) = parse_script("CREATE QUERY q WITH (plan = '((a b) c)', probe = loop) AS SELECT item FROM bids")
    assert isinstance(query, CreateQuery)
    settings = bind_settings(query.options, Settings(seed=7, probe="hash"))
    assert (settings.plan, settings.probe, settings.seed) == ("((a b) c)", "loop", 7)
    assert bind_settings((), settings) is settings
    assert bind_settings((WithOption("epoch_rows", 5),), settings).epoch_rows == 5


def test_a_long_chain_is_bound_or_refused() -> None:
    """Reading and binding both recurse; neither may crash, wherever the limit lies."""
    catalog = world().catalog
    for length in (10, 200, 350, 450, 480):
        text = "SELECT item FROM bids WHERE " + " AND ".join(f"price <> {i}" for i in range(length))
        try:
            query = bind_query("q", parse_select(text), Settings(), catalog)
        except BindingProblem as problem:
            assert "nested too deeply" in problem.message and length > 200
        except Exception as problem:
            assert "nested too deeply" in str(problem) and length > 200
        else:
            assert len(query.where) == length


@pytest.mark.parametrize("null", ["NULL", "CAST(NULL AS BOOLEAN)", "NULL = 1"])
def test_a_condition_may_be_null(null: str) -> None:
    assert [e.type for e in bound(f"SELECT item FROM bids WHERE {null}").where] == [BOOLEAN]
