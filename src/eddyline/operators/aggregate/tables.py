"""Named arrays as a table, and back: the form of state in checkpoints and between shards.

Answer   `as_table` makes one column of every array, `arrays_of` is the reverse. Two-dimensional arrays are columns
         `name#0`, `name#1`, … Encoded values and their validity are arrays `words-0`, `valid-0`, …; interned bytes are
         a table of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from eddyline.operators.aggregate.accumulators.encoding import ALL, ValueEncoder
from eddyline.operators.expressions.vectors import Mask
from eddyline.state.columns import Array, Ints, string_buffers
from eddyline.state.plain_arrays import bytes_array

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


def encoded_arrays(encoded: Sequence[Ints], valid: Sequence[Mask], chosen: Ints | slice = slice(None)) -> Arrays:
    """Columns of encoded values as a checkpoint has them; a validity that is ALL is left out."""
    arrays: Arrays = {f"words-{at}": values[chosen] for at, values in enumerate(encoded)}
    return arrays | {f"valid-{at}": there[chosen] for at, there in enumerate(valid) if len(there)}


def encoded_columns(arrays: Arrays, chosen: Ints | Mask | slice = slice(None)) -> tuple[list[Ints], list[Mask]]:
    """The reverse: encoded values and validity, per column."""
    encoded = numbered(arrays, "words", chosen)
    valid = (arrays.get(f"valid-{at}", ALL) for at in range(len(encoded)))
    return encoded, [ALL if there.all() else there[chosen] for there in valid]


def numbered(arrays: Arrays, name: str, chosen: Ints | Mask | slice = slice(None)) -> list[Ints]:
    """The arrays `name-0`, `name-1`, …"""
    return [arrays[f"{name}-{at}"][chosen] for at in range(sum(known.startswith(f"{name}-") for known in arrays))]


def bytes_table(encoder: ValueEncoder) -> pa.Table:
    """The interned bytes of an encoder, by id."""
    ids, offsets, data = encoder.saved()
    return pa.table({"id": pa.array(ids), "bytes": bytes_array(pa.binary(), offsets, data)})


def restore_bytes(encoder: ValueEncoder, table: pa.Table) -> None:
    offsets, data = string_buffers(table.column("bytes").combine_chunks())
    encoder.restore(plain_of(table, "id"), offsets - offsets[0], data[int(offsets[0]) : int(offsets[-1])])


def plain_of(table: pa.Table, name: str) -> Ints:
    return np.array(table.column(name).to_numpy())
