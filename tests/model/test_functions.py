"""How calls get their types: DuckDB's, with the casts written out, and clear refusals."""

from __future__ import annotations

from decimal import Decimal

import pytest

from eddyline.errors import BindingProblem, Position, located
from eddyline.model.datatypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
)
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal
from eddyline.model.expressions.functions import AGGREGATES, FUNCTIONS, resolve, resolve_aggregate, resolve_cast

MONEY = decimal(10, 2)


def column(kind: DataType) -> ColumnRef:
    return ColumnRef("t", kind.name.lower(), kind)


def text(value: str) -> Literal:
    return Literal(value, STRING)


NOTHING = Literal(None, NULL)


@pytest.mark.parametrize(
    ("name", "kinds", "result"),
    [
        ("+", (INT, INT), INT),
        ("+", (INT, BIGINT), BIGINT),
        ("*", (INT, DOUBLE), DOUBLE),
        ("/", (INT, INT), DOUBLE),
        ("//", (INT, INT), INT),
        ("//", (MONEY, INT), DOUBLE),
        ("%", (BIGINT, INT), BIGINT),
        ("+", (MONEY, INT), decimal(13, 2)),
        ("+", (BIGINT, MONEY), decimal(22, 2)),
        ("+", (decimal(38, 5), MONEY), decimal(38, 5)),
        ("*", (MONEY, INT), decimal(18, 2)),
        ("*", (MONEY, BIGINT), decimal(29, 2)),
        ("*", (decimal(18, 4), decimal(18, 4)), decimal(18, 8)),
        ("*", (decimal(38, 5), decimal(38, 5)), decimal(38, 10)),
        ("%", (MONEY, INT), decimal(12, 2)),
        ("-", (TIMESTAMP, TIMESTAMP), INTERVAL),
        ("-", (TIMESTAMP, INTERVAL), TIMESTAMP),
        ("+", (DATE, INTERVAL), TIMESTAMP),
        ("+", (INTERVAL, TIMESTAMP), TIMESTAMP),
        ("+", (DATE, INT), DATE),
        ("-", (DATE, DATE), BIGINT),
        ("*", (INTERVAL, INT), INTERVAL),
        ("neg", (MONEY,), MONEY),
        ("abs", (INT,), INT),
        ("ceil", (INT,), DOUBLE),
        ("ceil", (MONEY,), decimal(10, 0)),
        ("round", (BIGINT,), BIGINT),
        ("round", (DOUBLE, INT), DOUBLE),
        ("sign", (DOUBLE,), INT),
        ("greatest", (MONEY, INT), decimal(12, 2)),
        ("coalesce", (INT, DOUBLE), DOUBLE),
        ("coalesce", (DATE, TIMESTAMP), TIMESTAMP),
        ("nullif", (INT, DOUBLE), INT),
        ("case", (BOOLEAN, INT, BIGINT), BIGINT),
        ("case", (INT, BOOLEAN, INT), INT),
        ("||", (STRING, INT), STRING),
        ("length", (STRING,), BIGINT),
        ("substr", (STRING, INT, BIGINT), STRING),
        ("year", (DATE,), BIGINT),
        ("epoch", (INTERVAL,), DOUBLE),
        ("epoch_ms", (TIMESTAMP,), BIGINT),
        ("epoch_ms", (INT,), TIMESTAMP),
        ("make_timestamp", (BIGINT,), TIMESTAMP),
        ("pow", (INT, INT), DOUBLE),
        ("CEILING", (DOUBLE,), DOUBLE),
    ],
)
def test_result_types(name: str, kinds: tuple[DataType, ...], result: DataType) -> None:
    assert resolve(name, tuple(column(k) for k in kinds)).type == result


