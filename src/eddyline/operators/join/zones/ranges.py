"""Ranges of the variables of a probe: of the probing rows, of the stored zones, of the inputs that come later.

Answer   `Sides` gives the least and greatest keys of the variables of a step. They are those of stretches of the probing
         rows (a column of the grid), of the zones of the store (a line of the grid), or of a whole store.
State    Compiled functions of columns.
Limits   A function of a column is evaluated at the ends of its range, by the engine's own functions. An end that has no
         value there (an overflow) or lies beyond what a term can take leaves the stretch undecided. A function that
         falls decides nothing where NaN is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import DataType
from eddyline.model.expressions.differences import LEAST_KEY, MOST_KEY, Flags, Ints, Ranges, Variable
from eddyline.model.expressions.expression import ColumnRef, Expression
from eddyline.operators.expressions.evaluate import Compiled, compile_expression
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.inputs import Input, NodeInput, StreamInput
from eddyline.state.zones import arrow_keys, ranges_of

#: The key of NaN: the bits of the quiet NaN, above those of every number.
_NAN_KEY = 0x7FF8000000000000


class Known(NamedTuple):
    """The ranges of a variable, and the stretches of which nothing is decided (None: there are none)."""

    ranges: Ranges
    undecided: Flags | None


@dataclass(frozen=True, slots=True)
class Sides:
    variables: tuple[Variable, ...]
    bases: Mapping[int, StreamInput]
    _compiled: dict[Expression, Compiled] = field(default_factory=dict)

    def reference_of(self, number: int) -> int | None:
        """The reference that a variable is of; None: it is a constant."""
        column = self.variables[number].column
        return None if column is None else _position(column)

    def of_rows(self, number: int, rows: Combinations, cuts: Ints) -> Known:
        """Of stretches of probing rows."""
        variable = self.variables[number]
        assert variable.column is not None
        reference = _position(variable.column)
        keys, valid = self.bases[reference].store.keys_at(variable.column.column, rows.ids[reference])
        return self._known(variable, *ranges_of(keys, valid, cuts), (-1, 1))

    def keys_of_rows(self, number: int, rows: Combinations) -> tuple[Ints, Flags | None]:
        """Of probing rows one by one; the variable is a column."""
        column = self.variables[number].column
        assert column is not None
        reference = _position(column)
        return self.bases[reference].store.keys_at(column.column, rows.ids[reference])

    def keys_of_store(self, number: int, one: Input) -> tuple[Ints, Flags | None]:
        """Of stored rows one by one; the variable is a column."""
        return one.store.zones.keys(self._name(number, one), one.store.first, one.store.end)

    def of_zones(self, number: int, one: Input) -> Known:
        """Of the zones of an input's store."""
        return self._known(self.variables[number], *self._stored(number, one), (1, -1))

    def of_store(self, number: int, one: Input) -> Known:
        """Of all that an input holds now."""
        low, high, nulls = self._stored(number, one)
        ends = np.array([low.min(initial=MOST_KEY)]), np.array([high.max(initial=LEAST_KEY)])
        return self._known(self.variables[number], *ends, np.array([nulls.any()]), (1, 1))

    def of_constant(self, number: int) -> Known:
        key = np.full((1, 1), self.variables[number].key)
        return Known(Ranges(key, key), None)

    def _stored(self, number: int, one: Input) -> tuple[Ints, Ints, Flags]:
        return one.store.zones.ranges(self._name(number, one), one.store.first, one.store.end)

    def _name(self, number: int, one: Input) -> Hashable:
        column = self.variables[number].column
        assert column is not None
        return (_position(column), column.column) if isinstance(one, NodeInput) else column.column

    def _known(self, variable: Variable, low: Ints, high: Ints, nulls: Flags, shape: tuple[int, int]) -> Known:
        assert variable.column is not None and variable.core is not None
        undecided: Flags | None = None
        empty = low > high
        if not variable.is_column:
            low, high, undecided = self._applied(variable, low, high, empty)
        if variable.least > LEAST_KEY or variable.most < MOST_KEY:
            outside = (low < variable.least) | (high > variable.most)
            undecided = outside if undecided is None else undecided | outside
        if undecided is not None:
            undecided = undecided & ~empty
            undecided = undecided.reshape(shape) if undecided.any() else None
        missing = nulls.reshape(shape) if nulls.any() else None
        return Known(Ranges(low.reshape(shape), high.reshape(shape), missing), undecided)

    def _applied(self, variable: Variable, low: Ints, high: Ints, empty: Flags) -> tuple[Ints, Ints, Flags]:
        """The ends of a function of a column."""
        assert variable.column is not None and variable.core is not None
        if variable.core not in self._compiled:
            self._compiled[variable.core] = compile_expression(variable.core)
        function, column = self._compiled[variable.core], variable.column
        place = (column.ref, column.column)
        ends = values_of(np.concatenate((np.where(empty, 0, low), np.where(empty, 0, high))), column.type)
        keys, valid = arrow_keys(function({place: ends}, len(ends)), variable.core.type)
        half = len(low)
        undecided = np.zeros(half, np.bool_) if valid is None else ~(valid[:half] & valid[half:])
        a, b = (keys[half:], keys[:half]) if variable.falls else (keys[:half], keys[half:])
        if variable.falls and column.type.name == "DOUBLE":
            undecided |= high >= _NAN_KEY
        return np.where(empty, MOST_KEY, a), np.where(empty, LEAST_KEY, b), undecided


def _position(column: ColumnRef) -> int:
    """The reference that a column of a lowered condition is of."""
    assert isinstance(column.ref, int)
    return column.ref


def values_of(keys: Ints, kind: DataType) -> pa.Array:
    """The values that have these keys; not for texts, whose keys are prefixes."""
    if kind.name == "DOUBLE":
        return pa.array(np.where(keys >= 0, keys, keys ^ MOST_KEY).view(np.float64))
    if kind.name == "DECIMAL":
        halves = np.stack((keys, keys >> 63), axis=1)
        return pa.Array.from_buffers(kind.arrow, len(keys), [None, pa.py_buffer(halves)])
    if kind.name == "BOOLEAN":
        return pa.array(keys != 0)
    assert kind.numpy is not None
    return pa.Array.from_buffers(kind.arrow, len(keys), [None, pa.py_buffer(np.ascontiguousarray(keys, kind.numpy))])
