"""The ranges of a box table, put in order for searching.

Answer   Per column: the ranges by their low ends, for looking them up in a sorted batch; and a search tree over the ranges
         of *leading* terms (one per box, the one that the fewest recent rows satisfy), for looking up single rows.
State    As of the last build. Boxes added since stand at the end of the table and are looked at one by one; when they
         become many, or candidates are mostly in vain, the index is built again.
Limits   Which term leads is a matter of speed only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from eddyline.kernels.intervals import (
    Swept,
    Trees,
    build_tree,
    choose_leads,
    confirm_pairs,
    cover_ranges,
    ordered_rows,
    stab_pairs,
    sweep_pairs,
)
from eddyline.operators.sharing.boxes import BoxTable

#: Rows that the choice of leads looks back at.
_SAMPLE = 1024
#: Pairs that one call of a kernel has room for, at least.
_ROOM = 1 << 16


@dataclass(slots=True)
class SortedOut:
    """Slots that a batch decides as a whole: what its least and greatest keys say of ranges."""

    #: Labels that want every row.
    whole: list[np.ndarray] = field(default_factory=list)
    skipped: int = 0
    passed: int = 0

    def taken(
        self, which: np.ndarray, low: np.ndarray, high: np.ndarray, boxes: np.ndarray, label: np.ndarray, ordered: np.ndarray, rows: int
    ) -> np.ndarray:
        """The ranges that are still to be looked up."""
        if not ordered.size or ordered.size < rows or not which.size:
            return which
        covers = (low[which] <= ordered[0]) & (high[which] >= ordered[-1])
        if covers.any():
            labels = label[boxes[which[covers]]]
            labels = labels[labels >= 0]
            self.whole.append(labels)
            self.passed += labels.size
            which = which[~covers]
        return which


class IntervalIndex:
    def __init__(self, table: BoxTable):
        self._table = table
        self._version = -1
        #: How much of the table the orders cover.
        self._intervals = 0
        self._by_low = np.empty(0, np.int64)
        #: Low ends in that order, and the highest high end so far of the same group: what a batch can concern lies between two searches.
        self._lows = np.empty(0, np.int64)
        self._reach = np.empty(0, np.int64)
        #: Where in `_by_low` each group begins (see `_groups`).
        self._group_from = np.zeros(1, np.int64)
        self._tree: _Tree | None = None
        self._sample: _Sample | None = None
        #: Ranges that the last batch missed as a whole.
        self._left_out = 0
        #: Candidates that the tree gave and that were in vain, since it was built.
        self._in_vain = 0

    @property
    def nbytes(self) -> int:
        return 3 * self._by_low.nbytes + (self._tree.nbytes if self._tree is not None else 0)

    def sweep(
        self, column: int, ordered: np.ndarray, order: np.ndarray, label: np.ndarray, bits: int, sorted_out: SortedOut | None
    ) -> list[np.ndarray]:
        """The (label, row) pairs of a sorted batch, for boxes whose only term is on this column.

        Args:
            sorted_out: takes the labels that want all rows; None: every range is looked up.
        """
        table = self._table
        low, high, boxes = table.low.view, table.high.view, table.interval_box.view
        found = []
        for which in self._parts(column, True, ordered if sorted_out is not None and ordered.size == order.size else None):
            if sorted_out is not None:
                sorted_out.skipped += self._left_out
                which = sorted_out.taken(which, low, high, boxes, label, ordered, order.size)
            at, ranges = 0, Swept(low, high, boxes, which)
            while at < which.size:
                pairs = np.empty(max(_ROOM, 2 * order.size), np.int64)
                used, at = sweep_pairs(ordered, order, ranges, label, bits, at, pairs)
                found.append(pairs[:used])
        return found

    def ranges(self, column: int, ordered: np.ndarray, rows: int, start: np.ndarray, stop: np.ndarray) -> None:
        """Where in a sorted batch the ranges of a column begin and end, for boxes of several terms."""
        for which in self._parts(column, False):
            cover_ranges(ordered, self._table.low.view, self._table.high.view, which, rows, start, stop)

    def _parts(self, column: int, alone: bool, ordered: np.ndarray | None = None) -> list[np.ndarray]:
        """The ranges of a column whose boxes have one term, or several: those in order, and those added since.

        Args:
            ordered: the keys of a batch without nulls, ascending: ranges in order that they all miss are left out.
        """
        table = self._table
        self._refresh()
        group = 2 * column + alone
        parts = []
        if group + 1 < self._group_from.size:
            first, last = self._group_from[group : group + 2]
            whole = last - first
            if ordered is not None and ordered.size:
                last = first + np.searchsorted(self._lows[first:last], ordered[-1], side="right")
                first = first + np.searchsorted(self._reach[first:last], ordered[0])
            self._left_out = int(whole - (last - first))
            parts.append(self._by_low[first:last])
        if self._intervals < table.low.size:
            parts.append(self._intervals + np.flatnonzero(_groups(table, self._intervals) == group))
        return [part for part in parts if part.size]

    def pairs(self, label: np.ndarray, keys: np.ndarray, valid: np.ndarray, bits: int) -> np.ndarray:
        """The (label, row) pairs of a small batch."""
        table = self._table
        self._refresh()
        if self._sample is None or self._sample.keys.shape[0] != keys.shape[0]:
            self._sample = _Sample(keys.shape[0])
        self._sample.add(keys, valid)
        if (
            self._tree is None
            or table.slot.size - self._tree.boxes > max(64, self._tree.boxes // 16)
            or self._in_vain > 16 * table.slot.size + 4096
        ):
            self._tree = _Tree(table, self._sample)
            self._in_vain = 0
        tree = self._tree
        trees = Trees(tree.column_from, tree.low, tree.high, tree.top, tree.box, tree.null_from, tree.null_box, tree.boxes)
        found, row = [], 0
        while row < keys.shape[1]:
            pairs = np.empty(max(_ROOM, 2 * label.size), np.int64)
            used, row = stab_pairs(label, trees, keys, valid, bits, row, pairs)
            found.append(confirm_pairs(pairs[:used], label, tree.lead, table.arrays, keys, valid, bits))
            self._in_vain += used - found[-1].size
        return found[0] if len(found) == 1 else np.concatenate(found)

    def observe(self, keys: np.ndarray, valid: np.ndarray) -> None:
        """Remembers some rows of a large batch."""
        if self._sample is None or self._sample.keys.shape[0] != keys.shape[0]:
            self._sample = _Sample(keys.shape[0])
        step = max(1, keys.shape[1] // 64)
        self._sample.add(keys[:, ::step], valid[:, ::step])

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
        self.null_from = np.searchsorted(table.term_column.view[null_term], columns)
        self.null_box = table.term_box.view[null_term]
        ranges = chosen[~null]
        term = owner[ranges]
        self.box = table.term_box.view[term]
        self.low, self.high = low[ranges], high[ranges]
        self.top = np.empty(ranges.size, np.int64)
        self.column_from = np.searchsorted(table.term_column.view[term], columns)
        for first, last in zip(self.column_from[:-1], self.column_from[1:], strict=True):
            build_tree(self.high[first:last], self.top[first:last])

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in vars(self).values() if isinstance(part, np.ndarray))

    @staticmethod
    def _leads(table: BoxTable, sample: _Sample, by_low: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Per box the term that the fewest rows of the sample satisfy; -2 for removed boxes."""
        low, high = table.low.view, table.high.view
        start, stop = np.zeros(low.size, np.int64), np.zeros(low.size, np.int64)
        columns = table.term_column.view[owner[by_low]]
        for column in range(len(table.columns)):
            valid = sample.valid[column, : sample.size]
            _, ordered = ordered_rows(sample.keys[column, : sample.size][valid])
            cover_ranges(ordered, low, high, by_low[columns == column], sample.size, start, stop)
        lead, amount = np.empty(table.slot.size, np.int64), np.empty(table.slot.size, np.int64)
        choose_leads(table.slot.view, table.arrays, start, stop, sample.size, lead, amount)
        return lead
