"""Expressions on whole columns: the corners that random cases may miss, issues, and what a call costs."""

from __future__ import annotations

import timeit
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.errors import Fault
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, DataType, decimal
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal
from eddyline.model.expressions.functions import FUNCTIONS, resolve, resolve_aggregate, resolve_cast
from eddyline.operators.expressions.evaluate import _MAKERS as KERNELS
from eddyline.operators.expressions.evaluate import Issues, compile_expression, compile_predicate
from tests.pace import slowness

NAN, INF = float("nan"), float("inf")
MONEY = decimal(10, 2)


def column(name: str, kind: DataType) -> ColumnRef:
    return ColumnRef("t", name, kind)


def compute(e: Expression, issues: Issues | None = None, /, **columns: pa.Array) -> list[object]:
    rows = len(next(iter(columns.values()))) if columns else 2
    array = compile_expression(e)({("t", name): values for name, values in columns.items()}, rows, issues)
    assert array.type == e.type.arrow
    assert len(array) == rows
    return array.to_pylist()


def ints(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int32())


X, Y = column("x", INT), column("y", INT)
D, E = column("d", DOUBLE), column("e", DOUBLE)
S, P = column("s", STRING), column("p", STRING)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("=", [True, False, False, False, False]),
        ("<", [False, False, True, True, False]),
        ("<=", [True, False, True, True, False]),
        (">", [False, True, False, False, True]),
        (">=", [True, True, False, False, True]),
        ("<>", [False, True, True, True, True]),
    ],
)
def test_nan_equals_itself_and_lies_above_everything(operator: str, expected: list[bool]) -> None:
    left = pa.array([NAN, NAN, INF, -1.0, 2.0])
    right = pa.array([NAN, INF, NAN, NAN, -INF])
    assert compute(resolve(operator, (D, E)), d=left, e=right) == expected
    one_by_one = [
        compute(resolve(operator, (D, Literal(r.as_py(), DOUBLE))), d=pa.array([left[i].as_py()]))[0]
        for i, r in enumerate(right)
    ]
    turned = [
        compute(resolve(operator, (Literal(l.as_py(), DOUBLE), E)), e=pa.array([right[i].as_py()]))[0]
        for i, l in enumerate(left)
    ]
    assert one_by_one == expected
    assert turned == expected


def test_minus_zero_equals_zero_and_keeps_its_sign() -> None:
    assert compute(resolve("=", (D, Literal(0.0, DOUBLE))), d=pa.array([-0.0, 0.0])) == [True, True]
    both = resolve("concat", (resolve("neg", (Literal(0.0, DOUBLE),)), Literal(0.0, DOUBLE)))
    assert compute(both) == ["-0.00.0", "-0.00.0"]


def test_and_or_know_three_values() -> None:
    a = pa.array([True, True, True, False, False, False, None, None, None])
    b = pa.array([True, False, None] * 3)
    pair = (column("a", BOOLEAN), column("b", BOOLEAN))
    assert compute(resolve("and", pair), a=a, b=b) == [True, False, None, False, False, False, None, False, None]
    assert compute(resolve("or", pair), a=a, b=b) == [True, True, True, True, False, None, True, None, None]


def test_in_with_null_is_unknown_unless_found() -> None:
    listed = (X, Literal(1, INT), Literal(None, INT))
    assert compute(resolve("in", listed), x=ints(1, 2, None)) == [True, None, None]
    assert compute(resolve("in", (X, *(Literal(i, INT) for i in range(20)))), x=ints(19, 20, None)) == [
        True,
        False,
        None,
    ]
    assert compute(resolve("in", (D, Literal(NAN, DOUBLE))), d=pa.array([NAN, 1.0, None])) == [True, False, None]
    assert compute(resolve("in", (X, Y, Literal(3, INT))), x=ints(1, 2, 3), y=ints(1, None, None)) == [True, None, True]


def test_what_duckdb_raises_for_is_null_and_counted() -> None:
    issues = Issues()
    big = ints(2**31 - 1, 1, None)
    assert compute(resolve("+", (X, Literal(1, INT))), issues, x=big) == [None, 2, None]
    assert compute(resolve("//", (X, Literal(0, INT))), issues, x=big) == [None, None, None]
    assert compute(resolve_cast(S, INT), issues, s=pa.array(["12", "twelve", None])) == [12, None, None]
    assert issues.counts == {"overflow": 1, "division by zero": 2, "failed cast": 1}
    assert issues.total == 4


def test_constant_issues_count_once_per_row() -> None:
    issues = Issues()
    assert compute(resolve("//", (Literal(1, INT), Literal(0, INT))), issues, x=ints(1, 2, 3)) == [None] * 3
    assert issues.counts == {"division by zero": 3}


