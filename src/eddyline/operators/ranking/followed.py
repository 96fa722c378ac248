"""Values of earlier rows of the same partition: LAG, FIRST_VALUE, LAST_VALUE.

Answer   `Following.take` gets the values and partitions of the next rows, in order. It gives for each row the value of
         an earlier row of its partition: the one a distance before (LAG), the first one (FIRST_VALUE), or its own
         (LAST_VALUE).

             k  a b a a      v  1 2 3 4      LAG(v)  - - 1 3      FIRST_VALUE(v)  1 2 1 1

State    Per partition the last values, up to the distance, or the first one.
Limits   Partitions are never forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import DataType
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder, grown, is_text
from eddyline.operators.aggregate.accumulators.groups import Dictionary
from eddyline.operators.aggregate.tables import Arrays, TextBlocks
from eddyline.operators.expressions.vectors import Mask
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints
from eddyline.state.runs import places_within


class Following:
    """One function over one partition."""

    def __init__(self, function: str, kind: DataType, partition: tuple[DataType, ...], distance: int) -> None:
        self.function, self.kind, self.distance = function, kind, distance
        self.partition = partition
        self.encoder = ValueEncoder()
        self._texts = TextBlocks(self.encoder)
        self.keys = Dictionary(len(partition) + 1)
        width = {"lag": distance, "first_value": 1}.get(function, 0)
        #: By partition, newest first: the encoded values of the rows before, whether they have a value, and whether
        #: there is such a row.
        self.before: Ints = np.zeros((0, width), np.int64)
        self.valid: Mask = np.zeros((0, width), np.bool_)
        self.known: Mask = np.zeros((0, width), np.bool_)

    def take(self, values: pa.Array, partition: list[pa.Array], otherwise: pa.Array | None) -> pa.Array:
        """`otherwise` are the values of rows without an earlier row."""
        if self.function == "last_value":
            return values
        rows = len(values)
        keys = self.encoder.encode_rows(partition, self.partition, rows)
        codes = self.keys.codes(keys)
        self.reserve()
        encoded, valid = self.encoder.encode(values, self.kind)
        there = valid if len(valid) else np.ones(rows, np.bool_)
        order = np.argsort(codes, kind="stable")
        runs = _Runs(codes[order])
        move = self._lag if self.function == "lag" else self._first
        moved = move(encoded[order], there[order], runs)
        found: Ints = np.empty(rows, np.int64)
        found_valid: Mask = np.empty(rows, np.bool_)
        found_known: Mask = np.empty(rows, np.bool_)
        found[order], found_valid[order], found_known[order] = moved
        answer = self.encoder.decode(np.where(found_valid, found, 0), found_valid, self.kind)
        if self.encoder.is_full:
            self._sweep()
        if otherwise is None or found_known.all():
            return answer
        return pc.if_else(pa.array(found_known), answer, otherwise)

    def _lag(self, encoded: Ints, there: Mask, runs: _Runs) -> tuple[Ints, Mask, Mask]:
        distance, place, codes = self.distance, runs.place, runs.codes
        here = place >= distance
        source = np.maximum(np.arange(len(codes)) - distance, 0)
        old = np.where(here, 0, distance - 1 - place)
        found = np.where(here, encoded[source], self.before[codes, old])
        valid = np.where(here, there[source], self.valid[codes, old])
        known = here | self.known[codes, old]
        last, mine = runs.begins + runs.counts - 1, runs.firsts
        before, was_valid, was_known = self.before[mine], self.valid[mine], self.known[mine]
        for back in range(distance):
            fresh = back < runs.counts
            at, shifted = np.maximum(last - back, 0), np.maximum(back - runs.counts, 0)
            pick = np.arange(len(mine))
            self.before[mine, back] = np.where(fresh, encoded[at], before[pick, shifted])
            self.valid[mine, back] = np.where(fresh, there[at], was_valid[pick, shifted])
            self.known[mine, back] = fresh | was_known[pick, shifted]
        return found, valid & known, known

    def _first(self, encoded: Ints, there: Mask, runs: _Runs) -> tuple[Ints, Mask, Mask]:
        new = ~self.known[runs.firsts, 0]
        mine, at = runs.firsts[new], runs.begins[new]
        self.before[mine, 0], self.valid[mine, 0], self.known[mine, 0] = encoded[at], there[at], True
        return self.before[runs.codes, 0], self.valid[runs.codes, 0], np.ones(len(encoded), np.bool_)

    def reserve(self) -> None:
        size = self.keys.capacity
        self.before, self.valid, self.known = grown(self.before, size), grown(self.valid, size), grown(self.known, size)

    def _sweep(self) -> None:
        live = self.keys.live()
        named = [self.keys.keys[live, at] for at, kind in enumerate(self.partition) if is_text(kind)]
        if is_text(self.kind):
            named.append(self.before[live][self.valid[live]])
        self.encoder.sweep(named)

    # -- snapshots

    def snapshot(self, name: str) -> tuple[dict[str, Any], Blocks]:
        """`name` begins the names of blocks; no other state has it."""
        texts, blocks = self._texts.snapshot(f"{name}-bytes")
        rows, more = self.keys.snapshot(f"{name}-rows", self._kept)
        return {"bytes": texts, "rows": rows}, blocks | more

    def _kept(self, codes: Ints) -> Arrays:
        if not self.before.shape[1]:
            return {}
        return {name: getattr(self, name)[codes] for name in ("before", "valid", "known")}

    def restore(self, saved: Mapping[str, Any], load: Load) -> None:
        self._texts.restore(saved["bytes"], load)
        codes, arrays = self.keys.load(saved["rows"], load)
        self.reserve()
        for name in ("before", "valid", "known") if self.before.shape[1] else ():
            getattr(self, name)[codes] = arrays[name]


class _Runs:
    """Rows in the order of their partitions: one run each."""

    def __init__(self, codes: Ints) -> None:
        self.codes = codes
        self.firsts, self.begins, self.counts = np.unique(codes, return_index=True, return_counts=True)
        #: The place of each row in its run.
        self.place = places_within(self.counts)
