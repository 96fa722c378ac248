"""Join keys: an expression over one reference as 64-bit integers, for rows of a stream or table.

Answer   Equal values have equal keys. `model/joining.py: is_exact` says that the reverse holds too: true for
         everything that fits 64 bits (numbers, booleans, dates, timestamps), false for strings and decimals, whose
         keys are hashes to be verified.
Limits   Nulls have no key: a row with a null key can match nothing and is sorted out before it is stored.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.kernels import hashing
from eddyline.model.datatypes import DataType
from eddyline.state.columns import Ints, as_plain, string_buffers


def keys_of(values: pa.Array, kind: DataType) -> Ints:
    """One key per value; keys of nulls mean nothing."""
    if kind.name == "STRING":
        offsets, data = string_buffers(values)
        return hashing.hash_strings(offsets, data)
    plain = as_plain(values, kind)
    if kind.name == "DOUBLE":
        # As in SQL, -0.0 equals 0.0 and NaN equals NaN, whatever their bits.
        canonical = np.where(np.isnan(plain), np.nan, plain) + 0.0
        return canonical.view(np.int64)
    if kind.name == "DECIMAL":
        return hashing.combine(hashing.mix_all(np.ascontiguousarray(plain[:, 0])), np.ascontiguousarray(plain[:, 1]))
    return plain.astype(np.int64)


def combined(columns: list[Ints]) -> Ints:
    """The key of a composite key: the one column itself, or a hash of all, in order."""
    keys = columns[0]
    if len(columns) > 1:
        keys = hashing.mix_all(keys)
        for column in columns[1:]:
            keys = hashing.combine(keys, column)
    return keys
