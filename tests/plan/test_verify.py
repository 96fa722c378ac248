"""Laws that every query keeps, and warnings about what grows for ever."""

from dataclasses import replace

import pytest

from eddyline.errors import Fault, PlanProblem
from eddyline.language import bind_script
from eddyline.model.datatypes import BIGINT, BOOLEAN
from eddyline.model.expressions.expression import Aggregate, Call, ColumnRef, Literal, conjunction
from eddyline.model.query import BoundQuery, Emit
from eddyline.plan.rules.fold_constants import fold_constants
from eddyline.plan.verify import verify, verify_rewritten, warnings_of
from eddyline.settings import Settings

WORLD = """
    CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
    CREATE STREAM asks (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
    CREATE TABLE items (item BIGINT, title STRING) WITH (format = 'parquet', path = 'items.parquet');
"""
ITEM = ColumnRef("bids", "item", BIGINT)
YES = Literal(True, BOOLEAN)
COUNT = Aggregate("count", None, False, BIGINT)


def bound(select: str, settings: Settings | None = None) -> BoundQuery:
    return bind_script(f"{WORLD} CREATE QUERY q AS {select}", settings).queries[0]


@pytest.mark.parametrize(
    ("select", "outputs"),
    [
        ("SELECT * FROM bids", "item price ts"),
        ("SELECT DISTINCT item FROM bids WHERE price > 2.0 - 1.0", "item"),
        ("SELECT b.item FROM bids b, items i WHERE b.item = i.item AND b.price > 2.0 - 1.0", "item"),
        (
            "SELECT item + 1 AS k, -(item + 1) AS l, count(*) AS n FROM bids GROUP BY item + 1 HAVING max(price) > 2.0 + 1.0",
            "k l n",
        ),
        ("SELECT count(*) AS n FROM bids WHERE NOT (price <= 2.0 - 1.0)", "n"),
    ],
)
def test_bound_queries_and_what_rules_make_of_them_keep_the_laws(select: str, outputs: str) -> None:
    query = bound(select)
    verify(query)
    rewritten = fold_constants(query)
    verify(rewritten)
    verify_rewritten(query, rewritten)
    assert [o.name for o in rewritten.outputs] == outputs.split()
    assert (rewritten == query) == ("2.0" not in select), "constants are computed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"where": (Call("=", (ColumnRef("asks", "item", BIGINT), ITEM), BOOLEAN),)},
            "reads asks, which is not in FROM",
        ),
        (
            {"having": Call("is_null", (ColumnRef("asks", "item", BIGINT),), BOOLEAN)},
            "reads asks, which is not in FROM",
        ),
        ({"where": (ITEM,)}, "a condition of query q is BIGINT"),
        ({"where": (conjunction((YES, YES)),)}, "not split at AND"),
        ({"where": (Call("is_null", (COUNT,), BOOLEAN),)}, "an aggregate below its grouping"),
        ({"group_by": (COUNT,)}, "an aggregate below its grouping"),
        ({"group_by": (ColumnRef("bids", "price", BIGINT),)}, "reads bids.item above its grouping"),
        ({"group_by": (ITEM, YES)}, "groups by TRUE and does not select it"),
        ({"having": Call("is_null", (ITEM,), BOOLEAN)}, "reads bids.item above its grouping"),
    ],
)
def test_a_broken_law_is_a_fault(change: dict[str, object], message: str) -> None:
    query = bound("SELECT item FROM bids")
    with pytest.raises(Fault, match=message):
        verify(replace(query, **change))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"name": "other"}, "name"),
        ({"references": ()}, "references"),
        ({"outputs": ()}, "outputs"),
        ({"group_by": ()}, "number of groups"),
        ({"having": None}, "HAVING"),
        ({"distinct": True}, "DISTINCT"),
        ({"emit": Emit("every", 5)}, "EMIT"),
        ({"settings": Settings(seed=9)}, "settings"),
        ({"text": "SELECT"}, "text"),
    ],
)
def test_what_no_rule_may_touch(change: dict[str, object], what: str) -> None:
    query = bound("SELECT item, count(*) AS n FROM bids GROUP BY item HAVING count(*) > 1")
    with pytest.raises(Fault, match=f"the {what} changed"):
        verify_rewritten(query, replace(query, **change))


@pytest.mark.parametrize(
    ("select", "named"),
    [
        ("SELECT b.item FROM bids b, asks [RANGE 5 SECONDS] a WHERE a.item = b.item", ["the store of bids (b)"]),
        ("SELECT b.item FROM bids b, asks a WHERE a.item = b.item", ["the store of bids (b)", "the store of asks (a)"]),
        ("SELECT b.item FROM bids b [UNBOUNDED], bids [ROWS 5] c WHERE c.item = b.item", ["the store of bids (b)"]),
        ("SELECT b.item FROM bids [RANGE 1 SECOND] b, asks [ROWS 3] a WHERE a.item = b.item", []),
        ("SELECT item FROM bids", []),
        ("SELECT b.item FROM bids b, items i WHERE b.item = i.item", []),
        ("SELECT count(*) AS n FROM bids", []),
        ("SELECT count(DISTINCT item) AS n FROM bids", ["what is kept of bids (bids) per group"]),
        ("SELECT item, count(*) AS n FROM bids GROUP BY item", ["what is kept of bids (bids) per group"]),
        ("SELECT DISTINCT item FROM bids", ["what is kept of bids (bids) per group"]),
        ("SELECT item, count(*) AS n FROM bids [RANGE 1 MINUTE] GROUP BY item", []),
        (
            "SELECT date_trunc('minute', ts) AS m, count(*) AS n FROM bids GROUP BY date_trunc('minute', ts) EMIT ON CLOSE",
            [],
        ),
    ],
)
def test_warnings_name_what_grows(select: str, named: list[str]) -> None:
    assert warnings_of(bound(select)) == [f"query q: {what} grows for ever, it has no window" for what in named]
    strict = bound(select, Settings(unbounded="error"))
    if named:
        with pytest.raises(PlanProblem) as caught:
            warnings_of(strict)
        assert named[0] in caught.value.message and "RANGE 10 MINUTES" in caught.value.hint
    else:
        assert warnings_of(strict) == []
