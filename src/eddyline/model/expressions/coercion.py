"""Which types are converted to which, and the casts for that.

Answer   `common_type` is the type in which two values are compared or chosen between; `convert` gives an expression
         another type, folding literals so that planning sees `TIMESTAMP 0` and not a cast of a text.
Limits   As in DuckDB, a text *literal* takes the type of the other side; a text column needs a CAST. INTERVAL is compared
         with INTERVAL only.
"""

from __future__ import annotations

import decimal as decimals
import re
from datetime import UTC, datetime

from eddyline.errors import BindingProblem
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INTERVAL, NULL, STRING, TIMESTAMP, DataType, decimal
from eddyline.model.expressions.expression import Call, Expression, Literal

_INT_RANGE = {"INT": (-(2**31), 2**31 - 1), "BIGINT": (-(2**63), 2**63 - 1)}
#: Decimal digits that every value of an integer type fits in.
_DIGITS = {"INT": 10, "BIGINT": 19}
#: The most digits of decimals that differ as doubles.
_EXACT_DIGITS = 15
_MOMENT = re.compile(
    r"\s*(\d{1,4})[-/](\d{1,2})[-/](\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?\s*(Z|UTC|[+-]\d{2}(?::?\d{2})?)?)?\s*",
    re.IGNORECASE,
)


def decimal_form(kind: DataType) -> DataType:
    """The DECIMAL that holds every value of an integer type; a DECIMAL is its own."""
    return kind if kind.name == "DECIMAL" else decimal(_DIGITS[kind.name], 0)


def common_type(a: DataType, b: DataType) -> DataType | None:
    """The type in which values of two types meet, or None where an explicit CAST is needed.

    >>> from eddyline.model.datatypes import INT
    >>> str(common_type(INT, decimal(10, 2)))
    'DECIMAL(12, 2)'
    """
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    if a.is_number and b.is_number:
        if DOUBLE in (a, b):
            return DOUBLE
        if a.is_integer and b.is_integer:
            return BIGINT
        x, y = decimal_form(a), decimal_form(b)
        scale = max(x.scale, y.scale)
        return decimal(min(38, max(x.precision - x.scale, y.precision - y.scale) + scale), scale)
    if a.is_temporal and b.is_temporal:
        return TIMESTAMP
    if BOOLEAN in (a, b):
        other = b if a == BOOLEAN else a
        return other if other.is_integer else None
    return None


def meet(args: tuple[Expression, ...], what: str) -> DataType:
    """The common type of several arguments; text literals follow the others."""
    solid = [a for a in args if not _is_text_literal(a)]
    loose = [a for a in args if _is_text_literal(a)]
    whole = NULL
    # Each type once: a list may hold very many literals.
    for kind in dict.fromkeys(a.type for a in solid):
        joined = common_type(whole, kind)
        if joined is None:
            raise mismatch(what, whole, kind)
        whole = joined
    return STRING if loose and whole == NULL else whole


