"""The slow twins of the kernels of shared joins, strips, schedules and arrivals, in plain loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.oracle.kernels_schedule import Matrix, next_level


@dataclass(frozen=True)
class Row:
    """A stored row, or one that probes: for it `order` says below which order stored rows are older."""

    key: int
    order: int
    ts: int
    #: Its number; for a row that probes, the rows that there are up to it.
    number: int
    #: The queries that want it.
    queries: frozenset[int]


def shares(
    probing: Sequence[Row], stored: Mapping[int, Row], spans: Mapping[int, int], counts: Mapping[int, int]
) -> list[tuple[int, int, int]]:
    """(query, probing row, stored row) of every pair that a query wants: `spans` and `counts` are the windows of the
    queries."""
    found = []
    for o, new in enumerate(probing):
        for position, old in stored.items():
            if old.key == new.key and old.order < new.order:
                for query in new.queries & old.queries & (spans.keys() | counts.keys()):
                    if query in spans and new.ts - old.ts > spans[query]:
                        continue
                    if query in counts and new.number - old.number > counts[query]:
                        continue
                    found.append((query, o, position))
    return found


def ordered_shares(found: Sequence[tuple[int, int, int]], rank: Sequence[int]) -> list[tuple[int, int, int]]:
    """By query, then by the rank of the probing row; others as they are."""
    return sorted(found, key=lambda share: (share[0], rank[share[1]]))


def runs(
    probing: Sequence[Row], stored: Mapping[int, Row], sizes: Sequence[int], keyed: bool, counted: bool
) -> list[list[list[int]]]:
    """Per probing row and window the older rows with its key that lie in the window, the newest first."""
    found = []
    for new in probing:
        mine = []
        for size in sizes:
            ages = {at: (new.number - old.number if counted else new.ts - old.ts) for at, old in stored.items()}
            older = [at for at, old in stored.items() if old.order < new.order and (not keyed or old.key == new.key)]
            mine.append(sorted((at for at in older if ages[at] <= size), reverse=True))
        found.append(mine)
    return found


def next_unit(
    done: list[int], priority: Matrix, onward: Matrix, bounds: Sequence[int], need: Matrix
) -> tuple[int, int, int, int]:
    """One batch after the other is taken as far as it goes; those that go the same way are one unit while more rows are
    needed."""

    def went(low: int) -> int:
        """Take the next batch of a queue through windows while it is its turn; the window that it stops before."""
        batch, level = done[low + 1], low
        while level < len(done) - 1 and done[level + 1] == batch:
            if level > low and next_level(done, priority, onward, level) != level:
                break
            done[level + 1] += 1
            level += 1
        return level

    low = next_level(done, priority, onward, -1)
    if low < 0:
        return 0, 0, -1, -1
    first = done[low + 1]
    high, stop = went(low), first + 1
    while bounds[stop] < bounds[-1]:
        enough = bounds[stop] - bounds[first] >= need[low][high] and bounds[-1] - bounds[stop] >= 0.5 * need[low][high]
        if enough or next_level(done, priority, onward, -1) != low or done[low + 1] != stop:
            break
        before = list(done)
        if went(low) != high:
            done[:] = before
            break
        stop += 1
    return first, stop, low, high


def instants(numbers: Sequence[int], ends: Sequence[int], came: Sequence[int]) -> list[int]:
    """When rows with these numbers came: those below ends[i], and not below the one before it, at came[i]."""
    return [came[sum(end <= number for end in ends[: len(came) - 1])] for number in numbers]


def kinds(stamps: Sequence[int], changes: Sequence[int], kind_of: Sequence[int], how_many: int) -> list[int]:
    """How many stamps are of each kind: from changes[i] on they are of kind_of[i]."""
    found = [0] * how_many
    for stamp in stamps:
        at = max((i for i, change in enumerate(changes) if change <= stamp), default=0)
        found[kind_of[at]] += 1
    return found