def test_branches_that_are_not_taken_raise_no_issue() -> None:
    issues = Issues()
    quotient = resolve("//", (Literal(10, INT), X))
    guarded = resolve("case", (resolve("<>", (X, Literal(0, INT))), quotient, Literal(-1, INT)))
    assert compute(guarded, issues, x=ints(5, 0, None)) == [2, -1, -1]
    assert compute(resolve("coalesce", (Y, quotient)), issues, x=ints(0, 5), y=ints(1, None)) == [1, 2]
    both = resolve("and", (resolve("<>", (X, Literal(0, INT))), resolve(">", (quotient, Literal(1, INT)))))
    assert compile_predicate(both)({("t", "x"): ints(0, 5, 20)}, 3, issues).tolist() == [False, True, False]
    assert issues.total == 0
    assert compute(
        resolve("case", (resolve("=", (X, Literal(0, INT))), quotient, Literal(-1, INT))), issues, x=ints(5, 0)
    ) == [-1, None]
    assert issues.counts == {"division by zero": 1}


def test_a_shared_part_is_counted_once() -> None:
    issues = Issues()
    quotient = resolve("//", (Literal(10, INT), X))
    assert compute(resolve("+", (quotient, quotient)), issues, x=ints(0, 5)) == [None, 4]
    assert issues.counts == {"division by zero": 1}


@pytest.mark.parametrize(
    ("a", "b", "operator", "expected"),
    [
        (2**63 - 1, 1, "+", None),
        (-(2**63), -1, "+", None),
        (-(2**63), 1, "-", None),
        (-(2**63), -1, "*", None),
        (-1, -(2**63), "*", None),
        (3037000500, 3037000500, "*", None),
        (2**31, 2**31, "*", 2**62),
        (-(2**32), 2**31, "*", -(2**63)),
        (-(2**63), -1, "//", None),
        (-(2**63), -1, "%", None),
        (-7, 2, "//", -3),
        (-7, 2, "%", -1),
    ],
)
def test_bigint_arithmetic_at_its_limits(a: int, b: int, operator: str, expected: int | None) -> None:
    pair = (column("a", BIGINT), column("b", BIGINT))
    assert compute(resolve(operator, pair), a=pa.array([a, 6]), b=pa.array([b, 3]))[0] == expected


def test_doubles_round_as_in_duckdb() -> None:
    values = pa.array([2.5, 3.5, -2.5, 0.49999999999999994, 2147483648.0, NAN])
    assert compute(resolve_cast(D, INT), d=values) == [2, 4, -2, 0, None, None]
    assert compute(resolve("round", (D,)), d=values)[:5] == [3.0, 4.0, -3.0, 0.0, 2147483648.0]
    assert compute(resolve("round", (X, Literal(-1, INT))), x=ints(15, -15, 24, 2**31 - 1)) == [20, -20, 20, None]


def test_decimals_are_exact() -> None:
    m = pa.array([Decimal("0.10"), Decimal("99999999.99"), None], pa.decimal128(10, 2))
    money = column("m", MONEY)
    tripled = compute(resolve("+", (resolve("+", (money, money)), money)), m=m)
    assert tripled == [Decimal("0.30"), Decimal("299999999.97"), None]
    assert compute(resolve("=", (money, Literal(0.1, DOUBLE))), m=m) == [True, False, None]
    assert compute(resolve("round", (money, Literal(1, INT))), m=m) == [Decimal("0.1"), Decimal("100000000.0"), None]
    assert compute(resolve("%", (money, Literal(3, INT))), m=m) == [Decimal("0.10"), Decimal("0.99"), None]
    assert compute(resolve_cast(money, STRING), m=m) == ["0.10", "99999999.99", None]
    wide = column("w", decimal(38, 0))
    issues = Issues()
    assert compute(
        resolve("+", (wide, wide)), issues, w=pa.array([Decimal("9" * 38), Decimal(1)], pa.decimal128(38, 0))
    ) == [
        None,
        Decimal(2),
    ]
    assert issues.counts == {"overflow": 1}


def test_decimals_become_doubles_and_come_back() -> None:
    values = [-250367.90625, 1e15, -0.015, 12.345, NAN, 1e40]
    found = compute(resolve_cast(D, decimal(38, 4)), d=pa.array(values))
    assert found == [
        Decimal("-250367.9063"),
        Decimal("1000000000000000.0000"),
        Decimal("-0.0150"),
        Decimal("12.3450"),
        None,
        None,
    ]
    back = compute(resolve_cast(column("w", decimal(38, 4)), DOUBLE), w=pa.array(found, pa.decimal128(38, 4)))
    assert back == [-250367.9063, 1e15, -0.015, 12.345, None, None]


