"""The changelog of one query: which groups have another value than the one last emitted.

Answer   `Emitted.put` compares the outputs of groups with those emitted last, and remembers them. `change_table` makes
         the rows to emit: `+` for a new or changed value, `-` (with grouping columns only) for a group that is gone.
State    Per group: whether it is in the answer that was emitted, and the encoded values of its outputs there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.kernels.groups import history
from eddyline.model.datatypes import TIMESTAMP, DataType
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder, grown
from eddyline.operators.expressions.vectors import Mask
from eddyline.state.columns import Ints
from eddyline.state.plain_arrays import plain_array


class Emitted:
    """The last result that readers have received, by group."""

    def __init__(self, outputs: int) -> None:
        self.present: Mask = np.zeros(0, np.bool_)
        self.encoded: Ints = np.zeros((0, outputs), np.int64)
        self.valid = np.zeros((0, outputs), np.bool_)

    def reserve(self, groups: int) -> None:
        for name in ("present", "encoded", "valid"):
            setattr(self, name, grown(getattr(self, name), groups))

    def put(
        self, codes: Ints, stays: Mask, columns: list[pa.Array], kinds: list[DataType], encoder: ValueEncoder
    ) -> tuple[Mask, Mask]:
        """Remember the outputs of groups at one instant or several. Returns which groups were in the answer before, and
        which are in it with another result.

        Row r is of group `codes[r]`, in the order of instants. `columns` are the outputs of the rows whose group stays
        in the answer.
        """
        was_there: Mask = history.note_presence(codes, stays, self.present)
        changed = stays & ~was_there
        for at, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
            new, valid = encoder.encode(column, kind)
            history.note_outputs(codes, stays, was_there, new, valid, self.encoded, self.valid, at, changed)
        return was_there, changed

    def remove(self, codes: Ints) -> None:
        self.present[codes] = False


def change_table(schema: pa.Schema, columns: list[pa.Array], gone: Mask, stamps: Ints) -> pa.Table:
    """Rows of a changelog, with the outputs of all; `gone` flags the rows of groups that are gone."""
    rows = len(stamps)
    letters = np.where(gone, np.uint8(ord("-")), np.uint8(ord("+")))
    operations = [None, pa.py_buffer(np.arange(rows + 1, dtype=np.int32)), pa.py_buffer(letters)]
    signs = pa.Array.from_buffers(pa.string(), rows, operations)
    return pa.Table.from_arrays([*columns, signs, plain_array(TIMESTAMP, stamps)], schema=schema)
