"""The functions and operators of the language: their types, and the table of the reference.

Answer   `resolve` turns a name and typed arguments into a `Call` with its type and every cast made explicit;
         `resolve_aggregate` does so for aggregates; `FUNCTIONS` lists every name with signature and one line of help,
         from which the language reference is made. Types are DuckDB's wherever its type is one of ours.
Limits   `operators/expressions/evaluate.py` computes calls. TIMESTAMP - TIMESTAMP is an INTERVAL in microseconds, which
         can be compared, added and given to `epoch`, not selected.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from eddyline.errors import BindingProblem
from eddyline.model.datatypes import BIGINT, BOOLEAN, DOUBLE, INT, INTERVAL, NULL, STRING, TIMESTAMP, decimal
from eddyline.model.expressions import signatures as rules
from eddyline.model.expressions.coercion import convert, resolve_cast
from eddyline.model.expressions.expression import Aggregate, Call, Expression, Literal
from eddyline.model.expressions.signatures import Args, Rule, takes

__all__ = ["FUNCTIONS", "AGGREGATES", "Function", "resolve", "resolve_aggregate", "resolve_cast"]


@dataclass(frozen=True, slots=True)
class Function:
    """One entry of the reference, and the rule that types it."""

    signature: str
    help: str
    rule: Rule
    #: Arguments it takes: at least, at most (None: any number).
    least: int
    most: int | None


def resolve(name: str, args: Args) -> Expression:
    """The typed call of a function or operator.

    >>> from eddyline.model.expressions.expression import ColumnRef, Literal
    >>> str(resolve("+", (ColumnRef("a", "x", INT), Literal(0.5, DOUBLE))))
    'CAST(a.x AS DOUBLE) + 0.5'
    """
    canonical = ALIASES.get(name.lower(), name.lower())
    function = FUNCTIONS.get(canonical)
    if function is None:
        raise _unknown(name)
    if len(args) < function.least or (function.most is not None and len(args) > function.most):
        raise BindingProblem(
            f"{canonical} does not take {len(args)} argument{'' if len(args) == 1 else 's'}",
            hint=f"write {function.signature}",
        )
    try:
        return function.rule(canonical, args)
    except BindingProblem as problem:
        problem.hint = problem.hint or f"write {function.signature}; CAST changes types"
        raise


def resolve_aggregate(function: str, arg: Expression | None, distinct: bool = False) -> Aggregate:
    """The typed aggregate; `arg` is None for COUNT(*)."""
    name = _AGGREGATE_ALIASES.get(function.lower(), function.lower())
    if name not in AGGREGATES:
        close = difflib.get_close_matches(name, AGGREGATES, 3)
        raise BindingProblem(
            f"there is no aggregate {function}", hint=f"did you mean {' or '.join(close or sorted(AGGREGATES))}?"
        )
    if arg is None:
        if name != "count" or distinct:
            raise BindingProblem(f"{name} needs an argument", hint="only COUNT takes *")
        return Aggregate(name, None, False, BIGINT)
    if arg.type.is_nested:
        if name != "count" or distinct:
            hint = "aggregate a field or an element of it: a.b, a[1]"
            raise BindingProblem(f"{name} does not take {arg.type}", hint=hint)
        arg = Call("case", (Call("is_not_null", (arg,), BOOLEAN), Literal(1, INT), Literal(None, INT)), INT)
    if arg.type == INTERVAL and name != "count":
        raise BindingProblem(f"{name} does not take {INTERVAL}", hint="aggregate epoch(…), the seconds, instead")
    if name == "count":
        return Aggregate(name, arg, distinct, BIGINT)
    if name in ("min", "max"):
        return Aggregate(name, arg, distinct, arg.type)
    if not (arg.type.is_number or arg.type == NULL):
        hint = (
            "sum a CASE WHEN … THEN 1 ELSE 0 END"
            if arg.type == BOOLEAN
            else "it takes numbers; CAST the argument if it holds some"
        )
        raise BindingProblem(f"{name} does not take {arg.type}", hint=hint)
    if name == "stddev":
        # Distinct values are compared before they are converted: two large whole numbers may be equal as DOUBLEs.
        return Aggregate(name, arg if distinct and arg.type != NULL else convert(arg, DOUBLE), distinct, DOUBLE)
    if arg.type.name == "DECIMAL":
        return Aggregate(name, arg, distinct, DOUBLE if name == "avg" else decimal(38, arg.type.scale))
    kind = DOUBLE if arg.type == DOUBLE else BIGINT
    return Aggregate(name, convert(arg, kind), distinct, DOUBLE if name == "avg" else kind)


def _unknown(name: str) -> BindingProblem:
    close = difflib.get_close_matches(name.lower(), [*FUNCTIONS, *ALIASES], 3)
    hint = f"did you mean {' or '.join(close)}?" if close else "the language reference lists all functions"
    if name.lower() == "to_timestamp":
        hint = "make_timestamp takes microseconds, epoch_ms milliseconds since 1970"
    if name.lower() in ("lag", "first_value", "last_value", "row_number"):
        hint = f"write {name.lower()}({'x' if name.lower() != 'row_number' else ''}) OVER (PARTITION BY k ORDER BY ts)"
    if name.lower() == "unnest":
        hint = "UNNEST stands in FROM: FROM orders o, UNNEST(o.items) AS i"
    if name.lower() in AGGREGATES:
        return BindingProblem(f"aggregate {name} is not allowed here", hint="aggregates stand in SELECT and HAVING")
    return BindingProblem(f"there is no function {name}", hint=hint)


def _entry(signature: str, text: str, rule: Rule, least: int = 1, most: int | None = -1) -> Function:
    return Function(signature, text, rule, least, least if most == -1 else most)


_TEXT = takes(STRING, STRING, STRING)
_TEXT_TEST = takes(BOOLEAN, STRING, STRING)
_SLICE = takes(STRING, STRING, BIGINT, BIGINT)
_PAD = takes(STRING, STRING, INT, STRING)

#: Every function and operator, in the order of the reference.
FUNCTIONS: dict[str, Function] = {
    "+": _entry("a + b", "sum; a time plus an INTERVAL; a date plus days", rules.plus_minus, 2),
    "-": _entry(
        "a - b", "difference; TIMESTAMP - TIMESTAMP is an INTERVAL, DATE - DATE a number of days", rules.plus_minus, 2
    ),
    "*": _entry("a * b", "product; an INTERVAL times a whole number", rules.arithmetic, 2),
    "/": _entry("a / b", "quotient, always DOUBLE; by zero: infinity or NaN", rules.arithmetic, 2),
    "//": _entry("a // b", "quotient of integers, cut towards zero; by zero: NULL, counted", rules.arithmetic, 2),
    "%": _entry("a % b", "remainder with the sign of a; by zero: NULL, counted (DOUBLE: NaN)", rules.arithmetic, 2),
    "neg": _entry("-a", "the negative", rules.negative),
    **{
        op: _entry(f"a {op} b", "comparison; NaN equals NaN and is greater than every number", rules.comparison, 2)
        for op in ("=", "<>", "<", "<=", ">", ">=")
    },
    "is_not_distinct": _entry("a IS NOT DISTINCT FROM b", "equality in which NULL equals NULL", rules.comparison, 2),
    "in": _entry("a IN (b, …)", "whether a equals one of the values", rules.comparison, 2, None),
    "and": _entry("a AND b", "both hold", rules.logic, 2, None),
    "or": _entry("a OR b", "one of them holds", rules.logic, 2, None),
    "not": _entry("NOT a", "it does not hold", rules.logic),
    "is_null": _entry("a IS NULL", "whether there is no value", rules.null_test),
    "is_not_null": _entry("a IS NOT NULL", "whether there is a value", rules.null_test),
    "like": _entry("a LIKE pattern", "whether the text has the form; % any characters, _ one", rules.text_match, 2),
    "ilike": _entry("a ILIKE pattern", "LIKE without regard to case", rules.text_match, 2),
    "case": _entry(
        "CASE WHEN c THEN a … ELSE b END", "the value of the first condition that holds", rules.choice, 2, None
    ),
    "coalesce": _entry("coalesce(a, …)", "the first argument that is not NULL", rules.same_type, 1, None),
    "nullif": _entry("nullif(a, b)", "NULL where a equals b, otherwise a", rules.nullif, 2),
    "greatest": _entry("greatest(a, …)", "the largest argument that is not NULL", rules.same_type, 1, None),
    "least": _entry("least(a, …)", "the smallest argument that is not NULL", rules.same_type, 1, None),
    "||": _entry("a || b", "the texts one after the other; NULL if one is NULL", rules.join_texts, 2),
    "concat": _entry("concat(a, …)", "the texts one after the other, NULLs left out", rules.join_texts, 1, None),
    "abs": _entry("abs(x)", "the absolute value", rules.keeps_type),
    "ceil": _entry("ceil(x)", "the next whole number up", rules.to_whole),
    "floor": _entry("floor(x)", "the next whole number down", rules.to_whole),
    "round": _entry("round(x [, digits])", "rounded, halves away from zero", rules.rounded, 1, 2),
    "sqrt": _entry("sqrt(x)", "square root; NaN of a negative number", rules.to_double),
    "ln": _entry("ln(x)", "natural logarithm", rules.to_double),
    "log10": _entry("log10(x)", "logarithm to base 10", rules.to_double),
    "log2": _entry("log2(x)", "logarithm to base 2", rules.to_double),
    "exp": _entry("exp(x)", "e to the power x", rules.to_double),
    "power": _entry("power(x, y)", "x to the power y", rules.to_double, 2),
    "sign": _entry("sign(x)", "-1, 0 or 1", rules.signum),
    "mod": _entry("mod(a, b)", "the same as a % b", rules.modulo, 2),
    "isnan": _entry("isnan(x)", "whether x is NaN", rules.float_test),
    "isinf": _entry("isinf(x)", "whether x is infinite", rules.float_test),
    "isfinite": _entry("isfinite(x)", "whether x is neither infinite nor NaN", rules.float_test),
    "lower": _entry("lower(s)", "in small letters", _TEXT),
    "upper": _entry("upper(s)", "in capital letters", _TEXT),
    "length": _entry("length(s)", "number of characters", takes(BIGINT, STRING)),
    "trim": _entry("trim(s [, characters])", "without spaces (or the characters) at both ends", _TEXT, 1, 2),
    "ltrim": _entry("ltrim(s [, characters])", "without spaces (or the characters) at the start", _TEXT, 1, 2),
    "rtrim": _entry("rtrim(s [, characters])", "without spaces (or the characters) at the end", _TEXT, 1, 2),
    "substr": _entry(
        "substr(s, start [, length])", "part of a text; start counts from 1, negative from the end", _SLICE, 2, 3
    ),
    "left": _entry("left(s, n)", "the first n characters; negative: all but the last", _SLICE, 2),
    "right": _entry("right(s, n)", "the last n characters; negative: all but the first", _SLICE, 2),
    "replace": _entry(
        "replace(s, from, to)", "every occurrence of a text replaced", takes(STRING, STRING, STRING, STRING), 3
    ),
    "contains": _entry("contains(s, part)", "whether a text occurs in another", _TEXT_TEST, 2),
    "starts_with": _entry("starts_with(s, part)", "whether a text begins with another", _TEXT_TEST, 2),
    "ends_with": _entry("ends_with(s, part)", "whether a text ends with another", _TEXT_TEST, 2),
    "strpos": _entry(
        "strpos(s, part)", "where a text first occurs, from 1; 0 if nowhere", takes(BIGINT, STRING, STRING), 2
    ),
    "lpad": _entry("lpad(s, n, fill)", "made n characters long by filling or cutting; filled at the start", _PAD, 3),
    "rpad": _entry("rpad(s, n, fill)", "made n characters long by filling or cutting; filled at the end", _PAD, 3),
    "reverse": _entry(
        "reverse(s)", "the code points in reverse order; a combining mark moves to its other neighbour", _TEXT
    ),
    "split_part": _entry(
        "split_part(s, separator, n)",
        "the n-th piece, from 1; negative from the end",
        takes(STRING, STRING, STRING, BIGINT),
        3,
    ),
    "struct_extract": _entry(
        "struct_extract(a, 'b')", "the field b of a STRUCT, also written a.b", rules.struct_field, 2
    ),
    "array_extract": _entry(
        "array_extract(a, i)", "also a[i]: the element at place i; 1 is the first, -1 the last", rules.array_element, 2
    ),
    "array_length": _entry("array_length(a)", "the number of elements of an ARRAY", rules.array_size),
    "json_extract": _entry(
        "json_extract(j, '$.a[0]')", "the value at a path of a JSON text, as JSON", rules.json_path(STRING), 2
    ),
    "json_extract_string": _entry(
        "json_extract_string(j, '$.a')", "the same, but a string without quotes", rules.json_path(STRING), 2
    ),
    "json_array_length": _entry(
        "json_array_length(j [, path])", "the number of elements of a JSON array", rules.json_path(BIGINT), 1, 2
    ),
    "json_valid": _entry("json_valid(j)", "whether a text is JSON", rules.json_path(BOOLEAN)),
    "date_trunc": _entry("date_trunc('unit', t)", "the start of the unit that t lies in", rules.date_trunc, 2),
    "date_part": _entry("date_part('part', t)", "one part of a time, also EXTRACT(part FROM t)", rules.date_part, 2),
    "date_diff": _entry(
        "date_diff('unit', a, b)", "how many boundaries of the unit lie between a and b", rules.date_diff, 3
    ),
    **{
        p: _entry(f"{p}(t)", f"the {p} of a time", rules.named_part)
        for p in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    },
    "dayofweek": _entry("dayofweek(t)", "0 (Sunday) to 6", rules.named_part),
    "dayofyear": _entry("dayofyear(t)", "1 to 366", rules.named_part),
    "epoch": _entry("epoch(t)", "seconds since 1970, or in an INTERVAL, as DOUBLE", rules.seconds_since),
    "epoch_ms": _entry("epoch_ms(t)", "milliseconds since 1970; of a number: the TIMESTAMP", rules.milliseconds_since),
    "epoch_us": _entry("epoch_us(t)", "microseconds since 1970", rules.microseconds_since),
    "tumble_start": _entry(
        "tumble_start(t, span, offset)",
        "the start of the window of that length that t lies in, from 1970 plus the offset on",
        rules.tumble_start,
        3,
    ),
    "make_timestamp": _entry("make_timestamp(n)", "the TIMESTAMP n microseconds after 1970", takes(TIMESTAMP, BIGINT)),
}

ALIASES = {
    "!=": "<>",
    "==": "=",
    "pow": "power",
    "ceiling": "ceil",
    "len": "length",
    "cardinality": "array_length",
    "json_value": "json_extract_string",
    "json_query": "json_extract",
    "list_extract": "array_extract",
    "char_length": "length",
    "character_length": "length",
    "substring": "substr",
    "datepart": "date_part",
    "extract": "date_part",
    "datetrunc": "date_trunc",
    "datediff": "date_diff",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "lcase": "lower",
    "ucase": "upper",
    "prefix": "starts_with",
    "suffix": "ends_with",
    "instr": "strpos",
    "position": "strpos",
    "log": "log10",
}

AGGREGATES: dict[str, tuple[str, str]] = {
    "count": ("count(*) | count([DISTINCT] x)", "rows, or values that are not NULL"),
    "count_if": ("count_if(c)", "rows for which a condition holds"),
    "sum": (
        "sum([DISTINCT] x)",
        "the sum, exact but for DOUBLE; BIGINT of integers; NULL, and counted, if the final value does not fit",
    ),
    "avg": (
        "avg([DISTINCT] x)",
        "the mean, as DOUBLE; of integers and DECIMALs the exact sum is divided, and rounded once",
    ),
    "min": ("min(x)", "the smallest value"),
    "max": ("max(x)", "the largest value"),
    "arg_max": (
        "arg_max(x, y)",
        "x of the row with the largest y; of several the oldest. Rows in which one of them is NULL are passed over",
    ),
    "arg_min": ("arg_min(x, y)", "x of the row with the smallest y; of several the oldest"),
    "string_agg": ("string_agg(s, separator)", "the texts that are not NULL, in the order of rows"),
    "array_agg": ("array_agg(x)", "the values, NULL among them, in the order of rows, as an ARRAY"),
    "approx_count_distinct": (
        "approx_count_distinct(x)",
        "about how many different values there are: within 4 % (95 %)",
    ),
    "approx_quantile": (
        "approx_quantile(x, part)",
        "about the value below which that part of the values lies: within 1.33 % of the ranks (99 %)",
    ),
    "stddev": (
        "stddev([DISTINCT] x)",
        "the sample standard deviation, as DOUBLE; 0 of equal values; NaN where a square exceeds DOUBLE, from about 1e154 on",
    ),
}
_AGGREGATE_ALIASES = {"mean": "avg", "stddev_samp": "stddev"}
#: Other names of aggregates with several arguments.
AGGREGATE_SYNONYMS = {
    "argmax": "arg_max",
    "max_by": "arg_max",
    "argmin": "arg_min",
    "min_by": "arg_min",
    "listagg": "string_agg",
    "group_concat": "string_agg",
}
