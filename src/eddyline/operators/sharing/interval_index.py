"""The ranges of a box table, in the orders in which they are searched.

Answer   Per column: the ranges by their low ends, which are looked up in a sorted batch. Also a search tree over the
         ranges of *leading* terms, in which single rows are looked up. The leading term of a box is the one that the
         fewest recent rows satisfy.
State    As of the last build. Boxes added since are at the end of the table and are tested one by one; when they
         become many, or most candidates fail the other terms, the index is built again.
Limits   The choice of leading terms changes only the speed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from eddyline.kernels import intervals
from eddyline.kernels.intervals import Swept, Trees
from eddyline.operators.sharing.boxes import BoxTable
from eddyline.state.zones import ranges_of

#: Recent rows by which leads are chosen.
_SAMPLE = 1024
_NONE = np.empty(0, np.int64)
#: Pairs that one call of a kernel has room for, at least.
_ROOM = 1 << 16


@dataclass(slots=True)
class SortedOut:
    """Slots that the least and the greatest key of a batch decide: ranges that miss all its rows, or cover all."""

    #: Labels that want all rows that were searched.
    whole: list[np.ndarray] = field(default_factory=list)
    #: The rows that were searched; None: all.
    rows: np.ndarray | None = None
    skipped: int = 0
    passed: int = 0

    def without_covering(self, ranges: Swept, label: np.ndarray, ordered: np.ndarray) -> Swept:
        """Ranges without those that cover all keys, whose labels are noted."""
        which, reach = ranges.which, ranges.reach
        covers = (ranges.low[which] <= ordered[0]) & (ranges.high[which] >= ordered[-1])
        if not covers.any():
            return ranges
        labels = label[ranges.interval_box[which[covers]]]
        labels = labels[labels >= 0]
        self.whole.append(labels)
        self.passed += labels.size
        return ranges._replace(which=which[~covers], reach=reach[~covers] if reach.size else reach)


class IntervalIndex:
    def __init__(self, table: BoxTable):
        self._table = table
        self._version = -1
        #: How much of the table the orders cover.
        self._intervals = 0
        self._by_low = np.empty(0, np.int64)
        #: Low ends in that order, and the highest high end so far of the same group: what a batch can concern lies
        #: between two searches.
        self._lows = np.empty(0, np.int64)
        self._reach = np.empty(0, np.int64)
        #: Where in `_by_low` each group begins (see `_groups`).
        self._group_from = np.zeros(1, np.int64)
        self._tree: _Tree | None = None
        self._sample: _Sample | None = None
        #: The columns that every box has a term of, and the state of the table that this is true of.
        self._shape, self._named = (-1, -1), list[int]()
        #: Candidates of the tree, since it was built, that other terms of their boxes did not let pass.
        self._failed = 0

    @property
    def nbytes(self) -> int:
        return 3 * self._by_low.nbytes + (self._tree.nbytes if self._tree is not None else 0)

    def sweep(
        self,
        column: int,
        ordered: np.ndarray,
        order: np.ndarray,
        label: np.ndarray,
        bits: int,
        sorted_out: SortedOut | None,
    ) -> list[np.ndarray]:
        """The (label, row) pairs of a sorted batch, for boxes whose only term is on this column.

        Args:
            sorted_out: takes the labels that want all rows; None: every range is looked up.
        """
        table = self._table
        found = []
        is_full = sorted_out is not None and ordered.size == order.size
        for which, reach in self._parts(column, True):
            # Null ranges come after the others: the kernel must not pass over ranges where there are nulls.
            ranges = Swept(table.low.view, table.high.view, table.interval_box.view, which, reach if is_full else _NONE)
            if is_full and sorted_out is not None and self._may_cover(column, ordered):
                ranges = sorted_out.without_covering(ranges, label, ordered)
            at = 0
            while at < ranges.which.size:
                pairs = np.empty(max(_ROOM, 2 * order.size), np.int64)
                used, at, passed_over = intervals.sweep_pairs(ordered, order, ranges, label, bits, at, pairs)
                found.append(pairs[:used])
                if sorted_out is not None:
                    sorted_out.skipped += passed_over
        return found

    def _may_cover(self, column: int, ordered: np.ndarray) -> bool:
        """Whether some range may cover all keys: of those that begin early enough one reaches far enough, or it has
        been added since."""
        lows, reach = self._group(2 * column + 1)
        at = int(np.searchsorted(lows, ordered[0], side="right")) if ordered.size else 0
        return self._intervals < self._table.low.size or (at > 0 and bool(reach[at - 1] >= ordered[-1]))

    def ranges(self, column: int, ordered: np.ndarray, rows: int, start: np.ndarray, stop: np.ndarray) -> None:
        """Where in a sorted batch the ranges of a column begin and end, for boxes of several terms."""
        for which, _ in self._parts(column, False):
            intervals.cover_ranges(ordered, self._table.low.view, self._table.high.view, which, rows, start, stop)

    def named_by_all(self) -> list[int]:
        """The columns that every box has a term of; computed once per change of the boxes."""
        table = self._table
        shape = (table.version, table.slot.size)
        if self._shape != shape:
            boxes = [
                np.unique(table.term_box.view[table.term_column.view == at]).size for at in range(len(table.columns))
            ]
            self._shape, self._named = shape, [at for at, count in enumerate(boxes) if count == table.slot.size]
        return self._named

    def met(self, column: int, keys: np.ndarray, size: int) -> np.ndarray:
        """Of every `size` keys of a column, whether some range meets them."""
        self._refresh()
        parts = [self._group(2 * column), self._group(2 * column + 1)]
        table = self._table
        if self._intervals < table.low.size:
            mine = self._intervals + np.flatnonzero(_groups(table, self._intervals) // 2 == column)
            lows = table.low.view[mine]
            order = np.argsort(lows, kind="stable")
            parts.append((lows[order], np.maximum.accumulate(table.high.view[mine][order])))
        parts = [part for part in parts if part[0].size] or parts[:1]
        return np.logical_or.reduce([met_stretches(keys, size, *part) for part in parts])

    def _group(self, group: int) -> tuple[np.ndarray, np.ndarray]:
        """Low ends of a group of ranges in order, and how far they reach."""
        mine = self._span(group)
        return self._lows[mine], self._reach[mine]

    def _span(self, group: int) -> slice:
        """The places of a group of ranges in the orders."""
        return slice(*self._group_from[group : group + 2].tolist()) if group + 1 < self._group_from.size else slice(0)

    def _parts(self, column: int, alone: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """The ranges of a column whose boxes have one term, or several, and how far they reach: first those in order,
        then those added since, without their reach."""
        table = self._table
        self._refresh()
        group = 2 * column + alone
        mine = self._span(group)
        parts = [(self._by_low[mine], self._reach[mine])]
        if self._intervals < table.low.size:
            parts.append((self._intervals + np.flatnonzero(_groups(table, self._intervals) == group), _NONE))
        return [part for part in parts if part[0].size]

    def pairs(self, label: np.ndarray, keys: np.ndarray, valid: np.ndarray, bits: int) -> np.ndarray:
        """The (label, row) pairs of a small batch."""
        table = self._table
        self._refresh()
        sample = self._sample_of(keys.shape[0])
        sample.add(keys, valid)
        if (
            self._tree is None
            or table.slot.size - self._tree.boxes > max(64, self._tree.boxes // 16)
            or self._failed > 16 * table.slot.size + 4096
        ):
            self._tree = _Tree(table, sample)
            self._failed = 0
        tree = self._tree
        found, row = [], 0
        while row < keys.shape[1]:
            pairs = np.empty(max(_ROOM, 2 * label.size), np.int64)
            used, row = intervals.stab_pairs(label, tree.trees, keys, valid, bits, row, pairs)
            found.append(intervals.confirm_pairs(pairs[:used], label, tree.lead, table.arrays, keys, valid, bits))
            self._failed += used - found[-1].size
        return found[0] if len(found) == 1 else np.concatenate(found)

    def observe(self, keys: np.ndarray, valid: np.ndarray) -> None:
        """Adds some rows of a large batch to the sample."""
        step = max(1, keys.shape[1] // 64)
        self._sample_of(keys.shape[0]).add(keys[:, ::step], valid[:, ::step])

    def _sample_of(self, columns: int) -> _Sample:
        if self._sample is None or self._sample.keys.shape[0] != columns:
            self._sample = _Sample(columns)
        return self._sample

    def _refresh(self) -> None:
        table = self._table
        if self._version != table.version:
            self._version = table.version
            self._tree = self._sample = None
            self._intervals = -1
        if table.low.size - self._intervals <= max(256, self._intervals // 16) and self._intervals >= 0:
            return
        groups = _groups(table, 0)
        self._by_low = np.lexsort((table.low.view, groups))
        self._group_from = np.searchsorted(groups[self._by_low], np.arange(2 * len(table.columns) + 1))
        self._intervals = table.low.size
        self._lows, self._reach = table.low.view[self._by_low], table.high.view[self._by_low]
        for first, last in pairwise(self._group_from.tolist()):
            np.maximum.accumulate(self._reach[first:last], out=self._reach[first:last])


def met_stretches(keys: np.ndarray, size: int, lows: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Of every `size` keys, whether their least and greatest meet a range; ranges come by their low ends, and `reach`
    has the highest high end up to each."""
    least, most, _ = ranges_of(keys, None, np.append(np.arange(0, len(keys), size), len(keys)))
    # Of the ranges that begin early enough, the one that reaches furthest decides.
    at = np.searchsorted(lows, most, side="right")
    return (at > 0) & (np.append(reach, 0)[at - 1] >= least)


