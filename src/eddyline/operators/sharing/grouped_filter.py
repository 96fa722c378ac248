"""Which rows of a batch each registered query wants: all predicates on one stream, tested together.

Answer   For every slot (one per query and reference) the rows for which its predicate is true, as (slot, row) pairs or
         as bits per row. A row that is in no pair is wanted by no query.
         Stretches of a batch that no range meets are left out first (`stretches`).
         A large batch is sorted once per column and all ranges are looked up in it; a small one is looked up row by row
         in a tree of ranges. A box with several columns starts from the one that lets the fewest rows of this batch
         pass.
State    The boxes of all predicates (`boxes`) and their ranges in search order (`interval_index`). A slot that comes or
         goes changes its own boxes only.
Limits   Expressions that are no set of values of a column are evaluated once each, over the rows that still need them.
         Otherwise the cost grows with rows, ranges and matches. Pairs take 8 bytes per match: `match_lineage` takes
         less where slots want nearly all rows.
Reading  PAPERS, section 3: the grouped filters of CACQ.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from eddyline.kernels.bitsets import full_set, set_pairs, words_for
from eddyline.kernels.intervals import choose_leads, collect_pairs, confirm_pairs, ordered_rows
from eddyline.kernels.order import ascends
from eddyline.model.expressions.expression import ColumnKey, Expression, Ref
from eddyline.operators.expressions.evaluate import Issues, Predicate, compile_predicate
from eddyline.operators.sharing.boxes import BoxTable
from eddyline.operators.sharing.column_keys import number_keys
from eddyline.operators.sharing.interval_index import IntervalIndex, SortedOut
from eddyline.operators.sharing.predicates import SELF, boxes_of
from eddyline.operators.sharing.stretches import Stretches
from eddyline.operators.worth import Worth
from eddyline.state.columns import validity
from eddyline.state.runs import places_within, run_begins
from eddyline.tuning import SharingTuning, ZoneTuning

Columns = Mapping[str, pa.Array]


class GroupedFilter:
    """The filters of one stream.

    >>> from eddyline.model.datatypes import BIGINT, BOOLEAN
    >>> from eddyline.model.expressions.expression import Call, ColumnRef, Literal
    >>> filters = GroupedFilter()
    >>> filters.add(0, Call(">", (ColumnRef("b", "price", BIGINT), Literal(100, BIGINT)), BOOLEAN), "b")
    >>> filters.add(1, None, "x")
    >>> slots, rows = filters.match_pairs({"price": pa.array([90, 120])}, 2)
    >>> list(zip(slots.tolist(), rows.tolist()))
    [(0, 1), (1, 0), (1, 1)]
    """

    def __init__(
        self,
        issues: Issues | None = None,
        tuning: SharingTuning | None = None,
        sorts_out: bool = True,
        worth: Worth | None = None,
    ) -> None:
        self.tuning = tuning or SharingTuning()
        #: Whether stretches of a batch are compared with ranges before rows are, batch by batch.
        self._worth = worth or Worth(ZoneTuning(), True)
        self._batches = 0
        #: Whether slots that the ends of a batch decide are skipped or passed as a whole; how many were.
        self.sorts_out = sorts_out
        self.slots_skipped = 0
        self.slots_passed = 0
        self._shape, self._alone = (-1, -1), False
        #: Counts values that an expression could not compute.
        self._issues = issues
        self._table = BoxTable()
        self._index = IntervalIndex(self._table)
        self._compiled: dict[int, Predicate] = {}

    def add(self, slot: int, predicate: Expression | None, reference: Ref) -> None:
        """A slot that wants the rows for which a predicate over the columns of `reference` is true; None: all rows."""
        self._table.add(slot, boxes_of(predicate, reference))

    def remove(self, slot: int) -> None:
        self._table.remove(slot)
        if len(self._compiled) > 2 * len(self._table.expressions) + 16:
            self._compiled = {n: test for n, test in self._compiled.items() if n in self._table.expressions}

    def __contains__(self, slot: int) -> bool:
        return slot in self._table

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the expressions."""
        return self._table.nbytes + self._index.nbytes

    def columns(self) -> frozenset[str]:
        """The columns that the predicates read."""
        read = {column.name for column in self._table.columns}
        return frozenset(read).union(
            *({name for _, name in self._test(number).columns} for number in self._table.expressions)
        )

    def match_pairs(self, columns: Columns, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """All (slot, row) pairs, by slot and then by row."""
        bits = max(1, (rows - 1).bit_length())
        sorted_out = self._sorts_out(rows)
        pairs = self._pairs(columns, rows, bits, self._table.slot.view, sorted_out)
        if not ascends(pairs):
            pairs.sort()
        if sorted_out is not None and sorted_out.whole:
            whole = np.unique(np.concatenate(sorted_out.whole))
            every = np.arange(rows) if sorted_out.rows is None else sorted_out.rows
            pairs = np.concatenate((((whole << bits)[:, None] | every).ravel(), pairs))
            # Two runs, each in order: a stable sort merges them.
            pairs.sort(kind="stable")
        if self._table.overlapping and pairs.size:
            pairs = pairs[run_begins(pairs)]
        return pairs >> bits, pairs & ((1 << bits) - 1)

    def match_lineage(self, columns: Columns, rows: int, slots: np.ndarray | None = None) -> np.ndarray:
        """Per row a set of bits: bit i is set where `slots[i]` wants the row; without `slots` where slot i does."""
        table = self._table
        if slots is None:
            slots = np.arange(table.slot_limit)
        bit_of = np.full(max(1, table.slot_limit), -1, np.int64)
        bit_of[slots] = np.arange(slots.size)
        wanted = (table.slot.view >= 0) & (bit_of[table.slot.view] >= 0)
        # Boxes without any condition want every row: one line of lineage has the bits of all of them.
        always = wanted & ~table.has_rest.view & (np.diff(table.box_term.view) == 0)
        width = words_for(slots.size)
        lineage = np.empty((rows, width), np.uint64)
        lineage[:] = full_set(bit_of[table.slot.view[always]], width)
        bits = max(1, (rows - 1).bit_length())
        sorted_out = self._sorts_out(rows)
        pairs = self._pairs(columns, rows, bits, np.where(wanted & ~always, table.slot.view, -1), sorted_out)
        set_pairs(lineage, pairs, bits, bit_of)
        if sorted_out is not None and sorted_out.whole:
            lineage[slice(None) if sorted_out.rows is None else sorted_out.rows] |= full_set(
                bit_of[np.concatenate(sorted_out.whole)], width
            )
        return lineage

    def _sorts_out(self, rows: int) -> SortedOut | None:
        """For slots that the ends of the batch decide; None: ranges are not compared with these ends first."""
        return SortedOut() if self.sorts_out and rows else None

    def _pairs(
        self, columns: Columns, rows: int, bits: int, slot: np.ndarray, sorted_out: SortedOut | None
    ) -> np.ndarray:
        """Pairs `slot << bits | row` in no order; of slots with several boxes some may come twice. Slot -1: its box is
        not tested.

        Args:
            sorted_out: takes the slots that want all rows.
        """
        table = self._table
        if rows == 0 or not slot.size:
            return np.empty(0, np.int64)
        keys, valid = self._keys(columns, rows)
        chosen = None
        if sorted_out is not None and (chosen := self._chosen(keys, valid, sorted_out)) is not None:
            if not chosen.size:
                return np.empty(0, np.int64)
            keys, valid = keys.take(chosen, axis=1), valid.take(chosen, axis=1)

        def search(label: np.ndarray, sorted_out: SortedOut | None) -> np.ndarray:
            is_large = keys.shape[1] * self.tuning.ranges_per_row >= table.low.size
            found = (self._search_sorted if is_large else self._search_tree)(keys, valid, bits, label, sorted_out)
            if chosen is None:
                return found
            mask = (1 << bits) - 1
            return (found & ~mask) | chosen[found & mask]

        if not table.expressions:
            return self._counted(search(slot, sorted_out), sorted_out)
        has_rest = table.has_rest.view
        has_terms = np.diff(table.box_term.view) > 0
        plain = self._counted(search(np.where(has_rest, -1, slot), sorted_out), sorted_out)
        boxes = np.arange(slot.size)
        open_pairs = search(np.where(has_rest & has_terms & (slot >= 0), boxes, -1), None)
        tested = self._test_expressions(columns, rows, bits, slot, np.sort(open_pairs), has_terms)
        return np.concatenate((plain, tested))

    def _chosen(self, keys: np.ndarray, valid: np.ndarray, sorted_out: SortedOut) -> np.ndarray | None:
        """The rows of stretches that some range meets; None: all rows."""
        worth, count = self._worth, keys.shape[1]
        cost = worth.tuning
        self._batches += 1
        if count < 2 * cost.rows or not self._index.named_by_all() or not worth.is_worth(self._batches):
            return None
        found = Stretches.compared(self._index, keys, valid, cost.rows)
        sorted_out.rows = found.rows
        looked = count * len(self._index.named_by_all()) * cost.stretch + cost.batch
        worth.note(count * cost.sort, found.left_out * cost.sort - looked)
        return found.rows

    def _counted(self, pairs: np.ndarray, sorted_out: SortedOut | None) -> np.ndarray:
        if sorted_out is not None:
            self.slots_skipped += sorted_out.skipped
            self.slots_passed += sorted_out.passed
        return pairs

    def _keys(self, columns: Columns, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """The keys of all columns that have sets, one line each, and where they have values."""
        keys = np.empty((len(self._table.columns), rows), np.int64)
        valid = np.ones(keys.shape, np.bool_)
        for line, column in enumerate(self._table.columns):
            values = _whole(columns[column.name])
            keys[line] = number_keys(values, column.type) if column.texts is None else column.texts.keys(values)
            good = validity(values)
            if good is not None:
                valid[line] = good
        return keys, valid

    def _search_sorted(
        self, keys: np.ndarray, valid: np.ndarray, bits: int, label: np.ndarray, sorted_out: SortedOut | None
    ) -> np.ndarray:
        table, rows = self._table, keys.shape[1]
        # Boxes of one term are done in one go; the others wait for the orders of all columns, to start from the best.
        waits = not self._all_alone()
        order = np.empty(keys.shape, np.int64)
        start, stop = np.empty(table.low.size, np.int64), np.empty(table.low.size, np.int64)
        found: list[np.ndarray] = []
        for column in range(keys.shape[0]):
            if valid[column].all():
                order[column], ordered = ordered_rows(keys[column])
            else:
                present = np.flatnonzero(valid[column])
                places, ordered = ordered_rows(keys[column, present])
                order[column, : present.size] = present[places]
                order[column, present.size :] = np.flatnonzero(~valid[column])
            found += self._index.sweep(column, ordered, order[column], label, bits, sorted_out)
            if waits:
                self._index.ranges(column, ordered, rows, start, stop)
        if waits:
            self._index.observe(keys, valid)
        if waits and (waiting := np.where(np.diff(table.box_term.view) == 1, -1, label)).max(initial=-1) >= 0:
            found += self._search_waiting(keys, valid, bits, waiting, order, start, stop)
        return found[0] if len(found) == 1 else np.concatenate(found) if found else np.empty(0, np.int64)

    def _all_alone(self) -> bool:
        """Whether every box has one term; computed once per change of the boxes."""
        shape = (self._table.version, self._table.slot.size)
        if self._shape != shape:
            self._shape, self._alone = shape, bool((np.diff(self._table.box_term.view) == 1).all())
        return self._alone

    def _search_waiting(
        self,
        keys: np.ndarray,
        valid: np.ndarray,
        bits: int,
        label: np.ndarray,
        order: np.ndarray,
        start: np.ndarray,
        stop: np.ndarray,
    ) -> list[np.ndarray]:
        """The pairs of boxes of no term or several."""
        table = self._table
        boxes = table.arrays
        lead, amount = np.empty(label.size, np.int64), np.empty(label.size, np.int64)
        choose_leads(label, boxes, start, stop, keys.shape[1], lead, amount)
        found, box = [], 0
        while box < label.size:
            pairs, box = collect_pairs(lead, amount, boxes, start, stop, order, bits, box, self.tuning.candidates)
            found.append(confirm_pairs(pairs, label, lead, boxes, keys, valid, bits))
        return found

    def _search_tree(
        self, keys: np.ndarray, valid: np.ndarray, bits: int, label: np.ndarray, sorted_out: SortedOut | None
    ) -> np.ndarray:
        bare = (label >= 0) & (np.diff(self._table.box_term.view) == 0)
        if not bare.any():
            return self._index.pairs(label, keys, valid, bits)
        everywhere = (label[bare] << bits)[:, None] | np.arange(keys.shape[1])
        return np.concatenate((self._index.pairs(np.where(bare, -1, label), keys, valid, bits), everywhere.ravel()))

    def _test_expressions(
        self, columns: Columns, rows: int, bits: int, slot: np.ndarray, pairs: np.ndarray, has_terms: np.ndarray
    ) -> np.ndarray:
        """Tests the expressions of boxes: `pairs` are (box, row) candidates, sorted; boxes without terms have none
        yet."""
        table = self._table
        mask = (1 << bits) - 1
        edges = np.searchsorted(pairs, np.arange(slot.size + 1) << bits)
        alive = np.ones(pairs.size, np.bool_)
        #: Rows that a box without terms still has, once its first expression is known.
        open_rows: dict[int, np.ndarray] = {}
        order = np.argsort(table.rest_expression.view, kind="stable")
        numbers = table.rest_expression.view[order]
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for number, boxes in zip(
            numbers[firsts].tolist(), np.split(table.rest_box.view[order], firsts[1:]), strict=True
        ):
            boxes = boxes[slot[boxes] >= 0]
            bound = boxes[has_terms[boxes]]
            free = boxes[~has_terms[boxes]].tolist()
            places = _runs(edges[bound], edges[bound + 1])
            places = places[alive[places]]
            if not free and not places.size:
                continue
            true = self._evaluate(number, columns, rows, None if free else np.unique(pairs[places] & mask))
            alive[places] &= true[pairs[places] & mask]
            for box in free:
                known = open_rows.get(box)
                open_rows[box] = np.flatnonzero(true) if known is None else known[true[known]]
        kept = pairs[alive]
        parts = [(slot[kept >> bits] << bits) | (kept & mask)]
        parts += [(slot[box] << bits) | found for box, found in open_rows.items()]
        return np.concatenate(parts)

    def _test(self, number: int) -> Predicate:
        test = self._compiled.get(number)
        if test is None:
            test = self._compiled[number] = compile_predicate(self._table.expressions[number])
        return test

    def _evaluate(self, number: int, columns: Columns, rows: int, needed: np.ndarray | None) -> np.ndarray:
        """Per row whether an expression is true; where few rows are needed, the others are left out and are False."""
        test = self._test(number)
        inputs: dict[ColumnKey, pa.Array] = {(SELF, name): _whole(columns[name]) for _, name in test.columns}
        if needed is None or 4 * needed.size > rows:
            return test(inputs, rows, self._issues)
        true = np.zeros(rows, np.bool_)
        places = pa.array(needed)
        true[needed] = test({name: values.take(places) for name, values in inputs.items()}, needed.size, self._issues)
        return true


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _runs(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """All numbers of the ranges first[i] .. last[i] - 1, one range after the other.

    >>> _runs(np.array([2, 7]), np.array([4, 8])).tolist()
    [2, 3, 7]
    """
    counts = last - first
    return np.repeat(first, counts) + places_within(counts)
