"""Parts of groups in an order in which they can be merged a few at a time.

Answer   `in_slices` orders parts by `_ts`, then by the slice of their group: a number that follows from the values of
         the grouping columns alone. All parts of a group have the same `_ts` and slice, whoever keeps them.
Limits   Grouping columns that are arrays or structs do not count for the slice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.model.expressions.expression import Expression
from eddyline.operators.stream.keys import combined, keys_of
from eddyline.state.columns import Ints, validity

#: The column with the slice.
SLICE = "slice"
#: Of five million groups that close together a slice has twenty thousand. A bound of the memory of whoever merges.
_SLICES = 256


def in_slices(parts: pa.Table, group_by: Sequence[Expression], due: Ints) -> pa.Table:
    """Parts of groups in their order, with their slices. `due` orders them, as `_ts` does."""
    found = np.zeros(len(parts), np.int64)
    columns = [
        _keys(parts.column(f"key-{at}").combine_chunks(), e)
        for at, e in enumerate(group_by)
        if e.type.name not in ("ARRAY", "STRUCT")
    ]
    if columns:
        # Of a single column the keys may be plain numbers, whose last bits say little.
        found = (combined([*columns, columns[0]]).view(np.uint64) >> np.uint64(32)).astype(np.int64) % _SLICES
    order = np.lexsort((found, due))
    return parts.take(pa.array(order)).append_column(SLICE, pa.array(found[order]))


def _keys(values: pa.Array, e: Expression) -> Ints:
    keys, valid = keys_of(values, e.type), validity(values)
    return keys if valid is None else np.where(valid, keys, 0)
