"""Random typed expressions, each with the DuckDB SQL that says the same, and random columns to compute them on.

`pieces(kind)` draws a `Piece`: our bound expression, and SQL made from the *unbound* arguments, so that a comparison
with DuckDB tests typing and casts as well as results. Where DuckDB would raise for a value, TRY makes it NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, DataType
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal
from eddyline.model.expressions.functions import resolve, resolve_cast
from tests.property.expression_values import COLUMNS, FINE, MONEY, POOLS, WIDE

#: DuckDB gives the negative of the smallest number, where it is a constant, a larger type; a difference keeps the type.
_NEGATED = "(CAST(0 AS INTEGER) - ({}))"


@dataclass(frozen=True)
class Piece:
    """One expression in both languages."""

    expression: Expression
    sql: str

    @property
    def type(self) -> DataType:
        return self.expression.type


@st.composite
def pieces(draw: st.DrawFn, kind: DataType, depth: int = 3) -> Piece:
    """An expression of the type, of at most the depth."""
    productions = _PRODUCTIONS.get(kind, []) if depth > 0 else []
    choice = draw(st.integers(0, len(productions) + 3))
    if choice >= len(productions):
        return draw(_leaf(kind))
    return draw(productions[choice](depth - 1))


@st.composite
def _leaf(draw: st.DrawFn, kind: DataType) -> Piece:
    names = [name for name, k in COLUMNS.items() if k == kind]
    if names and draw(st.integers(0, 3)):
        name = draw(st.sampled_from(names))
        return Piece(ColumnRef("t", name, kind), f"t.{name}")
    if draw(st.integers(0, 9)) == 0 and kind != INTERVAL:
        return Piece(Literal(None, kind), f"CAST(NULL AS {sql_type(kind)})")
    return draw(literals(kind))


@st.composite
def literals(draw: st.DrawFn, kind: DataType) -> Piece:
    if kind == INTERVAL:
        micros = draw(
            st.sampled_from([0, 1, 999, 1_000_000, 60_000_000, -5_000_000, 86_400_000_000, 34_560_000_000_001])
        )
        return Piece(Literal(micros, kind), f"to_microseconds({micros})")
    value = draw(st.sampled_from(POOLS[kind]))
    return Piece(Literal(value, kind), sql_literal(value, kind))


def sql_literal(value: object, kind: DataType) -> str:
    if kind == STRING:
        return "'" + str(value).replace("'", "''") + "'"
    if kind == DATE:
        return f"(DATE '1970-01-01' + ({value}))"
    if kind == TIMESTAMP:
        return f"make_timestamp({value})"
    # DuckDB does not read '1E-38' as a DECIMAL(38, 38).
    return (
        f"CAST('{value:f}' AS {sql_type(kind)})"
        if isinstance(value, Decimal)
        else f"CAST('{value}' AS {sql_type(kind)})"
    )


def sql_type(kind: DataType) -> str:
    return {"STRING": "VARCHAR", "INT": "INTEGER"}.get(kind.name, str(kind))


Production = Callable[[int], st.SearchStrategy[Piece]]


def _call(name: str, *kinds: DataType, form: str = "", attempt: bool = True) -> Production:
    """A production from a function's name, its argument types and its SQL with one {} for each."""
    template = form or (f"({{}} {name} {{}})" if not name[0].isalpha() else f"{name}({', '.join('{}' for _ in kinds)})")

    def production(depth: int) -> st.SearchStrategy[Piece]:
        return st.tuples(*(pieces(k, depth) for k in kinds)).map(lambda args: _made(name, args, template, attempt))

    return production


def _made(name: str, args: tuple[Piece, ...], template: str, attempt: bool = True) -> Piece:
    text = template.format(*(a.sql for a in args))
    return Piece(resolve(name, tuple(a.expression for a in args)), f"TRY({text})" if attempt else text)


def _with_literal(
    name: str, kinds: tuple[DataType, ...], literal: DataType, values: list[object], form: str = ""
) -> Production:
    """A production whose last argument is one of some constants."""

    def production(depth: int) -> st.SearchStrategy[Piece]:
        last = st.sampled_from(values).map(lambda v: Piece(Literal(v, literal), sql_literal(v, literal)))
        template = form or f"{name}({', '.join('{}' for _ in range(len(kinds) + 1))})"
        return st.tuples(*(pieces(k, depth) for k in kinds), last).map(lambda args: _made(name, args, template))

    return production


