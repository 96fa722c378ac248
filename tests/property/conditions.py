"""Random columns, values and expressions over them.

Answer   A `Domain` is a small set of values that some columns draw from, so that joins meet; `filter_on`, `join_on` and
         `some_output` draw typed expressions over references.
Limits   Types are always such that the engine accepts the expression: no refusal is tested here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from random import Random

from tests.oracle.expressions import COMPARISONS, Call, Col, Expression, Lit, Value

NUMBERS = ("INT", "BIGINT", "DOUBLE")
DECIMALS = ("DECIMAL(10, 2)", "DECIMAL(18, 4)")
#: The widest DECIMALs: how many of the 38 digits stand after the point. They are aggregated and compared, and not
#: computed with.
WIDE = {f"wide {scale}": scale for scale in (0, 4, 38)}


@dataclass(frozen=True)
class Domain:
    #: Columns of one family can be compared.
    family: str
    values: tuple[Value, ...]
    nulls: float


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    domain: Domain

    def draw(self, rng: Random) -> Value:
        if rng.random() < self.domain.nulls:
            return None
        value = rng.choice(self.domain.values)
        return float(value) if self.type == "DOUBLE" else value


@dataclass(frozen=True)
class Place:
    """A reference in FROM, with the columns of its source."""

    alias: str
    columns: tuple[Column, ...]
    #: The event-time column; None for a static table.
    time: str | None

    def of(self, *families: str) -> list[Column]:
        return [c for c in self.columns if c.domain.family in families]

    def col(self, column: Column) -> Col:
        return Col(self.alias, column.name, column.type)


_ALL_DIGITS = Context(prec=38)
_TEXTS = ("a", "b", "ab", "B", "", "é", "o'c", "a%", "a_b", "longer than eight bytes")


def random_domain(rng: Random, family: str, most: int) -> Domain:
    size = rng.randint(1 if rng.random() < 0.1 else 2, most)
    nulls = rng.choice((0.0, 0.0, 0.05, 0.25))
    if family == "number":
        low = rng.choice((0, 1, -2, 100))
        values: Sequence[Value] = range(low, low + size)
    elif family == "text":
        values = rng.sample(_TEXTS, min(size, len(_TEXTS)))
    elif family == "real":
        values = [0.25 * rng.randint(-8, 8) for _ in range(size)]
        values += rng.sample((math.nan, 0.0, -0.0, math.inf, -math.inf, 1e9 + 0.5, 3e-5), rng.randint(0, 3))
    elif family == "money":
        values = [Decimal(rng.choice((0, 1, 5, 25, 100, 1250, -125, 99_999_999))) / 100 for _ in range(size)]
        values = [value.quantize(Decimal("0.01")) for value in dict.fromkeys(values)]
    elif family in WIDE:
        ends = (10**38 - 1, 10**38 - 2, 1 - 10**38, 2 - 10**38, 0, 1, -1, 5 * 10**37)
        values = [Decimal(value).scaleb(-WIDE[family], _ALL_DIGITS) for value in rng.sample(ends, min(size, len(ends)))]
    elif family == "big":
        start = rng.choice((2**53, 2**62, 1 - 2**63, 2**63 - 1 - size))
        values = range(start, start + size)
    elif family == "day":
        start = rng.choice((0, 19_700, -400))
        values = range(start, start + size)
    else:
        values = (True, False)
    return Domain(family, tuple(values), nulls)


def random_type(rng: Random, family: str) -> str:
    if family == "number":
        return rng.choices(NUMBERS, (3, 4, 1))[0]
    if family == "money":
        return rng.choice(DECIMALS)
    if family in WIDE:
        return f"DECIMAL(38, {WIDE[family]})"
    return {"text": "STRING", "real": "DOUBLE", "big": "BIGINT", "day": "DATE", "flag": "BOOLEAN"}[family]


def constant(rng: Random, column: Column) -> Lit:
    """A literal of the column's type, mostly a value that occurs."""
    value = rng.choice(column.domain.values)
    if column.type == "DOUBLE":
        return Lit(float(value), "DOUBLE")
    if column.type == "BIGINT" and column.domain.family == "number":
        return Lit(value, "INT")
    if rng.random() < 0.03:
        return Lit(None, column.type)
    return Lit(value, column.type)


def filter_on(rng: Random, place: Place) -> Expression:
    """A condition on one reference, of a kind that keeps a good part of its rows."""
    column = rng.choice(place.columns)
    col = place.col(column)
    kind = rng.random()
    if column.type == "BOOLEAN":
        return rng.choice((col, Call("not", (col,)), Call("=", (col, Lit(True, "BOOLEAN"))), Call("is_null", (col,))))
    if kind < 0.12:
        return Call("is_not_null", (col,))
    if kind < 0.3:
        return Call(
            rng.choice(("in", "in", "not_in")), (col, *(constant(rng, column) for _ in range(rng.randint(2, 4))))
        )
    if kind < 0.45 and column.type == "STRING":
        return Call("like", (col, Lit(rng.choice(("a%", "%b", "_", "%", "a_%", "%e%")), "STRING")))
    if kind < 0.45:
        return Call("between", (col, constant(rng, column), constant(rng, column)))
    if kind < 0.55:
        other = filter_on(rng, place)
        return Call(
            rng.choice(("or", "or", "and")), (Call(rng.choice(COMPARISONS), (col, constant(rng, column))), other)
        )
    if kind < 0.65 and column.type in NUMBERS and column.domain.family == "number":
        remainder = Call("%", (col, Lit(rng.choice((2, 3)), "INT")))
        return Call(rng.choice(("=", "<>")), (remainder, Lit(rng.choice((0, 1)), "INT")))
    if kind < 0.7 and column.type == "STRING":
        return Call("<=", (Call("length", (col,)), Lit(rng.randint(1, 3), "INT")))
    return Call(rng.choice(("<=", ">=", "<>", "=", "<", ">")), (col, constant(rng, column)))


