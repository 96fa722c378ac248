"""Predicates taken apart into what can be tested for many queries at once.

Answer   `boxes_of` turns a predicate over one reference into boxes. The predicate holds for a row when the row is in at
         least one box: each column's value is in the box's set for it, and each remaining expression is true. Sets take
         `< <= > >= = <>`, IN, IS NULL, LIKE 'abc%', boolean columns and NOT, AND, OR over them, also through casts that
         keep the order. A condition that is no set of values stays an expression.
State    None.
Limits   A predicate that would need more than MOST_BOXES boxes stays one expression.
Reading  SEMANTICS: nulls never match (IS NULL apart), NaN is equal to NaN and above all numbers, texts compare
         bytewise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from eddyline.model.datatypes import BOOLEAN, DataType
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal, Literals, Ref, rename_refs
from eddyline.operators.expressions.functions_compare import SWAPPED
from eddyline.operators.sharing.column_keys import has_keys, literal_key
from eddyline.operators.sharing.value_sets import KEYS, TEXTS, Cut, Domain, ValueSet, union

#: A condition of more boxes is tested row by row. A bound of memory.
MOST_BOXES = 64
#: The alias of the one reference in expressions that were not taken apart: queries with other aliases share them.
SELF = ""

_NOTHING = ValueSet(())
#: Microseconds.
_MICROS_PER_DAY = 86_400_000_000


@dataclass(frozen=True)
class Box:
    """A conjunction: one set per column, and expressions that must be true."""

    sets: dict[str, ValueSet] = field(default_factory=dict)
    types: dict[str, DataType] = field(default_factory=dict)
    rest: frozenset[Expression] = frozenset()

    def meet(self, other: Box) -> Box | None:
        """The conjunction of two boxes; None where nothing can be in it."""
        sets = dict(self.sets)
        for column, values in other.sets.items():
            sets[column] = sets[column].intersection(values) if column in sets else values
            if sets[column].is_empty:
                return None
        return Box(sets, self.types | other.types, self.rest | other.rest)


class _TooMany(Exception):
    """A predicate has more boxes than `MOST_BOXES`."""


def boxes_of(predicate: Expression | None, reference: Ref) -> list[Box]:
    """The boxes of a predicate over the columns of `reference`; TRUE is one box without conditions, FALSE is no box."""
    if predicate is None:
        return [Box()]
    try:
        boxes = _boxes(predicate, False)
    except _TooMany:
        boxes = [Box(rest=frozenset((predicate,)))]
    names = {reference: SELF}
    return [replace(box, rest=frozenset(rename_refs(e, names) for e in box.rest)) if box.rest else box for box in boxes]


def _boxes(e: Expression, negated: bool) -> list[Box]:
    """The boxes in which `e` is true (negated: false; neither holds where `e` is null)."""
    if isinstance(e, Call) and e.function == "not":
        return _boxes(e.args[0], not negated)
    if isinstance(e, Call) and e.function in ("and", "or"):
        parts = _parts(e, e.function)
        if (e.function == "and") != negated:
            return _all_of([_boxes(part, negated) for part in parts])
        return _any_of([_boxes(part, negated) for part in parts])
    if isinstance(e, Literal):
        return [Box()] if e.value is not None and bool(e.value) != negated else []
    found = _set_of(e, negated)
    if found is None:
        return [Box(rest=frozenset((Call("not", (e,), BOOLEAN) if negated else e,)))]
    column, values = found
    return [] if values.is_empty else [Box({column.column: values}, {column.column: column.type})]


def _parts(e: Expression, function: str) -> list[Expression]:
    """The operands of a nest of ANDs or ORs, without recursion: generated predicates may have thousands."""
    parts: list[Expression] = []
    stack = [e]
    while stack:
        top = stack.pop()
        if isinstance(top, Call) and top.function == function:
            stack.extend(reversed(top.args))
        else:
            parts.append(top)
    return parts


def _all_of(choices: list[list[Box]]) -> list[Box]:
    whole = [Box()]
    for boxes in choices:
        whole = [met for a in whole for b in boxes if (met := a.meet(b)) is not None]
        if len(whole) > MOST_BOXES:
            raise _TooMany
    return whole


def _any_of(choices: list[list[Box]]) -> list[Box]:
    """All boxes; those over the same single column become one."""
    single: dict[str, list[Box]] = {}
    others: dict[tuple[frozenset[tuple[str, ValueSet]], frozenset[Expression]], Box] = {}
    for box in (box for boxes in choices for box in boxes):
        if len(box.sets) == 1 and not box.rest:
            single.setdefault(next(iter(box.sets)), []).append(box)
        else:
            others[frozenset(box.sets.items()), box.rest] = box
    merged = [Box({name: union(box.sets[name] for box in boxes)}, boxes[0].types) for name, boxes in single.items()]
    if len(merged) + len(others) > MOST_BOXES:
        raise _TooMany
    return merged + list(others.values())


def _set_of(e: Expression, negated: bool) -> tuple[ColumnRef, ValueSet] | None:
    """The column that a simple condition is about and the values for which it is true; None: not simple."""
    if isinstance(e, ColumnRef) and e.type == BOOLEAN:
        return e, ValueSet(((0, 1) if negated else (1, 2),))
    if not isinstance(e, Call) or not e.args:
        return None
    needle, operands, function = e.args[0], e.args[1:], e.function
    if function in SWAPPED and isinstance(needle, Literal) and len(operands) == 1:
        needle, operands, function = operands[0], (needle,), SWAPPED[function]
    scale = _scale(needle)
    if scale is None:
        return None
    if operands and isinstance(operands[0], Literals):
        # Through a cast each value would need a search of its own.
        some = _listed(operands[0], scale.type) if isinstance(needle, ColumnRef) else None
        values = some if some is None or not negated else some.complement(scale.domain, False)
    else:
        values = _values(function, scale.domain, [_literal(x, scale.type) for x in operands], operands, negated)
    if values is None:
        return None
    spans = values.spans
    if (
        scale.domain != TEXTS
        and spans
        and not (KEYS.bottom <= spans[0][0] and spans[-1][1] <= KEYS.top and isinstance(needle, ColumnRef))
    ):
        spans = tuple((low, high) for a, b in spans if (low := scale.back(a)) < (high := scale.back(b)))
    return scale.column, ValueSet(spans, values.null)


def _values(
    function: str, domain: Domain, given: list[_Value | None], operands: tuple[Expression, ...], negated: bool
) -> ValueSet | None:
    if function in ("is_null", "is_not_null"):
        wants_null = (function == "is_null") != negated
        return ValueSet((), True) if wants_null else _NOTHING.complement(domain, False)
    if not given or any(value is None for value in given):
        return None
    known = [value for value in given if value is not None and not value.is_null]
    has_null = len(known) < len(given)
    if function == "is_not_distinct" and len(given) == 1:
        same = ValueSet((), True) if has_null else known[0].equal
        return same.complement(domain, not same.null) if negated else same
    if function == "in":
        some = union(value.equal for value in known)
        # NOT IN over a list with a null is never true.
        return some if not negated else _NOTHING if has_null else some.complement(domain, False)
    if has_null and (function in SWAPPED or function == "like"):
        return _NOTHING
    if len(given) != 1:
        return None
    if function in ("like", "starts_with", "prefix"):
        found = _pattern(operands[0], is_like=function == "like")
    elif function in SWAPPED:
        before, after = known[0].before, known[0].after
        below, above = ValueSet(((domain.bottom, before),)), ValueSet(((after, domain.top),))
        found = {
            "=": known[0].equal,
            "<>": known[0].equal.complement(domain, False),
            "<": below,
            ">=": below.complement(domain, False),
            ">": above,
            "<=": above.complement(domain, False),
        }[function]
        found = ValueSet(tuple(span for span in found.spans if span[0] < span[1]))
    else:
        return None
    return found.complement(domain, False) if found is not None and negated else found


def _listed(long: Literals, kind: DataType) -> ValueSet | None:
    """The values of a long list; None where they are not of the type that they are compared with."""
    if long.type != kind and not (long.type.is_integer and kind.is_integer):
        return None
    if kind.name == "STRING":
        return ValueSet(tuple(((text, 0), (text, 1)) for text in sorted({value.encode() for value in long.value})))
    keys = sorted(
        {literal_key(value, kind) for value in long.value} if kind.name in ("DOUBLE", "DECIMAL") else set(long.value)
    )
    return union([ValueSet(tuple((key, key + 1) for key in keys))])


def _pattern(pattern: Expression, is_like: bool) -> ValueSet | None:
    """The texts that begin with a prefix; a LIKE without wildcards is an equality."""
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    text = pattern.value.rstrip("%") if is_like else pattern.value
    if is_like and ("%" in text or "_" in text):
        return None
    start = text.encode()
    if is_like and text == pattern.value:
        return ValueSet((((start, 0), (start, 1)),))
    # No byte of UTF-8 is 0xff, so the last one can always be raised.
    after = (start[:-1] + bytes((start[-1] + 1,)), 0) if start else TEXTS.top
    return ValueSet((((start, 0), after),))


@dataclass(frozen=True, slots=True)
class _Value:
    before: Cut = None
    after: Cut = None
    is_null: bool = False

    @property
    def equal(self) -> ValueSet:
        return ValueSet(((self.before, self.after),))


def _literal(e: Expression, kind: DataType) -> _Value | None:
    """A constant as cuts; None where it is none, or not of the type it is compared with."""
    if not isinstance(e, Literal):
        return None
    if e.value is None:
        return _Value(is_null=True)
    if e.type != kind and not (e.type.is_integer and kind.is_integer):
        return None
    if kind.name == "STRING":
        text = str(e.value).encode()
        return _Value((text, 0), (text, 1))
    key = literal_key(e.value, kind)
    return _Value(key, key + 1)


@dataclass(frozen=True, slots=True)
class _Scale:
    """A column, perhaps seen through casts: the type that is compared, and the way back from its cuts to the
    column's."""

    column: ColumnRef
    type: DataType
    domain: Domain
    back: Callable[[Cut], Cut]


