"""Bound, typed expressions as data.

Answer   Four kinds of node: a column of a reference, a literal, a call, and (above joins only) an aggregate. Everything
         with an operator or a name is a `Call` with a canonical lower-case function name. Casts are explicit: both
         arguments of `=` have one type, and only the binder converts types.
Limits   `operators/expressions/evaluate.py` defines what a function computes, `model/expressions/functions.py` how it is
         typed.

Canonical operator names: `+ - * / // %`, `neg`, `= <> < <= > >=`, `and or not`, `is_null`, `is_not_null`,
`is_not_distinct`, `in` (needle, literal, … or `Literals`), `like`, `case` (c1, v1, …, else), `coalesce`, `cast` (target
is the call's type), `||`; functions by their DuckDB name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eddyline.model.datatypes import BOOLEAN, DataType

#: A reference of FROM: the alias that a query gives it, or, after lowering, its position in the join.
Ref = str | int
#: Follows the name of a user's function in its canonical name; see `model/expressions/own_function.py`.
OWN = "@"
#: A column of a reference.
ColumnKey = tuple[Ref, str]


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """Column `column` of the reference `ref`."""

    ref: Ref
    column: str
    type: DataType

    def __str__(self) -> str:
        return f"{reference_text(self.ref)}.{self.column}"


def reference_text(ref: Ref) -> str:
    """A reference as texts show it: an alias as it is, a position as r0, r1, …"""
    return f"r{ref}" if isinstance(ref, int) else ref


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant in the engine's own form: TIMESTAMP int microseconds, DATE int days, INTERVAL int microseconds,
    DECIMAL a decimal.Decimal, otherwise bool, int, float, str or None."""

    value: object
    type: DataType

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        if self.type.name == "STRING":
            return "'" + str(self.value).replace("'", "''") + "'"
        if self.type.name == "BOOLEAN":
            return "TRUE" if self.value else "FALSE"
        kind = f"{self.type.name} " if self.type.name in ("DATE", "TIMESTAMP", "INTERVAL") else ""
        return f"{kind}{self.value}"


@dataclass(frozen=True, slots=True)
class Literals(Literal):
    """The values of a long IN list, all of one type and none of them NULL. They are one node, so that no function visits
    them one by one."""

    value: tuple[Any, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.each()))

    def each(self) -> Iterator[Literal]:
        return (Literal(value, self.type) for value in self.value)


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    args: tuple[Expression, ...]
    type: DataType

    def __str__(self) -> str:
        a = [_nested(x) for x in self.args]
        if self.function in _INFIX and len(a) == 2:
            return f"{a[0]} {_INFIX[self.function]} {a[1]}"
        if self.function == "cast":
            return f"CAST({self.args[0]} AS {self.type})"
        if self.function == "in":
            return f"{a[0]} IN ({', '.join(str(x) for x in self.args[1:])})"
        if self.function in ("is_null", "is_not_null"):
            return f"{a[0]} IS {'NOT ' if 'not' in self.function else ''}NULL"
        if self.function == "not":
            return f"NOT {a[0]}"
        return f"{self.function.partition(OWN)[0]}({', '.join(str(x) for x in self.args)})"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """COUNT, SUM, AVG, MIN, MAX, STDDEV and those of `model/expressions/arranged.py`; `arg` is None for COUNT(*)."""

    function: str
    arg: Expression | None
    distinct: bool
    type: DataType
    #: The constant argument: the part of APPROX_QUANTILE, the separator of STRING_AGG.
    parameter: float | str | None = None

    def __str__(self) -> str:
        more = "" if self.parameter is None else f", {self.parameter!r}"
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{'*' if self.arg is None else self.arg}{more})"


Expression = ColumnRef | Literal | Literals | Call | Aggregate

_INFIX = {name: name for name in ("+", "-", "*", "/", "//", "%", "=", "<>", "<", "<=", ">", ">=", "||")} | {
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    "is_not_distinct": "IS NOT DISTINCT FROM",
}


def _nested(e: Expression) -> str:
    return f"({e})" if isinstance(e, Call) and (e.function in _INFIX or e.function in ("not", "in")) else str(e)


def in_values(call: Call) -> Sequence[Any] | None:
    """The values of an IN list, None for NULL; None: not all of them are constants."""
    if isinstance(call.args[1], Literals):
        return call.args[1].value
    found = [a.value for a in call.args[1:] if isinstance(a, Literal)]
    return found if len(found) == len(call.args) - 1 else None


def spelled_out(call: Call) -> Call:
    """The call with a long list as one argument per value."""
    if not any(isinstance(a, Literals) for a in call.args):
        return call
    return replace(call, args=tuple(one for a in call.args for one in (a.each() if isinstance(a, Literals) else (a,))))


def children(e: Expression) -> tuple[Expression, ...]:
    """The arguments of a call or an aggregate; other expressions have none."""
    if isinstance(e, Call):
        return e.args
    return (e.arg,) if isinstance(e, Aggregate) and e.arg is not None else ()


def walk(e: Expression) -> Iterator[Expression]:
    """The expression and everything in it, outermost first."""
    yield e
    for child in children(e):
        yield from walk(child)


def refs_of(e: Expression) -> frozenset[Ref]:
    """The references that an expression reads."""
    return frozenset(x.ref for x in walk(e) if isinstance(x, ColumnRef))


def positions_of(e: Expression) -> list[int]:
    """The positions that a lowered expression reads, in order."""
    return sorted(ref for ref in refs_of(e) if isinstance(ref, int))


def columns_of(e: Expression) -> frozenset[ColumnKey]:
    """The (reference, column) pairs that an expression reads."""
    return frozenset((x.ref, x.column) for x in walk(e) if isinstance(x, ColumnRef))


def has_aggregate(e: Expression) -> bool:
    return any(isinstance(x, Aggregate) for x in walk(e))


def ungrouped(e: Expression, groups: Sequence[Expression]) -> ColumnRef | None:
    """A column that is neither in a grouping expression nor in an aggregate; None: there is none."""
    if e in groups or isinstance(e, Aggregate):
        return None
    if isinstance(e, ColumnRef):
        return e
    found = (ungrouped(part, groups) for part in children(e))
    return next((column for column in found if column is not None), None)


def conjuncts(e: Expression) -> tuple[Expression, ...]:
    """The parts of a conjunction, in order.

    >>> yes = Literal(True, BOOLEAN)
    >>> len(conjuncts(Call("and", (yes, Call("and", (yes, yes), BOOLEAN)), BOOLEAN)))
    3
    """
    if isinstance(e, Call) and e.function == "and":
        return tuple(part for arg in e.args for part in conjuncts(arg))
    return (e,)


def conjunction(parts: tuple[Expression, ...]) -> Expression:
    """The AND of the parts; TRUE of none."""
    if not parts:
        return Literal(True, BOOLEAN)
    whole = parts[0]
    for part in parts[1:]:
        whole = Call("and", (whole, part), BOOLEAN)
    return whole


def rename_refs(e: Expression, names: Mapping[Any, Ref]) -> Expression:
    """The same expression with references replaced, so that queries with other aliases can be compared."""
    return with_columns(e, lambda column: replace(column, ref=names.get(column.ref, column.ref)))


def with_columns(e: Expression, change: Callable[[ColumnRef], Expression]) -> Expression:
    """The same expression with each column replaced by what `change` makes of it."""
    if isinstance(e, ColumnRef):
        return change(e)
    if isinstance(e, Call):
        return replace(e, args=tuple(with_columns(a, change) for a in e.args))
    if isinstance(e, Aggregate) and e.arg is not None:
        return replace(e, arg=with_columns(e.arg, change))
    return e
