"""Assignments of the events of a pattern, and those that wait for their time.

Answer   `Matches` has assignments in columns. `WaitingMatches` keeps those of a pattern that ends with a NOT: `due` gives
         the ones whose time has passed, `of_traces` those of some traces.
State    The assignments that wait, in slots; a snapshot writes those that came, and the slots of those that left.
Limits   `due` gives an assignment once; the caller drops it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np

from eddyline.operators.aggregate.accumulators.encoding import ALL
from eddyline.operators.aggregate.contributions import Contributions
from eddyline.operators.pattern.automaton import NEVER
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints

_NONE: Ints = np.empty(0, np.int64)


@dataclass
class Matches:
    """Assignments, one row each. `last` is the newest event, `ts` the time of the result."""

    ids: Ints
    last: Ints
    ts: Ints
    serial: Ints
    code: Ints
    machine: Ints
    waits: np.ndarray

    @classmethod
    def none(cls, names: int) -> Matches:
        return cls(np.empty((0, names), np.int64), _NONE, _NONE, _NONE, _NONE, _NONE, np.empty(0, np.bool_))

    def __len__(self) -> int:
        return len(self.last)

    def at(self, chosen: np.ndarray) -> Matches:
        return Matches(*(a[chosen] for a in vars(self).values()))

    def also(self, other: Matches) -> Matches:
        return Matches(
            *(np.concatenate([a, b]) for a, b in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    def order(self, *, waits: bool) -> Ints:
        """By time, newest event, and the events in the order written; with `waits` those of a NOT at the end after all
        others."""
        if not waits and (self.last[1:] > self.last[:-1]).all() and (self.ts[1:] >= self.ts[:-1]).all():
            return np.arange(len(self))
        written = [np.where(c < 0, NEVER, c) for c in self.ids.T[::-1]]
        keys = (*written, self.last, *((self.waits,) if waits else ()), self.ts)
        found: Ints = np.lexsort(keys)
        return found


class WaitingMatches:
    def __init__(self, names: int) -> None:
        self._names = names
        #: Columns: an event per name, the newest event, time, serial of the trace, machine, whether it ends with a NOT.
        self._held = Contributions(names + 5, 2, 1)
        #: Slots that were filled since the last `move`.
        self._fresh: list[Ints] = []
        self._key = uuid4().hex[:8]

    def __len__(self) -> int:
        return self._held.held

    def add(self, matches: Matches) -> None:
        if len(matches):
            columns = [*matches.ids.T, matches.last, matches.ts, matches.serial, matches.machine, matches.waits]
            valid = [ALL] * len(columns)
            self._fresh.append(self._held.add(matches.code, columns, valid, [matches.ts, matches.serial]))

    def at(self, slots: Ints) -> Matches:
        columns = [column[slots] for column in self._held.encoded]
        ids = np.stack(columns[: self._names], axis=1)
        last, ts, serial, machine, waits = columns[self._names :]
        return Matches(ids, last, ts, serial, self._held.codes[slots], machine, waits != 0)

    def due(self, time: int) -> Ints:
        """The slots of assignments with an earlier time."""
        return self._held.leaving([time, _NONE])

    def of_traces(self, serials: Ints) -> Ints:
        """The slots of assignments of traces with these serial numbers, which ascend."""
        return self._held.named_slots(serials)

    def drop(self, slots: Ints) -> None:
        self._held.drop(slots)

    def every(self) -> Ints:
        return self._held.live()

    def move(self, first: int, moved: Ints, *, every: bool) -> None:
        slots = self.every() if every else np.unique(np.concatenate([_NONE, *self._fresh]))
        self._fresh = []
        for column in self._held.encoded[: self._names + 1]:
            events = column[slots]
            here = events >= first
            column[slots[here]] = moved[events[here] - first]
        if every:
            self._held.blocks.renew()

    # -- snapshots

    def snapshot(self, name: str) -> tuple[list[list[Any]], Blocks]:
        """`name` begins the names of blocks."""
        return self._held.snapshot(f"{name}-{self._key}")

    def restore(self, saved: Sequence[Sequence[Any]], load: Load, machines: Ints) -> None:
        """`machines` are the new numbers of machines."""
        slots, _ = self._held.load(saved, load)
        column = self._held.encoded[self._names + 3]
        was = column[slots]
        column[slots] = machines[was] if len(slots) else was
        if (column[slots] != was).any():
            self._held.blocks.renew()


def oldest(matches: Matches) -> Matches:
    """Of every trace the first match."""
    by_age = matches.at(matches.order(waits=False))
    return by_age.at(np.sort(np.unique(by_age.serial, return_index=True)[1]))


def once(matches: Matches) -> Matches:
    """Equal assignments are one match: the one with the smallest time, and among equal times the one that does not
    wait."""
    order = np.lexsort((matches.waits, matches.ts))
    _, first = np.unique(matches.ids[order], axis=0, return_index=True)
    return matches.at(order[first])
