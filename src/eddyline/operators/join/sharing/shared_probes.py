"""Probes that several join groups would make alike, made once: queries over different sets of streams share them.

Answer   `pairs` gives the rows of one stream's store that new rows of another meet by equal keys, older and within the largest
         window of all groups that ask. Each group takes its part: its own rows, windows, lineage and conditions.

             A⋈B    ─┐
             A⋈B⋈C  ─┼─ new rows of a probe b once; each group goes on from there
             B⋈A⋈D  ─┘

State    Who asks for what; within one slice, the pairs that have been found.
Limits   First probes of new rows, between two streams, by an index. Nothing is shared that only one group asks for. Where all that meets
         is too much to be held, every group probes for itself and leaves out at once what it does not want.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eddyline.kernels import probe as probe_kernels
from eddyline.kernels.sharing import pairs_of
from eddyline.operators.join.combination import any_bit
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.keys import combined
from eddyline.state.columns import Ints

#: More pairs than this are not held for others.
_MOST_PAIRS = 1 << 22
_ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True, slots=True)
class Ask:
    """New rows of `origin` by these keys into the index of `partner`."""

    origin: str
    keys: tuple[str, ...]
    partner: str
    index: str


@dataclass(frozen=True, slots=True)
class Met:
    """Row `start + i` meets `rows[begin[i] : begin[i + 1]]`, the newest first."""

    start: int
    begin: Ints
    rows: Ints

    def pairs(self, ids: Ints, floors: Ints, partner: StreamInput) -> tuple[Ints, Ints]:
        """Positions in `ids` and the rows that they meet, as far as the floors reach."""
        found: tuple[Ints, Ints] = pairs_of(
            ids - self.start, floors, self.begin, self.rows, partner.store.marks[partner.death], partner.store.base
        )
        return found


class SharedProbes:
    def __init__(self) -> None:
        self._asking: dict[Ask, dict[object, tuple[StreamInput, StreamInput]]] = {}
        self._fresh: Mapping[str, tuple[int, int]] = {}
        self._found: dict[Ask, Met | None] = {}

    def enrol(self, group: object, asks: Mapping[Ask, tuple[StreamInput, StreamInput]]) -> None:
        """What a group asks for from now on; nothing: it leaves."""
        for ask in list(self._asking):
            self._asking[ask].pop(group, None)
            if not self._asking[ask]:
                del self._asking[ask]
        for ask, inputs in asks.items():
            self._asking.setdefault(ask, {})[group] = inputs

    def begin(self, fresh: Mapping[str, tuple[int, int]]) -> None:
        """A slice begins with these new rows; each group that works on the slice says so."""
        if fresh is not self._fresh:
            self._fresh = fresh
            self._found = {}

    def is_shared(self, ask: Ask) -> bool:
        return len(self._asking.get(ask, ())) > 1

    def pairs(self, ask: Ask) -> tuple[Met | None, int, int]:
        """What the new rows meet, or None where that is too much; rows that probed for it just now and rows that they visited."""
        if ask in self._found:
            return self._found[ask], 0, 0
        self._found[ask] = None
        users = list(self._asking[ask].values())
        start, stop = self._fresh[ask.origin]
        ids = self._wanted([origin for origin, _ in users], np.arange(start, stop))
        origin, partner = users[0][0].store, users[0][1].store
        hashes = combined([origin.at(key, ids) for key in ask.keys])
        floors = origin.at("ts", ids) - max(one.port.span for _, one in users)
        limits = origin.at("seq", ids)
        index = partner.indexes[ask.index]
        pieces, visited, made = [], 0, 0
        for low in range(0, len(ids), _ROWS_AT_ONCE):
            part = slice(low, low + _ROWS_AT_ONCE)
            left, right, seen = probe_kernels.probe_chains(
                hashes[part], limits[part], floors[part], index.heads, index.back, index.keys, partner.marks["seq"], partner.marks["ts"],
                partner.base, partner.first, True,
            )  # fmt: skip
            pieces.append((left + low, right))
            visited += seen
            made += len(left)
            if made > _MOST_PAIRS:
                return None, 0, visited
        left, right = (np.concatenate(columns) for columns in zip(*pieces, strict=True)) if pieces else (ids[:0], ids[:0])
        begin = np.zeros(stop - start + 1, np.int64)
        begin[ids - start + 1] = np.bincount(left, minlength=len(ids))
        self._found[ask] = met = Met(start, np.cumsum(begin), right)
        return met, len(ids), visited

    def _wanted(self, origins: list[StreamInput], ids: Ints) -> Ints:
        """The new rows that anybody wants who asks."""
        wanted = np.zeros(len(ids), np.bool_)
        for origin in origins:
            words = origin.words(ids)
            if words is None:
                return ids
            wanted |= any_bit(words)
        return ids[wanted]
