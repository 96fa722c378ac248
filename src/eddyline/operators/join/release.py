"""A shared window join worked off strip by strip, each window's results released as soon as they are complete.

Answer   `run` gives the same combinations as the node alone, in portions: those of one batch of new rows for one level of
         windows, as soon as the batch has been through all strips up to that window. Per level the portions come in
         total order.

             batch 1   strip 1 ─► level 1      strip 2 ─► level 2          the scheduler says which (batch, strip) is next
             batch 2            strip 1 ─► level 1      strip 2 ─► level 2

State    Within one step only: where each new row stands in its hash chain, and what its strips have given so far (the
         output buffer). Between steps there is nothing.
Limits   One binary node over two streams, whose members' windows form a chain: who reaches further back in one stream does
         not reach less far in the other, and each stream is measured by time or by rows throughout. Windows are put
         together into at most `MOST_LEVELS` levels. A batch is released as a whole: its rows would lose their order otherwise.
Reading  docs/operators/scheduling.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter

import numpy as np

from eddyline.kernels import schedule as kernels
from eddyline.model.window import FOREVER, Range, Rows, Window
from eddyline.operators.join.combination import POSITION_BITS, Combinations, in_order
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.node import JoinNode, RowsSeen, Step
from eddyline.operators.join.schedule_queues import SchedulingQueues
from eddyline.operators.join.schedulers import Scheduler, scheduler
from eddyline.operators.keys import combined
from eddyline.state.columns import Ints

MOST_LEVELS = 8
#: A step of fewer new rows is over before a schedule would help.
LEAST_ROWS = 256
#: New rows are cut into at most so many batches, of at least so many rows and so much work (stored rows visited, eight for
#: each result): a strip of less costs more to begin than to probe.
_BATCHES = 8
_LEAST_BATCH = 128
_WORK_PER_BATCH = 1 << 20
#: What handing out the results of a window costs, over looking at its rows: by hash and by nested loop, where few rows looked
#: at are results, and each costs less.
_HANDING_OUT, _HANDING_OUT_LOOP = 0.5, 0.02
_LOOKS = 8


@dataclass(frozen=True)
class Level:
    """Members that are served together: their slots, and the largest of their windows in each of the two streams."""

    slots: tuple[int, ...]
    sizes: tuple[int, int]


@dataclass(frozen=True)
class Portion:
    """Complete results of one batch for the members of one level, in total order."""

    slots: tuple[int, ...]
    rows: Combinations
    #: The level of the largest windows: its portions together are everything.
    last: bool


@dataclass(slots=True)
class _Origin:
    """New rows of one input on their way through the strips of the other."""

    number: int
    rows: Combinations
    step: Step
    hashes: Ints
    limits: Ints
    cursor: Ints
    measure: Ints
    age: str
    #: Where each batch begins, and the end.
    bounds: Ints


class SharedSchedule:
    """How one group is worked off; made anew when a query comes or goes."""

    def __init__(self, group: JoinGroup, levels: tuple[Level, ...], name: str) -> None:
        assert isinstance(group.root, JoinNode)
        self.group = group
        self.node = group.root
        self.inputs = [one for one in self.node.inputs if isinstance(one, StreamInput)]
        self.levels = levels
        self.scheduler: Scheduler = scheduler(name, self._costs(levels), [len(level.slots) for level in levels])
        #: Rows so far, stored rows that they visited (of a nested loop's looks one in eight), their results for all windows together.
        self._rows = self._visited = self._results = 0
        self.counted = [bool(one.port.most_rows) for one in self.inputs]

    def _costs(self, levels: tuple[Level, ...]) -> list[float]:
        """What it costs to serve the windows one after the other: each adds a strip to look at, and all its results to hand out."""
        lengths = np.array(_lengths(levels))
        out = _HANDING_OUT_LOOP if self.node.loop else _HANDING_OUT
        costs: list[float] = np.cumsum(np.diff(lengths, prepend=0.0) + out * lengths).tolist()
        return costs

    def run(self, fresh: Mapping[str, tuple[int, int]], rows_seen: RowsSeen) -> Iterator[Portion]:
        began = perf_counter()
        origins = [o for number in (0, 1) if (o := self._origin(number, fresh, rows_seen)) is not None]
        stamps = np.sort(np.concatenate([o.rows.stamp for o in origins])) if origins else np.empty(0, np.int64)
        if not len(stamps):
            return
        starts = np.arange(0, len(stamps), self._batch(len(stamps)))
        for origin in origins:
            origin.bounds = np.append(np.searchsorted(origin.rows.stamp, stamps[starts]), len(origin.rows))
        ranks = np.append(stamps[starts] >> POSITION_BITS, (stamps[-1] >> POSITION_BITS) + 1)
        held: list[list[list[Combinations]]] = [[[] for _ in origins] for _ in starts]
        for batch, level in (queues := SchedulingQueues(self.scheduler, len(starts))).drain():
            for place, origin in enumerate(origins):
                made = self._strip(origin, batch, level, rows_seen)
                if made is not None:
                    held[batch][place].append(made)
            pieces = [piece for pieces in held[batch] for piece in pieces]
            last = level + 1 == len(self.levels)
            if last:
                held[batch] = []
            self.node.counters.seconds += perf_counter() - began
            if pieces:
                lowest = int(ranks[batch])
                yield Portion(self.levels[level].slots, in_order(pieces, lowest, int(ranks[batch + 1]) - lowest + 1), last)
                self._results += sum(len(piece) for piece in pieces)
            began = perf_counter()
        self._rows += len(stamps)
        assert not queues.done[0] - queues.done[-1], "every batch has been through every window"

    def _batch(self, rows: int) -> int:
        """How many rows go together, by how much work a row has been so far; the first ones in two batches."""
        per_row = (self._visited + 8 * self._results) / self._rows if self._rows else 2 * _WORK_PER_BATCH / rows
        batches = max(1, min(_BATCHES, int(rows * per_row / _WORK_PER_BATCH)))
        return max(_LEAST_BATCH, -(-rows // batches))

    def _origin(self, number: int, fresh: Mapping[str, tuple[int, int]], rows_seen: RowsSeen) -> _Origin | None:
        mine, other = self.inputs[number], self.inputs[1 - number]
        if mine.port.source not in fresh:
            return None
        node = self.node
        rows = mine.fresh(*fresh[mine.port.source])
        node.counters.rows_in += len(rows)
        rows = node.policy.admit(node, number, rows)
        node.counters.probes += len(rows)
        step = node.steps(number, node.policy.route(node, number))[0]
        limits = other.limits(rows.stamp)
        hashes = combined([node.bases[r].store.at(key, rows.ids[r]) for r, key in step.probe_keys]) if step.probe_keys else limits
        if step.index is None or node.loop:
            cursor = other.store.first + np.searchsorted(other.store.mark(other.order), limits) - 1
        else:
            cursor = kernels.first_rows(hashes, other.store.indexes[step.index].heads)
        counted = self.counted[1 - number]
        measure = rows_seen(other.port.position, rows.rank) if counted else rows.clock
        return _Origin(number, rows, step, hashes, limits, cursor, measure, "num" if counted else "ts", limits[:0])

    def _strip(self, origin: _Origin, batch: int, level: int, rows_seen: RowsSeen) -> Combinations | None:
        begin, stop = int(origin.bounds[batch]), int(origin.bounds[batch + 1])
        if begin == stop:
            return None
        node, step, part = self.node, origin.step, slice(begin, stop)
        other = self.inputs[1 - origin.number]
        store = other.store
        floors = origin.measure[part] - self.levels[level].sizes[1 - origin.number]
        hashes, limits, cursor = origin.hashes[part], origin.limits[part], origin.cursor[part]
        order, age = store.marks[other.order], store.marks[origin.age]
        if step.index is None or node.loop:
            keys = store.marks[step.index] if step.index is not None else order
            left, right, visited = kernels.scan_strip(
                hashes, limits, floors, cursor, step.index is not None, keys, order, age, store.base, store.first
            )
        else:
            index = store.indexes[step.index]
            left, right, visited = kernels.probe_strip(
                hashes, limits, floors, cursor, index.back, index.keys, order, age, store.base, store.first
            )
        node.counters.visited += int(visited)
        self._visited += int(visited) // (_LOOKS if node.loop else 1)
        if not len(left):
            return None
        made = node._join(origin.rows, left + begin, right, step, rows_seen, False)
        node.policy.observed(node, origin.number, step.input, stop - begin, len(made))
        node.counters.rows_out += len(made)
        return made if len(made) else None


def shared_schedule(group: JoinGroup, name: str) -> SharedSchedule | None:
    """How to work off a group with several windows; None: there is nothing to choose, or not by strips."""
    if len(group.nodes) != 1 or not isinstance(group.root, JoinNode) or len(group.root.inputs) != 2:
        return None
    inputs = group.root.inputs
    if not all(isinstance(one, StreamInput) and not one.stream.is_table for one in inputs):
        return None
    sides = []
    for one in inputs:
        assert isinstance(one, StreamInput)
        members = one.port.members
        if len({isinstance(m.window, Rows) for m in members.values()}) > 1:
            return None
        sides.append({slot: _size(m.window) for slot, m in members.items()})
    chain = sorted({(sides[0][slot], sides[1][slot]) for slot in sides[0]})
    if len(chain) < 2 or any(a[1] > b[1] for a, b in pairwise(chain)):
        return None
    # Too many windows are put together from the largest down, each level about as full as the others.
    groups = np.array_split(np.arange(len(chain)), min(len(chain), MOST_LEVELS))
    levels = []
    for together in groups:
        windows = {chain[i] for i in together}
        slots = tuple(slot for slot in sides[0] if (sides[0][slot], sides[1][slot]) in windows)
        levels.append(Level(slots, chain[together[-1]]))
    return SharedSchedule(group, tuple(levels), name)


def _size(window: Window | None) -> int:
    if isinstance(window, Rows):
        return window.count
    return window.micros if isinstance(window, Range) else FOREVER


def _lengths(levels: tuple[Level, ...]) -> list[float]:
    """What a window costs to scan, of both streams together, each measured by its largest finite window."""
    lengths = np.zeros(len(levels))
    for side in (0, 1):
        sizes = np.array([level.sizes[side] for level in levels], np.float64)
        finite = sizes[sizes < FOREVER]
        most = max(float(finite.max()), 1.0) if len(finite) else 1.0
        lengths += np.minimum(sizes / most, 2.0)
    return [float(length) for length in lengths]
