"""The conditions of many heralds as ranges of keys: a least and a greatest key per herald and column.

Answer   `Bounding.bounds` makes arrays of the conditions of heralds, a number per herald. Heralds of one form are
         computed together:

             x >= 200 AND x < 400        x   least  200  400  …
             x >= 400 AND x < 600            most   399  599  …

State    Per form how its literals become keys; the tests of texts that were read one by one.
Limits   A condition that is no range (texts, several values of IN) is a `Test` of its own, which tests row by row.
Reading  docs/heralds.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eddyline.kernels.intervals import double_keys
from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal, columns_of, conjuncts
from eddyline.model.records.herald import NEVER, Alike, Herald, TextHeralds
from eddyline.model.records.records import Flags
from eddyline.operators.expressions.evaluate import Predicate, compile_predicate
from eddyline.operators.sharing.column_keys import has_keys, literal_key
from eddyline.operators.sharing.predicates import boxes_of
from eddyline.state.columns import Ints

#: Texts and forms that are remembered. A bound of memory: each has about a kilobyte.
_MOST_KNOWN = 4096
_LEAST = -NEVER - 1
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True, eq=False)
class HeraldKeys:
    """The keys of a column that match, and whether nulls do, per herald."""

    kind: DataType
    least: Ints
    most: Ints
    takes_null: Flags

    @staticmethod
    def none(kind: DataType, heralds: int) -> HeraldKeys:
        return HeraldKeys(kind, np.full(heralds, _LEAST), np.full(heralds, NEVER), np.ones(heralds, np.bool_))


@dataclass(slots=True, eq=False)
class Bounds:
    #: Whether the last herald has a span of rows, of time.
    by_rows: bool
    by_time: bool
    by_column: dict[str, HeraldKeys] = field(default_factory=dict)
    #: Heralds, by number, whose conditions are no ranges.
    others: dict[int, Test] = field(default_factory=dict)


class _Comparison(NamedTuple):
    column: str
    kind: DataType
    #: `=`, `<` …: the column is on the left.
    function: str
    literal: object


class _Range(NamedTuple):
    """The keys of a column that match, and whether nulls do."""

    kind: DataType
    least: int
    most: int
    takes_null: bool


class Bounding:
    """What makes the bounds of one stream."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._forms: dict[Expression, tuple[_Comparison, ...] | None] = {}
        self._tests: dict[str, Test] = {}

    def bounds(self, said: TextHeralds) -> Bounds:
        count = len(said.rows)
        found = Bounds(bool(said.rows[-1] != NEVER), bool(said.micros[-1] != NEVER))
        for group in said.alike:
            self._alike(group, count, found)
        for at, herald in said.single.items():
            test = self._test(herald)
            if test.ranges is None:
                found.others[at] = test
                continue
            for name, one in test.ranges.items():
                bound = found.by_column.setdefault(name, HeraldKeys.none(one.kind, count))
                bound.least[at], bound.most[at], bound.takes_null[at] = one.least, one.most, one.takes_null
        return found

    def _alike(self, group: Alike, count: int, found: Bounds) -> None:
        if group.condition not in self._forms:
            if len(self._forms) >= _MOST_KNOWN:
                self._forms.clear()
            self._forms[group.condition] = _comparisons(group.condition)
        parts = self._forms[group.condition]
        assert parts is not None and len(parts) == group.literals.shape[1], (
            "texts are alike in comparisons of columns with numbers"
        )
        for number, part in enumerate(parts):
            bound = found.by_column.setdefault(part.column, HeraldKeys.none(part.kind, count))
            keys, at = _keys(group.literals[:, number], part.kind), group.at
            bound.takes_null[at] = False
            # Numbers of texts that are alike are far from the ends of 64 bits.
            if part.function in (">", ">=", "="):
                bound.least[at] = np.maximum(bound.least[at], keys + (part.function == ">"))
            if part.function in ("<", "<=", "="):
                bound.most[at] = np.minimum(bound.most[at], keys - (part.function == "<"))

    def _test(self, herald: Herald) -> Test:
        found = self._tests.get(herald.text)
        if found is None:
            if len(self._tests) >= _MOST_KNOWN:
                self._tests.clear()
            found = self._tests[herald.text] = Test(herald, self.alias)
        return found


def _keys(numbers: Ints, kind: DataType) -> Ints:
    if kind.name != "DOUBLE":
        return numbers
    values, keys = numbers.astype(np.float64), np.empty(len(numbers), np.int64)
    double_keys(values, values.view(np.int64), keys)
    return keys


class Test:
    """The condition of one herald, ready to be tested: as ranges of keys, or as it is written."""

    def __init__(self, herald: Herald, alias: str) -> None:
        self.herald = herald
        #: Per column its range; None: the condition is no conjunction of ranges.
        self.ranges = _plain_ranges(herald.condition) or _set_ranges(herald.condition, alias)

    @cached_property
    def _predicate(self) -> Predicate:
        return compile_predicate(self.herald.condition)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name for _, name in columns_of(self.herald.condition))

    def breaks(self, arrays: Mapping[str, pa.Array], rows: Ints) -> Flags:
        """Which of the rows do not satisfy the condition, row by row."""
        chosen = pa.array(rows)
        found = {name: arrays[name].take(chosen) for name in self._names}
        return ~self._predicate({(alias, name): found[name] for alias, name in self._predicate.columns}, len(rows))


def _comparisons(condition: Expression) -> tuple[_Comparison, ...] | None:
    """A conjunction of comparisons of columns with literals of their types, which is what most heralds are; None: it is
    something else."""
    found = []
    for part in conjuncts(condition):
        if not isinstance(part, Call) or part.function not in _FLIPPED:
            return None
        function, (column, literal) = part.function, part.args
        if isinstance(column, Literal):
            function, column, literal = _FLIPPED[function], literal, column
        if (
            not isinstance(column, ColumnRef)
            or not isinstance(literal, Literal)
            or literal.type != column.type
            or literal.value is None
            or not has_keys(column.type)
        ):
            return None
        found.append(_Comparison(column.column, column.type, function, literal.value))
    return tuple(found)


def _plain_ranges(condition: Expression) -> dict[str, _Range] | None:
    """The ranges of comparisons; None: there is something else."""
    found: dict[str, _Range] = {}
    parts = _comparisons(condition)
    if parts is None:
        return None
    for name, kind, function, value in parts:
        key = literal_key(value, kind)
        least = key + (function == ">") if function in (">", ">=", "=") else _LEAST
        most = key - (function == "<") if function in ("<", "<=", "=") else NEVER
        if least > NEVER or most < _LEAST:
            return None
        if name in found:
            least, most = max(least, found[name].least), min(most, found[name].most)
        found[name] = _Range(kind, least, most, False)
    return found


def _set_ranges(condition: Expression, alias: str) -> dict[str, _Range] | None:
    """The ranges of a condition whose sets have one range per column; texts have no keys of their own."""
    boxes = boxes_of(condition, alias)
    if len(boxes) != 1 or boxes[0].rest:
        return None
    found: dict[str, _Range] = {}
    for name, values in boxes[0].sets.items():
        if boxes[0].types[name].name == "STRING" or len(values.spans) > 1:
            return None
        low, high = values.spans[0] if values.spans else (1, 1)
        found[name] = _Range(boxes[0].types[name], low, high - 1, values.null)
    return found
