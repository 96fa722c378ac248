"""Named arrays as a table, and back: the form of state in checkpoints and between shards.

Answer   `as_table` makes one column of every array, `arrays_of` is the reverse. Two-dimensional arrays are columns
         `name#0`, `name#1`, … Encoded values and their validity are arrays `words-0`, `valid-0`, …; `TextBlocks`
         writes down interned bytes, each once until the encoder forgets some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.operators.aggregate.accumulators.encoding import ALL, ValueEncoder
from eddyline.operators.expressions.vectors import Mask
from eddyline.operators.row_blocks import ROW_NUMBER, RowBlocks
from eddyline.state.blocks import Blocks, Load
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


class TextBlocks:
    """The interned bytes of an encoder in snapshots, by id."""

    def __init__(self, encoder: ValueEncoder) -> None:
        self.encoder = encoder
        self._rows = RowBlocks()
        self._sweeps = encoder.sweeps

    def snapshot(self, name: str) -> tuple[dict[str, Any], Blocks]:
        given = self.encoder.given()
        if self._sweeps != self.encoder.sweeps:
            self._sweeps = self.encoder.sweeps
            self._rows.renew()
        self._rows.note(given)
        rows, blocks = self._rows.snapshot(name, self.encoder.ids, self._table)
        return {"rows": rows, "kept": self.encoder.kept}, blocks

    def _table(self, ids: Ints) -> pa.Table:
        return pa.table({"bytes": bytes_array(pa.binary(), *self.encoder.strings(ids))})

    def restore(self, saved: Mapping[str, Any], load: Load) -> None:
        table = self._rows.restore(saved["rows"], load)
        offsets, data = string_buffers(table.column("bytes").combine_chunks())
        ids = plain_of(table, ROW_NUMBER)
        self.encoder.restore(ids, offsets - offsets[0], data[int(offsets[0]) : int(offsets[-1])], saved["kept"])
        self.encoder.given()
        self._sweeps = self.encoder.sweeps


def plain_of(table: pa.Table, name: str) -> Ints:
    return np.array(table.column(name).to_numpy())