def test_times() -> None:
    moments = pa.array([-1, 0, 1_709_210_096_123_456, None], pa.timestamp("us"))
    t = column("t", TIMESTAMP)
    assert compute(resolve("year", (t,)), t=moments) == [1969, 1970, 2024, None]
    assert compute(resolve("date_part", (Literal("week", STRING), t)), t=moments) == [1, 1, 9, None]
    cut = compile_expression(resolve("date_trunc", (Literal("minute", STRING), t)))({("t", "t"): moments}, 4)
    assert cut.cast(pa.int64()).to_pylist() == [-60_000_000, 0, 1_709_210_040_000_000, None]
    within = resolve("<", (resolve("-", (t, Literal(0, TIMESTAMP))), Literal(5_000_000, INTERVAL)))
    assert compute(within, t=moments) == [True, True, False, None]
    assert compute(resolve_cast(t, STRING), t=moments) == [
        "1969-12-31 23:59:59.999999",
        "1970-01-01 00:00:00",
        "2024-02-29 12:34:56.123456",
        None,
    ]
    far = column("day", DATE)
    issues = Issues()
    assert compute(resolve_cast(far, TIMESTAMP), issues, day=pa.array([2**31 - 1], pa.int32()).cast(pa.date32())) == [
        None
    ]
    assert issues.counts == {"failed cast": 1}


def test_texts_count_characters() -> None:
    texts = pa.array(["日本語", "🦆a", None])
    assert compute(resolve("length", (S,)), s=texts) == [3, 2, None]
    assert compute(resolve("substr", (S, Literal(2, INT), Literal(1, INT))), s=texts) == ["本", "a", None]
    assert compute(resolve("strpos", (S, Literal("語", STRING))), s=texts) == [3, 0, None]
    assert compute(resolve("lpad", (S, Literal(5, INT), Literal("xy", STRING))), s=texts) == [
        "xy日本語",
        "xyx🦆a",
        None,
    ]
    assert compute(resolve("like", (S, Literal("__", STRING))), s=texts) == [False, True, None]
    # Code points, as the page of functions says: a combining mark moves to its other neighbour.
    assert compute(resolve("reverse", (S,)), s=pa.array(["ae\u0301", "🦆a"])) == ["\u0301ea", "a🦆"]


def test_parameters_may_be_columns() -> None:
    texts, parts = pa.array(["abc", "abc", None, "xyz", "xyz"]), pa.array(["b", "q", "b", None, "y"])
    assert compute(resolve("contains", (S, P)), s=texts, p=parts) == [True, False, None, None, True]
    assert compute(resolve("strpos", (S, P)), s=texts, p=parts) == [2, 0, None, None, 2]
    assert compute(resolve("left", (S, X)), s=texts, x=ints(1, -1, 1, None, 0)) == ["a", "ab", None, None, ""]
    assert compute(resolve("replace", (S, P, Literal("-", STRING))), s=texts, p=parts) == [
        "a-c",
        "abc",
        None,
        None,
        "x-z",
    ]


def test_slices_chunks_and_plain_arrays_are_taken() -> None:
    e = resolve(">", (X, Literal(2, INT)))
    sliced = ints(0, None, 1, 2, 3, 4, None, 9, 5, 6).slice(3, 6)
    assert compute(e, x=sliced) == [False, True, True, None, True, True]
    flags = pa.array([True, None, False] * 7).slice(5, 11)
    assert compute(resolve("not", (column("b", BOOLEAN),)), b=flags) == [
        None if v is None else not v for v in flags.to_pylist()
    ]
    chunked = pa.chunked_array([ints(1, 2), ints(3)])
    assert compile_expression(e)({("t", "x"): chunked}, 3).to_pylist() == [False, False, True]
    assert compile_predicate(e)({("t", "x"): np.array([1, 3], np.int32)}, 2).tolist() == [False, True]
    m = pa.array([Decimal(i) for i in range(6)], pa.decimal128(10, 2)).slice(2, 3)
    assert compute(resolve("sign", (column("m", MONEY),)), m=m) == [1, 1, 1]


@pytest.mark.parametrize("kind", [BOOLEAN, INT, BIGINT, DOUBLE, STRING, DATE, TIMESTAMP, MONEY])
def test_constants_and_no_rows(kind: DataType) -> None:
    nothing = compile_expression(Literal(None, kind))
    assert nothing({}, 3).to_pylist() == [None] * 3
    assert nothing({}, 0).type == kind.arrow
    c = column("c", kind)
    chosen = compile_expression(resolve("case", (resolve("is_null", (c,)), c, c)))
    assert len(chosen({("t", "c"): pa.array([], kind.arrow)}, 0)) == 0
    assert compute(resolve("coalesce", (c, c)), c=pa.nulls(2, kind.arrow)) == [None, None]


