"""Expressions in a scope: literals, types, aggregates."""

from __future__ import annotations

import pytest

from eddyline.errors import BindingProblem
from eddyline.language.binding.expressions import bind_constant, holds_aggregate
from eddyline.language.parse import parse_expression
from eddyline.language.syntax import Constant
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, INTERVAL, NULL, STRING, TIMESTAMP, DataType
from tests.language.world import bound, shown


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("NULL", None, NULL),
        ("TRUE", True, BOOLEAN),
        ("2147483647", 2**31 - 1, INT),
        ("2147483648", 2**31, BIGINT),
        ("-2147483648", -(2**31), INT),
        ("-9223372036854775808", -(2**63), BIGINT),
        ("1.0", 1.0, DOUBLE),
        ("1e2", 100.0, DOUBLE),
        ("'x'", "x", STRING),
        ("TIMESTAMP '1970-01-01 00:00:01.5'", 1_500_000, TIMESTAMP),
        ("DATE '1970-01-03'", 2, DATE),
        ("INTERVAL '5 minutes'", 300_000_000, INTERVAL),
    ],
)
def test_literals(text: str, value: object, kind: DataType) -> None:
    node = parse_expression(text)
    assert isinstance(node, Constant)
    literal = bind_constant(node)
    assert (literal.value, literal.type) == (value, kind)
    assert type(literal.value) is type(value)


def test_both_sides_of_a_comparison_have_one_type() -> None:
    query = bound(
        "SELECT b.item FROM bids b, asks a WHERE a.item = b.item AND b.amount > 1 AND b.ts > '2024-01-01' AND b.day = DATE '2024-01-01'"
    )
    for condition in query.where:
        assert condition.args[0].type == condition.args[1].type  # type: ignore[union-attr]


def test_time_arithmetic() -> None:
    assert shown("SELECT ts + INTERVAL '1 hour' AS later FROM bids")["later"] == "bids.ts + INTERVAL 3600000000"


def test_aggregates_are_found_wherever_they_are() -> None:
    assert holds_aggregate(parse_expression("1 + CAST(max(x) AS INT)"))
    assert not holds_aggregate(parse_expression("greatest(x, 1)"))


def test_aggregates_inside_expressions() -> None:
    assert shown("SELECT max(price) - min(price) AS spread FROM bids") == {
        "spread": "max(bids.price) - min(bids.price)"
    }
    assert shown("SELECT mean(price) AS m, stddev_samp(price) AS s FROM bids") == {
        "m": "avg(bids.price)",
        "s": "stddev(bids.price)",
    }


def test_distinct_changes_nothing_for_extremes() -> None:
    assert shown("SELECT min(DISTINCT price) AS low, max(DISTINCT price) AS high FROM bids") == {
        "low": "min(bids.price)",
        "high": "max(bids.price)",
    }


def test_an_output_name_inside_an_aggregate_is_not_an_output() -> None:
    with pytest.raises(BindingProblem, match="there is no column total"):
        bound("SELECT item, sum(price) AS total FROM bids GROUP BY item HAVING max(total) > 5")