def _with_unit(name: str, units: tuple[str, ...], *kinds: DataType) -> Production:
    def production(depth: int) -> st.SearchStrategy[Piece]:
        unit = st.sampled_from(units).map(lambda u: Piece(Literal(u, STRING), f"'{u}'"))
        template = f"{name}({', '.join('{}' for _ in range(len(kinds) + 1))})"
        return st.tuples(unit, *(pieces(k, depth) for k in kinds)).map(lambda args: _made(name, args, template))

    return production


def _cast(source: DataType, target: DataType) -> Production:
    form = f"TRY_CAST({{}} AS {sql_type(target)})"
    if source == STRING and target.is_temporal:
        # Infinite times are DuckDB's alone.
        form = f"TRY_CAST(CASE WHEN NOT contains(lower({{0}}), 'inf') THEN {{0}} END AS {sql_type(target)})"
    elif source == DOUBLE and target == STRING:
        # The sign of NaN depends on the processor.
        form = "replace(CAST({} AS VARCHAR), '-nan', 'nan')"

    def production(depth: int) -> st.SearchStrategy[Piece]:
        # Times as texts are compared within the years 1 to 9999, which computed times may leave.
        inner = pieces(source, 0 if source.is_temporal and target == STRING else depth)
        return inner.map(lambda a: Piece(_unfolded_cast(a.expression, target), form.format(a.sql)))

    return production


def _unfolded_cast(e: Expression, target: DataType) -> Expression:
    """The cast as a call even for literals, so that a text that cannot be read is the evaluator's and not the
    binder's."""
    return Call("cast", (e,), target) if isinstance(e, Literal) else resolve_cast(e, target)


def _case(kind: DataType) -> Production:
    def production(depth: int) -> st.SearchStrategy[Piece]:
        parts = st.tuples(
            pieces(BOOLEAN, depth),
            pieces(kind, depth),
            pieces(BOOLEAN, depth),
            pieces(kind, depth),
            pieces(kind, depth),
        )
        return parts.map(
            lambda args: _made("case", args, "CASE WHEN {} THEN {} WHEN {} THEN {} ELSE {} END", attempt=False)
        )

    return production


def _choosing(kind: DataType) -> list[Production]:
    return [
        _case(kind),
        _call("coalesce", kind, kind, attempt=False),
        _call("nullif", kind, kind, attempt=False),
        _call("greatest", kind, kind, kind, attempt=False),
        _call("least", kind, kind, attempt=False),
    ]


def _in(kind: DataType) -> Production:
    def production(depth: int) -> st.SearchStrategy[Piece]:
        values = st.lists(_leaf(kind), min_size=1, max_size=4)
        return st.tuples(pieces(kind, depth), values).map(
            lambda drawn: _made(
                "in", (drawn[0], *drawn[1]), "({} IN (" + ", ".join("{}" for _ in drawn[1]) + "))", attempt=False
            )
        )

    return production


_UNITS = (
    "millennium",
    "century",
    "decade",
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
)
_PARTS = (*_UNITS, "dow", "isodow", "doy")
_COMPARED = [(k, k) for k in (BOOLEAN, INT, BIGINT, DOUBLE, STRING, DATE, TIMESTAMP, MONEY, INTERVAL, *WIDE)] + [
    (INT, DOUBLE),
    (BIGINT, DOUBLE),
    (INT, BIGINT),
    (BIGINT, MONEY),
    (MONEY, FINE),
    (FINE, DOUBLE),
    (DATE, TIMESTAMP),
    (BOOLEAN, INT),
]
_PATTERNS: list[object] = ["%", "a%", "%c", "%b%", "_", "a_c", "a\\b", "%é%", "%_x", "", "A%", "a%c%", "__", "%\n%"]
_SMALL: list[object] = [-9, -2, -1, 0, 1, 2, 3, 5, 12]

