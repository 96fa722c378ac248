"""A cast of a column, some of whose values it may refuse.

Answer   `attempt` gives the column and which values were cast. All are cast at once; only when that is refused are the
         misfits looked for, by a mask over the whole column, or by halving.
Limits   A cast refuses a value for the value alone.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

#: The converted column, and which values fit (None: all). Nulls fit.
Converted = tuple[pa.ChunkedArray, pa.ChunkedArray | None]
Cast = Callable[[pa.ChunkedArray], pa.ChunkedArray]


def attempt(
    values: pa.ChunkedArray, cast: Cast, fitting: Callable[[pa.ChunkedArray], pa.ChunkedArray] | None = None
) -> Converted:
    """Cast all; if that fails, cast those that fit by the mask; if that fails too, search the misfits by halving."""
    try:
        return cast(values), None
    except pa.ArrowInvalid:
        if fitting is None:
            return _halve(values, cast)
    fits = pc.fill_null(fitting(values), True)
    kept = pc.if_else(fits, values, pa.scalar(None, values.type))
    try:
        return cast(kept), fits
    except pa.ArrowInvalid:
        column, also = _halve(kept, cast)
        return column, fits if also is None else pc.and_(fits, also)


def _halve(values: pa.ChunkedArray, cast: Cast) -> Converted:
    pieces: list[pa.ChunkedArray] = []
    masks: list[pa.ChunkedArray] = []

    def search(part: pa.ChunkedArray) -> None:
        try:
            pieces.append(cast(part))
            masks.append(pa.chunked_array([pa.repeat(pa.scalar(True), len(part))]))
        except pa.ArrowInvalid:
            if len(part) == 1:
                pieces.append(cast(pa.chunked_array([pa.nulls(1, part.type)])))
                masks.append(pa.chunked_array([[False]]))
                return
            middle = len(part) // 2
            search(part.slice(0, middle))
            search(part.slice(middle))

    search(values)
    column = pa.chunked_array([c for p in pieces for c in p.chunks])
    return column, pa.chunked_array([c for m in masks for c in m.chunks])
