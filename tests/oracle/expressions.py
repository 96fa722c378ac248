"""Scalar SQL by the plainest interpreter: one value at a time, three-valued logic.

Answer   `evaluate(expression, rows)` is the value of an expression over a combination (alias to row); None is NULL.
         `render` writes the same expression as SQL. DuckDB's results are right; where DuckDB raises for a value the
         result is NULL.
Limits   TIMESTAMP values are int microseconds, DATE values int days, INTERVAL values int microseconds. Only what random
         queries use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

Value = bool | int | float | str | Decimal | None
Rows = Mapping[str, Mapping[str, Value]]


@dataclass(frozen=True)
class Col:
    ref: str
    name: str
    type: str


@dataclass(frozen=True)
class Lit:
    value: Value
    type: str


@dataclass(frozen=True)
class Call:
    """A function over arguments; `cast` and `date_trunc` name their target after a colon (`cast:DOUBLE`)."""

    function: str
    args: tuple[Expression, ...]


@dataclass(frozen=True)
class Agg:
    """COUNT, SUM, AVG, MIN, MAX, STDDEV, ARG_MAX, ARG_MIN or STRING_AGG; `arg` is None for COUNT(*)."""

    function: str
    arg: Expression | None = None
    distinct: bool = False
    #: Of ARG_MAX and ARG_MIN: what is largest or smallest, and the event times of the references.
    by: Expression | None = None
    times: tuple[Col, ...] = ()


Expression = Col | Lit | Call | Agg

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_WIDTH = {"INT": 0, "BIGINT": 1, "DOUBLE": 2}
_LIMIT = {"INT": 2**31, "BIGINT": 2**63}
_DAY = 86_400_000_000
_BUCKET = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": _DAY,
}


# ---- types


def type_of(e: Expression) -> str:
    """The type of an expression's value, as DuckDB says (SUM of integers excepted: BIGINT)."""
    if isinstance(e, Col | Lit):
        return e.type
    if isinstance(e, Agg):
        if e.function == "COUNT":
            return "BIGINT"
        if e.function in ("AVG", "STDDEV"):
            return "DOUBLE"
        kind = type_of(e.arg)
        return "BIGINT" if e.function == "SUM" and kind == "INT" else kind
    kinds = [type_of(a) for a in e.args]
    name, _, target = e.function.partition(":")
    if name in ("+", "-", "*", "//", "%", "neg", "abs"):
        # How many digits a DECIMAL has is not the oracle's subject.
        return next((k for k in kinds if k == "TIMESTAMP" or k.startswith("DECIMAL")), None) or max(
            kinds, key=_WIDTH.__getitem__
        )
    if name == "case":
        return _widest([*kinds[1::2], kinds[-1]])
    fixed = {
        "/": "DOUBLE",
        "||": "STRING",
        "lower": "STRING",
        "upper": "STRING",
        "length": "BIGINT",
        "cast": target,
        "date_trunc": "TIMESTAMP",
        "epoch_us": "BIGINT",
        "half": "BIGINT",
        "shout": "STRING",
    }
    return _widest(kinds) if name == "coalesce" else fixed.get(name, "BOOLEAN")


def _widest(kinds: list[str]) -> str:
    return max(kinds, key=_WIDTH.__getitem__) if kinds[0] in _WIDTH else kinds[0]


# ---- values


def evaluate(e: Expression, rows: Rows) -> Value:
    return compiled(e)(rows)


def compiled(e: Expression) -> Callable[[Rows], Value]:
    """The expression as a function of a combination."""
    if isinstance(e, Col):
        return lambda rows, ref=e.ref, name=e.name: rows[ref][name]
    if isinstance(e, Lit):
        return lambda rows, value=e.value: value
    assert isinstance(e, Call), "an aggregate has no value over one combination"
    args = [compiled(a) for a in e.args]
    if e.function in _LAZY:
        meaning = _LAZY[e.function]
        return lambda rows: meaning([a(rows) for a in args])
    strict = _strict(e)

    def call(rows: Rows) -> Value:
        values = [a(rows) for a in args]
        return None if None in values else strict(*values)

    return call


def _and(values: list[Value]) -> Value:
    return False if False in values else None if None in values else True


def _or(values: list[Value]) -> Value:
    return True if True in values else None if None in values else False


def _in(values: list[Value]) -> Value:
    return _or([None if v is None or values[0] is None else order_key(v) == order_key(values[0]) for v in values[1:]])


def _not(value: Value) -> Value:
    return None if value is None else not value


def _between(values: list[Value]) -> Value:
    x, low, high = values
    above = None if x is None or low is None else order_key(low) <= order_key(x)
    below = None if x is None or high is None else order_key(x) <= order_key(high)
    return _and([above, below])


