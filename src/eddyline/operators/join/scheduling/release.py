"""A shared window join worked off strip by strip, each window's results released as soon as they are complete.

Answer   `run` gives the same combinations as the node alone, in portions. A portion has the combinations of some
         batches of new rows for one level of windows. It leaves as soon as the batches have been through all strips up
         to that window. Per level the portions come in total order.

             batch 1   strip 1 ─► level 1      strip 2 ─► level 2          the scheduler chooses the next
             batch 2            strip 1 ─► level 1      strip 2 ─► level 2    (batch, strip)

State    Within one step: the place of each new row in its chain or scan, and what it has found so far (the output
buffer). Between steps
         only what serving a window has cost, for the scheduler.
Limits   One binary node over two streams, whose members' windows form a chain: a member that reaches further back in
         one stream does not reach less far in the other. Each stream is measured by time or by rows throughout.
         Windows are put together into at most `most_levels` levels. Batches are released as a whole: their rows would
         lose their order otherwise. Where every member wants every pair of its window, results are laid out straight
         from the output buffer; otherwise (filters, a member that has just come, conditions to verify) as combinations
         with lineage.
Reading  docs/operators/scheduling.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from time import perf_counter

import numpy as np

from eddyline.kernels.joins import strips as kernels
from eddyline.model.window import FOREVER, Range, Rows, Window
from eddyline.operators.join.combination import POSITION_BITS, Combinations, in_order
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.join_slice import JoinSlice
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import Portion, Schedule
from eddyline.operators.join.probing.modes import Modes, Pairs
from eddyline.operators.join.scheduling.costs import WindowCosts
from eddyline.operators.join.scheduling.queues import ScheduledWork, SchedulingQueues
from eddyline.operators.join.scheduling.schedulers import scheduler
from eddyline.operators.join.scheduling.strips import Origin, OutputBuffer, StripRuns
from eddyline.state.columns import Ints
from eddyline.state.renumbering import Renumbering
from eddyline.tuning import Tuning


@dataclass(frozen=True)
class WindowLevel:
    """Members that are served together: their slots, and the largest of their windows in each of the two streams."""

    slots: tuple[int, ...]
    sizes: tuple[int, int]
    #: All its members have the same windows.
    is_one_window: bool = True


@dataclass(slots=True)
class _Rows:
    """The new rows of both inputs in total order: which of the inputs each belongs to and its id there, what it has
    found, and where
    each batch begins."""

    origins: tuple[Origin, Origin]
    of: Ints
    stamps: Ints
    clocks: Ints
    own: Ints
    runs: StripRuns
    bounds: Ints


class SharedSchedule(Schedule):
    """How one group is worked off; made anew when a query comes or goes."""

    def __init__(self, group: JoinGroup, levels: tuple[WindowLevel, ...], name: str, tuning: Tuning) -> None:
        assert isinstance(group.root, JoinNode)
        self.tuning = tuning.scheduling
        self.node = group.root
        self.inputs = [one for one in self.node.inputs if isinstance(one, StreamInput)]
        self.levels = levels
        self.name = name
        self.queries = [len(level.slots) for level in levels]
        self.costs = WindowCosts(_lengths(levels), self.queries)
        self.buffer = OutputBuffer(tuning.sharing.least_room)
        #: Made anew after every epoch, from what windows have cost.
        self.scheduler = scheduler(name, self.costs.windows, self.queries)
        self.counted = [bool(one.port.most_rows) for one in self.inputs]
        #: Whether results of the last slice were laid out straight from the output buffer.
        self.is_plain = True
        #: Per input, the stored rows below this id are wanted by every member.
        self._wanted_below = [0, 0]
        self._releases = [one.port.releases for one in self.inputs]

    def run(self, join_slice: JoinSlice, now: Callable[[], float], worked: Callable[[], None]) -> Iterator[Portion]:
        began = perf_counter()
        rows = self._rows(join_slice)
        if not len(rows.stamps):
            return
        plain = self.is_plain = self._is_plain(rows)
        rows.bounds = self._batches(len(rows.stamps), plain)
        for origin in rows.origins:
            origin.bounds = np.append(
                np.searchsorted(origin.rows.stamp, rows.stamps[rows.bounds[:-1]]), len(origin.rows)
            )
        queues = SchedulingQueues(self.scheduler, len(rows.bounds) - 1)
        held: dict[tuple[int, int], list[Combinations]] = {}
        self.buffer.used = 0
        need = self.costs.need(len(rows.stamps)) if plain else np.zeros((len(self.levels), len(self.levels) + 1))
        for unit in queues.units(rows.bounds, need):
            since = now()
            before = self.buffer.used
            visited = self._find(rows, unit) if plain else self._find_and_verify(rows, unit, held)
            worked()
            ticks = [since, now()]
            for portion in self._portions(rows, unit, None if plain else held):
                if portion is not None:
                    self.node.counters.seconds += perf_counter() - began
                    yield portion
                    began = perf_counter()
                ticks.append(now())
            looking, *handing = np.diff(ticks).tolist()
            if unit.high == len(self.levels):
                # These rows have been through every window: their runs are not needed any more.
                self.buffer.used = before
            taken = int(rows.bounds[unit.stop] - rows.bounds[unit.first])
            self.costs.note(unit.low, taken, looking, visited, handing)
        self.costs.end_epoch(len(rows.stamps))
        self.scheduler = scheduler(self.name, self.costs.windows, self.queries, self.costs.again)
        self.node.counters.seconds += perf_counter() - began
        assert not queues.done[0] - queues.done[-1], "every batch has been through every window"

    def _rows(self, join_slice: JoinSlice) -> _Rows:
        node, origins = self.node, []
        fresh = node.admitted([mine.fresh(*join_slice.range_of(mine.port.source)) for mine in self.inputs], join_slice)
        for number, rows in enumerate(fresh):
            # There is one other input, hence one order.
            step = node.steps(number, node.orders[number])[0]
            rows = self.inputs[number].fresh(0, 0) if rows is None else rows
            probe, modes = node.modes(replace(node.probe(number, 0, True, step, rows, join_slice), takes_pairs=False))
            node.counters.probes += len(probe.rows)
            sizes = np.array([level.sizes[1 - number] for level in self.levels], np.int64)
            origins.append(
                Origin.of(
                    node, number, probe, modes, sizes, self.counted[1 - number], self.buffer, self.tuning.small_window
                )
            )
        a, b = origins
        of, stamps, clocks, own, a.place, b.place = kernels.merged(
            a.rows.stamp, b.rows.stamp, a.rows.clock, b.rows.clock, a.own, b.own
        )
        return _Rows((a, b), of, stamps, clocks, own, StripRuns.of(len(of), len(self.levels)), stamps[:0])

    def _is_plain(self, rows: _Rows) -> bool:
        """Whether every member wants every pair of its window."""
        if not all(level.is_one_window for level in self.levels):
            return False
        for origin in rows.origins:
            port, store = self.inputs[origin.number].port, self.inputs[origin.number].store
            if origin.step.verify or origin.step.conditions or (origin.scans and origin.partner.store.dropped):
                return False
            if origin.modes is not None and (origin.modes.grid or origin.modes.sift):
                return False
            if port.releases != self._releases[origin.number]:
                self._releases[origin.number], self._wanted_below[origin.number] = port.releases, 0
            if port.stores_lineage:
                # Lineage changes when a query comes or goes, and then there is another schedule, or when the port
                # releases rows.
                begin = max(store.first, self._wanted_below[origin.number]) - store.base
                lineage = store.columns[port.lineage_column][begin : store.end - store.base]
                if not kernels.are_all(lineage.reshape(-1, port.width), port.full()):
                    return False
                self._wanted_below[origin.number] = store.end
        return True

    def _batches(self, rows: int, plain: bool) -> Ints:
        """Where batches begin, and the end: many that may go together, or as many as are worth their price."""
        most = min(self.tuning.most_batches if plain else self.tuning.most_apart, rows // self.tuning.least_batch)
        if not plain:
            most = min(most, int(rows / max(self.costs.need(rows)[0, -1], 1.0)))
        size = -(-rows // max(most, 1))
        return np.append(np.arange(0, rows, size), rows)

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a stream have new ids: its lineage is read again."""
        for number, one in enumerate(self.inputs):
            if one.store is old_to_new.store:
                self._wanted_below[number] = 0

    # -- finding pairs

    def _find(self, rows: _Rows, unit: ScheduledWork) -> Ints:
        visited = np.zeros(unit.high - unit.low, np.int64)
        for origin in rows.origins:
            part = origin.part(unit.first, unit.stop)
            if part.start == part.stop:
                continue
            seen, made = origin.advance(part, unit.low, unit.high, rows.runs, self.buffer)
            self._count(origin, part, int(seen.sum()), made)
            visited += seen
        self.buffer.peak = max(self.buffer.peak, self.buffer.used)
        return visited

    def _find_and_verify(
        self, rows: _Rows, unit: ScheduledWork, held: dict[tuple[int, int], list[Combinations]]
    ) -> Ints:
        """The same where pairs carry lineage or have to be verified: the node tests them."""
        visited = np.zeros(unit.high - unit.low, np.int64)
        for origin in rows.origins:
            part = origin.part(unit.first, unit.stop)
            if part.start == part.stop:
                continue
            left, right, seen = origin.fresh_pairs(part, unit.low, unit.high, self.buffer)
            if origin.scans and origin.partner.store.dropped:
                alive = origin.partner.store.holds(right)
                left, right = left[alive], right[alive]
            modes = origin.modes or Modes()
            made = self.node.joined(origin.probe, Pairs(left + part.start, right, 0, 0), modes.grid, False)
            if modes.sift is not None:
                made = modes.sift(made)
            self._count(origin, part, int(seen.sum()), len(made))
            if len(made):
                held.setdefault((unit.first, origin.number), []).append(made)
            visited += seen
        return visited

    def _count(self, origin: Origin, part: slice, visited: int, made: int) -> None:
        node = self.node
        node.counters.visited += visited
        node.counters.rows_out += made
        node.observe(origin.number, origin.step.input, part.stop - part.start, made)

    # -- handing out

    def _portions(
        self, rows: _Rows, unit: ScheduledWork, held: dict[tuple[int, int], list[Combinations]] | None
    ) -> Iterator[Portion | None]:
        """One per level of the unit; None: there is nothing for it."""
        begin, stop = int(rows.bounds[unit.first]), int(rows.bounds[unit.stop])
        together: Combinations | None = None
        if held is not None:
            pieces = [piece for number in (0, 1) for piece in held.get((unit.first, number), [])]
            lowest = int(rows.stamps[begin]) >> POSITION_BITS
            if pieces:
                together = in_order(pieces, lowest, (int(rows.stamps[stop - 1]) >> POSITION_BITS) - lowest + 1)
            if unit.high == len(self.levels):
                held.pop((unit.first, 0), None), held.pop((unit.first, 1), None)
        for level in range(unit.low, unit.high):
            made = together if held is not None else self._laid_out(rows, level, slice(begin, stop))
            yield (
                Portion(self.levels[level].slots, made, level + 1 == len(self.levels))
                if made is not None and len(made)
                else None
            )

    def _laid_out(self, rows: _Rows, level: int, part: slice) -> Combinations:
        first, second, stamp, clock = kernels.lay_out(
            rows.of[part], level, rows.own[part], rows.runs.start[part], rows.runs.ends[part], rows.stamps[part], rows.clocks[part],
            self.buffer.room,
        )  # fmt: skip
        here, there = (one.port.position for one in self.inputs)
        return Combinations({here: first, there: second}, stamp, clock, None, None)