def _groups(table: BoxTable, first: int) -> np.ndarray:
    """Of each range from `first` on: twice its column, plus one where its box has no other term."""
    term = int(np.searchsorted(table.term_interval.view, first))
    columns = np.repeat(table.term_column.view[term:], np.diff(table.term_interval.view[term:]))
    boxes = table.interval_box.view[first:]
    return 2 * columns + (table.box_term.view[boxes + 1] - table.box_term.view[boxes] == 1)


class _Sample:
    """The keys of some recent rows, the oldest written over first."""

    def __init__(self, columns: int):
        self.keys = np.zeros((columns, _SAMPLE), np.int64)
        self.valid = np.zeros((columns, _SAMPLE), np.bool_)
        self.seen = 0

    def add(self, keys: np.ndarray, valid: np.ndarray) -> None:
        count = min(keys.shape[1], _SAMPLE)
        places = (self.seen + np.arange(count)) % _SAMPLE
        self.keys[:, places] = keys[:, :count]
        self.valid[:, places] = valid[:, :count]
        self.seen += count

    @property
    def size(self) -> int:
        return min(self.seen, _SAMPLE)


class _Tree:
    """The ranges of the leading terms, by column and low end, with the highest high end of each part."""

    def __init__(self, table: BoxTable, sample: _Sample):
        self.boxes = table.slot.size
        low, high, term_interval = table.low.view, table.high.view, table.term_interval.view
        owner = np.repeat(np.arange(table.term_column.size), np.diff(term_interval))
        by_low = np.lexsort((low, table.term_column.view[owner]))
        self.lead = self._leads(table, sample, by_low, owner)
        chosen = by_low[self.lead[table.term_box.view[owner[by_low]]] == owner[by_low]]
        null = low[chosen] > high[chosen]
        columns = np.arange(len(table.columns) + 1)
        null_term = owner[chosen[null]]
        null_from = np.searchsorted(table.term_column.view[null_term], columns)
        ranges = chosen[~null]
        term = owner[ranges]
        ends, top = high[ranges], np.empty(ranges.size, np.int64)
        column_from = np.searchsorted(table.term_column.view[term], columns)
        for first, last in pairwise(column_from.tolist()):
            intervals.build_tree(ends[first:last], top[first:last])
        boxes, null_boxes = table.term_box.view[term], table.term_box.view[null_term]
        self.trees = Trees(column_from, low[ranges], ends, top, boxes, null_from, null_boxes, self.boxes)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self.lead, *self.trees[:-1]))

    @staticmethod
    def _leads(table: BoxTable, sample: _Sample, by_low: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Per box the term that the fewest rows of the sample satisfy; -2 for removed boxes."""
        low, high = table.low.view, table.high.view
        start, stop = np.zeros(low.size, np.int64), np.zeros(low.size, np.int64)
        columns = table.term_column.view[owner[by_low]]
        for column in range(len(table.columns)):
            valid = sample.valid[column, : sample.size]
            _, ordered = intervals.ordered_rows(sample.keys[column, : sample.size][valid])
            intervals.cover_ranges(ordered, low, high, by_low[columns == column], sample.size, start, stop)
        lead, amount = np.empty(table.slot.size, np.int64), np.empty(table.slot.size, np.int64)
        intervals.choose_leads(table.slot.view, table.arrays, start, stop, sample.size, lead, amount)
        return lead
