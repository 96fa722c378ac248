"""Aggregates that need all values of a group: texts put together, quantiles of rows that leave.

Answer   `Collected` keeps the values of every group, each with its place, and reads them in the order of places.
         `LiveQuantiles` sorts the live values of the groups that are read. `follow_each` moves either of them over
         several instants, one after the other.
State    Collected: per group and value how often it is there. LiveQuantiles: the last quantile of each group.
Limits   A group takes as much memory as its values, and a read of it costs as much as a sort of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import BYTES, DOUBLE, STRING, DataType
from eddyline.operators.aggregate.accumulators.accumulators import Accumulator, Distinct
from eddyline.operators.aggregate.accumulators.encoding import ALL, ValueEncoder, floats
from eddyline.operators.aggregate.accumulators.groups import mask_of
from eddyline.operators.aggregate.accumulators.partition_rows import PartitionRows
from eddyline.operators.expressions.functions_arranged import payloads
from eddyline.operators.expressions.vectors import Issues, Mask
from eddyline.state.columns import Ints
from eddyline.state.plain_arrays import plain_array


class _NoState(Accumulator):
    """Keeps no state beside the values of `Distinct`."""

    def change(self, codes: Ints, encoded: Ints, valid: Mask, sign: int) -> None:
        """Values are counted by `Distinct`."""


class Collected(Distinct):
    """STRING_AGG and ARRAY_AGG: the values of a group in the order of their places."""

    def __init__(self, result: DataType, separator: str | None, lasting: bool, encoder: ValueEncoder) -> None:
        super().__init__(_NoState(), lasting, BYTES, encoder)
        self.members = PartitionRows()
        self.separator = separator
        self.element = STRING if separator is not None else result.element

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        lists = self._lists(codes)
        found = lists if self.separator is None else pc.binary_join(lists, self.separator)
        return pc.if_else(pc.equal(pc.list_value_length(lists), 0), pa.scalar(None, found.type), found)

    def _lists(self, codes: Ints) -> pa.Array:
        """Per group its values, in order."""
        entries, rows = self.entries(codes)
        written = self.encoder.decode(np.ascontiguousarray(self.values.keys[entries, 1]), ALL, BYTES)
        order = pc.sort_indices(
            pa.table({"row": rows, "bytes": written}), [("row", "ascending"), ("bytes", "ascending")]
        ).to_numpy()
        repeated = np.repeat(order, self.counts[entries[order]])
        ends = np.cumsum(np.bincount(rows[repeated], minlength=len(codes)))
        offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
        values = payloads(written.take(pa.array(repeated)), self.element, nullable=self.separator is None)
        return pa.ListArray.from_arrays(offsets, values)


class LiveQuantiles(Accumulator):
    """APPROX_QUANTILE over contributions that leave: computed of the live ones, exactly."""

    by_group = ("quantiles", "known")

    def __init__(self, part: float) -> None:
        self.part_of = part
        self.quantiles = np.zeros(0)
        self.known: Mask = np.zeros(0, np.bool_)

    def change(self, codes: Ints, encoded: Ints, valid: Mask, sign: int) -> None:
        """There is no state to change: `renew` computes from the live values."""

    def renew(self, codes: Ints, values: Callable[[Mask], tuple[Ints, Ints, Mask]], groups: int) -> None:
        held, encoded, valid = values(mask_of(codes, groups))
        if len(valid):
            held, encoded = held[valid], encoded[valid]
        numbers = ~np.isnan(floats(encoded))
        held, encoded = held[numbers], encoded[numbers]
        order = np.lexsort((encoded, held))
        held, encoded = held[order], encoded[order]
        self.known[codes] = False
        found, first, counts = np.unique(held, return_index=True, return_counts=True)
        place = first + np.maximum(np.ceil(self.part_of * counts).astype(np.int64) - 1, 0)
        self.quantiles[found] = floats(encoded[place])
        self.known[found] = True

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        return plain_array(DOUBLE, self.quantiles[codes], self.known[codes])


class AnswersByInstant(Accumulator):
    """The answers of another accumulator at several instants, one per row."""

    def __init__(self, answers: pa.Array) -> None:
        self.answers = answers

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        return self.answers.take(pa.array(codes))


def follow_each(kept: Accumulator, ends: Ints, codes: Ints, apply: Callable[[int], None]) -> AnswersByInstant:
    """The answers at every instant for the groups that change then; `apply` moves the accumulator to an instant."""
    found = []
    for instant, stop in enumerate(ends.tolist()):
        apply(instant)
        found.append(kept.read("", codes[int(ends[instant - 1]) if instant else 0 : stop], Issues()))
    return AnswersByInstant(pa.concat_arrays(found))