def _case(values: list[Value]) -> Value:
    for i in range(0, len(values) - 1, 2):
        if values[i] is True:
            return values[i + 1]
    return values[-1]


def _not_distinct(values: list[Value]) -> Value:
    a, b = values
    return a is b if a is None or b is None else order_key(a) == order_key(b)


#: Functions that give something else than NULL for some NULL argument.
_LAZY: dict[str, Callable[[list[Value]], Value]] = {
    "and": _and,
    "or": _or,
    "in": _in,
    "not_in": lambda values: _not(_in(values)),
    "between": _between,
    "is_null": lambda values: values[0] is None,
    "is_not_null": lambda values: values[0] is not None,
    "is_not_distinct": _not_distinct,
    "case": _case,
    "coalesce": lambda values: next((v for v in values if v is not None), None),
}


def order_key(value: Value) -> object:
    """What comparisons compare: NaN equals itself and is above everything, -0.0 is 0.0, texts go by code point."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return (0, value) if isinstance(value, int) else value


def _compare(function: str, kinds: list[str]) -> Callable[..., Value]:
    # A whole number meets a DOUBLE as a DOUBLE, with its rounding.
    change = float if "DOUBLE" in kinds and len(set(kinds)) > 1 else (lambda v: v)
    tests = {
        "=": lambda a, b: a == b,
        "<>": lambda a, b: a != b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
    }
    test = tests[function]
    return lambda a, b: test(order_key(change(a)), order_key(change(b)))


def _arithmetic(name: str, kind: str) -> Callable[..., Value]:
    if kind == "DOUBLE":
        floats = {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "/": _divide,
            "%": lambda a, b: math.fmod(a, b) if b != 0 and not math.isinf(a) else math.nan,
            "neg": lambda a: -a,
            "abs": abs,
        }
        return lambda *args: floats[name](*map(float, args))
    whole = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "//": lambda a, b: None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
        "%": lambda a, b: None if b == 0 else abs(a) % abs(b) * (1 if a >= 0 else -1),
        "neg": lambda a: -a,
        "abs": abs,
    }
    if kind.startswith("DECIMAL"):
        return whole[name]
    limit = _LIMIT.get(kind, 2**63)

    def fitting(*args: int) -> Value:
        value = whole[name](*args)
        return value if value is not None and -limit <= value < limit else None

    return fitting


def _divide(a: float, b: float) -> float:
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _like(text: str, pattern: str) -> bool:
    parts = {"%": ".*", "_": "."}
    return re.fullmatch("".join(parts.get(c, re.escape(c)) for c in pattern), text, re.DOTALL) is not None


def _cast(target: str, source: str) -> Callable[[Value], Value]:
    if target == source:
        return lambda v: v
    if (source, target) == ("TIMESTAMP", "DATE"):
        return lambda v: v // _DAY
    if target == "DOUBLE":
        return float
    if target == "STRING":
        assert source in ("INT", "BIGINT", "STRING"), "how other types look as text is not the oracle's subject"
        return str
    assert target in _LIMIT, f"no cast from {source} to {target} here"

    def whole(value: Value) -> Value:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        number = round(value)
        return number if -_LIMIT[target] <= number < _LIMIT[target] else None

    return whole


def _strict(e: Call) -> Callable[..., Value]:
    """The meaning of a function that is NULL whenever an argument is."""
    name, _, target = e.function.partition(":")
    kinds = [type_of(a) for a in e.args]
    if name in COMPARISONS:
        return _compare(name, kinds)
    if name == "date_trunc":
        return lambda ts: ts - ts % _BUCKET[target]
    if name == "cast":
        return _cast(target, kinds[0])
    plain: dict[str, Callable[..., Value]] = {
        "not": lambda a: not a,
        "||": lambda a, b: a + b,
        "lower": str.lower,
        "upper": str.upper,
        "length": len,
        "epoch_us": lambda ts: ts,
        "like": _like,
        # Functions of one's own, see `tests/property/functions.py`.
        "half": lambda x: None if x % 8 == 3 else x // 2,
        "shout": lambda text: text + "!",
    }
    return plain[name] if name in plain else _arithmetic(name, type_of(e))


# ---- text


def render(e: Expression, *, duckdb: bool = False) -> str:
    """The expression in SQL. For DuckDB, literals with a point say that they are DOUBLE, and what raises is tried."""
    if isinstance(e, Col):
        return f"{e.ref}.{e.name}"
    if isinstance(e, Lit):
        return literal(e.value, e.type, duckdb=duckdb)
    if isinstance(e, Agg):
        inner = "*" if e.arg is None else render(e.arg, duckdb=duckdb)
        if e.by is not None:
            by = render(e.by, duckdb=duckdb)
            if not duckdb:
                return f"{e.function}({inner}, {by})"
            turn = "DESC" if e.function == "ARG_MAX" else "ASC"
            newest = f"greatest({', '.join(render(t) for t in e.times)})"
            return f"first({inner} ORDER BY {by} {turn}, {newest}, {inner}) FILTER ({inner} IS NOT NULL AND {by} IS NOT NULL)"
        if e.function == "STRING_AGG":
            return f"string_agg({inner}, ', '" + (f" ORDER BY {e.times[0].ref}._number)" if duckdb else ")")
        return f"{e.function}({'DISTINCT ' if e.distinct else ''}{inner})"
    a = [render(x, duckdb=duckdb) for x in e.args]
    name, _, target = e.function.partition(":")
    if duckdb and name in ("+", "-", "*", "//", "%") and not any(isinstance(x, Agg) for x in walk(e)):
        return f"TRY({a[0]} {name} {a[1]})"
    if name in (*COMPARISONS, "+", "-", "*", "/", "//", "%", "||"):
        return f"({a[0]} {name} {a[1]})"
    forms: dict[str, Callable[[], str]] = {
        "and": lambda: f"({' AND '.join(a)})",
        "or": lambda: f"({' OR '.join(a)})",
        "not": lambda: f"(NOT {a[0]})",
        "neg": lambda: f"(-{a[0]})",
        "in": lambda: f"({a[0]} IN ({', '.join(a[1:])}))",
        "not_in": lambda: f"({a[0]} NOT IN ({', '.join(a[1:])}))",
        "between": lambda: f"({a[0]} BETWEEN {a[1]} AND {a[2]})",
        "like": lambda: f"({a[0]} LIKE {a[1]})",
        "is_null": lambda: f"({a[0]} IS NULL)",
        "is_not_null": lambda: f"({a[0]} IS NOT NULL)",
        "is_not_distinct": lambda: f"({a[0]} IS NOT DISTINCT FROM {a[1]})",
        "cast": lambda: f"CAST({a[0]} AS {target})",
        "date_trunc": lambda: f"date_trunc('{target}', {a[0]})",
        "case": lambda: (
            f"CASE {' '.join(f'WHEN {c} THEN {v}' for c, v in zip(a[:-1:2], a[1::2], strict=True))} ELSE {a[-1]} END"
        ),
    }
    return forms[name]() if name in forms else f"{name}({', '.join(a)})"


def literal(value: Value, kind: str, *, duckdb: bool = False) -> str:
    if value is None:
        return f"CAST(NULL AS {kind})"
    if kind == "DOUBLE":
        if not math.isfinite(value):
            return f"CAST('{value}' AS DOUBLE)"
        return f"({value!r}::DOUBLE)" if duckdb else (f"({value!r})" if value < 0 else repr(value))
    if kind.startswith("DECIMAL"):
        return f"CAST('{value:f}' AS {kind})"
    if kind == "STRING":
        return "'" + str(value).replace("'", "''") + "'"
    if kind == "DATE":
        return f"DATE '{date(1970, 1, 1) + timedelta(days=value)}'"
    if kind == "TIMESTAMP":
        return f"TIMESTAMP '{datetime(1970, 1, 1) + timedelta(microseconds=value)}'"
    if kind == "INTERVAL":
        return f"INTERVAL '{span(value).lower()}'"
    if kind == "BOOLEAN":
        return str(value).upper()
    return f"({value})" if value < 0 else str(value)


def span(micros: int) -> str:
    """A length of time in its largest whole unit."""
    for unit, size in (("MINUTES", 60_000_000), ("SECONDS", 1_000_000), ("MILLISECONDS", 1_000)):
        if micros and micros % size == 0:
            return f"{micros // size} {unit}"
    return f"{micros} MICROSECONDS" if micros else "0 SECONDS"


# ---- questions about expressions


def walk(e: Expression) -> list[Expression]:
    """The expression and everything in it."""
    inner = e.args if isinstance(e, Call) else [x for x in (e.arg, e.by) if x is not None] if isinstance(e, Agg) else ()
    return [e, *(x for part in inner for x in walk(part))]


def aliases(e: Expression) -> frozenset[str]:
    return frozenset(x.ref for x in walk(e) if isinstance(x, Col))


def substitute(e: Expression, known: Mapping[Expression, Lit]) -> Expression:
    """The expression with whole parts replaced by their values."""
    if e in known:
        return known[e]
    return Call(e.function, tuple(substitute(a, known) for a in e.args)) if isinstance(e, Call) else e
