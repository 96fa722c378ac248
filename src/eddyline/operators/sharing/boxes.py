"""The boxes of all registered predicates on one stream, as arrays.

Answer   `BoxTable` keeps, per slot, the boxes of its predicate (see `predicates`) in the form that `kernels.intervals`
         reads.
State    Arrays of boxes, terms and ranges that grow at their ends. A removed box has slot -1; the arrays are compacted
         when half of the boxes are gone. An expression that is no set is kept once for all boxes that have it.
Limits   Slots are small whole numbers: arrays are indexed by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyline.errors import Fault
from eddyline.kernels.intervals import Boxes
from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Expression
from eddyline.operators.sharing.column_keys import TextKeys
from eddyline.operators.sharing.predicates import Box
from eddyline.operators.sharing.value_sets import GREATEST_KEY, KEYS, LEAST_KEY, TEXTS, Cut, ValueSet

#: Arrays with fewer removed boxes than this are not compacted.
_FEW = 64


class Growing:
    """An array that grows at its end, with room to spare."""

    def __init__(self, kind: Any, *first: int):
        self._room = np.zeros(16, kind)
        self._room[: len(first)] = first
        self.size = len(first)

    @property
    def view(self) -> np.ndarray:
        return self._room[: self.size]

    @property
    def nbytes(self) -> int:
        return self._room.nbytes

    def append(self, value: int) -> None:
        self.reserve(self.size + 1)
        self._room[self.size] = value
        self.size += 1

    def extend(self, values: np.ndarray) -> None:
        self.reserve(self.size + values.size)
        self._room[self.size : self.size + values.size] = values
        self.size += values.size

    def reserve(self, size: int) -> None:
        if size > self._room.size:
            larger = np.zeros(max(size, self._room.size + self._room.size // 2), self._room.dtype)
            larger[: self.size] = self.view
            self._room = larger

    def assign(self, values: np.ndarray) -> None:
        """Takes over other contents, and gives room back."""
        self._room = np.zeros(max(16, values.size + values.size // 4), self._room.dtype)
        self._room[: values.size] = values
        self.size = values.size


@dataclass
class BoxColumn:
    """A column that some box has a set for."""

    name: str
    type: DataType
    texts: TextKeys | None


class BoxTable:
    def __init__(self) -> None:
        #: Slot of each box; -1: removed.
        self.slot = Growing(np.int64)
        #: Whether expressions belong to the box.
        self.has_rest = Growing(np.bool_)
        self.box_term = Growing(np.int64, 0)
        self.term_column = Growing(np.int64)
        self.term_box = Growing(np.int64)
        self.term_interval = Growing(np.int64, 0)
        self.interval_box = Growing(np.int64)
        self.low = Growing(np.int64)
        self.high = Growing(np.int64)
        #: Which expressions belong to which boxes, by box.
        self.rest_box = Growing(np.int64)
        self.rest_expression = Growing(np.int64)
        #: Per slot its first box and how many it has; -1: the slot is free.
        self._first = Growing(np.int64)
        self._count = Growing(np.int64)
        self.columns: list[BoxColumn] = []
        #: Expressions in use by number; a number is not used again before its expression is forgotten.
        self.expressions: dict[int, Expression] = {}
        self._numbers: dict[Expression, int] = {}
        self._uses: dict[int, int] = {}
        self._next_number = 0
        self._removed = 0
        #: Slots with more than one box: their rows may be found twice.
        self.overlapping = 0
        #: Counts up when boxes are renumbered or keys change.
        self.version = 0

    @property
    def arrays(self) -> Boxes:
        """The boxes for kernels."""
        return Boxes(self.box_term.view, self.term_column.view, self.term_interval.view, self.low.view, self.high.view)

    def __contains__(self, slot: int) -> bool:
        return 0 <= slot < self._count.size and self._count.view[slot] >= 0

    @property
    def slot_limit(self) -> int:
        """One more than the highest slot ever used."""
        return self._count.size

    @property
    def nbytes(self) -> int:
        arrays = sum(part.nbytes for part in vars(self).values() if isinstance(part, Growing))
        return arrays + sum(column.texts.nbytes for column in self.columns if column.texts is not None)

    def add(self, slot: int, boxes: list[Box]) -> None:
        if slot in self:
            raise Fault(f"slot {slot} is in use", hint="remove it first")
        for lists, value in ((self._first, 0), (self._count, -1)):
            lists.extend(np.full(max(slot + 1 - lists.size, 0), value))
        self._first.view[slot] = self.slot.size
        self._count.view[slot] = len(boxes)
        self.overlapping += len(boxes) > 1
        for box in boxes:
            number = self.slot.size
            for name, values in box.sets.items():
                self._append_term(number, self._column(name, box.types[name]), values)
            for expression in box.rest:
                self.rest_box.append(number)
                self.rest_expression.append(self._number(expression))
            self.slot.append(slot)
            self.has_rest.append(bool(box.rest))
            self.box_term.append(self.term_column.size)

    def remove(self, slot: int) -> None:
        if slot not in self:
            raise Fault(f"slot {slot} is not in use")
        first, count = int(self._first.view[slot]), int(self._count.view[slot])
        self._count.view[slot] = -1
        self.slot.view[first : first + count] = -1
        self._removed += count
        self.overlapping -= count > 1
        if self.has_rest.view[first : first + count].any():
            left, right = np.searchsorted(self.rest_box.view, (first, first + count))
            for number in self.rest_expression.view[left:right].tolist():
                self._uses[number] -= 1
                if not self._uses[number]:
                    del self._uses[number]
                    del self._numbers[self.expressions.pop(number)]
        if self._removed > max(_FEW, self.slot.size // 2):
            self._compact()

    def _number(self, expression: Expression) -> int:
        number = self._numbers.get(expression)
        if number is None:
            number = self._next_number
            self._next_number += 1
            self._numbers[expression] = number
            self.expressions[number] = expression
        self._uses[number] = self._uses.get(number, 0) + 1
        return number

    def _column(self, name: str, kind: DataType) -> int:
        for at, column in enumerate(self.columns):
            if column.name == name:
                return at
        self.columns.append(BoxColumn(name, kind, TextKeys() if kind.name == "STRING" else None))
        return len(self.columns) - 1

    def _append_term(self, box: int, column: int, values: ValueSet) -> None:
        low, high = self._ranges(column, values)
        self.low.extend(low)
        self.high.extend(high)
        self.interval_box.extend(np.full(low.size, box))
        self.term_column.append(column)
        self.term_box.append(box)
        self.term_interval.append(self.low.size)

    def _ranges(self, at: int, values: ValueSet) -> tuple[np.ndarray, np.ndarray]:
        """A set as closed ranges of keys, the null range (greatest, least) last: where they begin and where they
        end."""
        column = self.columns[at]
        if column.texts is None:
            low = np.array([low for low, _ in values.spans], np.int64)
            high = np.array([high - 1 for _, high in values.spans], np.int64)
        else:
            texts = column.texts
            texts.add([cut[0] for span in values.spans for cut in span if cut not in (TEXTS.bottom, TEXTS.top)])
            change = texts.relabelling()
            if change is not None:
                self._relabel(at, *change)
            low = _text_ends(texts, [low for low, _ in values.spans], TEXTS.bottom, LEAST_KEY)
            high = _text_ends(texts, [high for _, high in values.spans], TEXTS.top, GREATEST_KEY, 1)
        return (np.append(low, GREATEST_KEY), np.append(high, LEAST_KEY)) if values.null else (low, high)

    def _relabel(self, at: int, old: np.ndarray, new: np.ndarray) -> None:
        """Moves the ranges of a text column to its new labels."""
        mine = self._intervals_of(at)
        low, high = self.low.view[mine], self.high.view[mine]
        self.low.view[mine] = _moved(low, old, new, 1)
        self.high.view[mine] = _moved(high, old, new, -1)
        self.version += 1

    def _intervals_of(self, column: int) -> np.ndarray:
        """The true ranges of a column (not the null ones) that have been closed off by a term."""
        counts = np.diff(self.term_interval.view)
        mine = np.flatnonzero(np.repeat(self.term_column.view == column, counts))
        return mine[self.low.view[mine] <= self.high.view[mine]]

    def _compact(self) -> None:
        """Leaves removed boxes out, and columns and bounds that no box uses any more."""
        alive = self.slot.view >= 0
        terms = np.diff(self.box_term.view)
        keep_term = np.repeat(alive, terms)
        intervals = np.diff(self.term_interval.view)
        keep_interval = np.repeat(keep_term, intervals)
        renumbered = np.cumsum(alive) - 1
        keep_rest = alive[self.rest_box.view]
        used, places = np.unique(self.term_column.view[keep_term], return_inverse=True)
        self.rest_expression.assign(self.rest_expression.view[keep_rest])
        self.rest_box.assign(renumbered[self.rest_box.view[keep_rest]])
        self.box_term.assign(np.concatenate(([0], np.cumsum(terms[alive]))))
        self.term_interval.assign(np.concatenate(([0], np.cumsum(intervals[keep_term]))))
        self.term_column.assign(places)
        self.term_box.assign(renumbered[self.term_box.view[keep_term]])
        self.interval_box.assign(renumbered[self.interval_box.view[keep_interval]])
        self.low.assign(self.low.view[keep_interval])
        self.high.assign(self.high.view[keep_interval])
        self.has_rest.assign(self.has_rest.view[alive])
        self.slot.assign(self.slot.view[alive])
        self._first.view[self.slot.view[::-1]] = np.arange(self.slot.size)[::-1]
        self.columns = [self.columns[int(at)] for at in used]
        for at, column in enumerate(self.columns):
            if column.texts is not None:
                mine = self._intervals_of(at)
                column.texts.keep(self.low.view[mine], self.high.view[mine])
        self._removed = 0
        self.version += 1


def _text_ends(texts: TextKeys, cuts: list[Cut], unlimited: Cut, key: int, before: int = 0) -> np.ndarray:
    """The keys of these cuts, less `before`; `key` for the cut that is no limit."""
    limited = np.array([cut != unlimited for cut in cuts], np.bool_)
    known = [cut for cut in cuts if cut != unlimited]
    found = np.full(len(cuts), key)
    sides = np.array([side for _, side in known], np.int64)
    found[limited] = texts.labels_of([text for text, _ in known]) + sides - before
    return found


def _moved(ends: np.ndarray, old: np.ndarray, new: np.ndarray, side: int) -> np.ndarray:
    """Range ends under new labels: an end is a label, or lies beside one on the given side, or is without limit."""
    if not old.size:
        return ends
    exact = np.minimum(np.searchsorted(old, ends), old.size - 1)
    beside = np.minimum(np.searchsorted(old, ends - side), old.size - 1)
    moved = np.where(old[exact] == ends, new[exact], new[beside] + side)
    return np.where((ends == KEYS.bottom) | (ends == KEYS.top - 1), ends, moved)
