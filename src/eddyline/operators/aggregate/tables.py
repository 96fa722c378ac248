"""Named arrays as a table, and back: how state is written down and travels.

Answer   `as_table` makes one column of every array, `arrays_of` is the reverse. Two-dimensional arrays are columns
         `name#0`, `name#1`, …
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from eddyline.state.columns import Array, Ints

Arrays = dict[str, Array]


def as_table(arrays: Mapping[str, Array]) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for name, values in arrays.items():
        if values.ndim == 1:
            columns[name] = pa.array(values)
        else:
            columns |= {f"{name}#{at}": pa.array(np.ascontiguousarray(values[:, at])) for at in range(values.shape[1])}
    return pa.table(columns)


def arrays_of(table: pa.Table) -> Arrays:
    arrays: Arrays = {}
    wide: dict[str, list[Array]] = {}
    for name in table.column_names:
        values = plain_of(table, name)
        if "#" in name:
            wide.setdefault(name.rsplit("#", 1)[0], []).append(values)
        else:
            arrays[name] = values
    return arrays | {name: np.ascontiguousarray(np.stack(columns, axis=1)) for name, columns in wide.items()}


def plain_of(table: pa.Table, name: str) -> Ints:
    return np.array(table.column(name).to_numpy())
