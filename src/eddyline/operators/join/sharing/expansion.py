"""Results of a shared join, query by query: lineage and windows are looked at while probing, and combinations never exist
apart from the queries that want them.

Answer   `shares` gives the combinations of all queries as one block, by the query's place and within a query by the newest
         row, with the cuts between the queries. A combination that several queries want is there once for each.
State    Within one step: the shares so far, and the probing rows that they come from.
Limits   The last probe of a node whose partner is a stream with an index and nothing to verify is made here as a whole;
         everything else comes in as combinations with lineage words. Cost: pairs and matches, not queries.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eddyline.kernels import sharing as kernels
from eddyline.kernels.order import ascends
from eddyline.operators.join.combination import Combinations, Words
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.port import bits_of
from eddyline.operators.keys import combined
from eddyline.state.columns import Ints

if TYPE_CHECKING:
    from eddyline.operators.join.node import JoinNode, RowsSeen, Step

#: From so many queries of one group on, results are made query by query.
MANY = 8
_LEAST_ROOM = 1 << 12


@dataclass(frozen=True, slots=True)
class Roll:
    """The queries that are served together: `slots[place]` is the lineage bit of the query at a place."""

    slots: tuple[int, ...]
    #: From a bit to its place; -1: not among them.
    place_of: npt.NDArray[np.int32]

    @staticmethod
    def of(slots: tuple[int, ...], width: int) -> Roll:
        place_of = np.full(64 * width, -1, np.int32)
        place_of[list(slots)] = np.arange(len(slots))
        return Roll(slots, place_of)


@dataclass(frozen=True, slots=True)
class Shares:
    """Rows `edges[p]` to `edges[p + 1] - 1` are those of the query at place p, in total order."""

    rows: Combinations
    edges: Ints

    def part(self, first: int, stop: int) -> Combinations:
        """The rows of the places first … stop-1, without a copy."""
        chosen = slice(int(self.edges[first]), int(self.edges[stop]))
        ids = {r: ids[chosen] for r, ids in self.rows.ids.items()}
        return Combinations(ids, self.rows.stamp[chosen], self.rows.clock[chosen], None, None)

    def until(self, stops: list[int | None]) -> Shares:
        """Without what is newer than the stop of its query."""
        if all(stop is None for stop in stops):
            return self
        limits = np.repeat([np.iinfo(np.int64).max if stop is None else stop for stop in stops], np.diff(self.edges))
        kept = self.rows.clock <= limits
        return Shares(self.rows.take(kept), np.concatenate(([0], np.cumsum(kept)))[self.edges])


class Expansion:
    """Takes the last probes and the complete combinations of one step after the other: `shares` begins the next."""

    def __init__(self, roll: Roll, references: tuple[int, ...]) -> None:
        self.roll = roll
        self.references = references
        # Kept from step to step: fresh memory would cost more to touch than to fill.
        self._place = np.empty(_LEAST_ROOM, np.int32)
        self._left = np.empty(_LEAST_ROOM, np.int32)
        self._right = np.empty(_LEAST_ROOM, np.int32)
        self._begin()

    def _begin(self) -> None:
        self.made = 0
        self._held: dict[int, list[Ints]] = {r: [] for r in self.references}
        self._stamps: list[Ints] = []
        self._clocks: list[Ints] = []
        self._offset = 0
        #: Where the positions of the rows that were met begin, per reference.
        self._bases: dict[int, int] = {}

    def add(self, rows: Combinations) -> None:
        """Complete combinations, with the queries that want them in their words (None: all)."""
        width = len(self.roll.place_of) // 64
        words = np.broadcast_to(bits_of(self.roll.slots, width), (len(rows), width)) if rows.words is None else rows.words
        words = np.ascontiguousarray(words)
        at = 0
        while True:
            self.made, at = kernels.expand_words(self._place, self._left, self.made, self._offset, at, words, self.roll.place_of)
            if at == len(rows):
                break
            self._grow()
        self._hold(rows)

    def probe(self, node: JoinNode, step: Step, rows: Combinations, rows_seen: RowsSeen) -> int:
        """The last probe of a step, for these rows; returns how many pairs somebody wants."""
        one = node.inputs[step.input]
        assert isinstance(one, StreamInput) and step.index is not None
        store, port = one.store, one.port
        index = store.indexes[step.index]
        hashes = combined([node.bases[r].store.at(key, rows.ids[r]) for r, key in step.probe_keys])
        width = len(self.roll.place_of) // 64
        everybody = port.full().reshape(1, width)
        words: Words = everybody if rows.words is None else rows.words
        stored: Words = store.marks[port.words_mark].reshape(-1, width) if port.stores_words else everybody
        counted = bool(port.most_rows)
        seen = rows_seen(port.position, rows.rank) if counted else rows.clock
        time, rows_back = port.reaches
        table = time.table & bits_of(self.roll.slots, width)
        sequence = kernels.by_bucket(hashes, index.heads)
        ts = store.marks[one.death]
        num = store.marks["num"] if counted else ts
        limits = one.limits(rows.stamp)
        ordered = bool(ascends(limits))
        at = pairs = 0
        while True:
            self.made, at, found, visited = kernels.expand_chains(
                self._place, self._left, self._right, self.made, self._offset, at, sequence, ordered, hashes, limits, rows.clock, seen,
                words, int(rows.words is not None), index.heads, index.back, index.keys, store.marks[one.order], ts, num, stored,
                int(port.stores_words), time.sizes, table, time.size_of, rows_back.sizes, rows_back.table, rows_back.size_of,
                self.roll.place_of, store.base, store.first,
            )  # fmt: skip
            pairs += found
            node.counters.visited += visited
            if at == len(sequence):
                break
            self._grow()
        self._hold(rows)
        self._bases[port.position] = store.base
        return pairs

    def shares(self, lowest: int, span: int) -> Shares:
        """Everything of this step; ranks of newest rows lie in [lowest, lowest + span)."""
        none = np.empty(0, np.int64)
        stamps = np.concatenate(self._stamps) if self._stamps else none
        left, right, edges = kernels.order_shares(
            self._place[: self.made], self._left[: self.made], self._right[: self.made], Combinations({}, stamps, none, None, None).rank,
            len(self.roll.slots), lowest, span,
        )  # fmt: skip
        ids = {
            r: kernels.held_or(np.concatenate(held) if held else none, left, right, self._bases.get(r, 0)) for r, held in self._held.items()
        }
        clocks = np.concatenate(self._clocks) if self._clocks else none
        self._begin()
        return Shares(Combinations(ids, kernels.at(stamps, left), kernels.at(clocks, left), None, None), edges)

    def _hold(self, rows: Combinations) -> None:
        for reference, held in self._held.items():
            held.append(rows.ids[reference] if reference in rows.ids else np.full(len(rows), -1))
        self._stamps.append(rows.stamp)
        self._clocks.append(rows.clock)
        self._offset += len(rows)

    def _grow(self) -> None:
        for name in ("_place", "_left", "_right"):
            old = getattr(self, name)
            wide = np.empty(2 * len(old), old.dtype)
            wide[: self.made] = old[: self.made]
            setattr(self, name, wide)
