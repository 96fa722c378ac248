"""Patterns on arrays: which values of a column a pattern allows, and which rows of values a promise covers.

Answer   `pattern_mask` tests one column, `covered` all columns of a promise. `ordered_keys` gives values one key
         each, in the order of values, where the type has such keys; `span_of` gives an interval of values as the keys
         at its ends.
Limits   Texts and decimals are compared as Arrow values: their keys are hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import DataType
from eddyline.model.records.punctuation import Interval, ValuePattern
from eddyline.operators.stream.keys import keys_of
from eddyline.state.columns import Ints, validity

Mask = npt.NDArray[np.bool_]
Columns = Mapping[str, pa.Array]
_LOWEST, _HIGHEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


def has_order(kind: DataType) -> bool:
    """Whether keys of the type keep the order of values."""
    return kind.name not in ("STRING", "DECIMAL")


def ordered_keys(values: pa.Array, kind: DataType) -> Ints:
    """One key per value, in the order of values; keys of nulls are arbitrary."""
    return in_order(keys_of(values, kind), kind)


def in_order(keys: Ints, kind: DataType) -> Ints:
    """Keys of keys as keys in the order of values."""
    return keys ^ ((keys >> 63) & _HIGHEST) if kind.name == "DOUBLE" else keys


def span_of(interval: Interval, kind: DataType) -> tuple[int, int]:
    """The first and the last key of an interval; the first is larger where no value lies in it."""
    low, high = _LOWEST, _HIGHEST
    if interval.low is not None:
        low = _key(interval.low, kind) + interval.low_open
    if interval.high is not None:
        high = _key(interval.high, kind) - interval.high_open
    return low, high


def _key(value: object, kind: DataType) -> int:
    return int(ordered_keys(constants((value,), kind), kind)[0])


def constants(values: Sequence[object], kind: DataType) -> pa.Array:
    """Values of patterns as a column of their type."""
    return pa.array(values, kind.arrow)


def there(values: pa.Array) -> Mask:
    """Where a value is not null."""
    found = validity(values)
    return np.ones(len(values), np.bool_) if found is None else found


def alike(table: pa.Table, names: Sequence[str]) -> list[tuple[Ints, list[str]]]:
    """The rows of a table, grouped by which of some columns have a value in them: the numbers of the rows, and these
    columns."""
    nulls = [table.column(name).null_count for name in names]
    if all(count in (0, len(table)) for count in nulls):
        whole = [name for name, count in zip(names, nulls, strict=True) if not count]
        return [(np.arange(len(table)), whole)] if len(table) else []
    given = np.stack([np.asarray(table.column(name).is_valid()) for name in names], axis=1)
    shapes, which = np.unique(given, axis=0, return_inverse=True)
    found = []
    for place, shape in enumerate(shapes):
        here = [name for name, is_given in zip(names, shape.tolist(), strict=True) if is_given]
        found.append((np.flatnonzero(which.reshape(-1) == place), here))
    return found


def pattern_mask(pattern: ValuePattern, values: pa.Array, kind: DataType) -> Mask:
    """Which values a pattern allows."""
    present = there(values)
    found = ~present if pattern.null else np.zeros(len(values), np.bool_)
    if has_order(kind):
        keys = ordered_keys(values, kind)
        for low, high in (span_of(interval, kind) for interval in pattern.intervals):
            found = found | (present & (keys >= low) & (keys <= high))
        return found
    for interval in pattern.intervals:
        inside = present.copy()
        above = pc.greater if interval.low_open else pc.greater_equal
        below = pc.less if interval.high_open else pc.less_equal
        for bound, test in ((interval.low, above), (interval.high, below)):
            if bound is not None:
                inside &= np.asarray(pc.fill_null(test(values, pa.scalar(bound, kind.arrow)), False))
        found = found | inside
    return found


def covered(
    patterns: Mapping[str, ValuePattern],
    columns: Columns,
    regions: Mapping[str, ValuePattern],
    rows: int,
    types: Mapping[str, DataType],
) -> Mask | None:
    """Which rows of values one promise covers; None: none, because a column that it restricts is not known."""
    found = np.ones(rows, np.bool_)
    for name, pattern in patterns.items():
        if name in columns:
            found &= pattern_mask(pattern, columns[name], types[name])
        elif name not in regions or not pattern.holds(regions[name]):
            return None
    return found