def test_predicates_of_constants_have_all_rows() -> None:
    assert compile_predicate(Literal(True, BOOLEAN))({}, 3).tolist() == [True] * 3
    assert compile_predicate(Literal(None, BOOLEAN))({}, 2).tolist() == [False] * 2
    assert compile_predicate(resolve("is_not_null", (X,)))({("t", "x"): ints(1, 2)}, 2).tolist() == [True, True]


def test_columns_names_what_a_call_has_to_bring() -> None:
    e = resolve("<", (ColumnRef("b", "price", DOUBLE), ColumnRef("a", "price", DOUBLE)))
    assert compile_expression(e).columns == (("a", "price"), ("b", "price"))
    assert compile_predicate(e).columns == (("a", "price"), ("b", "price"))


def test_inputs_are_never_written() -> None:
    values = pa.array([1.5, None, -2.5])
    before = values.to_pylist()
    compute(resolve("neg", (D,)), d=values)
    compute(resolve("abs", (D,)), d=values)
    assert values.to_pylist() == before


def test_aggregates_are_a_fault_here() -> None:
    with pytest.raises(Fault, match="aggregate"):
        compile_expression(resolve_aggregate("count", None))
    with pytest.raises(Fault, match="no kernel"):
        compile_expression(Call("frobnicate", (X,), INT))


def test_every_function_of_the_reference_has_a_kernel() -> None:
    shaped = {"and", "or", "case", "coalesce"}
    rewritten = {
        "nullif",
        "mod",
        "year",
        "quarter",
        "month",
        "week",
        "day",
        "hour",
        "minute",
        "second",
        "dayofweek",
        "dayofyear",
    }
    assert set(FUNCTIONS) - shaped - rewritten <= set(KERNELS)


def test_a_predicate_costs_little_more_than_its_arrays() -> None:
    rows = 10_000
    prices = np.random.default_rng(1).uniform(0, 200, rows)
    test = compile_predicate(resolve(">", (ColumnRef("b", "price", DOUBLE), Literal(100, INT))))
    columns = {("b", "price"): pa.array(prices)}
    bare = min(timeit.repeat(lambda: ~(prices <= 100.0), number=50, repeat=7)) / 50
    ours = min(timeit.repeat(lambda: test(columns, rows, None), number=50, repeat=7)) / 50
    assert ours - bare < 60e-6 * slowness(), f"{ours * 1e6:.1f} µs, NumPy alone {bare * 1e6:.1f} µs"


def test_texts_become_numbers_as_in_duckdb_whatever_stands_beside_them() -> None:
    texts = [
        "0x10",
        "0X1f",
        "0b101",
        "0x1_0",
        "0x7FFFFFFFFFFFFFFF",
        "0xFFFFFFFFFFFFFFFF",
        "-0x10",
        "0x",
        "1_000",
        "1__0",
        "_1",
        "1_",
        "-1_2_3",
    ]
    texts += ["1_0.5_0", "1_0e1_0", "1e_5", "inf", "-inf", "nan", "5", "x", ""]
    connection = duckdb.connect()
    for kind in ("BIGINT", "INTEGER", "DOUBLE", "DECIMAL(10, 2)"):
        expected = [connection.execute(f"SELECT TRY_CAST(? AS {kind})", [text]).fetchone()[0] for text in texts]
        declared = "INT" if kind == "INTEGER" else kind
        assert repr(casts(texts, declared)) == repr(expected)
        assert repr([casts([text], declared)[0] for text in texts]) == repr(expected)


def casts(texts: list[str], kind: str) -> list[object]:
    session = Session()
    session.execute("CREATE STREAM a (x STRING, ts TIMESTAMP) WITH (time = 'ts')")
    query = session.query("q", f"SELECT CAST(x AS {kind}) AS r FROM a")
    session.push("a", [{"x": text, "ts": 1} for text in texts])
    session.run()
    return query.table().column("r").to_pylist()


@pytest.mark.parametrize("sign", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("kind", [BIGINT, DOUBLE, STRING, DATE, BOOLEAN])
def test_a_comparison_with_null_is_null(sign: str, kind: DataType) -> None:
    values = {"a": [1, None, None, 0], "b": [None, 1, None, 0]}
    columns = {name: pa.array(column).cast(kind.arrow) for name, column in values.items()} if kind != DATE else None
    columns = columns or {name: pa.array(column, pa.int32()).cast(pa.date32()) for name, column in values.items()}
    found = compute(resolve(sign, (column("a", kind), column("b", kind))), **columns)
    assert found == [None, None, None, sign in ("=", "<=", ">=")]
