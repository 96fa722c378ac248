"""A port: one reference of one join group, as a reader of a stream's store.

Answer   `lineage` says, for new rows, which queries of the group want them under this reference, as bits. `inside` says
         which queries still have a stored row in their window, `first_needed` how far back the group reaches.
State    The queries' filters, windows and starts, in slots. Lineage is stored only where it says something: a
         store that one query reads alone holds exactly the rows that this query wants.
Limits   Bits of slots above the highest query are zero. A table's port has no window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.kernels.bitsets import full_set, keep_within
from eddyline.model.expressions.expression import ColumnKey, Expression
from eddyline.model.window import FOREVER, Now, Range, Rows, Window
from eddyline.operators.expressions.evaluate import Predicate, compile_predicate
from eddyline.operators.join.combination import LineageBits
from eddyline.operators.sharing.grouped_filter import GroupedFilter
from eddyline.operators.stream.reading import ReadPosition
from eddyline.operators.worth import Worth
from eddyline.state.columns import Ints
from eddyline.state.store import Store
from eddyline.tuning import SharingTuning

if TYPE_CHECKING:
    from eddyline.operators.stream.stream import StreamState

#: No row is as old as this.
LONG_AGO = -FOREVER


@dataclass(frozen=True, slots=True)
class Membership:
    """What one query wants of one reference."""

    slot: int
    predicate: Expression | None
    window: Window | None
    #: Rows at or before this instant do not exist for the query.
    start: int = LONG_AGO
    #: What the slot means, whatever plan and settings make of it: a checkpoint finds stored lineage by these names.
    query: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows that are about to be stored: their keys by column, event times, and places in the order of the timeline
    that takes them."""

    keys: Mapping[str, npt.NDArray[np.generic]]
    ts: Ints
    ranks: Ints


