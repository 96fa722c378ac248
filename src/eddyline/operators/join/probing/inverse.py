"""Keys turned around: from the value of a key expression to the value of the column in it.

Answer   `inverse_of` gives, for an expression that keeps different values different, its column and a function from
         values of the expression to values of the column. A value that the expression never takes becomes null.
Limits   A column, a cast that widens, and whole numbers or times plus or minus a constant. Other expressions have no
         inverse: a promise about their column closes none of their values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal
from eddyline.model.records.punctuation import widens
from eddyline.operators.promises.covering import there
from eddyline.state.columns import Ints, as_plain

Turned = Callable[[pa.Array], pa.Array]
#: Microseconds.
_DAY = 86_400_000_000
_WHOLE = ("INT", "BIGINT", "TIMESTAMP")


def inverse_of(e: Expression) -> tuple[ColumnRef, Turned] | None:
    """The column of a key expression, and how to get its values back; None: they do not follow from values of the key."""
    if isinstance(e, ColumnRef):
        return e, _same
    if not isinstance(e, Call):
        return None
    if e.function == "cast" and widens(e.args[0].type, e.type):
        inner = inverse_of(e.args[0])
        return None if inner is None else (inner[0], _after(_narrowed(e.args[0].type, e.type), inner[1]))
    if e.function in ("+", "-") and len(e.args) == 2 and e.type.name in _WHOLE:
        return _shifted(e)
    return None


def _shifted(e: Call) -> tuple[ColumnRef, Turned] | None:
    left, right = e.args
    if e.function == "+" and isinstance(left, Literal):
        left, right = right, left
    if (
        not isinstance(right, Literal)
        or not isinstance(right.value, int)
        or isinstance(right.value, bool)
        or left.type != e.type
    ):
        return None
    inner = inverse_of(left)
    shift = -right.value if e.function == "+" else right.value
    return None if inner is None else (inner[0], _after(_moved(shift, e.type), inner[1]))


def _same(values: pa.Array) -> pa.Array:
    return values


def _after(first: Turned, second: Turned) -> Turned:
    return lambda values: second(first(values))


def _moved(shift: int, kind: DataType) -> Turned:
    def turned(values: pa.Array) -> pa.Array:
        before = as_plain(values, kind).astype(np.int64)
        # A sum that does not fit is NULL for the expression, and so is its key here.
        moved = before + shift
        lost = (moved < before) != (shift < 0) if shift else np.zeros(len(before), np.bool_)
        return column_of(moved, kind, there(values) & ~lost)

    return turned


def _narrowed(narrow: DataType, wide: DataType) -> Turned:
    def turned(values: pa.Array) -> pa.Array:
        plain = as_plain(values, wide)
        if (narrow.name, wide.name) == ("DATE", "TIMESTAMP"):
            days = plain // _DAY
            return column_of(days, narrow, there(values) & (days * _DAY == plain))
        with np.errstate(invalid="ignore"):
            whole = (
                np.where(np.abs(plain) < 2**53, plain, 0).astype(np.int64)
                if wide.name == "DOUBLE"
                else plain.astype(np.int64)
            )
        return column_of(whole, narrow, there(values) & (whole == plain))

    return _same if narrow == wide else turned


def column_of(keys: Ints, kind: DataType, valid: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None) -> pa.Array:
    """Keys of a type that fits 64 bits, as an Arrow array; null where not valid or out of range."""
    if kind.name == "DOUBLE":
        return pa.array(keys.view(np.float64), mask=None if valid is None else ~valid)
    if kind.name == "BOOLEAN":
        return pa.array(keys.astype(np.bool_), mask=None if valid is None else ~valid)
    if kind.name in ("INT", "DATE"):
        fits = (keys >= -(2**31)) & (keys < 2**31)
        valid = fits if valid is None else valid & fits
        return pa.array(np.where(fits, keys, 0).astype(np.int32), mask=~valid).cast(kind.arrow)
    return pa.array(keys, mask=None if valid is None else ~valid).cast(kind.arrow)