def equality(rng: Random, one: Place, other: Place) -> Expression | None:
    """An equality between two references, over different columns and types where there are any."""
    pairs = [
        (a, b)
        for a in one.columns
        for b in other.columns
        if a.domain.family == b.domain.family and a.domain.family != "flag"
    ]
    keys = [(a, b) for a, b in pairs if a.domain == b.domain]
    if not pairs:
        return None
    a, b = rng.choice(keys if keys and rng.random() < 0.9 else pairs)
    kind = rng.random()
    if kind < 0.06 and a.type == "STRING":
        return Call("=", (Call("lower", (one.col(a),)), Call("lower", (other.col(b),))))
    if kind < 0.06 and a.domain.family == "number":
        return Call("=", (Call("+", (one.col(a), Lit(1, "INT"))), other.col(b)))
    if kind < 0.09:
        return Call("is_not_distinct", (one.col(a), other.col(b)))
    return Call("=", (one.col(a), other.col(b)))


def join_on(rng: Random, one: Place, other: Place, tick: int) -> list[Expression]:
    """Conditions between two references: mostly equalities, sometimes something else, sometimes nothing."""
    kind = rng.random()
    equal = equality(rng, one, other)
    if equal is not None and kind < 0.74:
        second = equality(rng, one, other) if rng.random() < 0.25 else None
        return [equal] if second in (None, equal) else [equal, second]
    if kind < 0.86:
        return [inequality(rng, one, other, tick)]
    if kind < 0.96 and equal is not None:
        side = filter_on(rng, rng.choice((one, other))) if rng.random() < 0.5 else inequality(rng, one, other, tick)
        return [Call("or", (equal, side))]
    return []


def inequality(rng: Random, one: Place, other: Place, tick: int) -> Expression:
    """An order between two references: of values, of sums, or of event times."""
    pairs = [(a, b) for a in one.columns for b in other.columns if a.domain.family == b.domain.family]
    sums = [(a, b) for a in one.of("number") for b in other.of("number")]
    if one.time and other.time and rng.random() < 0.25:
        left: Expression = Col(one.alias, one.time, "TIMESTAMP")
        if rng.random() < 0.5:
            left = Call("+", (left, Lit(tick * rng.randint(1, 3), "INTERVAL")))
        return Call(rng.choice(("<", "<=")), (left, Col(other.alias, other.time, "TIMESTAMP")))
    if sums and rng.random() < 0.35:
        a, b = rng.choice(sums)
        total = Call(rng.choice(("+", "-", "*")), (one.col(a), other.col(b)))
        return Call(rng.choice(COMPARISONS), (total, Lit(a.domain.values[0] + rng.choice(b.domain.values), "INT")))
    if not pairs:
        return Call("or", (filter_on(rng, one), filter_on(rng, other)))
    a, b = rng.choice(pairs)
    return Call(rng.choice(("<", "<=", ">", ">=", "<>")), (one.col(a), other.col(b)))


def some_output(rng: Random, places: Sequence[Place]) -> Expression:
    """A selected column or expression."""
    place = rng.choice(places)
    column = rng.choice(place.columns)
    col = place.col(column)
    kind = rng.random()
    if kind < 0.12 and place.time:
        return Col(place.alias, place.time, "TIMESTAMP")
    if kind < 0.5:
        return col
    if column.domain.family in ("number", "real"):
        other_place = rng.choice(places)
        numbers = other_place.of("number", "real")
        right: Expression = (
            other_place.col(rng.choice(numbers))
            if numbers and rng.random() < 0.6
            else Lit(rng.choice((2, 0, 7)), "INT")
        )
        if kind < 0.75:
            return Call(rng.choice(("+", "-", "*", "/")), (col, right))
        if kind < 0.82 and column.type != "DOUBLE":
            return Call(rng.choice(("//", "%")), (col, Lit(rng.choice((2, 3, 0)), "INT")))
        if kind < 0.9:
            return Call("case", (Call(">", (col, right)), col, Call("neg", (col,))))
        return Call(rng.choice(("abs", "cast:DOUBLE")), (col,))
    if column.domain.family == "text":
        if kind < 0.8:
            return Call("||", (col, Lit("-x", "STRING")))
        return rng.choice(
            (Call("upper", (col,)), Call("length", (col,)), Call("coalesce", (col, Lit("none", "STRING"))))
        )
    if column.domain.family == "big":
        return Call("+", (col, Lit(rng.choice((1, 10)), "INT")))
    if column.domain.family == "money":
        other_place = rng.choice(places)
        right = other_place.col(rng.choice(other_place.of("money") or [column])) if other_place.of("money") else col
        return Call(rng.choice(("+", "-")), (col, right)) if kind < 0.85 else Call("neg", (col,))
    return Call(rng.choice(("is_null", "is_not_null")), (col,))
