"""Lists as bytes, so that a result that is a list can be compared with the one before.

Answer   `list_bytes` gives equal bytes for equal lists: per element whether it is there, and its bytes; texts have
         their length before them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import DataType
from eddyline.state.columns import as_plain, string_buffers, validity
from eddyline.state.plain_arrays import equal_bytes

_NOTHING = pa.scalar(b"", pa.binary())


def list_bytes(values: pa.Array, element: DataType) -> pa.Array:
    """Lists of elements of a plain type, each as one value; NULL where there is no list."""
    flat = values.flatten()
    there = validity(flat)
    flags = np.ones((len(flat), 1), np.uint8) if there is None else there.astype(np.uint8)[:, None]
    if element.name == "STRING":
        texts = flat.fill_null("")
        sizes = np.diff(string_buffers(texts)[0]).astype("<u4").view(np.uint8).reshape(-1, 4)
        pieces = [equal_bytes(np.concatenate([flags, sizes], axis=1)), texts.cast(pa.binary())]
    else:
        plain = np.ascontiguousarray(as_plain(flat, element))
        raw = plain.view(np.uint8).reshape(len(flat), -1) if len(flat) else np.empty((0, 1), np.uint8)
        # Bytes below a null are arbitrary.
        pieces = [equal_bytes(np.concatenate([flags, raw * flags], axis=1))]
    joined = pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, _NOTHING)
    sizes_of = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes_of)]).astype(np.int32))
    whole = pc.binary_join(pa.ListArray.from_arrays(offsets, joined), _NOTHING)
    return pc.if_else(values.is_valid(), whole, pa.scalar(None, pa.binary()))