def _scale(e: Expression) -> _Scale | None:
    if isinstance(e, ColumnRef):
        if e.type.name == "STRING":
            return _Scale(e, e.type, TEXTS, lambda cut: cut)
        # A literal may lie outside the column's own range; the int64 range is the same to it.
        return _Scale(e, e.type, KEYS, lambda cut: min(max(cut, KEYS.bottom), KEYS.top)) if has_keys(e.type) else None
    if not isinstance(e, Call) or e.function != "cast":
        return None
    inner = _scale(e.args[0])
    forward = None if inner is None else _ascending_cast(inner.type, e.type)
    if inner is None or forward is None:
        return None
    outer = Domain(min(forward(KEYS.bottom), KEYS.bottom), max(forward(KEYS.top - 1) + 1, KEYS.top))
    step, base = forward, inner
    return _Scale(inner.column, e.type, outer, lambda cut: base.back(_first_reaching(step, cut)))


def _ascending_cast(source: DataType, target: DataType) -> Callable[[int], int] | None:
    """How a cast that never fails and keeps the order acts on keys; None for other casts."""
    if source.is_integer and (target == source or target.name == "BIGINT"):
        return lambda key: key
    if source.is_integer and target.name == "DOUBLE":
        return lambda key: literal_key(float(key), target)
    if source.name == "DATE" and target.name == "TIMESTAMP":
        return lambda key: key * _MICROS_PER_DAY
    digits = {"INT": 10, "BIGINT": 19, "DECIMAL": source.precision - source.scale}.get(source.name)
    if (
        target.name == "DECIMAL"
        and digits is not None
        and target.scale >= source.scale
        and target.precision - target.scale >= digits
    ):
        return lambda key: key * 10 ** (target.scale - source.scale)
    return None


def _first_reaching(forward: Callable[[int], int], cut: int) -> int:
    """The least key that a cast takes to `cut` or beyond."""
    low, high = KEYS.bottom, KEYS.top
    while low < high:
        middle = (low + high) >> 1
        if forward(middle) < cut:
            low = middle + 1
        else:
            high = middle
    return low
