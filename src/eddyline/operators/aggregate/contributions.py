"""Contributions: the values that live combinations add to their groups, held until they leave.

Answer   `Batch` is a block of combinations as encoded values: group, arguments, when each leaves. `Contributions.add`
         gives each a slot and puts it into the expiry queues. `leaving` gives the slots of those whose keys lie below
         the limits, each once. `drop` makes the slots free.
State    Per slot the group's code and the encoded values of the arguments. A combination under several windows has a
         ticket in several queues and leaves by the first; then its other tickets are stale, for the slot has another
         generation. Checkpoints write contributions in sealed blocks: the content of each once, later its name only.
Limits   A queue holds at most about as many stale tickets as live ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from eddyline.operators.aggregate.accumulators.encoding import ALL, grown
from eddyline.operators.aggregate.accumulators.groups import mask_of
from eddyline.operators.aggregate.expiry import ExpiryQueue, Limit, NamedQueue
from eddyline.operators.expressions.vectors import Mask
from eddyline.state.columns import Array, Ints
from eddyline.state.runs import run_begins

#: The first size of arrays that double as rows come.
_SMALLEST = 1024
#: More sealed blocks than these are made fewer.
_MOST_BLOCKS = 16
_SLOT = np.int64(0xFFFFFFFF)


@dataclass(slots=True)
class EncodedRows:
    """Rows in columns: each field has one line per row, in an array or in a list of arrays. ALL has no lines."""

    clock: Ints

    def __len__(self) -> int:
        return len(self.clock)

    def take(self, chosen: Ints | slice) -> Self:
        def some(values: Array) -> Array:
            return values[chosen] if len(values) else values

        columns = (getattr(self, field.name) for field in fields(self))
        taken: list[Any] = [[some(v) for v in c] if isinstance(c, list) else some(c) for c in columns]
        return type(self)(*taken)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Parts as one, in their order; there is at least one."""
        if len(parts) == 1:
            return parts[0]

        def whole(values: Sequence[Array]) -> Array:
            if not any(map(len, values)):
                return values[0]
            filled = zip(values, parts, strict=True)
            return np.concatenate([v if len(v) == len(part) else np.ones(len(part), np.bool_) for v, part in filled])

        columns = ([getattr(part, field.name) for part in parts] for field in fields(cls))
        made: list[Any] = [
            [whole(v) for v in zip(*c, strict=True)] if isinstance(c[0], list) else whole(c) for c in columns
        ]
        return cls(*made)


@dataclass(slots=True)
class Batch(EncodedRows):
    """Combinations in the order of their newest rows."""

    #: Encoded values of the grouping expressions and, last, bits: which of them are null.
    groups: Ints
    encoded: list[Ints]
    #: Per argument; ALL where there is no null.
    valid: list[Mask]
    #: Per queue, the last key at which the combination is live.
    leaving: list[Ints]

    @staticmethod
    def empty(keys: int, arguments: int, queues: int) -> Batch:
        none = np.empty(0, np.int64)
        return Batch(none, np.empty((0, keys + 1), np.int64), [none] * arguments, [ALL] * arguments, [none] * queues)


@dataclass(frozen=True, slots=True)
class ContributionBlock:
    """Contributions that are written together; `rows` is their number when they were written."""

    number: int
    name: str
    rows: int


