"""Approximate aggregates of groups that no row leaves: one sketch of Apache DataSketches per group.

Answer   APPROX_COUNT_DISTINCT keeps a HyperLogLog sketch of 4,096 counters: its relative error is below 4 % with a
         probability of 95 %. APPROX_QUANTILE keeps a KLL sketch with k = 200: the rank of its answer is off by less
         than 1.33 % of the rows with a probability of 99 %. Small groups are exact.
State    One sketch per group; for snapshots and parts its bytes.
Limits   Values cannot be removed from a sketch: where rows leave, aggregates are computed from the live rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import BIGINT, DOUBLE, DataType
from eddyline.operators.aggregate.accumulators.accumulators import Accumulator
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder, floats, grown, is_text
from eddyline.operators.expressions.vectors import Issues, Mask
from eddyline.state.columns import Array, Ints
from eddyline.state.plain_arrays import plain_array

#: Sizes of the sketches, which decide their error: 2^12 counters, and k of KLL.
_LOG_COUNTERS = 12
_KLL = 200


class _Packed:
    """The sketches of groups as bytes, read and written by code."""

    def __init__(self, owner: Sketches) -> None:
        self.owner = owner

    def __getitem__(self, codes: Ints) -> Array:
        found = np.empty(len(codes), object)
        found[:] = [None if s is None else self.owner.packed_sketch(s) for s in self.owner.sketches[codes]]
        return found

    def __setitem__(self, codes: Ints, values: Array) -> None:
        read = np.empty(len(codes), object)
        read[:] = [None if v is None else self.owner.unpacked(v) for v in values]
        self.owner.sketches[codes] = read


class Sketches(Accumulator):
    by_group = ("packed",)

    def __init__(self) -> None:
        self.sketches: Array = np.zeros(0, object)

    @property
    def packed(self) -> _Packed:
        return _Packed(self)

    def reserve(self, groups: int) -> None:
        if len(self.sketches) < groups:
            self.sketches = grown(self.sketches, groups)
            self.sketches[self.sketches == 0] = None

    def reset(self, codes: Ints) -> None:
        self.sketches[codes] = None

    def part(self, codes: Ints) -> pa.Table:
        return pa.table({"packed": pa.array(self.packed[codes], pa.binary())})

    def merge(self, codes: Ints, part: pa.Table) -> None:
        for code, data in zip(codes.tolist(), part.column("packed").to_pylist(), strict=True):
            if data is not None:
                self.sketches[code] = self.union(self.sketches[code], self.unpacked(data))

    def _each(self, codes: Ints, encoded: Ints, valid: Mask) -> Iterator[tuple[Any, Ints]]:
        """The sketch and the new encoded values of every group that gets some."""
        if len(valid):
            codes, encoded = codes[valid], encoded[valid]
        order = np.argsort(codes, kind="stable")
        codes, encoded = codes[order], encoded[order]
        found, first = np.unique(codes, return_index=True)
        for code, begin, end in zip(found.tolist(), first.tolist(), [*first[1:].tolist(), len(codes)], strict=False):
            if self.sketches[code] is None:
                self.sketches[code] = self.fresh()
            yield self.sketches[code], encoded[begin:end]

    def fresh(self) -> Any:
        raise NotImplementedError

    def union(self, sketch: Any, other: Any) -> Any:
        """Two sketches as one; `sketch` may be None."""
        raise NotImplementedError

    def packed_sketch(self, sketch: Any) -> bytes:
        raise NotImplementedError

    def unpacked(self, data: bytes) -> Any:
        raise NotImplementedError


class DistinctSketches(Sketches):
    """APPROX_COUNT_DISTINCT."""

    def __init__(self, kind: DataType, encoder: ValueEncoder) -> None:
        super().__init__()
        self.kind, self.encoder = kind, encoder

    def change(self, codes: Ints, encoded: Ints, valid: Mask, sign: int) -> None:
        # Every encoder gives texts other ids; their hashes are the same in all shards.
        values = self.encoder.hashes[encoded] if is_text(self.kind) else encoded
        for sketch, found in self._each(codes, values, valid):
            deque(map(sketch.update, np.unique(found).tolist()), 0)

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        found = [0 if s is None else round(s.get_estimate()) for s in self.sketches[codes]]
        return pa.array(found, BIGINT.arrow)

    def union(self, sketch: Any, other: Any) -> Any:
        from datasketches import hll_union

        both = hll_union(_LOG_COUNTERS)
        for one in (sketch, other):
            if one is not None:
                both.update(one)
        return both.get_result()

    def fresh(self) -> Any:
        from datasketches import hll_sketch

        return hll_sketch(_LOG_COUNTERS)

    def packed_sketch(self, sketch: Any) -> bytes:
        return bytes(sketch.serialize_updatable())

    def unpacked(self, data: bytes) -> Any:
        from datasketches import hll_sketch

        return hll_sketch.deserialize(data)


class QuantileSketches(Sketches):
    """APPROX_QUANTILE."""

    def __init__(self, part: float) -> None:
        super().__init__()
        self.part_of = part

    def change(self, codes: Ints, encoded: Ints, valid: Mask, sign: int) -> None:
        for sketch, found in self._each(codes, encoded, valid):
            values = floats(found)
            sketch.update(values[~np.isnan(values)])

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        chosen = self.sketches[codes]
        known = np.array([s is not None and not s.is_empty() for s in chosen], np.bool_)
        values = np.zeros(len(codes))
        values[known] = [s.get_quantile(self.part_of, True) for s in chosen[known]]
        return plain_array(DOUBLE, values, known)

    def union(self, sketch: Any, other: Any) -> Any:
        whole = self.fresh() if sketch is None else sketch
        whole.merge(other)
        return whole

    def fresh(self) -> Any:
        from datasketches import kll_doubles_sketch

        return kll_doubles_sketch(_KLL)

    def packed_sketch(self, sketch: Any) -> bytes:
        return bytes(sketch.serialize())

    def unpacked(self, data: bytes) -> Any:
        from datasketches import kll_doubles_sketch

        return kll_doubles_sketch.deserialize(data)
