"""Columns with values of several types: what pushed Python objects are.

Answer   `by_part` computes columns part by part, with every value at its place. `is_text` says which values are texts.
Limits   Dense unions, of which every value is in one part.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

#: The part of a union whose values, as text, do not fit the declared type.
REFUSED = "refused"


def by_part(
    values: pa.ChunkedArray, made: Callable[[pa.ChunkedArray, str], tuple[pa.ChunkedArray, ...]]
) -> tuple[pa.ChunkedArray, ...]:
    """Columns that are made of each part of a union, with every value at its place."""
    rows: list[np.ndarray] = []
    columns: list[tuple[pa.ChunkedArray, ...]] = []
    first = 0
    for chunk in values.chunks:
        codes, places = (np.asarray(found) for found in (chunk.type_codes, chunk.offsets))
        for code, number in enumerate(values.type.type_codes):
            inside = np.flatnonzero(codes == number)
            if len(inside):
                rows.append(first + inside)
                part = chunk.field(code).take(pa.array(places[inside]))
                columns.append(made(pa.chunked_array([part]), values.type.field(code).name))
        first += len(chunk)
    order = pa.array(np.argsort(np.concatenate(rows), kind="stable"))
    joined = (pa.chunked_array([part for found in one for part in found.chunks]) for one in zip(*columns, strict=True))
    return tuple(column.take(order) for column in joined)


def is_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which values of a union are texts."""
    return by_part(values, lambda part, _: (pa.chunked_array([pa.repeat(pa.types.is_string(part.type), len(part))]),))[
        0
    ]
