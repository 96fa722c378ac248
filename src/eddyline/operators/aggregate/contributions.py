"""Contributions: the values that live combinations add to their groups, held until they leave.

Answer   `Batch` is a block of combinations as encoded values: group, arguments, when each leaves. `Contributions.add`
         gives each a slot and puts it into the expiry queues. `leaving` gives the slots of those whose keys lie below
         the limits, each once. `drop` makes the slots free.
State    Per slot the group's code and the encoded values of the arguments. A combination under several windows has a
         ticket in several queues and leaves by the first; then its other tickets are stale, for the slot has another
         generation. Checkpoints write contributions by slot, as `RowBlocks` does.
Limits   A queue holds at most about as many stale tickets as live ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa

from eddyline.operators.aggregate import tables
from eddyline.operators.aggregate.accumulators.encoding import ALL, grown
from eddyline.operators.aggregate.accumulators.groups import mask_of
from eddyline.operators.aggregate.expiry import ExpiryQueue, Limit, NamedQueue
from eddyline.operators.expressions.vectors import Mask
from eddyline.operators.row_blocks import ROW_NUMBER, RowBlocks
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Array, Ints
from eddyline.state.runs import run_begins

#: The first size of arrays that double as rows come.
_SMALLEST = 1024
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
        self.blocks = RowBlocks()
        #: Per queue, by slot, the key of the contribution; None: there was no snapshot.
        self._keys: list[Ints] | None = None

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
        self._put(slots, codes, encoded, valid, leaving)
        self.blocks.note(slots)
        return slots

    def _put(
        self, slots: Ints, codes: Ints, encoded: Sequence[Ints], valid: Sequence[Mask], leaving: Sequence[Ints]
    ) -> None:
        self.codes[slots] = codes
        for at, (w, v) in enumerate(zip(encoded, valid, strict=True)):
            self.encoded[at][slots] = w
            if len(v) and not len(self.valid[at]):
                self.valid[at] = np.ones(self.capacity, np.bool_)
            if len(self.valid[at]):
                self.valid[at][slots] = v if len(v) else True
        tickets = (self.generation[slots] << 32) | slots
        for queue, keys in zip(self.queues, leaving, strict=True):
            queue.push(keys, tickets)
        if self._keys is not None:
            for kept, keys in zip(self._keys, leaving, strict=True):
                kept[slots] = keys

    def leaving(self, limits: Sequence[Limit]) -> Ints:
        """Slots of the contributions with a key below their queue's limit; their tickets leave the queues."""
        found = [queue.pop(limit) for queue, limit in zip(self.queues, limits, strict=True)]
        if len(found) == 1:
            return found[0] & _SLOT
        tickets = np.unique(np.concatenate(found))
        return tickets[self.is_live(tickets)] & _SLOT

    def named_slots(self, names: Ints) -> Ints:
        """Slots of the contributions with these names, which ascend, in the last queue; they stay."""
        _, tickets = self.queues[-1].pop_pairs(names)
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
        self.blocks.note(slots, gone=True)
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
        for name in ("codes", "generation"):
            setattr(self, name, grown(getattr(self, name), size))
        self.encoded = [grown(w, size) for w in self.encoded]
        self.valid = [grown(v, size) if len(v) else v for v in self.valid]
        if self._keys is not None:
            self._keys = [grown(keys, size) for keys in self._keys]

    # -- snapshots

    def snapshot(
        self, name: str, more: Callable[[Ints], tables.Arrays] | None = None
    ) -> tuple[list[list[Any]], Blocks]:
        """`more` gives what the owner keeps of slots; `name` is a name that no other state has."""
        if self._keys is None:
            self._keys = self._live_keys()
        return self.blocks.snapshot(name, self.live, partial(self._content, more))

    def _content(self, more: Callable[[Ints], tables.Arrays] | None, slots: Ints) -> pa.Table:
        assert self._keys is not None
        valid = [self.valid_at(at, slots) for at in range(len(self.valid))]
        whole = [there if len(there) else np.ones(len(slots), np.bool_) for there in valid]
        arrays = tables.encoded_arrays([words[slots] for words in self.encoded], whole)
        arrays |= {"code": self.codes[slots]} | {f"leaving-{at}": keys[slots] for at, keys in enumerate(self._keys)}
        return tables.as_table(arrays | ({} if more is None else more(slots)))

    def load(self, saved: Sequence[Sequence[Any]], load: Load) -> tuple[Ints, tables.Arrays]:
        """Exactly the contributions of a snapshot, in their slots; returns these, and all that was written of each."""
        arrays = tables.arrays_of(self.blocks.restore(saved, load))
        slots = arrays[ROW_NUMBER]
        while self.capacity <= int(slots.max(initial=0)):
            self._double()
        self.free = np.setdiff1d(np.arange(self.capacity), slots)[::-1]
        self.free_count = len(self.free)
        self.free = grown(self.free, self.capacity)
        self._keys = [np.zeros(self.capacity, np.int64) for _ in self.queues]
        self._put(slots, arrays["code"], *tables.encoded_columns(arrays), tables.numbered(arrays, "leaving"))
        return slots, arrays

    def _live_keys(self) -> list[Ints]:
        """Per queue, the keys of live contributions by slot."""
        found = []
        for queue in self.queues:
            by_slot = np.zeros(self.capacity, np.int64)
            keys, tickets = queue.pairs()
            live = self.is_live(tickets)
            by_slot[tickets[live] & _SLOT] = keys[live]
            found.append(by_slot)
        return found