@pytest.mark.parametrize(
    ("a", "b", "meeting"),
    [
        (INT, DOUBLE, DOUBLE),
        (INT, BIGINT, BIGINT),
        (BIGINT, MONEY, decimal(21, 2)),
        (MONEY, DOUBLE, DOUBLE),
        (MONEY, decimal(18, 4), decimal(18, 4)),
        (DATE, TIMESTAMP, TIMESTAMP),
        (BOOLEAN, INT, INT),
        (STRING, STRING, STRING),
    ],
)
def test_both_sides_of_a_comparison_have_one_type(a: DataType, b: DataType, meeting: DataType) -> None:
    for call in (resolve("<", (column(a), column(b))), resolve("=", (column(b), column(a)))):
        assert isinstance(call, Call)
        assert [x.type for x in call.args] == [meeting, meeting]
        assert call.type == BOOLEAN


@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        ("5", INT, 5),
        ("2.5", INT, 3),
        ("-2.5", BIGINT, -3),
        ("1e2", DOUBLE, 100.0),
        ("1.005", MONEY, Decimal("1.01")),
        ("true", BOOLEAN, True),
        ("1970-01-02", DATE, 1),
        ("1970-01-01 00:00:01.5", TIMESTAMP, 1_500_000),
        ("1970-01-01T00:01Z", TIMESTAMP, 60_000_000),
        ("1969-12-31", TIMESTAMP, -86_400_000_000),
    ],
)
def test_a_text_literal_takes_the_type_of_the_other_side(written: str, kind: DataType, value: object) -> None:
    call = resolve("=", (column(kind), text(written)))
    assert isinstance(call, Call)
    assert call.args[1] == Literal(value, kind)


def test_null_takes_the_type_of_the_other_side() -> None:
    assert resolve("=", (column(INT), NOTHING)) == Call("=", (column(INT), Literal(None, INT)), BOOLEAN)
    assert resolve("+", (column(DOUBLE), NOTHING)).type == DOUBLE
    assert resolve("case", (column(BOOLEAN), column(DATE), NOTHING)).type == DATE
    assert resolve("+", (column(TIMESTAMP), NOTHING)).type == TIMESTAMP


def test_literals_are_folded_and_columns_are_cast() -> None:
    assert resolve(">", (column(DOUBLE), Literal(100, INT))) == Call(
        ">", (column(DOUBLE), Literal(100.0, DOUBLE)), BOOLEAN
    )
    assert str(resolve(">", (column(INT), Literal(1.5, DOUBLE)))) == "CAST(t.int AS DOUBLE) > 1.5"
    assert resolve("neg", (Literal(5, INT),)) == Literal(-5, INT)
    assert resolve("neg", (Literal(2**31, BIGINT),)) == Literal(-(2**31), INT)
    assert resolve_cast(text("7"), BIGINT) == Literal(7, BIGINT)


def test_the_moment_stands_before_the_span() -> None:
    call = resolve("+", (Literal(5, INTERVAL), column(TIMESTAMP)))
    assert call == Call("+", (column(TIMESTAMP), Literal(5, INTERVAL)), TIMESTAMP)


def test_units_have_one_spelling_in_a_call() -> None:
    call = resolve("extract", (text("Minutes"), column(TIMESTAMP)))
    assert call == Call("date_part", (text("minute"), column(TIMESTAMP)), BIGINT)
    assert resolve("date_part", (text("epoch"), column(TIMESTAMP))).type == DOUBLE


