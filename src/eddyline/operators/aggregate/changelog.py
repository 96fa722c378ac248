"""The changelog of one query: which groups have another value than the one last emitted.

Answer   `changes` takes the groups that may have changed, their outputs where they exist, and gives the rows to emit: `+` for a new or
         changed value, `-` (with grouping columns only) for a group that is gone.
State    Per group: whether it stands in the reader's table, and the words of the outputs last emitted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import DataType
from eddyline.operators.aggregate.words import Words, grown
from eddyline.operators.vectors import Mask
from eddyline.state.columns import Ints


class Emitted:
    """The last result that readers have received, by group."""

    def __init__(self, outputs: int) -> None:
        self.present: Mask = np.zeros(0, np.bool_)
        self.words: Ints = np.zeros((0, outputs), np.int64)
        self.valid = np.zeros((0, outputs), np.bool_)

    def reserve(self, groups: int) -> None:
        self.present, self.words, self.valid = grown(self.present, groups), grown(self.words, groups), grown(self.valid, groups)

    def put(self, codes: Ints, columns: list[pa.Array], kinds: list[DataType], words: Words) -> Mask:
        """Note the outputs of groups that stand; True where they differ from the result before."""
        changed = ~self.present[codes]
        for at, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
            new, valid = words.encode(column, kind)
            there = valid if len(valid) else np.ones(len(codes), np.bool_)
            changed |= (self.words[codes, at] != new) | (self.valid[codes, at] != there)
            self.words[codes, at] = new
            self.valid[codes, at] = there
        self.present[codes] = True
        return changed

    def remove(self, codes: Ints) -> None:
        self.present[codes] = False


def change_table(
    schema: pa.Schema, keys: list[pa.Array | None], columns: list[pa.Array | None], gone: int, stamps: Ints | int, rows: int
) -> pa.Table:
    """Rows of a changelog, the `gone` groups first: per output its grouping column (for all rows) or its values (for the others)."""
    arrays = []
    for at, (key, column) in enumerate(zip(keys, columns, strict=True)):
        if key is not None:
            arrays.append(key)
        elif gone:
            arrays.append(pa.concat_arrays([pa.nulls(gone, schema.field(at).type), column]))
        else:
            arrays.append(column)
    letters = np.full(rows, ord("+"), np.uint8)
    letters[:gone] = ord("-")
    arrays.append(
        pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(np.arange(rows + 1, dtype=np.int32)), pa.py_buffer(letters)])
    )
    times = np.full(rows, stamps, np.int64) if isinstance(stamps, int) else stamps
    arrays.append(pa.Array.from_buffers(pa.timestamp("us"), rows, [None, pa.py_buffer(times)]))
    return pa.Table.from_arrays(arrays, schema=schema)