def shared_schedule(group: JoinGroup, name: str, tuning: Tuning) -> SharedSchedule | None:
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
        if one.port.judge is not None:
            return None
        if len({isinstance(m.window, Rows) for m in members.values()}) > 1:
            return None
        sides.append({slot: _size(m.window) for slot, m in members.items()})
    chain = sorted({(sides[0][slot], sides[1][slot]) for slot in sides[0]})
    if len(chain) < 2 or any(a[1] > b[1] for a, b in pairwise(chain)):
        return None
    # Too many windows are put together from the largest down, each level about as full as the others.
    groups = np.array_split(np.arange(len(chain)), min(len(chain), tuning.scheduling.most_levels))
    levels = []
    for together in groups:
        windows = {chain[i] for i in together}
        slots = tuple(slot for slot in sides[0] if (sides[0][slot], sides[1][slot]) in windows)
        levels.append(WindowLevel(slots, chain[together[-1]], len(together) == 1))
    return SharedSchedule(group, tuple(levels), name, tuning)


def _size(window: Window | None) -> int:
    if isinstance(window, Rows):
        return window.count
    return window.micros if isinstance(window, Range) else FOREVER


def _lengths(levels: tuple[WindowLevel, ...]) -> list[float]:
    """What a window costs to scan, of both streams together, each measured by its largest finite window."""
    lengths = np.zeros(len(levels))
    for side in (0, 1):
        sizes = np.array([level.sizes[side] for level in levels], np.float64)
        finite = sizes[sizes < FOREVER]
        most = max(float(finite.max()), 1.0) if len(finite) else 1.0
        lengths += np.minimum(sizes / most, 2.0)
    return [float(length) for length in lengths]