_PRODUCTIONS: dict[DataType, list[Production]] = {
    BOOLEAN: [
        *(_call(op, a, b) for op in ("=", "<>", "<", "<=", ">", ">=") for a, b in _COMPARED),
        *(
            _call("is_not_distinct", k, k, form="({} IS NOT DISTINCT FROM {})")
            for k in (INT, DOUBLE, STRING, MONEY, BOOLEAN)
        ),
        *(_call(op, BOOLEAN, BOOLEAN, form=f"({{}} {op} {{}})") for op in ("and", "or") for _ in range(6)),
        *(_call("not", BOOLEAN, form="(NOT {})") for _ in range(3)),
        *(_call("is_null", k, form="({} IS NULL)") for k in (INT, STRING, DOUBLE)),
        _call("is_not_null", TIMESTAMP, form="({} IS NOT NULL)"),
        *(_in(k) for k in (INT, BIGINT, DOUBLE, STRING, TIMESTAMP, MONEY)),
        _with_literal("like", (STRING,), STRING, _PATTERNS, form="({} LIKE {})"),
        _with_literal("ilike", (STRING,), STRING, _PATTERNS, form="({} ILIKE {})"),
        _call("like", STRING, STRING, form="({} LIKE {})"),
        *(_call(name, STRING, STRING) for name in ("contains", "starts_with", "ends_with")),
        *(_call(name, DOUBLE) for name in ("isnan", "isinf", "isfinite")),
        *(_cast(k, BOOLEAN) for k in (INT, DOUBLE, STRING, MONEY)),
        *_choosing(BOOLEAN),
    ],
    INT: [
        *(_call(op, INT, INT) for op in ("+", "-", "*", "//", "%")),
        _call("neg", INT, form=_NEGATED),
        _call("abs", INT),
        _call("mod", INT, INT),
        _with_literal("round", (INT,), INT, [-12, -10, -9, -2, -1, 0, 3]),
        *(_cast(k, INT) for k in (BOOLEAN, BIGINT, DOUBLE, STRING, MONEY, FINE)),
        *_choosing(INT),
    ],
    BIGINT: [
        *(_call(op, BIGINT, BIGINT) for op in ("+", "-", "*", "//", "%")),
        *(_call(op, INT, BIGINT) for op in ("+", "*", "%")),
        _call("-", DATE, DATE),
        _call("neg", BIGINT, form=_NEGATED),
        _call("abs", BIGINT),
        _with_literal("round", (BIGINT,), INT, [-20, -19, -18, -2, -1, 0, 3]),
        _call("length", STRING),
        _call("strpos", STRING, STRING),
        _with_literal("strpos", (STRING,), STRING, ["a", "", "本", "llo", "x"]),
        _with_unit("date_part", _PARTS, TIMESTAMP),
        _with_unit("date_part", _PARTS, DATE),
        _with_unit("date_diff", _UNITS, TIMESTAMP, TIMESTAMP),
        *(
            _call(name, TIMESTAMP)
            for name in ("year", "month", "day", "hour", "minute", "second", "dayofweek", "epoch_ms", "epoch_us")
        ),
        *(_cast(k, BIGINT) for k in (BOOLEAN, INT, DOUBLE, STRING, FINE)),
        *_choosing(BIGINT),
    ],
    DOUBLE: [
        *(_call(op, DOUBLE, DOUBLE) for op in ("+", "-", "*", "/", "//", "%")),
        *(_call(op, a, b) for op in ("+", "*", "/") for a, b in ((INT, DOUBLE), (DOUBLE, BIGINT), (DOUBLE, MONEY))),
        _call("/", INT, INT),
        _call("/", BIGINT, MONEY),
        _call("neg", DOUBLE, form="(-({}))"),
        *(_call(name, DOUBLE) for name in ("abs", "ceil", "floor", "round", "sqrt")),
        _call("ceil", INT),
        _with_literal("round", (DOUBLE,), INT, [-2, -1, 0, 1, 2, 5]),
        _call("epoch", TIMESTAMP),
        _call("epoch", INTERVAL),
        *(_cast(k, DOUBLE) for k in (BOOLEAN, INT, BIGINT, STRING, MONEY, FINE)),
        *_choosing(DOUBLE),
    ],
    STRING: [
        _call("||", STRING, STRING),
        _call("||", STRING, INT),
        _call("concat", STRING, STRING, BIGINT),
        *(_call(name, STRING) for name in ("lower", "upper", "trim", "ltrim", "rtrim", "reverse")),
        _with_literal("trim", (STRING,), STRING, ["a", "ab", "", " c"]),
        _with_literal("substr", (STRING,), INT, _SMALL),
        _with_literal("substr", (STRING, INT), INT, _SMALL),
        _call("substr", STRING, BIGINT, INT),
        _with_literal("left", (STRING,), INT, _SMALL),
        _with_literal("right", (STRING,), INT, _SMALL),
        _call("left", STRING, INT),
        _call("replace", STRING, STRING, STRING),
        _with_literal("split_part", (STRING, STRING), INT, _SMALL),
        *(
            (
                lambda depth, name=name: st.tuples(
                    pieces(STRING, depth), st.sampled_from(_SMALL), pieces(STRING, 0)
                ).map(
                    lambda drawn: _made(
                        name,
                        (drawn[0], Piece(Literal(drawn[1], INT), f"({drawn[1]})"), drawn[2]),
                        name + "({}, {}, {})",
                    )
                )
            )
            for name in ("lpad", "rpad")
        ),
        *(_cast(k, STRING) for k in (BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP, MONEY, FINE, *WIDE)),
        *_choosing(STRING),
    ],
    DATE: [
        _with_literal("+", (DATE,), INT, _SMALL, form="({} + {})"),
        _with_literal("-", (DATE,), INT, _SMALL, form="({} - {})"),
        *(_cast(k, DATE) for k in (TIMESTAMP, STRING)),
        *_choosing(DATE),
    ],
    TIMESTAMP: [
        _call("+", TIMESTAMP, INTERVAL),
        _call("-", TIMESTAMP, INTERVAL),
        _call("+", INTERVAL, DATE),
        _with_unit("date_trunc", _UNITS, TIMESTAMP),
        _with_unit("date_trunc", _UNITS, DATE),
        *(_cast(k, TIMESTAMP) for k in (DATE, STRING)),
        *_choosing(TIMESTAMP),
    ],
    INTERVAL: [
        _call("-", TIMESTAMP, TIMESTAMP),
        _call("+", INTERVAL, INTERVAL),
        _case(INTERVAL),
    ],
    MONEY: [
        _call("neg", MONEY, form="(-({}))"),
        _call("abs", MONEY),
        *(_cast(k, MONEY) for k in (INT, BIGINT, DOUBLE, STRING, FINE, BOOLEAN)),
        *_choosing(MONEY),
    ],
    **{k: [_call("neg", k, form="(-({}))"), _call("abs", k), _cast(STRING, k), *_choosing(k)] for k in WIDE},
    FINE: [_call("abs", FINE), *(_cast(k, FINE) for k in (INT, DOUBLE, STRING, MONEY)), *_choosing(FINE)],
}

