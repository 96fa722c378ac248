"""Results of several shards in one order, in pieces of bounded size.

Answer   `merged_in_pieces` takes one run per shard, each in the total order of newest rows and read piece by piece, and
         gives the rows of all in that order. A piece ends where no run can have an earlier row: at the least of the last
         rows that the runs have at hand. `parts_in_pieces` gives parts of groups, some whole slices at a time
         (`operators/aggregate/parts.py`).
State    Two pieces of each run.
Limits   Where places have a `sequence`, the results of one instant are put in order together: they are all at hand then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from eddyline.operators.aggregate.parts import SLICE
from eddyline.runtime.engine.newest import PLACE, merged, ordering_columns
from eddyline.state.columns import Ints

Run = Iterator[pa.Table]


class _Hand:
    """What is at hand of a run."""

    def __init__(self, run: Run, place: int) -> None:
        self._run = run
        self._ahead = next(run, None)
        #: Among the runs: earlier ones are first where nothing else decides.
        self.place = place
        self.table: pa.Table | None = None

    @property
    def has_more(self) -> bool:
        return self._ahead is not None

    @property
    def rows(self) -> int:
        return 0 if self.table is None else len(self.table)

    def fill(self, more: bool = False) -> None:
        """Read the next piece where nothing is at hand, or anyway."""
        while self.has_more and (more or not self.rows):
            piece, self._ahead = self._ahead, next(self._run, None)
            if piece is not None and len(piece):
                whole = [t for t in (self.table, piece) if t is not None and len(t)]
                self.table = pa.concat_tables(whole, promote_options="default").combine_chunks()
                more = False

    def keys(self, within: str | None) -> tuple[Ints, Ints | None]:
        """What orders the rows: their times, and within one a column."""
        assert self.table is not None
        times = self.table.column("_ts").combine_chunks().view(pa.int64()).to_numpy()
        return times, None if within is None else self.table.column(within).to_numpy()

    def take(self, rows: int) -> pa.Table:
        assert self.table is not None
        found, self.table = self.table.slice(0, rows), self.table.slice(rows)
        return found


def merged_in_pieces(runs: Sequence[Run], placed: bool = False) -> Iterator[pa.Table]:
    """The rows of all runs in their order.

    Args:
        placed: With the columns that order them.
    """
    hands = [_Hand(run, place) for place, run in enumerate(runs)]
    while True:
        for hand in hands:
            hand.fill()
        hands = [hand for hand in hands if hand.rows]
        if not hands:
            return
        found = _next(hands)
        if found:
            yield merged(found, placed=placed)


def parts_in_pieces(runs: Sequence[Run]) -> Iterator[list[pa.Table]]:
    """Parts of groups from several shards: all parts of some groups at a time, by run."""
    hands = [_Hand(run, place) for place, run in enumerate(runs)]
    while True:
        for hand in hands:
            hand.fill()
        hands = [hand for hand in hands if hand.rows]
        if not hands:
            return
        keys = [hand.keys(SLICE) for hand in hands]
        lasts = [(int(times[-1]), int(slices[-1])) for times, slices in keys if slices is not None]
        ends = [last for hand, last in zip(hands, lasts, strict=True) if hand.has_more]
        if not ends:
            yield [hand.take(hand.rows) for hand in hands]
            continue
        # A run may have more of the slice in which its rows at hand end.
        counts = [_before(*key, 1, (*min(ends), 0)) for key in keys]
        if any(counts):
            yield [hand.take(count) for hand, count in zip(hands, counts, strict=True) if count]
            continue
        for hand, last in zip(hands, lasts, strict=True):
            if hand.has_more and last == min(ends):
                hand.fill(more=True)


def _next(hands: list[_Hand]) -> list[pa.Table]:
    """The rows that come before all that are not at hand yet, by run."""
    ordering = {name for hand in hands if hand.table is not None for name in ordering_columns(hand.table)}
    by_place = ordering == {PLACE} and all(PLACE in hand.table.column_names for hand in hands)  # type: ignore[union-attr]
    keys = [hand.keys(PLACE if by_place else None) for hand in hands]
    ends = [
        (int(times[-1]), 0 if places is None else int(places[-1]), hand.place)
        for hand, (times, places) in zip(hands, keys, strict=True)
        if hand.has_more
    ]
    if not ends:
        return [hand.take(hand.rows) for hand in hands]
    end = min(ends)
    if ordering - {PLACE}:
        counts = [int(np.searchsorted(times, end[0], "left")) for times, _ in keys]
        if not any(counts):
            # All that is at hand of some run is of one instant.
            for hand in hands:
                if hand.has_more and int(hand.keys(None)[0][-1]) == end[0]:
                    hand.fill(more=True)
    else:
        counts = [_before(*key, hand.place, end) for hand, key in zip(hands, keys, strict=True)]
    return [hand.take(count) for hand, count in zip(hands, counts, strict=True) if count]


def _before(times: Ints, places: Ints | None, run: int, end: tuple[int, int, int]) -> int:
    """How many rows of a run come before the end, or are it."""
    last, place, of_run = end
    side: Literal["left", "right"] = "right" if run <= of_run else "left"
    if places is None:
        return int(np.searchsorted(times, last, side))
    first, stop = int(np.searchsorted(times, last, "left")), int(np.searchsorted(times, last, "right"))
    return first + int(np.searchsorted(places[first:stop], place, side))
