"""Accumulators moved over many instants at once: what they hold after each, for the groups that something happens to
then.

Answer   `follow` applies what comes and leaves to an accumulator, in the order of instants, and gives an accumulator
         whose groups are the rows of `GroupInstants`: (instant, group) pairs. Reading it gives the aggregates of all
         instants together.
State    None; accumulators are changed as by `add` and `retract` at each instant, to the last bit.
Limits   Where a sum has lost digits at an instant, the live values of that instant are summed anew, as between two
         epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.kernels.groups import history
from eddyline.operators.aggregate.accumulators.accumulators import (
    Accumulator,
    Distinct,
    Extreme,
    FloatSums,
    LastingExtreme,
    Tally,
    WholeSums,
)
from eddyline.operators.aggregate.accumulators.collected import Collected, LiveQuantiles, follow_each
from eddyline.operators.aggregate.accumulators.encoding import ALL, grown
from eddyline.operators.aggregate.accumulators.sketches import Sketches
from eddyline.operators.expressions.vectors import Mask
from eddyline.state.columns import Ints

#: The live values of the groups in a mask: codes, encoded values, validity.
Values = Callable[[Mask], tuple[Ints, Ints, Mask]]


@dataclass(slots=True)
class Flow:
    """Contributions that come, or that leave, in the order of instants, with the encoded values of one argument."""

    codes: Ints
    slots: Ints
    encoded: Ints
    valid: Mask
    #: Where those of each instant end.
    ends: Ints

    def moves(self, values: npt.NDArray[np.generic]) -> history.ContributionMoves:
        """The contributions for a kernel, with these values."""
        return history.ContributionMoves(self.codes, values, self.valid, self.ends)

    def where(self, chosen: Mask) -> Flow:
        """Some of them, all with a value."""
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(chosen)])
        slots = self.slots[chosen] if len(self.slots) else self.slots
        return Flow(self.codes[chosen], slots, self.encoded[chosen], ALL, before[self.ends])


@dataclass(slots=True)
class GroupInstants:
    """Groups to which something happens, instant by instant."""

    codes: Ints
    ends: Ints

    @property
    def instants(self) -> history.Instants:
        return history.Instants(self.codes, self.ends)


def follow(
    kept: Accumulator,
    came: Flow,
    left: Flow,
    rows: GroupInstants,
    held: Ints,
    groups: int,
    live: Callable[[int], Values] | None,
) -> Accumulator:
    """`held`: the encoded values of all contributions by slot; `live` gives the live values at an instant, None where
    nothing ever leaves."""
    if isinstance(kept, Collected | LiveQuantiles | Sketches):
        return _each(kept, came, left, rows, groups, live)
    if isinstance(kept, Distinct):
        return _distinct(kept, came, left, rows, held, groups, live)
    if isinstance(kept, FloatSums):
        return _floats(kept, came, left, rows, groups, live)
    if isinstance(kept, WholeSums):
        return _whole(kept, came, left, rows)
    if isinstance(kept, Extreme):
        return _heaps(kept, came, left, rows, held)
    if isinstance(kept, LastingExtreme):
        return _best(kept, came, rows)
    assert isinstance(kept, Tally)
    found = Tally()
    found.counts = history.follow_counts(kept.counts, came.moves(came.encoded), left.moves(left.encoded), rows.instants)
    return found


def _each(
    kept: Accumulator, came: Flow, left: Flow, rows: GroupInstants, groups: int, live: Callable[[int], Values] | None
) -> Accumulator:
    """One instant after the other, for accumulators that read all values of a group."""

    def apply(instant: int) -> None:
        for flow, sign in ((came, 1), (left, -1)):
            part = slice(int(flow.ends[instant - 1]) if instant else 0, int(flow.ends[instant]))
            kept.change(flow.codes[part], flow.encoded[part], flow.valid[part] if len(flow.valid) else ALL, sign)
        if live is not None:
            kept.renew(
                rows.codes[int(rows.ends[instant - 1]) if instant else 0 : int(rows.ends[instant])],
                live(instant),
                groups,
            )

    return follow_each(kept, rows.ends, rows.codes, apply)


def _floats(
    kept: FloatSums, came: Flow, left: Flow, rows: GroupInstants, groups: int, live: Callable[[int], Values] | None
) -> FloatSums:
    found = FloatSums("squares" in kept.by_group, kept.kind, kept.encoder)
    found.reserve(len(rows.codes))
    coming, leaving = came.moves(kept.doubles(came.encoded)), left.moves(kept.doubles(left.encoded))
    by_row = history.FloatSumArrays(found.sums, found.squares, found.tallies)
    at, renewed = 0, False
    while True:
        by_group = history.FloatSumArrays(kept.sums, kept.squares, kept.tallies)
        at = history.follow_floats(coming, leaving, rows.instants, at, renewed, live is not None, by_group, by_row)
        if at == len(rows.ends) or live is None:
            return found
        codes = rows.codes[rows.ends[at - 1] if at else 0 : rows.ends[at]]
        kept.renew(codes, live(at), groups)
        renewed = True


def _whole(kept: WholeSums, came: Flow, left: Flow, rows: GroupInstants) -> WholeSums:
    found = kept.empty()
    found.reserve(len(rows.codes))
    coming = history.WideMoves(came.codes, *kept.halves(came.encoded), came.valid, came.ends)
    leaving = history.WideMoves(left.codes, *kept.halves(left.encoded), left.valid, left.ends)
    by_group, by_row = (
        history.WholeSumArrays(kept.sums, kept.tallies),
        history.WholeSumArrays(found.sums, found.tallies),
    )
    history.follow_whole(coming, leaving, rows.instants, by_group, by_row)
    return found


def _heaps(kept: Extreme, came: Flow, left: Flow, rows: GroupInstants, held: Ints) -> LastingExtreme:
    found = LastingExtreme(kept.largest, kept.kind, kept.encoder)
    found.reserve(len(rows.codes))
    kept.held, kept.links = held, grown(kept.links, len(held))
    heaps, by_row = history.Heaps(kept.roots, held, kept.links), history.Extremes(found.extremes, found.known)
    coming, leaving = came.moves(came.slots), left.moves(left.slots)
    history.follow_heaps(heaps, coming, leaving, rows.instants, by_row, kept.largest, kept.encoder.texts(kept.kind))
    return found


def _best(kept: LastingExtreme, came: Flow, rows: GroupInstants) -> LastingExtreme:
    found = LastingExtreme(kept.largest, kept.kind, kept.encoder)
    found.reserve(len(rows.codes))
    by_group, by_row = history.Extremes(kept.extremes, kept.known), history.Extremes(found.extremes, found.known)
    history.follow_best(
        came.moves(came.encoded), rows.instants, by_group, by_row, kept.largest, kept.encoder.texts(kept.kind)
    )
    return found


def _distinct(
    kept: Distinct,
    came: Flow,
    left: Flow,
    rows: GroupInstants,
    held: Ints,
    groups: int,
    live: Callable[[int], Values] | None,
) -> Accumulator:
    came, left = (flow.where(flow.valid) if len(flow.valid) else flow for flow in (came, left))
    entered = kept.values.codes(np.stack([came.codes, came.encoded], axis=1))
    kept.counts = grown(kept.counts, kept.values.capacity)
    leaving = kept.values.find(np.stack([left.codes, left.encoded], axis=1))
    first, last = history.follow_distinct(kept.counts, entered, came.ends, leaving, left.ends)
    kept.values.release(history.no_longer_counted(kept.counts, leaving))
    distinct = None if live is None else _distinct_values(live)
    return follow(kept.inner, came.where(first), left.where(last), rows, held, groups, distinct)


def _distinct_values(live: Callable[[int], Values]) -> Callable[[int], Values]:
    def at(instant: int) -> Values:
        def values(wanted: Mask) -> tuple[Ints, Ints, Mask]:
            codes, encoded, valid = live(instant)(wanted)
            pairs = np.stack([codes, encoded], axis=1)
            pairs = np.unique(pairs[valid] if len(valid) else pairs, axis=0)
            return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]), ALL

        return values

    return at