#: Expressions that are drawn at the root only: results whose type is a DECIMAL of their own or one that we do not have,
#: and functions whose last bit depends on the library, which something discontinuous above them would make visible.
ROOTS: list[Production] = [
    *(
        _call(op, a, b)
        for op in ("+", "-", "*")
        for a, b in ((MONEY, MONEY), (MONEY, INT), (BIGINT, MONEY), (MONEY, FINE))
    ),
    *(_call(op, k, k) for op in ("+", "-") for k in WIDE),
    _call("%", MONEY, INT),
    *(_call(name, k) for name in ("ceil", "floor") for k in (MONEY, FINE)),
    *(_with_literal("round", (k,), INT, [-1, 0, 1, 2, 3]) for k in (MONEY,)),
    *(_call(name, DOUBLE) for name in ("ln", "log10", "log2", "exp")),
    *(_call("sign", k) for k in (INT, DOUBLE, MONEY)),
    _call("power", DOUBLE, DOUBLE),
    _call("power", INT, DOUBLE),
]


@st.composite
def any_piece(draw: st.DrawFn, depth: int = 3) -> Piece:
    """An expression of any type that can be selected."""
    kinds = (BOOLEAN, INT, BIGINT, DOUBLE, STRING, DATE, TIMESTAMP, MONEY, *WIDE)
    choice = draw(st.integers(0, len(kinds)))
    if choice == len(kinds):
        return draw(draw(st.sampled_from(ROOTS))(depth - 1))
    return draw(pieces(kinds[choice], depth))


class DuckDB:
    """Computes the SQL of pieces over a table known as `t`."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET preserve_insertion_order = true")

    def compute(self, table: pa.Table, sql: str) -> pa.ChunkedArray:
        with self._connection.cursor() as cursor:
            cursor.register("t", table)
            return cursor.sql(f"SELECT {sql} AS x FROM t").to_arrow_table().column(0)
