"""Results of a shared join, collected query by query.

Answer   `shares` gives the combinations of all queries as one block, by the query's place and within a query by the
         newest row, with the cuts between the queries. A combination that several queries want is there once for each.
State    Within one step: the shares so far, and the probing rows that they come from.
Limits   Combinations come in with lineage (`add`). A policy that knows pairs and queries at once writes shares
         itself (`sharing/last_probes.py`), into `place`, `left` and `right`. Cost: pairs and matches, not queries.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.kernels.joins import sharing as kernels
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.port import bits_of
from eddyline.state.columns import Ints


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
class QueryShares:
    """Rows `edges[p]` to `edges[p + 1] - 1` are those of the query at place p, in total order."""

    rows: Combinations
    edges: Ints

    def part(self, first: int, stop: int) -> Combinations:
        """The rows of the places first … stop-1, without a copy."""
        chosen = slice(int(self.edges[first]), int(self.edges[stop]))
        ids = {r: ids[chosen] for r, ids in self.rows.ids.items()}
        return Combinations(ids, self.rows.stamp[chosen], self.rows.clock[chosen], None, None)

    def until(self, stops: list[int | None]) -> QueryShares:
        """Without what is newer than the stop of its query."""
        if all(stop is None for stop in stops):
            return self
        limits = np.repeat([np.iinfo(np.int64).max if stop is None else stop for stop in stops], np.diff(self.edges))
        kept = self.rows.clock <= limits
        return QueryShares(self.rows.take(kept), np.concatenate(([0], np.cumsum(kept)))[self.edges])


class Expansion:
    """Takes the last probes and the complete combinations of one step after the other: `shares` begins the next."""

    def __init__(self, roll: Roll, references: tuple[int, ...], room: int) -> None:
        self.roll = roll
        self.references = references
        #: The shares: places of queries, probing rows from `offset` on, positions of stored rows. Kept from step to
        #: step: fresh memory costs more to touch than to fill.
        self.place = np.empty(room, np.int32)
        self.left = np.empty(room, np.int32)
        self.right = np.empty(room, np.int32)
        self._begin()

    def _begin(self) -> None:
        self.made = 0
        self._held: dict[int, list[Ints]] = {r: [] for r in self.references}
        self._stamps: list[Ints] = []
        self._clocks: list[Ints] = []
        self.offset = 0
        #: Where the positions of the rows that were met begin, per reference.
        self._bases: dict[int, int] = {}

    def add(self, rows: Combinations) -> None:
        """Complete combinations, with the queries that want them in their lineage (None: all)."""
        width = len(self.roll.place_of) // 64
        lineage = (
            np.broadcast_to(bits_of(self.roll.slots, width), (len(rows), width))
            if rows.lineage is None
            else rows.lineage
        )
        lineage = np.ascontiguousarray(lineage)
        at = 0
        while True:
            self.made, at = kernels.expand_lineage(
                self.place, self.left, self.made, self.offset, at, lineage, self.roll.place_of
            )
            if at == len(rows):
                break
            self.grow()
        self.hold(rows, {})

    def shares(self, lowest: int, span: int) -> QueryShares:
        """Everything of this step; ranks of newest rows lie in [lowest, lowest + span)."""
        none = np.empty(0, np.int64)
        stamps = np.concatenate(self._stamps) if self._stamps else none
        left, right, edges = kernels.order_shares(
            self.place[: self.made], self.left[: self.made], self.right[: self.made], Combinations({}, stamps, none, None, None).rank,
            len(self.roll.slots), lowest, span,
        )  # fmt: skip
        ids = {
            r: kernels.held_or(np.concatenate(held) if held else none, left, right, self._bases.get(r, 0))
            for r, held in self._held.items()
        }
        clocks = np.concatenate(self._clocks) if self._clocks else none
        self._begin()
        return QueryShares(Combinations(ids, kernels.at(stamps, left), kernels.at(clocks, left), None, None), edges)

    def hold(self, rows: Combinations, bases: Mapping[int, int]) -> None:
        """The probing rows of the shares written last; `bases`: per reference that they met, the id at position 0."""
        self._bases.update(bases)
        for reference, held in self._held.items():
            held.append(rows.ids[reference] if reference in rows.ids else np.full(len(rows), -1))
        self._stamps.append(rows.stamp)
        self._clocks.append(rows.clock)
        self.offset += len(rows)

    def grow(self) -> None:
        """Twice the room for shares."""
        for name in ("place", "left", "right"):
            old = getattr(self, name)
            wide = np.empty(2 * len(old), old.dtype)
            wide[: self.made] = old[: self.made]
            setattr(self, name, wide)
