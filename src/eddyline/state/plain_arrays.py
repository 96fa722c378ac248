"""Arrow arrays from NumPy arrays, without a loop over values.

Answer   `plain_array` makes arrays of values of one width, `bytes_array` makes texts and bytes.
Limits   Planning loads this module: it has no kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.datatypes import DataType


def pack_bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def plain_array(kind: DataType, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Values of one width as an Arrow array: numbers, times, flags, or 128-bit integers as rows of (low, high).

    Args:
        valid: None or empty where no value is null.
    """
    data = pack_bits(values) if kind.name == "BOOLEAN" else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(
        kind.arrow, len(values), [None if valid is None or valid.all() else pack_bits(valid), data]
    )


def bytes_array(
    kind: pa.DataType, offsets: npt.NDArray[np.integer], data: Any, valid: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Texts (`kind` is string) or bytes (`kind` is binary): value i is `data[offsets[i] : offsets[i + 1]]`.

    Args:
        valid: None or empty where no value is null.
    """
    large = pa.large_string() if kind == pa.string() else pa.large_binary()
    fits = not len(offsets) or offsets[-1] < 2**31
    places = pa.py_buffer(offsets.astype(np.int32 if fits else np.int64, copy=False))
    bits = None if valid is None or valid.all() else pack_bits(valid)
    buffers = [bits, places, pa.py_buffer(data)]
    found = pa.Array.from_buffers(kind if fits else large, len(offsets) - 1, buffers)
    return found if fits else found.cast(kind)


def equal_bytes(rows: npt.NDArray[np.uint8], valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Bytes values of one length: a row of a matrix each."""
    return bytes_array(pa.binary(), np.arange(len(rows) + 1) * rows.shape[1], np.ascontiguousarray(rows), valid)
