"""New rows of one input on their way through the strips of the other input's windows.

Answer   `advance` takes some of the rows through the next windows and gives what is new of it;
the runs of what each row
         has found so far lie in the output buffer.
State    Within one step: per row its place in its chain or scan (`Origin`), and where its run lies (`StripRuns`).
         The output buffer's room is kept from step to step: fresh memory would cost more to touch than to fill.
Limits   Finds pairs by key and age; lineage, verification and residual conditions are tested by the node.
Reading  docs/operators/scheduling.md
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.kernels.joins import sharing, strips
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.probing.modes import Modes, Probe
from eddyline.operators.join.probing.steps import ProbeStep
from eddyline.state.columns import Ints


class OutputBuffer:
    """Room for the runs of all rows under way."""

    def __init__(self, room: int) -> None:
        self.room: Ints = np.empty(room, np.int64)
        self.used = 0
        #: The most results that were held at once.
        self.peak = 0
        self._tops: list[Ints] = [np.empty(0, np.int64), np.empty(0, np.int64)]

    def tops(self, number: int, chains: int) -> Ints:
        """Working memory for entering the chains that rows of input `number` meet."""
        if len(self._tops[number]) != chains:
            self._tops[number] = np.full(chains, strips.UNKNOWN)
        return self._tops[number]

    def grow(self) -> None:
        wide = np.empty(2 * len(self.room), np.int64)
        wide[: self.used] = self.room[: self.used]
        self.room = wide


@dataclass(slots=True)
class StripRuns:
    """Per row where its run lies in the output buffer, and how much of it lies in each window."""

    start: Ints
    ends: npt.NDArray[np.int32]

    @staticmethod
    def of(rows: int, windows: int) -> StripRuns:
        """For rows that have not been through any window: those are not known yet."""
        return StripRuns(np.empty(rows, np.int64), np.empty((rows, windows), np.int32))


@dataclass(slots=True)
class Origin:
    """New rows of input `number`, by rank."""

    number: int
    probe: Probe
    #: How policies want the probe to be processed; None: as a whole.
    modes: Modes | None
    own: Ints
    partner: StreamInput
    scans: bool
    measure: Ints
    age: str
    #: Per window the sizes that the partner's rows are measured by.
    sizes: Ints
    #: The next stored row to visit.
    cursor: Ints
    #: The place of each row among those of both inputs.
    place: Ints
    #: Where each batch begins, and the end.
    bounds: Ints
    #: Windows up to this part of the largest are small.
    small_window: float

    @property
    def rows(self) -> Combinations:
        return self.probe.rows

    @property
    def step(self) -> ProbeStep:
        return self.probe.step

    @staticmethod
    def of(
        node: JoinNode,
        number: int,
        probe: Probe,
        modes: Modes | None,
        sizes: Ints,
        counted: bool,
        buffer: OutputBuffer,
        small_window: float,
    ) -> Origin:
        mine, partner = node.inputs[number], node.inputs[1 - number]
        assert isinstance(mine, StreamInput) and isinstance(partner, StreamInput)
        store, step, rows = partner.store, probe.step, probe.rows
        limits, hashes = probe.limits, probe.hashes
        scans = step.index is None or node.loop
        if scans:
            cursor = store.first + np.searchsorted(store.column(partner.order), limits) - 1
        else:
            assert step.index is not None
            index = store.indexes[step.index]
            cursor = limits.copy()
            tops = buffer.tops(number, len(index.heads))
            strips.enter_chains(
                hashes, cursor, tops, index.heads, index.back, store.columns[partner.order], store.base, store.first
            )
        measure = probe.join_slice.rows_seen(partner.port.position, rows.rank) if counted else rows.clock
        own = rows.ids[mine.port.position]
        age = partner.port.reader.numbers if counted else "ts"
        none = limits[:0]
        return Origin(number, probe, modes, own, partner, scans, measure, age, sizes, cursor, none, none, small_window)

    def part(self, first: int, stop: int) -> slice:
        """The rows of the batches first … stop-1."""
        return slice(int(self.bounds[first]), int(self.bounds[stop]))

    def advance(self, part: slice, low: int, high: int, runs: StripRuns, buffer: OutputBuffer) -> tuple[Ints, int]:
        """Take rows through the windows low … high-1; returns, per window, how many stored rows were visited, and how
        many results are new."""
        before, place = buffer.used, self.place[part]
        carried = int(runs.ends[place, low - 1].sum()) if low else 0
        visited = self._walk(part, self.sizes[low:high], place, runs, low, buffer)
        return visited, buffer.used - before - carried

    def fresh_pairs(self, part: slice, low: int, high: int, buffer: OutputBuffer) -> tuple[Ints, Ints, Ints]:
        """The same, but what is found is taken out at once: (probing positions, stored ids, rows visited per
        window)."""
        rows, before = part.stop - part.start, buffer.used
        runs = StripRuns.of(rows, high - low)
        visited = self._walk(part, self.sizes[low:high], np.arange(rows), runs, 0, buffer)
        sizes = runs.ends[:, -1]
        left = np.repeat(np.arange(rows), sizes)
        found = buffer.room[before : buffer.used].copy()
        if not self.scans:
            # Runs lie in the order in which chains were walked.
            found = found[np.repeat(runs.start - before - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(left))]
        buffer.used = before
        return left, found, visited

    def _walk(self, part: slice, sizes: Ints, place: Ints, runs: StripRuns, before: int, buffer: OutputBuffer) -> Ints:
        store, step = self.partner.store, self.step
        visited = np.zeros(len(sizes), np.int64)
        hashes, age = self.probe.hashes[part], store.columns[self.age]
        walkers = strips.Walkers(hashes, self.measure[part], self.cursor[part], place)
        where = strips.RunPlaces(runs.start, runs.ends, before)
        turn = 0
        if self.scans:
            stored = strips.Aged(
                store.columns[step.index] if step.index is not None else age, age, store.base, store.first
            )
            while True:
                buffer.used, turn = strips.scan_strips(
                    turn, walkers, sizes, where, visited, buffer.room, buffer.used, step.index is not None, stored
                )
                if turn == len(hashes):
                    return visited
                buffer.grow()
        assert step.index is not None
        index = store.indexes[step.index]
        # Rows of one chain one after the other, which meet the same stored rows; in small windows neighbours in time
        # do.
        is_small = sizes[-1] <= self.small_window * self.sizes[-1]
        sequence = np.arange(len(hashes)) if is_small else sharing.by_bucket(hashes, index.heads)
        stored = strips.Aged(index.keys, age, store.base, store.first)
        while True:
            buffer.used, turn = strips.probe_strips(
                sequence, turn, walkers, sizes, where, visited, buffer.room, buffer.used, index.back, stored
            )
            if turn == len(sequence):
                return visited
            buffer.grow()
