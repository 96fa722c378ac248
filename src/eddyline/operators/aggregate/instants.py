"""EMIT EVERY: the changes of all instants of an epoch, computed together.

Answer   `changes_at` adds the combinations that come and removes those that leave, each at its instant, and gives the
         changelog of all instants as one table. One step per instant would give the same rows.

             (group, instant) rows ─► aggregates of all rows at once ─► HAVING, outputs

             ─► compared with the group's row before

State    None; the aggregation has the state of the last instant afterwards.
Limits   Instants ascend, and no combination leaves before it has come. Groups that are gone keep their codes until the
         last instant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.kernels.groups import history
from eddyline.kernels.order import merge_order, pick
from eddyline.operators.aggregate.accumulators.accumulators import Accumulator
from eddyline.operators.aggregate.accumulators.encoding import ALL
from eddyline.operators.aggregate.accumulators.following import Flow, LiveValues, Move, follow
from eddyline.operators.aggregate.aggregation import Aggregation, GroupView
from eddyline.operators.aggregate.contributions import Batch
from eddyline.operators.aggregate.expiry import Limit
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.expressions.vectors import Mask
from eddyline.state.columns import Ints
from eddyline.state.runs import run_begins

_NONE: Ints = np.empty(0, np.int64)


@dataclass(slots=True)
class DueInstants:
    """Which combinations leave, and when: per queue a limit or names, and a function from the keys that leave to the
    instants at which they do."""

    limits: list[Limit]
    instants: list[Callable[[Ints], Ints]]


def changes_at(
    aggregation: Aggregation, batch: Batch, when: Ints, due: DueInstants, opening: int | None, issues: Issues
) -> pa.Table | None:
    """`when` are the instants of the batch's combinations, ascending; at `opening` there may be changes without them."""
    codes, slots = aggregation.place(batch)
    leaving, left_when = _leaving(aggregation, due)
    instants = _merged(when, left_when)
    if opening is not None:
        instants = _merged(np.array([opening]), instants)
    if not len(instants):
        return None
    came_ends = np.searchsorted(when, instants, side="right")
    left_ends = np.searchsorted(left_when, instants, side="right")
    held = aggregation.contributions
    left_codes = _NONE if held is None else held.codes[leaving]
    before, latest = aggregation.touched.take(), aggregation.latest_rows
    rows = history.Instants(*history.touched_rows(before, codes, came_ends, left_codes, left_ends, latest))
    touched = np.unique(rows.codes)
    latest[touched] = -1
    aggregation.note(touched)
    coming = history.ContributionMoves(codes, codes, ALL, came_ends)
    going = history.ContributionMoves(left_codes, left_codes, ALL, left_ends)
    totals = history.follow_counts(aggregation.totals, coming, going, rows)
    kept: list[Accumulator] = []
    for family, accumulator in zip(aggregation.layout.families, aggregation.accumulators, strict=True):
        at = family.argument
        came = Flow(codes, slots, batch.encoded[at], batch.valid[at], came_ends)
        encoded, valid = (_NONE, ALL) if held is None else (held.encoded[at], held.valid_at(at, leaving))
        left = Flow(left_codes, leaving, encoded[leaving], valid, left_ends)
        live = None if held is None else _live(aggregation, at, came, left)
        kept.append(follow(accumulator, Move(came, left, rows, encoded, aggregation.capacity, live)))
    if held is not None:
        held.drop(leaving)
    if aggregation.groups is not None and aggregation.config.having is None:
        gone = touched[(aggregation.totals[touched] == 0) & ~aggregation.emitted.present[touched]]
        aggregation.unseen += int((~np.isin(gone, rows.codes[totals > 0])).sum())
    table = _changelog(aggregation, rows, totals, kept, instants, issues)
    aggregation.release(touched[aggregation.totals[touched] == 0])
    return table


def _merged(a: Ints, b: Ints) -> Ints:
    """The instants of two ascending arrays, each once, ascending."""
    both: Ints = pick(a, b, merge_order(a, b))
    return both[run_begins(both)]


def _leaving(aggregation: Aggregation, due: DueInstants) -> tuple[Ints, Ints]:
    """The slots of the combinations that leave, and the instants at which they do, in that order."""
    if aggregation.contributions is None:
        return _NONE, _NONE
    return aggregation.contributions.leaving_at(due.limits, due.instants)


def _live(aggregation: Aggregation, argument: int, came: Flow, left: Flow) -> LiveValues:
    """The live values of an argument at an instant; the aggregation holds all contributions that come and leave."""
    held = aggregation.contributions
    assert held is not None

    def values(instant: int, wanted: Mask) -> tuple[Ints, Ints, Mask]:
        here = np.zeros(held.capacity, np.bool_)
        here[held.live()] = True
        here[came.slots[came.ends[instant] :]] = False
        here[left.slots[: left.ends[instant]]] = False
        slots = np.flatnonzero(here)
        slots = slots[wanted[held.codes[slots]]]
        return held.codes[slots], held.encoded[argument][slots], held.valid_at(argument, slots)

    return values


def _changelog(
    aggregation: Aggregation,
    rows: history.Instants,
    totals: Ints,
    kept: Sequence[Accumulator],
    instants: Ints,
    issues: Issues,
) -> pa.Table | None:
    """The rows whose groups have another value than before."""
    alive = totals > 0 if aggregation.groups is not None else np.ones(len(totals), np.bool_)
    stays, outputs = aggregation.outputs(GroupView(rows.codes, np.arange(len(rows.codes)), totals, kept), alive, issues)
    kinds = [e.type for e in aggregation.computed]
    was_there, changed = aggregation.emitted.put(rows.codes, stays, outputs, kinds, aggregation.encoder)
    gone = was_there & ~stays
    chosen = np.flatnonzero(gone | changed)
    if not len(chosen):
        return None
    instant_of = np.repeat(np.arange(len(instants)), np.diff(rows.ends, prepend=0))
    # At each instant the groups that are gone come first.
    chosen = chosen[np.argsort(2 * instant_of[chosen] + changed[chosen], kind="stable")]
    if not changed.all():
        taken = pa.array((np.cumsum(stays) - 1)[chosen], mask=gone[chosen])
        outputs = [output.take(taken) for output in outputs]
    return aggregation.table(rows.codes[chosen], outputs, gone[chosen], instants[instant_of[chosen]])