class Contributions:
    def __init__(self, arguments: int, queues: int, named: int = 0) -> None:
        """From the last `named` queues contributions leave by name."""
        self.named = named
        self.queues = [ExpiryQueue() if at < queues - named else NamedQueue() for at in range(queues)]
        self.codes: Ints = np.zeros(_SMALLEST, np.int64)
        self.encoded: list[Ints] = [np.zeros(_SMALLEST, np.int64) for _ in range(arguments)]
        #: Made when an argument is null for the first time.
        self.valid: list[Mask] = [ALL for _ in range(arguments)]
        self.generation: Ints = np.zeros(_SMALLEST, np.int64)
        self.free: Ints = np.arange(_SMALLEST - 1, -1, -1)
        self.free_count = _SMALLEST
        #: Which sealed block holds the contribution; 0: none yet.
        self.block = np.zeros(_SMALLEST, np.int32)
        self.sealed: dict[int, ContributionBlock] = {}
        self.last_block = 0

    @property
    def capacity(self) -> int:
        """All slots are below."""
        return len(self.codes)

    @property
    def held(self) -> int:
        return self.capacity - self.free_count

    def add(self, codes: Ints, encoded: Sequence[Ints], valid: Sequence[Mask], leaving: Sequence[Ints]) -> Ints:
        """Slots of the new contributions."""
        while self.free_count < len(codes):
            self._double()
        slots = self.free[self.free_count - len(codes) : self.free_count][::-1].copy()
        self.free_count -= len(codes)
        self.codes[slots] = codes
        self.block[slots] = 0
        for at, (w, v) in enumerate(zip(encoded, valid, strict=True)):
            self.encoded[at][slots] = w
            if len(v) and not len(self.valid[at]):
                self.valid[at] = np.ones(self.capacity, np.bool_)
            if len(self.valid[at]):
                self.valid[at][slots] = v if len(v) else True
        tickets = (self.generation[slots] << 32) | slots
        for queue, keys in zip(self.queues, leaving, strict=True):
            queue.push(keys, tickets)
        return slots

    def leaving(self, limits: Sequence[Limit]) -> Ints:
        """Slots of the contributions with a key below their queue's limit; their tickets leave the queues."""
        found = [queue.pop(limit) for queue, limit in zip(self.queues, limits, strict=True)]
        if len(found) == 1:
            return found[0] & _SLOT
        tickets = np.unique(np.concatenate(found))
        return tickets[self.is_live(tickets)] & _SLOT

    def leaving_at(self, limits: Sequence[Limit], instants: Sequence[Callable[[Ints], Ints]]) -> tuple[Ints, Ints]:
        """As `leaving`, also the instants at which they leave, in that order; `instants` has per queue a function from
        keys to instants."""
        pairs = [queue.pop_pairs(limit) for queue, limit in zip(self.queues, limits, strict=True)]
        tickets = np.concatenate([found for _, found in pairs])
        when = np.concatenate([instant(keys) for instant, (keys, _) in zip(instants, pairs, strict=True)])
        if len(pairs) > 1:
            order = np.lexsort((when, tickets))
            tickets, when = tickets[order], when[order]
            first = run_begins(tickets) & self.is_live(tickets)
            tickets, when = tickets[first], when[first]
        order = np.argsort(when, kind="stable")
        return tickets[order] & _SLOT, when[order]

    def drop(self, slots: Ints) -> None:
        self.generation[slots] += 1
        self.free[self.free_count : self.free_count + len(slots)] = slots
        self.free_count += len(slots)
        if len(self.queues) > 1 or self.named:
            for queue in self.queues:
                if len(queue) > 2 * self.held + _SMALLEST:
                    queue.keep(self.is_live)

    def is_live(self, tickets: Ints) -> Mask:
        """Whether the contributions of tickets are still here."""
        live: Mask = self.generation[tickets & _SLOT] == tickets >> 32
        return live

    def live(self) -> Ints:
        """All slots in use, ascending."""
        return np.flatnonzero(~mask_of(self.free[: self.free_count], self.capacity))

    def valid_at(self, argument: int, slots: Ints) -> Mask:
        return self.valid[argument][slots] if len(self.valid[argument]) else ALL

    def _double(self) -> None:
        size = 2 * self.capacity
        free = np.zeros(size, np.int64)
        fresh = np.arange(size - 1, self.capacity - 1, -1)
        free[: len(fresh)] = fresh
        free[len(fresh) : len(fresh) + self.free_count] = self.free[: self.free_count]
        self.free, self.free_count = free, self.free_count + len(fresh)
        for name in ("codes", "generation", "block"):
            setattr(self, name, grown(getattr(self, name), size))
        self.encoded = [grown(w, size) for w in self.encoded]
        self.valid = [grown(v, size) if len(v) else v for v in self.valid]

    # -- sealed blocks

    def seal(self, run: str) -> list[ContributionBlock]:
        """The blocks of all live contributions. Contributions since the last call are a new block; blocks of which most
        are dead, and small ones where there are many, become part of it."""
        live = self.live()
        if self.named:
            # Named rows leave one by one: no limit gives the rows of a block that have left since it was written.
            self.sealed.clear()
            self.block[live] = 0
        counts = np.bincount(self.block[live], minlength=self.last_block + 1)
        fresh = int(counts[0])
        for number, block in reversed(list(self.sealed.items())):
            alive = int(counts[number])
            if 4 * alive < block.rows or (len(self.sealed) > _MOST_BLOCKS and alive <= 2 * fresh):
                fresh += alive
                del self.sealed[number]
        if fresh:
            kept = mask_of(np.array(list(self.sealed), np.int64), self.last_block + 1)
            self.last_block += 1
            self.block[live[~kept[self.block[live]]]] = self.last_block
            self.sealed[self.last_block] = ContributionBlock(self.last_block, f"{run}-{self.last_block}", fresh)
        return list(self.sealed.values())

    def of_block(self, number: int) -> Ints:
        """The live slots of a block."""
        live = self.live()
        return live[self.block[live] == number]

    def keys(self) -> list[Ints]:
        """Per queue, the keys of live contributions by slot."""
        found = []
        for queue in self.queues:
            by_slot = np.zeros(self.capacity, np.int64)
            keys, tickets = queue.pairs()
            live = self.is_live(tickets)
            by_slot[tickets[live] & _SLOT] = keys[live]
            found.append(by_slot)
        return found

    def restore(self, block: ContributionBlock, slots: Ints) -> None:
        """A block was read from a checkpoint and its contributions were added at these slots."""
        self.sealed[block.number] = block
        self.block[slots] = block.number
        self.last_block = max(self.last_block, block.number)
