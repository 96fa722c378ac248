"""Queues of contributions by when they leave: a few sorted runs.

Answer   `push` takes (key, ticket) pairs in any order; a key is when the ticket leaves. `pop` takes out the tickets of
         all keys below a limit. The cost per pair is amortised the logarithm of the queue, and constant where pairs
         come in order, as they do for one stream.

             run  |======================|        run  |=======|      run  |==|       each at most half the one before

State    Runs of ascending keys, each with the place of its first pair that is still there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eddyline.kernels.order import ascends, merge_order, pick
from eddyline.state.columns import Ints, joined_pairs
from eddyline.state.runs import places_within

#: The first size of arrays that double as rows come.
_SMALLEST = 1024


class Run:
    """Ascending keys with their tickets; grows at the end, is used up from the front."""

    __slots__ = ("keys", "tickets", "first", "end")

    def __init__(self, keys: Ints, tickets: Ints) -> None:
        self.keys = keys
        self.tickets = tickets
        self.first = 0
        self.end = len(keys)

    def __len__(self) -> int:
        return self.end - self.first

    def append(self, keys: Ints, tickets: Ints) -> None:
        stop = self.end + len(keys)
        if stop > len(self.keys):
            live = len(self)
            size = max(_SMALLEST, 2 * (live + len(keys)))
            for name in ("keys", "tickets"):
                wide = np.empty(size, np.int64)
                wide[:live] = getattr(self, name)[self.first : self.end]
                setattr(self, name, wide)
            self.first, self.end, stop = 0, live, live + len(keys)
        self.keys[self.end : stop] = keys
        self.tickets[self.end : stop] = tickets
        self.end = stop

    def pairs(self) -> tuple[Ints, Ints]:
        return self.keys[self.first : self.end], self.tickets[self.first : self.end]


#: Which pairs leave: those with keys below a number, or, in a `NamedQueue`, those with these keys, which ascend.
Limit = int | Ints


class ExpiryQueue:
    def __init__(self) -> None:
        self.runs: list[Run] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self.runs)

    @property
    def next(self) -> int | None:
        """The smallest key."""
        return min((int(run.keys[run.first]) for run in self.runs), default=None)

    def push(self, keys: Ints, tickets: Ints) -> None:
        if not len(keys):
            return
        if not ascends(keys):
            order = np.argsort(keys, kind="stable")
            keys, tickets = keys[order], tickets[order]
        if self.runs and keys[0] >= self.runs[-1].keys[self.runs[-1].end - 1]:
            self.runs[-1].append(keys, tickets)
        else:
            self.runs.append(Run(keys, tickets))
        while len(self.runs) > 1 and 2 * len(self.runs[-1]) >= len(self.runs[-2]):
            (b, b_tickets), (a, a_tickets) = self.runs.pop().pairs(), self.runs.pop().pairs()
            chosen = merge_order(a, b)
            self.runs.append(Run(pick(a, b, chosen), pick(a_tickets, b_tickets, chosen)))

    def pop(self, limit: Limit) -> Ints:
        """Tickets of all keys below `limit`."""
        return self.pop_pairs(limit)[1]

    def pop_pairs(self, limit: Limit) -> tuple[Ints, Ints]:
        """Keys below `limit`, with their tickets."""
        assert isinstance(limit, int)
        found = []
        for run in self.runs:
            keys, tickets = run.pairs()
            cut = int(np.searchsorted(keys, limit))
            if cut:
                found.append((keys[:cut], tickets[:cut]))
                run.first += cut
        self.runs = [run for run in self.runs if len(run)]
        return joined_pairs(found)

    def keep(self, wanted: Callable[[Ints], np.ndarray[tuple[int], np.dtype[np.bool_]]]) -> None:
        """Keep only the pairs whose tickets are wanted."""
        keys, tickets = self.pairs()
        here = wanted(tickets)
        self.runs = []
        self.push(keys[here], tickets[here])

    def pairs(self) -> tuple[Ints, Ints]:
        """All pairs, in no order."""
        return joined_pairs([run.pairs() for run in self.runs])


class NamedQueue(ExpiryQueue):
    """Pairs whose keys are names: they leave when their names are given. The queue holds them until `keep` is called."""

    def pop_pairs(self, limit: Limit) -> tuple[Ints, Ints]:
        """The pairs with some of these names."""
        assert not isinstance(limit, int)
        found = []
        for run in self.runs if len(limit) else ():
            keys, tickets = run.pairs()
            first = np.searchsorted(keys, limit)
            sizes = np.searchsorted(keys, limit, side="right") - first
            at = np.repeat(first, sizes) + places_within(sizes)
            found.append((keys[at], tickets[at]))
        return joined_pairs(found)