@pytest.mark.parametrize(
    ("name", "args", "message", "hint"),
    [
        ("lenght", (column(STRING),), "there is no function lenght", "did you mean length"),
        ("to_timestamp", (column(INT),), "there is no function to_timestamp", "make_timestamp"),
        ("sum", (column(INT),), "aggregate sum is not allowed here", "SELECT"),
        ("lower", (), "lower does not take 0 arguments", "lower(s)"),
        ("lower", (column(INT),), "lower does not take INT", "CAST"),
        ("=", (column(STRING), column(INT)), "= cannot take STRING together with INT", "CAST(… AS INT)"),
        ("=", (column(BOOLEAN), column(DOUBLE)), "= cannot take BOOLEAN together with DOUBLE", "CAST"),
        ("=", (column(INT), text("five")), "'five' is not a INT", "number"),
        ("=", (column(TIMESTAMP), text("yesterday")), "'yesterday' is not a TIMESTAMP", "2024-01-31"),
        ("+", (column(STRING), column(INT)), "+ does not take STRING, INT", "CAST"),
        ("+", (column(TIMESTAMP), column(TIMESTAMP)), "+ does not take TIMESTAMP, TIMESTAMP", "INTERVAL"),
        ("+", (column(DATE), column(BIGINT)), "+ does not take DATE, BIGINT", "INT"),
        ("*", (column(INTERVAL), column(DOUBLE)), "* does not take INTERVAL, DOUBLE", "whole number"),
        ("%", (column(MONEY), column(BIGINT)), "% does not take", "18 digits"),
        ("*", (column(decimal(38, 30)), column(decimal(38, 30))), "the product of", "DOUBLE"),
        ("and", (column(BOOLEAN), column(STRING)), "AND needs a condition, not STRING", "compare"),
        ("case", (column(DATE), column(INT), column(INT)), "WHEN needs a condition", "compare"),
        ("case", (column(BOOLEAN), column(INT), column(STRING)), "CASE cannot take INT together with STRING", "CAST"),
        ("like", (column(INT), text("1%")), "like does not take INT, STRING", "CAST(… AS STRING)"),
        ("date_trunc", (text("fortnight"), column(TIMESTAMP)), "date_trunc does not know the unit", "week"),
        ("date_trunc", (column(STRING), column(TIMESTAMP)), "date_trunc does not know the unit", "a literal"),
        ("round", (column(MONEY), column(INT)), "round does not take", "literal"),
    ],
)
def test_refusals_say_what_to_do(name: str, args: tuple[Expression, ...], message: str, hint: str) -> None:
    with pytest.raises(BindingProblem) as caught, located(Position(3, 7)):
        resolve(name, args)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.position == Position(3, 7)


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        (DOUBLE, INT, True),
        (BOOLEAN, MONEY, True),
        (TIMESTAMP, STRING, True),
        (TIMESTAMP, DATE, True),
        (STRING, TIMESTAMP, True),
        (INT, TIMESTAMP, False),
        (DATE, BIGINT, False),
        (INTERVAL, STRING, False),
    ],
)
def test_which_casts_exist(source: DataType, target: DataType, allowed: bool) -> None:
    if allowed:
        assert resolve_cast(column(source), target) == Call("cast", (column(source),), target)
    else:
        with pytest.raises(BindingProblem, match="cannot CAST"):
            resolve_cast(column(source), target)


@pytest.mark.parametrize(
    ("name", "kind", "result"),
    [
        ("count", STRING, BIGINT),
        ("sum", INT, BIGINT),
        ("sum", BIGINT, BIGINT),
        ("sum", DOUBLE, DOUBLE),
        ("sum", MONEY, decimal(38, 2)),
        ("AVG", INT, DOUBLE),
        ("stddev", MONEY, DOUBLE),
        ("stddev_samp", DOUBLE, DOUBLE),
        ("min", STRING, STRING),
        ("max", TIMESTAMP, TIMESTAMP),
    ],
)
def test_aggregate_types(name: str, kind: DataType, result: DataType) -> None:
    assert resolve_aggregate(name, column(kind), False).type == result


def test_count_alone_takes_a_star() -> None:
    assert str(resolve_aggregate("count", None)) == "count(*)"
    with pytest.raises(BindingProblem, match="sum needs an argument"):
        resolve_aggregate("sum", None)
    with pytest.raises(BindingProblem, match="sum does not take STRING"):
        resolve_aggregate("sum", column(STRING))
    with pytest.raises(BindingProblem) as caught:
        resolve_aggregate("median", column(INT))
    assert "did you mean" in caught.value.hint


def test_the_reference_has_a_line_for_each() -> None:
    assert all(f.signature and f.help and (f.most is None or f.least <= f.most) for f in FUNCTIONS.values())
    assert all(signature.startswith(name) and line for name, (signature, line) in AGGREGATES.items())
