"""Arrow arrays of values of one width, from NumPy.

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
    mask = None if valid is None or valid.all() else pack_bits(valid)
    data = pack_bits(values) if kind.name == "BOOLEAN" else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind.arrow, len(values), [mask, data])
