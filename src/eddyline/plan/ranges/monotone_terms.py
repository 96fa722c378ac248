"""The sides of a comparison as monotone functions of one column, plus a constant.

Answer   `compared` takes a condition f(x) op g(y) apart. Each side is a `Term` with a *core*: the column, or a monotone
         function of it that the engine evaluates at the ends of a range. Terms of whole numbers, dates and timestamps
         also have an offset, which difference constraints use.

             a.qty * 3 + 5      core a.qty * 3, offset 5          b.price * 1.1      core b.price * 1.1, offset 0

State    None.
Limits   Constants are finite and, as factors, not 0: 0 * infinity is NaN. A function that falls is not monotone at NaN,
         which the caller tests. For core values that may overflow with the offset nothing is decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Context, Decimal
from math import isfinite, isnan
from struct import pack, unpack

from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal

#: Larger constants are not used in differences.
FAR = 1 << 55
_LIMITS = {"INT": 2**31 - 1, "DATE": 2**31 - 1, "BIGINT": 2**63 - 1, "TIMESTAMP": 2**63 - 1}
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_OPERATORS = ("<", "<=", ">", ">=", "=", "<>")
_EXACT = Context(prec=80)
_NAN_KEY = 0x7FF8000000000000


@dataclass(frozen=True, slots=True)
class Term:
    #: None: a constant, with this key.
    column: ColumnRef | None
    core: Expression | None
    type: DataType
    falls: bool = False
    offset: int = 0
    #: Core values outside overflow with the offset.
    least: int = _LEAST
    most: int = _MOST
    key: int = 0

    @property
    def is_whole(self) -> bool:
        return self.type.name in _LIMITS

    @property
    def is_prefix(self) -> bool:
        return self.type.name == "STRING"


def compared(condition: Expression) -> tuple[str, Term, Term] | None:
    """The operator and both sides of a comparison; None: it is not of that form."""
    if not isinstance(condition, Call) or condition.function not in _OPERATORS or len(condition.args) != 2:
        return None
    left, right = term_of(condition.args[0]), term_of(condition.args[1])
    if left is None or right is None or (left.column is None and right.column is None):
        return None
    if left.type != right.type and not (left.type.is_integer and right.type.is_integer):
        return None
    if left.core is not None and left.core == right.core:
        return None
    return condition.function, left, right


def has_key(kind: DataType) -> bool:
    """Whether values of a type have ordered int64 keys."""
    return kind.name in ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "STRING") or (
        kind.name == "DECIMAL" and kind.precision <= 18
    )


def term_of(e: Expression) -> Term | None:
    if not has_key(e.type):
        return None
    if isinstance(e, Literal):
        return None if e.value is None else Term(None, None, e.type, key=key_of(e.value, e.type))
    if isinstance(e, ColumnRef):
        return Term(e, e, e.type)
    if not isinstance(e, Call):
        return None
    if e.function == "cast":
        inner = _moving(e.args[0])
        if inner is None:
            return None
        if inner.type.is_integer and e.type.is_integer and _LIMITS[e.type.name] >= _LIMITS[inner.type.name]:
            return replace(inner, type=e.type)
        return _applied(e, inner) if _keeps_order(inner.type, e.type) else None
    if e.function in ("+", "-") and e.type.name in _LIMITS and len(e.args) == 2:
        return _shifted(e)
    if e.function in ("+", "-", "*", "/") and e.type.is_number and len(e.args) == 2:
        return _scaled(e)
    if e.function == "neg" or (e.function == "date_trunc" and isinstance(e.args[0], Literal)):
        inner = _moving(e.args[-1])
        return None if inner is None else _applied(e, inner, turned=e.function == "neg")
    return None


def _moving(e: Expression) -> Term | None:
    """The term of an expression that reads a column; None: it is a constant, or no term."""
    found = term_of(e)
    return found if found is not None and found.column is not None else None


def _applied(e: Expression, inner: Term, turned: bool = False) -> Term:
    """A monotone function of a term: the engine evaluates all of it."""
    return Term(inner.column, e, e.type, inner.falls != turned)


def _shifted(e: Call) -> Term | None:
    """A whole number, date or time, plus or minus a constant."""
    left, right = e.args
    before, after = _whole(left), _whole(right)
    inner = _moving(right if after is None else left)
    if inner is None or (before is None and after is None):
        return None
    if after is None and e.function == "-":
        return _applied(e, inner, turned=True)
    shift = before if after is None else after if e.function == "+" else -after
    if not inner.is_whole or shift is None:
        return None
    offset = inner.offset + shift
    limit = _LIMITS[e.type.name]
    if abs(offset) > FAR:
        return None
    least, most = max(inner.least, -limit - 1 - offset), min(inner.most, limit - offset)
    return replace(inner, type=e.type, offset=offset, least=max(least, _LEAST), most=min(most, _MOST))


def _scaled(e: Call) -> Term | None:
    """A column plus, minus, times or divided by a constant, where differences with constants are not used."""
    left, right = e.args
    scales = e.function in ("*", "/")
    value, inner = _number(right), _moving(left)
    if value is not None and inner is not None:
        return None if scales and value == 0 else _applied(e, inner, turned=scales and value < 0)
    value, inner = _number(left), _moving(right)
    if value is None or inner is None or e.function == "/" or (scales and value == 0):
        return None
    return _applied(e, inner, turned=e.function == "-" or (scales and value < 0))


def _constant(e: Expression) -> Expression:
    """A constant without the casts around it that keep its value."""
    while isinstance(e, Call) and e.function == "cast":
        (inner,), target = e.args, e.type.name
        if not (target == "BIGINT" and inner.type.is_integer) and not (target == "DOUBLE" and inner.type.is_number):
            break
        e = inner
    return e


def _whole(e: Expression) -> int | None:
    e = _constant(e)
    if isinstance(e, Literal) and isinstance(e.value, int) and not isinstance(e.value, bool):
        return e.value if e.type.name in ("INT", "BIGINT", "INTERVAL") else None
    return None


def _number(e: Expression) -> float | None:
    e = _constant(e)
    if not isinstance(e, Literal) or e.value is None or not e.type.is_number:
        return None
    value = float(e.value)  # type: ignore[arg-type]
    return value if isfinite(value) else None


def _keeps_order(source: DataType, target: DataType) -> bool:
    """Whether a cast keeps the order of values."""
    is_plain = source == target or (source.is_number and target.is_number)
    return is_plain or {source.name, target.name} == {"DATE", "TIMESTAMP"}


def key_of(value: object, kind: DataType) -> int:
    """The key of a constant."""
    if kind.name == "DOUBLE":
        number = float(value) + 0.0  # type: ignore[arg-type]
        if isnan(number):
            return _NAN_KEY
        bits: int = unpack("<q", pack("<d", number))[0]
        return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF
    if kind.name == "DECIMAL":
        return int(Decimal(str(value)).scaleb(kind.scale, _EXACT))
    if kind.name == "STRING":
        return int.from_bytes(str(value).encode()[:8].ljust(8, b"\0"), "big") - (1 << 63)
    return int(value)  # type: ignore[call-overload]
