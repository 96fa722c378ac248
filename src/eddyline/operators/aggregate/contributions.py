"""What live combinations bring to their groups, held until they leave.

Answer   `Batch` is a block of combinations as words: group, arguments, when each leaves. `Contributions.add` gives each a slot and
         puts it into the expiry queues; `leaving` gives the slots of those whose time has come, each once; `drop` makes the slots free.
State    Per slot the group's code and the words of the arguments. A combination under several windows waits in several queues and
         leaves with the first: its tickets in the others are stale, which the slot's generation shows.
Limits   A queue holds at most about as many stale tickets as live ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.operators.aggregate.expiry import ExpiryQueue
from eddyline.operators.aggregate.words import ALL, grown
from eddyline.operators.vectors import Mask
from eddyline.state.columns import Ints

_SMALLEST = 1024
_SLOT = np.int64(0xFFFFFFFF)


@dataclass(slots=True)
class Batch:
    """Combinations in the order of their newest rows."""

    clock: Ints
    #: Words of the grouping expressions and, last, bits that say which of them are null.
    groups: Ints
    words: list[Ints]
    #: Per argument; ALL where there is no null.
    valid: list[Mask]
    #: Per queue, the last key at which the combination is live.
    leaving: list[Ints]

    def __len__(self) -> int:
        return len(self.clock)

    def take(self, chosen: Mask) -> Batch:
        return Batch(
            self.clock[chosen],
            self.groups[chosen],
            [w[chosen] for w in self.words],
            [v[chosen] if len(v) else v for v in self.valid],
            [k[chosen] for k in self.leaving],
        )

    def slice(self, start: int, stop: int) -> Batch:
        return Batch(
            self.clock[start:stop],
            self.groups[start:stop],
            [w[start:stop] for w in self.words],
            [v[start:stop] if len(v) else v for v in self.valid],
            [k[start:stop] for k in self.leaving],
        )


class Contributions:
    def __init__(self, arguments: int, queues: int) -> None:
        self.queues = [ExpiryQueue() for _ in range(queues)]
        self.codes: Ints = np.zeros(_SMALLEST, np.int64)
        self.words: list[Ints] = [np.zeros(_SMALLEST, np.int64) for _ in range(arguments)]
        #: Made when an argument is null for the first time.
        self.valid: list[Mask] = [ALL for _ in range(arguments)]
        self.generation: Ints = np.zeros(_SMALLEST, np.int64)
        self.free: Ints = np.arange(_SMALLEST - 1, -1, -1)
        self.free_count = _SMALLEST

    @property
    def capacity(self) -> int:
        """All slots are below."""
        return len(self.codes)

    @property
    def held(self) -> int:
        return self.capacity - self.free_count

    def add(self, codes: Ints, words: Sequence[Ints], valid: Sequence[Mask], leaving: Sequence[Ints]) -> Ints:
        """Slots of the new contributions."""
        while self.free_count < len(codes):
            self._double()
        slots = self.free[self.free_count - len(codes) : self.free_count][::-1].copy()
        self.free_count -= len(codes)
        self.codes[slots] = codes
        for at, (w, v) in enumerate(zip(words, valid, strict=True)):
            self.words[at][slots] = w
            if len(v) and not len(self.valid[at]):
                self.valid[at] = np.ones(self.capacity, np.bool_)
            if len(self.valid[at]):
                self.valid[at][slots] = v if len(v) else True
        tickets = (self.generation[slots] << 32) | slots
        for queue, keys in zip(self.queues, leaving, strict=True):
            queue.push(keys, tickets)
        return slots

    def leaving(self, limits: Sequence[int]) -> Ints:
        """Slots of the contributions with a key below its queue's limit; they leave the queues."""
        found = [queue.pop(limit) for queue, limit in zip(self.queues, limits, strict=True)]
        if len(found) == 1:
            return found[0] & _SLOT
        tickets = np.unique(np.concatenate(found))
        return tickets[self.is_live(tickets)] & _SLOT

    def drop(self, slots: Ints) -> None:
        self.generation[slots] += 1
        self.free[self.free_count : self.free_count + len(slots)] = slots
        self.free_count += len(slots)
        if len(self.queues) > 1:
            for queue in self.queues:
                if len(queue) > 2 * self.held + _SMALLEST:
                    queue.keep(self.is_live)

    def is_live(self, tickets: Ints) -> Mask:
        """Whether the contributions of tickets are still here."""
        live: Mask = self.generation[tickets & _SLOT] == tickets >> 32
        return live

    def live(self) -> Ints:
        """All slots in use, ascending."""
        here = np.ones(self.capacity, np.bool_)
        here[self.free[: self.free_count]] = False
        return np.flatnonzero(here)

    def valid_at(self, argument: int, slots: Ints) -> Mask:
        return self.valid[argument][slots] if len(self.valid[argument]) else ALL

    def _double(self) -> None:
        size = 2 * self.capacity
        free = np.zeros(size, np.int64)
        fresh = np.arange(size - 1, self.capacity - 1, -1)
        free[: len(fresh)] = fresh
        free[len(fresh) : len(fresh) + self.free_count] = self.free[: self.free_count]
        self.free, self.free_count = free, self.free_count + len(fresh)
        self.codes, self.generation = grown(self.codes, size), grown(self.generation, size)
        self.words = [grown(w, size) for w in self.words]
        self.valid = [grown(v, size) if len(v) else v for v in self.valid]

    def restore(self, slots: Ints, codes: Ints, generation: Ints) -> None:
        """Exactly these slots in use; their words are for the caller to fill in."""
        while slots.max(initial=-1) >= self.capacity:
            self._double()
        self.codes[slots], self.generation[slots] = codes, generation
        rest = np.setdiff1d(np.arange(self.capacity), slots)[::-1]
        self.free[: len(rest)] = rest
        self.free_count = len(rest)