def mismatch(what: str, a: DataType, b: DataType) -> BindingProblem:
    return BindingProblem(
        f"{what} cannot take {a} together with {b}",
        detail="values of these types are not converted silently",
        hint=f"say which type you mean: CAST(… AS {b if a == STRING else a})",
    )


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether CAST from one type to the other exists."""
    if source in (target, NULL):
        return True
    if INTERVAL in (source, target) or target == NULL or source.is_nested or target.is_nested:
        return False
    if STRING in (source, target):
        return True
    if source.is_temporal or target.is_temporal:
        return source.is_temporal and target.is_temporal
    return True


def resolve_cast(expr: Expression, target: DataType) -> Expression:
    """CAST(expr AS target), folded for literals; refused where no value could be converted."""
    if not can_cast(expr.type, target):
        hint = "there is no conversion between these types"
        if expr.type.is_temporal or target.is_temporal or INTERVAL in (expr.type, target):
            hint = "epoch_ms, make_timestamp, epoch and date_diff go between numbers and times"
        raise BindingProblem(f"cannot CAST {expr.type} to {target}", hint=hint)
    return convert(expr, target)


def convert(expr: Expression, target: DataType) -> Expression:
    """The expression as `target`: itself, a folded literal or a `cast` call."""
    if expr.type == target:
        return expr
    if isinstance(expr, Literal):
        folded = _fold(expr, target)
        if folded is not None:
            return folded
    return Call("cast", (expr,), target)


def _is_text_literal(e: Expression) -> bool:
    return isinstance(e, Literal) and e.type == STRING and e.value is not None


def _fold(literal: Literal, target: DataType) -> Literal | None:
    """The literal in its new type; None where the evaluator should do it."""
    value = literal.value
    if value is None:
        return Literal(None, target)
    if literal.type == STRING:
        return Literal(read_text(str(value), target), target)
    if literal.type.is_integer or literal.type == BOOLEAN:
        number = int(value)  # type: ignore[call-overload]
        if target == DOUBLE:
            return Literal(float(number), target)
        if target.is_integer and _INT_RANGE[target.name][0] <= number <= _INT_RANGE[target.name][1]:
            return Literal(number, target)
        if target.name == "DECIMAL" and abs(number) < 10 ** (target.precision - target.scale):
            return Literal(_rescale(decimals.Decimal(number), target), target)
    if literal.type == DATE and target == TIMESTAMP:
        return Literal(int(value) * 86_400_000_000, target)  # type: ignore[call-overload]
    return None


def read_text(text: str, target: DataType) -> object:
    """A text literal in the engine's form of another type; a clear refusal where it is not one.

    >>> read_text("1970-01-01 00:00:01", TIMESTAMP)
    1000000
    """
    try:
        return _read(text, target)
    except (ValueError, OverflowError, decimals.InvalidOperation) as problem:
        examples = {"TIMESTAMP": "'2024-01-31 12:30:00'", "DATE": "'2024-01-31'", "BOOLEAN": "'true' or 'false'"}
        raise BindingProblem(
            f"{text!r} is not a {target}",
            hint=f"write it as {examples.get(target.name, 'a number in the range of its type')}",
        ) from problem


def _read(text: str, target: DataType) -> object:
    word = text.strip().lower()
    if target == STRING:
        return text
    if target == BOOLEAN:
        if word in ("true", "t", "1", "yes", "y"):
            return True
        if word in ("false", "f", "0", "no", "n"):
            return False
        raise ValueError(word)
    if "_" in word:
        raise ValueError(word)
    if target.is_integer:
        number = int(decimals.Decimal(word).to_integral_value(decimals.ROUND_HALF_UP))
        if not _INT_RANGE[target.name][0] <= number <= _INT_RANGE[target.name][1]:
            raise OverflowError(word)
        return number
    if target == DOUBLE:
        return float(word)
    if target.name == "DECIMAL":
        return _rescale(decimals.Decimal(word), target)
    if target == DATE:
        return _micros(text) // 86_400_000_000
    if target == TIMESTAMP:
        return _micros(text)
    raise ValueError(f"no text form of {target}")


def _rescale(value: decimals.Decimal, target: DataType) -> decimals.Decimal:
    with decimals.localcontext(prec=80, rounding=decimals.ROUND_HALF_UP):
        scaled = value.quantize(decimals.Decimal(1).scaleb(-target.scale))
        if abs(scaled) >= decimals.Decimal(10) ** (target.precision - target.scale):
            raise OverflowError(str(value))
        return scaled


def exact_decimal(literal: Literal, target: DataType) -> Literal | None:
    """A number as the same value of a DECIMAL type; None: it is no value of the type, or different values of the type
    are equal as doubles.

    >>> str(exact_decimal(Literal(1.5, DOUBLE), decimal(10, 2)).value)
    '1.50'
    >>> exact_decimal(Literal(1.555, DOUBLE), decimal(10, 2)) is None
    True
    """
    if literal.value is None:
        return Literal(None, target)
    if literal.type == DOUBLE and target.precision > _EXACT_DIGITS:
        return None
    try:
        value = decimals.Decimal(str(literal.value))
        scaled = _rescale(value, target)
    except (OverflowError, decimals.InvalidOperation):
        return None
    return Literal(scaled, target) if scaled == value else None


def micros_of(instant: str | datetime) -> int:
    """An instant as text, or as a datetime, whose zone is taken into account: microseconds.

    >>> from datetime import timedelta, timezone
    >>> micros_of(datetime(1970, 1, 1, 2, 0, 1, tzinfo=timezone(timedelta(hours=2))))
    1000000
    """
    if isinstance(instant, datetime):
        plain = instant if instant.tzinfo is None else instant.astimezone(UTC).replace(tzinfo=None)
        instant = plain.isoformat(" ")
    found = read_text(instant, TIMESTAMP)
    assert isinstance(found, int)
    return found


def _micros(text: str) -> int:
    # A zone is read and ignored, as DuckDB does for TIMESTAMP without a zone: the value is the wall clock.
    if text.strip().lower() == "epoch":
        return 0
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(found[i] or 0) for i in range(1, 7))
    fraction = int(((found[7] or "") + "000000")[:6])
    since = datetime(year, month, day, hour, minute, second) - datetime(1970, 1, 1)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + fraction
