"""Accumulators moved over many instants at once, with the state that changed groups have after each.

Answer   `follow` applies the contributions that come and leave to an accumulator, in the order of instants. It returns
         an accumulator whose groups are (instant, group) pairs, one per group that changes at an instant: a read of it
         gives the aggregates of all instants together.
State    None; accumulators are changed as by `add` and `retract` at each instant, to the last bit.
Limits   Where a sum has lost digits at an instant, the live values of that instant are summed anew, as between two
         epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.kernels.groups import history
from eddyline.operators.aggregate.accumulators import accumulators as kinds
from eddyline.operators.aggregate.accumulators.accumulators import Accumulator, Distinct, LastingExtreme
from eddyline.operators.aggregate.accumulators.collected import Collected, LiveQuantiles, follow_each
from eddyline.operators.aggregate.accumulators.encoding import ALL, grown
from eddyline.operators.aggregate.accumulators.sketches import Sketches
from eddyline.operators.expressions.vectors import Mask
from eddyline.state.columns import Ints

#: Gives the live values at an instant of the groups in a mask: codes, encoded values, validity.
LiveValues = Callable[[int, Mask], tuple[Ints, Ints, Mask]]


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


@dataclass(frozen=True, slots=True)
class Move:
    """What one accumulator is moved by: contributions that come and leave, and the groups that change at each
    instant."""

    came: Flow
    left: Flow
    rows: history.Instants
    #: The encoded values of all contributions, by slot.
    held: Ints
    #: All codes of groups are below.
    groups: int
    #: None: no contribution ever leaves.
    live: LiveValues | None

    def changed(self, instant: int) -> Ints:
        """The groups that change at an instant."""
        ends = self.rows.ends
        codes: Ints = self.rows.codes[ends[instant - 1] if instant else 0 : ends[instant]]
        return codes


def follow(kept: Accumulator, move: Move) -> Accumulator:
    """An accumulator whose groups are the rows of a move, after `kept` has been moved."""
    return next(follower for kind, follower in _FOLLOWERS if isinstance(kept, kind))(kept, move)


def _tally(kept: kinds.Tally, move: Move) -> kinds.Tally:
    found = kinds.Tally()
    coming, leaving = (flow.moves(flow.encoded) for flow in (move.came, move.left))
    found.counts = history.follow_counts(kept.counts, coming, leaving, move.rows)
    return found


def _each(kept: Accumulator, move: Move) -> Accumulator:
    """One instant after the other, for accumulators that read all values of a group."""

    def apply(instant: int) -> None:
        for flow, sign in ((move.came, 1), (move.left, -1)):
            part = slice(int(flow.ends[instant - 1]) if instant else 0, int(flow.ends[instant]))
            kept.change(flow.codes[part], flow.encoded[part], flow.valid[part] if len(flow.valid) else ALL, sign)
        if move.live is not None:
            kept.renew(move.changed(instant), partial(move.live, instant), move.groups)

    return follow_each(kept, move.rows.ends, move.rows.codes, apply)


def _floats(kept: kinds.FloatSums, move: Move) -> kinds.FloatSums:
    found = kinds.FloatSums("squares" in kept.by_group, kept.kind, kept.encoder)
    found.reserve(len(move.rows.codes))
    coming, leaving = (flow.moves(kept.doubles(flow.encoded)) for flow in (move.came, move.left))
    by_row = history.FloatSumArrays(found.sums, found.squares, found.tallies)
    at, renewed, live = 0, False, move.live
    while True:
        by_group = history.FloatSumArrays(kept.sums, kept.squares, kept.tallies)
        at = history.follow_floats(coming, leaving, move.rows, at, renewed, live is not None, by_group, by_row)
        if at == len(move.rows.ends) or live is None:
            return found
        kept.renew(move.changed(at), partial(live, at), move.groups)
        renewed = True


def _whole(kept: kinds.WholeSums, move: Move) -> kinds.WholeSums:
    found = kept.empty()
    found.reserve(len(move.rows.codes))
    coming, leaving = (
        history.WideMoves(flow.codes, *kept.halves(flow.encoded), flow.valid, flow.ends)
        for flow in (move.came, move.left)
    )
    by_group, by_row = (history.WholeSumArrays(sums.sums, sums.tallies) for sums in (kept, found))
    history.follow_whole(coming, leaving, move.rows, by_group, by_row)
    return found


def _heaps(kept: kinds.Extreme, move: Move) -> LastingExtreme:
    found = LastingExtreme(kept.largest, kept.kind, kept.encoder)
    found.reserve(len(move.rows.codes))
    kept.held, kept.links = move.held, grown(kept.links, len(move.held))
    heaps, by_row = history.Heaps(kept.roots, kept.held, kept.links), history.Extremes(found.extremes, found.known)
    coming, leaving = (flow.moves(flow.slots) for flow in (move.came, move.left))
    history.follow_heaps(heaps, coming, leaving, move.rows, by_row, kept.largest, kept.encoder.texts(kept.kind))
    return found


def _best(kept: LastingExtreme, move: Move) -> LastingExtreme:
    found = LastingExtreme(kept.largest, kept.kind, kept.encoder)
    found.reserve(len(move.rows.codes))
    by_group, by_row = history.Extremes(kept.extremes, kept.known), history.Extremes(found.extremes, found.known)
    coming, texts = move.came.moves(move.came.encoded), kept.encoder.texts(kept.kind)
    history.follow_best(coming, move.rows, by_group, by_row, kept.largest, texts)
    return found


def _distinct(kept: Distinct, move: Move) -> Accumulator:
    came, left = (flow.where(flow.valid) if len(flow.valid) else flow for flow in (move.came, move.left))
    entered = kept.values.codes(np.stack([came.codes, came.encoded], axis=1))
    kept.counts = grown(kept.counts, kept.values.capacity)
    leaving = kept.values.find(np.stack([left.codes, left.encoded], axis=1))
    both = np.unique(np.concatenate([entered, leaving]))
    were = kept.counts[both] > 0
    first, last = history.follow_distinct(kept.counts, entered, came.ends, leaving, left.ends)
    are = kept.counts[both] > 0
    kept.link(both[are & ~were])
    kept.unlink(both[were & ~are])
    kept.values.release(history.no_longer_counted(kept.counts, leaving))
    live = None if move.live is None else partial(_distinct_values, move.live)
    return follow(kept.inner, replace(move, came=came.where(first), left=left.where(last), live=live))


def _distinct_values(live: LiveValues, instant: int, wanted: Mask) -> tuple[Ints, Ints, Mask]:
    """Of the live values of an instant each value of a group once."""
    codes, encoded, valid = live(instant, wanted)
    pairs = np.stack([codes, encoded], axis=1)
    pairs = np.unique(pairs[valid] if len(valid) else pairs, axis=0)
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]), ALL


#: Per kind of accumulator the function that moves it; of `Collected`, which is a `Distinct`, the first one.
_FOLLOWERS: tuple[tuple[Any, Callable[[Any, Move], Accumulator]], ...] = (
    (Collected | LiveQuantiles | Sketches, _each),
    (Distinct, _distinct),
    (kinds.FloatSums, _floats),
    (kinds.WholeSums, _whole),
    (kinds.Extreme, _heaps),
    (LastingExtreme, _best),
    (kinds.Tally, _tally),
)