class Port:
    """A reader of one store. `probed`: rows are kept because later rows may meet them."""

    def __init__(
        self,
        group: str,
        position: int,
        source: str,
        probed: bool,
        reader: ReadPosition,
        route: int | None = None,
        tuning: SharingTuning | None = None,
        uses_zones: bool = True,
        worth: Worth | None = None,
        required: tuple[str, ...] = (),
    ) -> None:
        self.tuning = tuning or SharingTuning()
        self.position = position
        self.source = source
        self.probed = probed
        #: How far the timeline of the group has read the store.
        self.reader = reader
        #: The bit of `Arrival.routes` of rows that were sent here for this reference; None: all rows were.
        self.route = route
        self.lineage_column = f"words:{group}:{position}"
        #: Keys that must not be null: every query of the group joins on them.
        self.required = required
        self.members: dict[int, Membership] = {}
        self.width = 1
        self.stores_lineage = False
        #: How often rows that were stored have lost their lineage by `release`.
        self.releases = 0
        #: Rows of the stream that reached this reference, and those of them that a member wants.
        self.came = 0
        self.passed = 0
        #: The members' filters: all together once there are many, one by one before.
        self._grouped = GroupedFilter(tuning=self.tuning, sorts_out=uses_zones, worth=worth)
        self._filters: dict[int, Predicate] = {}
        self._filtered = 0
        #: The members without a filter.
        self._unfiltered = np.zeros(1, np.uint64)
        #: How far back the members' windows reach: by time, and by rows. None: a member has come or gone since they
        #: were computed.
        self._reaches: tuple[Ages, Ages] | None = None
        self.longest = LONG_AGO
        self.most_rows = 0
        #: How long a row may stay by time alone.
        self.span = 0
        #: Whether being in the largest window is not yet being in every query's.
        self.tells_windows_apart = False
        self._starts: list[int] = []
        #: Whether rows are in a window that neither their age nor the count of the stream's rows decides, at places of
        #: the total order; None: these decide. All members have the same such window.
        self.judge: Callable[[Ints, Ints], npt.NDArray[np.bool_]] | None = None
        #: Positions of the new rows, of those that a member wants (None: all), that are in no result of the group, now
        #: or later; None: no rows are refused.
        self.refuses: Callable[[NewRows, npt.NDArray[np.bool_] | None], Ints | None] | None = None
        #: A query reads rows that have left their windows since then: (frontier, rows seen). None: no query does.
        self.lingers: tuple[int, int] | None = None

    # -- members

    def join(self, member: Membership, store: Store) -> None:
        if store.extent and not self.stores_lineage:
            self.start_lineage(store)
        before = self.width
        self.members[member.slot] = member
        self._grouped.add(member.slot, member.predicate, self.position)
        self._members_changed()
        if self.stores_lineage and before < self.width:
            narrow = store.columns[self.lineage_column].reshape(store.capacity, before)
            store.add_column(self.lineage_column, np.uint64, self.width)
            store.columns[self.lineage_column][:, :before] = narrow

    def leave(self, slot: int, store: Store) -> None:
        if self.members.pop(slot, None) is not None:
            self._grouped.remove(slot)
            self._filters.pop(slot, None)
        if self.stores_lineage:
            clear_bit(store.columns[self.lineage_column], slot)
        self._members_changed()

    def _members_changed(self) -> None:
        members = tuple(self.members.values())
        # Stored lineage is never narrowed: a slot that was given once may be given again.
        self.width = max(self.width, max((m.slot for m in members), default=0) // 64 + 1)
        self._filtered = sum(m.predicate is not None for m in members)
        if self._filtered <= self.tuning.few_filters:
            self._unfiltered = bits_of(tuple(m.slot for m in members if m.predicate is None), self.width)
            for m in members:
                if m.predicate is not None and m.slot not in self._filters:
                    self._filters[m.slot] = compile_predicate(m.predicate)
        self._starts = sorted({m.start for m in members if m.start > LONG_AGO})
        timed = [m for m in members if not isinstance(m.window, Rows)]
        counted = [m for m in members if isinstance(m.window, Rows)]
        self._reaches = None
        self.most_rows = max((_rows(m.window) for m in counted), default=0)
        spans = {_span(m.window) for m in timed}
        self.longest = max(spans, default=LONG_AGO)
        self.span = FOREVER if self.most_rows else max(self.longest, 0)
        self.tells_windows_apart = len(spans) > 1 or bool(self.most_rows)

    def full(self) -> LineageBits:
        """One line of lineage with a bit for every member."""
        return bits_of(tuple(self.members), self.width)

    # -- new rows

    def lineage(
        self,
        columns: Mapping[str, pa.Array],
        ts: Ints,
        rows: int,
        routes: npt.NDArray[np.uint64] | None,
        missing: Mapping[str, npt.NDArray[np.bool_]],
    ) -> LineageBits | None:
        """Which members want each row; None: all members want all rows."""
        gone = [missing[m] for m in self.required if m in missing]
        started = bool(self._starts) and bool(rows) and int(ts[0]) <= self._starts[-1]
        routed = routes is not None and self.route is not None
        if not self._filtered and not gone and not started and not routed:
            return None
        lineage = self._wanted(columns, rows)
        if started:
            self._clear_before_starts(lineage, ts)
        for mask in gone:
            lineage[mask] = 0
        if routed:
            assert routes is not None and self.route is not None
            lineage[(routes >> np.uint64(self.route)) & np.uint64(1) == 0] = 0
        return lineage

    def without(self, lineage: LineageBits | None, refused: Ints, rows: int) -> LineageBits:
        """The lineage of new rows of which no member wants those at some positions."""
        lineage = np.repeat(self.full()[None], rows, axis=0) if lineage is None else lineage
        lineage[refused] = 0
        return lineage

    def count(self, rows: int, passed: int, routes: npt.NDArray[np.uint64] | None) -> None:
        """Note how many of some new rows reached this reference, and how many a member wants."""
        if routes is None or self.route is None:
            self.came += rows
        else:
            self.came += int(np.count_nonzero((routes >> np.uint64(self.route)) & np.uint64(1)))
        self.passed += passed

    def _wanted(self, columns: Mapping[str, pa.Array], rows: int) -> LineageBits:
        """Which members' filters the rows pass."""
        lineage = np.zeros((rows, self.width), np.uint64)
        if self._filtered > self.tuning.few_filters:
            found = self._grouped.match_lineage(columns, rows)
            lineage[:, : found.shape[1]] = found
            return lineage
        lineage[:] = self._unfiltered
        here: dict[ColumnKey, pa.Array] = {(self.position, name): values for name, values in columns.items()}
        for slot, passes in self._filters.items():
            lineage[passes(here, rows), slot // 64] |= np.uint64(1) << np.uint64(slot % 64)
        return lineage

    def _clear_before_starts(self, lineage: LineageBits, ts: Ints) -> None:
        """Rows at or before a member's start do not exist for it; rows come in the order of time."""
        for start in self._starts:
            old = int(np.searchsorted(ts, start, side="right"))
            lineage[:old] &= ~bits_of(
                tuple(slot for slot, member in self.members.items() if member.start == start), self.width
            )

    def lineage_to_store(self, stream: StreamState, lineage: LineageBits | None, rows: int) -> LineageBits | None:
        """The lineage to keep with new rows, or None while every query wants every stored row."""
        alone = len(stream.ports) == 1 and len(self.members) == 1
        if not self.stores_lineage:
            if alone or (lineage is None and len(self.members) == 1):
                return None
            self.start_lineage(stream.store)
        return self.flat(np.broadcast_to(self.full(), (rows, self.width)) if lineage is None else lineage)

    def start_lineage(self, store: Store) -> None:
        """From here on lineage is stored; every query that is a member until now wants the rows that are stored
        already."""
        self.stores_lineage = True
        store.add_column(self.lineage_column, np.uint64, self.width)
        store.column(self.lineage_column)[:] = self.flat(np.broadcast_to(self.full(), (store.extent, self.width)))

    def release(self, store: Store, ids: Ints) -> None:
        """No member wants these stored rows any more."""
        if not self.stores_lineage:
            self.start_lineage(store)
        store.columns[self.lineage_column][ids - store.base] = 0
        self.releases += 1

    def flat(self, lineage: LineageBits) -> LineageBits:
        """Stored form: lineage of at most 64 slots is a plain column."""
        return lineage[:, 0] if self.width == 1 else lineage

    def lineage_at(self, store: Store, ids: Ints) -> LineageBits | None:
        """Stored lineage at row ids, always two-dimensional; None: all members want all rows."""
        if not self.stores_lineage:
            return None
        found: LineageBits = store.at(self.lineage_column, ids)
        return found.reshape(len(ids), self.width)

    def lineage_of(self, store: Store, start: int, stop: int) -> LineageBits | None:
        """The same for the rows start … stop-1."""
        if not self.stores_lineage:
            return None
        found: LineageBits = store.stretch(self.lineage_column, start, stop)
        return found.reshape(stop - start, self.width)

    # -- windows

    def inside(self, ages: Ints, counts: Ints | None) -> LineageBits:
        """Which members have rows of these ages (microseconds, and rows where they are given) in their windows."""
        by_time, by_rows = self.reaches
        lineage = by_time.lineage(ages)
        if counts is not None and self.most_rows:
            lineage = lineage & by_rows.lineage(counts)
        return lineage

    @property
    def reaches(self) -> tuple[Ages, Ages]:
        """How far back the members' windows reach: by time, and by rows."""
        if self._reaches is None:
            timed = {m.slot: _span(m.window) for m in self.members.values() if not isinstance(m.window, Rows)}
            counted = {m.slot: _rows(m.window) for m in self.members.values() if isinstance(m.window, Rows)}
            by_time = Ages(tuple(timed.items()), self.width, list(counted))
            self._reaches = by_time, Ages(tuple(counted.items()), self.width, list(timed))
        return self._reaches

    def keep_within(self, lineage: LineageBits, ages: Ints) -> npt.NDArray[np.bool_]:
        """Clear the bits of members whose time windows do not reach rows of these ages; returns per row whether a bit
        is left."""
        by_time, _ = self.reaches
        return keep_within(lineage, ages, by_time.sizes, by_time.table)

    def first_needed(self, store: Store, frontier: int, seen: int) -> int:
        """The first id that a row at or after the frontier may still meet under this port."""
        if not self.members:
            return store.end
        cut = self.reader.position
        if not self.probed:
            return cut
        if self.lingers is not None:
            frontier, seen = min(frontier, self.lingers[0]), min(seen, self.lingers[1])
        if self.longest > LONG_AGO:
            cut = min(cut, store.first + int(store.column("ts").searchsorted(frontier - self.longest)))
        if self.most_rows:
            cut = min(cut, store.first + int(store.column(self.reader.numbers).searchsorted(seen - self.most_rows)))
        return cut


class Ages:
    """From an age to the members whose windows reach that far: one search in the sorted window sizes."""

    def __init__(self, sizes: tuple[tuple[int, int], ...], width: int, always: list[int] | None = None) -> None:
        self.sizes = np.array(sorted({size for _, size in sizes}), np.int64)
        rest = tuple(always or ())
        #: By slot; INT64_MAX for queries whose window is counted in the other unit.
        self.size_of = np.full(64 * width, np.iinfo(np.int64).max)
        self.size_of[[slot for slot, _ in sizes]] = [size for _, size in sizes]
        #: Row i: the members whose window is at least sizes[i]; the last row: the members whose window is counted in
        #: the other unit.
        self.table = np.stack(
            [bits_of(tuple(s for s, size in sizes if size >= least) + rest, width) for least in self.sizes]
            + [bits_of(rest, width)]
        )

    def lineage(self, ages: Ints) -> LineageBits:
        return self.table[np.searchsorted(self.sizes, ages)]


def bits_of(slots: tuple[int, ...], width: int) -> LineageBits:
    return full_set(np.array(slots, np.int64), width)


def clear_bit(lineage: LineageBits, slot: int) -> None:
    column = lineage if lineage.ndim == 1 else lineage[:, slot // 64]
    column &= ~(np.uint64(1) << np.uint64(slot % 64))


def _span(window: Window | None) -> int:
    if isinstance(window, Now):
        return 0
    return window.micros if isinstance(window, Range) else FOREVER


def _rows(window: Window | None) -> int:
    return window.count if isinstance(window, Rows) else 0
