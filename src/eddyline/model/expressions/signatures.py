"""The rules by which calls get their types and casts.

Answer   One rule per family of functions: from the arguments' types it makes the typed `Call`, or refuses them with a
         message. `model/expressions/functions.py` has the rule of each function.
Limits   A refusal without a hint gets the function's signature as its hint there.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from eddyline.errors import BindingProblem
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
from eddyline.model.expressions.coercion import convert, decimal_form, meet
from eddyline.model.expressions.expression import Call, Expression, Literal, Literals
from eddyline.model.expressions.json_path import read_path

Args = tuple[Expression, ...]
Rule = Callable[[str, Args], Expression]

#: The units of date_trunc and date_diff, each with its other spellings; the parts of date_part are these and a few
#: more.
TRUNC_PARTS = {
    "millennium": ("millenniums", "millennia", "mil", "mils"),
    "century": ("centuries", "cent", "c"),
    "decade": ("decades", "dec", "decs"),
    "year": ("years", "yr", "yrs", "y"),
    "quarter": ("quarters",),
    "month": ("months", "mon", "mons"),
    "week": ("weeks", "w"),
    "day": ("days", "d", "dayofmonth"),
    "hour": ("hours", "hr", "hrs", "h"),
    "minute": ("minutes", "min", "mins", "m"),
    "second": ("seconds", "sec", "secs", "s"),
    "millisecond": ("milliseconds", "ms", "msec", "msecs"),
    "microsecond": ("microseconds", "us", "usec", "usecs"),
}
DATE_PARTS = TRUNC_PARTS | {"epoch": (), "dow": ("dayofweek", "weekday"), "isodow": (), "doy": ("dayofyear",)}


def _refuse(name: str, args: Args, hint: str = "") -> BindingProblem:
    return BindingProblem(f"{name} does not take {', '.join(str(a.type) for a in args)}", hint=hint)


def _one_of(word: str, parts: dict[str, tuple[str, ...]]) -> str | None:
    wanted = word.lower()
    return next((name for name, others in parts.items() if wanted == name or wanted in others), None)


# Operators


def plus_minus(name: str, args: Args) -> Expression:
    if not any(a.type.is_temporal or a.type == INTERVAL for a in args):
        return arithmetic(name, args)
    a, b = args
    if name == "+" and (a.type == INTERVAL or (a.type == INT and b.type == DATE)):
        # The instant becomes the first argument, so that the evaluator gets one form.
        a, b = b, a
    if b.type == INTERVAL and a.type in (INTERVAL, NULL):
        return Call(name, (convert(a, INTERVAL), b), INTERVAL)
    if a.type.is_temporal and b.type == INTERVAL:
        return Call(name, (convert(a, TIMESTAMP), b), TIMESTAMP)
    if a.type == DATE and b.type == INT:
        return Call(name, (a, b), DATE)
    if name == "-" and a.type == DATE and b.type == DATE:
        return Call("date_diff", (Literal("day", STRING), convert(b, TIMESTAMP), convert(a, TIMESTAMP)), BIGINT)
    if name == "-" and a.type.is_temporal and b.type.is_temporal:
        return Call(name, (convert(a, TIMESTAMP), convert(b, TIMESTAMP)), INTERVAL)
    if NULL in (a.type, b.type) and (a.type.is_temporal or b.type.is_temporal):
        kind = a.type if a.type != NULL else b.type
        return Literal(None, kind)
    raise _refuse(name, args, "times take INTERVAL '5 minutes', dates also whole numbers of days (INT)")


def arithmetic(name: str, args: Args) -> Expression:
    a, b = args
    if name == "*" and INTERVAL in (a.type, b.type):
        span, factor = (a, b) if a.type == INTERVAL else (b, a)
        if factor.type.is_integer:
            return Call("*", (span, convert(factor, BIGINT)), INTERVAL)
        raise _refuse(name, args, "an INTERVAL is multiplied by a whole number")
    kinds = [BIGINT if x.type == NULL else x.type for x in args]
    if a.type == NULL and b.type != NULL:
        kinds[0] = kinds[1]
    elif b.type == NULL and a.type != NULL:
        kinds[1] = kinds[0]
    if not all(k.is_number for k in kinds):
        raise _refuse(name, args, "arithmetic is on numbers; CAST the other side if it holds some")
    has_decimal = any(k.name == "DECIMAL" for k in kinds)
    if name == "/" or (name == "//" and has_decimal) or DOUBLE in kinds:
        return Call(name, tuple(convert(x, DOUBLE) for x in args), DOUBLE)
    if not has_decimal:
        kind = INT if kinds[0] == kinds[1] == INT else BIGINT
        return Call(name, tuple(convert(x, kind) for x in args), kind)
    x, y = decimal_form(kinds[0]), decimal_form(kinds[1])
    if name == "*":
        return Call(name, (convert(a, x), convert(b, y)), _product(x, y))
    scale = max(x.scale, y.scale)
    digits = max(x.precision - x.scale, y.precision - y.scale) + scale
    if name == "%" and digits > 18:
        hint = "the remainder of decimals takes up to 18 digits; CAST to a smaller DECIMAL or to DOUBLE"
        raise _refuse(name, args, hint)
    kind = decimal(min(38, digits if name == "%" else digits + 1), scale)
    return Call(name, (convert(a, kind), convert(b, kind)), kind)


def _product(x: DataType, y: DataType) -> DataType:
    scale = x.scale + y.scale
    if scale > 38:
        raise BindingProblem(f"the product of {x} and {y} has more than 38 digits", hint="CAST one side to DOUBLE")
    precision = x.precision + y.precision
    # DuckDB keeps products of 64-bit decimals in 64 bits and lets them overflow.
    if precision > 18 and max(x.precision, y.precision) <= 18 and scale < 18:
        precision = 18
    return decimal(min(38, precision), scale)


def negative(name: str, args: Args) -> Expression:
    (a,) = args
    if a.type == NULL:
        return Literal(None, BIGINT)
    if not (a.type.is_number or a.type == INTERVAL):
        raise _refuse(name, args)
    if isinstance(a, Literal) and a.value is not None and a.type != INT and a.value != 0 and a.value != -(2**63):
        # 2147483648 is a BIGINT; with its sign it is the smallest INT.
        # Python's minus rounds a Decimal to 28 digits.
        negated = a.value.copy_negate() if isinstance(a.value, Decimal) else -a.value  # type: ignore[operator]
        return Literal(negated, INT if a.type == BIGINT and negated == -(2**31) else a.type)
    if isinstance(a, Literal) and a.type == INT and a.value is not None and a.value != -(2**31):
        return Literal(-a.value, INT)  # type: ignore[operator]
    return Call("neg", args, a.type)


def _refuse_nested(name: str, args: Args) -> None:
    for a in args:
        if a.type.is_nested:
            hint = "take a field of it: a.b" if a.type.name == "STRUCT" else "take an element of it: a[1]"
            raise BindingProblem(f"{name.upper()} does not take {a.type}", hint=hint)


def struct_field(name: str, args: Args) -> Expression:
    value, field = args
    if not isinstance(field, Literal) or not isinstance(field.value, str):
        raise _refuse(name, args)
    if value.type.name != "STRUCT":
        raise BindingProblem(f"{value} is {value.type} and has no field {field.value}", hint="a STRUCT has fields")
    names = [part for part, _ in value.type.parts]
    found = next((part for part in names if part == field.value), None)
    found = found or next((part for part in names if part.lower() == field.value.lower()), None)
    if found is None:
        raise BindingProblem(
            f"{value} has no field {field.value}", detail=f"fields are {', '.join(names)}", hint="write one of them"
        )
    return Call(name, (value, Literal(found, STRING)), dict(value.type.parts)[found])


def array_element(name: str, args: Args) -> Expression:
    value, index = args
    if value.type.name != "ARRAY" or not (index.type.is_integer or index.type == NULL):
        raise BindingProblem(
            f"{value.type} has no element [{index.type}]", hint="a[1] is the first element of an ARRAY"
        )
    return Call(name, (value, convert(index, BIGINT)), value.type.element)


def json_path(result: DataType) -> Rule:
    """A text of JSON, and a path that is a literal."""

    def rule(name: str, args: Args) -> Expression:
        text, path = args[0], args[1] if len(args) > 1 else Literal("$", STRING)
        if text.type not in (STRING, NULL) or not isinstance(path, Literal) or not isinstance(path.value, str):
            raise _refuse(name, args, "the path is a literal: '$.a.b[0]'")
        try:
            read_path(path.value)
        except ValueError as problem:
            raise BindingProblem(
                str(problem), hint="paths are written '$.a.b[0]', and '$.\"/a\"' for a key with other characters"
            ) from problem
        return Call(name, (convert(text, STRING), path) if name != "json_valid" else (convert(text, STRING),), result)

    return rule


def array_size(name: str, args: Args) -> Expression:
    if args[0].type.name != "ARRAY":
        raise _refuse(name, args)
    return Call(name, args, BIGINT)


def comparison(name: str, args: Args) -> Expression:
    _refuse_nested(name, args)
    kind = meet(args, name.upper())
    if kind == NULL:
        kind = INT
    return Call(name, tuple(one for a in args for one in _converted(a, kind)), BOOLEAN)


def _converted(a: Expression, kind: DataType) -> tuple[Expression, ...]:
    """The argument in its new type; a long list stays one if all its values are values of that type."""
    if not isinstance(a, Literals):
        return (convert(a, kind),)
    if a.type == kind or (a.type.is_integer and kind.is_integer):
        return (Literals(a.value, kind),)
    found = tuple(convert(one, kind) for one in a.each())
    values = tuple(one.value for one in found if isinstance(one, Literal) and one.value is not None)
    return (Literals(values, kind),) if len(values) == len(found) else found


def logic(name: str, args: Args) -> Expression:
    return Call(name, tuple(_condition(name, a) for a in args), BOOLEAN)


def _condition(name: str, a: Expression) -> Expression:
    if a.type in (BOOLEAN, NULL) or a.type.is_number or (isinstance(a, Literal) and a.type == STRING):
        return convert(a, BOOLEAN)
    raise BindingProblem(f"{name.upper()} needs a condition, not {a.type}", hint="compare it with something")


def null_test(name: str, args: Args) -> Expression:
    return Call(name, args, BOOLEAN)


def text_match(name: str, args: Args) -> Expression:
    if any(a.type not in (STRING, NULL) for a in args):
        raise _refuse(name, args, f"{name.upper()} compares texts; CAST(… AS STRING) gives one")
    return Call(name, tuple(convert(a, STRING) for a in args), BOOLEAN)


def choice(name: str, args: Args) -> Expression:
    if len(args) % 2 == 0:
        args = (*args, Literal(None, NULL))
    values = (*args[1::2], args[-1])
    kind = meet(values, "CASE")
    parts: list[Expression] = []
    for condition, value in zip(args[0:-1:2], args[1:-1:2], strict=True):
        parts += [_condition("when", condition), convert(value, kind)]
    return Call(name, (*parts, convert(args[-1], kind)), kind)


def same_type(name: str, args: Args) -> Expression:
    if name != "coalesce":
        _refuse_nested(name, args)
    kind = meet(args, name)
    if len(args) == 1:
        return args[0]
    return Call(name, tuple(convert(a, kind) for a in args), kind)


def nullif(name: str, args: Args) -> Expression:
    a = args[0]
    return Call("case", (comparison("=", args), Literal(None, a.type), a), a.type)


def join_texts(name: str, args: Args) -> Expression:
    _refuse_nested(name, args)
    if any(a.type == INTERVAL for a in args):
        raise _refuse(name, args)
    return Call(name, tuple(convert(a, STRING) for a in args), STRING)


# Numbers


def keeps_type(name: str, args: Args) -> Expression:
    a = convert(args[0], BIGINT) if args[0].type == NULL else args[0]
    if not a.type.is_number:
        raise _refuse(name, args)
    return Call(name, (a,), a.type)


def to_whole(name: str, args: Args) -> Expression:
    (a,) = args
    if a.type.name == "DECIMAL":
        return Call(name, args, decimal(a.type.precision, 0))
    return to_double(name, args)


def rounded(name: str, args: Args) -> Expression:
    a = convert(args[0], BIGINT) if args[0].type == NULL else args[0]
    if not a.type.is_number or (len(args) == 2 and args[1].type not in (INT, NULL)):
        raise _refuse(name, args)
    if a.type.name != "DECIMAL":
        return Call(name, (a, *(convert(x, INT) for x in args[1:])), a.type)
    digits = args[1] if len(args) == 2 else Literal(0, INT)
    if not isinstance(digits, Literal) or not isinstance(digits.value, int):
        raise _refuse(name, args, "for a DECIMAL the number of digits has to be a literal")
    return Call(name, (a, digits), decimal(a.type.precision, max(0, min(a.type.scale, digits.value))))


def to_double(name: str, args: Args) -> Expression:
    if any(not (a.type.is_number or a.type == NULL) for a in args):
        raise _refuse(name, args)
    return Call(name, tuple(convert(a, DOUBLE) for a in args), DOUBLE)


def signum(name: str, args: Args) -> Expression:
    call = keeps_type(name, args)
    return Call(name, call.args, INT) if isinstance(call, Call) else call


def float_test(name: str, args: Args) -> Expression:
    call = to_double(name, args)
    return Call(name, call.args, BOOLEAN) if isinstance(call, Call) else call


def modulo(name: str, args: Args) -> Expression:
    return arithmetic("%", args)


# Texts and times: a list of argument types, and a result


def takes(result: DataType, *kinds: DataType) -> Rule:
    def rule(name: str, args: Args) -> Expression:
        converted = []
        for a, kind in zip(args, kinds, strict=False):
            widens = (
                a.type == kind
                or a.type == NULL
                or (kind == BIGINT and a.type == INT)
                or (kind == TIMESTAMP and a.type == DATE)
            )
            if not widens and not (kind != STRING and isinstance(a, Literal) and a.type == STRING):
                raise _refuse(name, args)
            converted.append(convert(a, kind))
        return Call(name, tuple(converted), result)

    return rule


def _unit(name: str, arg: Expression, parts: dict[str, tuple[str, ...]]) -> Literal:
    found = _one_of(arg.value, parts) if isinstance(arg, Literal) and isinstance(arg.value, str) else None
    if found is None:
        raise BindingProblem(f"{name} does not know the unit {arg}", hint=f"a literal, one of {', '.join(parts)}")
    return Literal(found, STRING)


def date_trunc(name: str, args: Args) -> Expression:
    return Call(name, (_unit(name, args[0], TRUNC_PARTS), _timestamp(name, args, 1)), TIMESTAMP)


def tumble_start(name: str, args: Args) -> Expression:
    for span in args[1:]:
        if not (isinstance(span, Literal) and span.type == INTERVAL):
            raise _refuse(name, args)
    if not isinstance(args[1], Literal) or not isinstance(args[1].value, int) or args[1].value < 1:
        raise BindingProblem(f"{name} takes a span longer than zero")
    return Call(name, (_timestamp(name, args, 0), *args[1:]), TIMESTAMP)


def date_part(name: str, args: Args) -> Expression:
    unit = _unit(name, args[0], DATE_PARTS)
    if unit.value == "epoch":
        return seconds_since("epoch", args[1:])
    return Call(name, (unit, _timestamp(name, args, 1)), BIGINT)


def named_part(name: str, args: Args) -> Expression:
    found = _one_of(name, DATE_PARTS)
    return Call("date_part", (Literal(found, STRING), _timestamp(name, args, 0)), BIGINT)


def date_diff(name: str, args: Args) -> Expression:
    times = (_timestamp(name, args, index) for index in (1, 2))
    return Call(name, (_unit(name, args[0], TRUNC_PARTS), *times), BIGINT)


def seconds_since(name: str, args: Args) -> Expression:
    if args[0].type == INTERVAL:
        return Call(name, args, DOUBLE)
    return Call(name, (_timestamp(name, args, 0),), DOUBLE)


def milliseconds_since(name: str, args: Args) -> Expression:
    if args[0].type.is_integer:
        return Call("make_timestamp_ms", (convert(args[0], BIGINT),), TIMESTAMP)
    return Call(name, (args[0] if args[0].type == INTERVAL else _timestamp(name, args, 0),), BIGINT)


def microseconds_since(name: str, args: Args) -> Expression:
    return Call(name, (args[0] if args[0].type == INTERVAL else _timestamp(name, args, 0),), BIGINT)


def _timestamp(name: str, args: Args, index: int) -> Expression:
    a = args[index]
    if a.type.is_temporal or a.type == NULL or (isinstance(a, Literal) and a.type == STRING):
        return convert(a, TIMESTAMP)
    raise _refuse(name, args)
