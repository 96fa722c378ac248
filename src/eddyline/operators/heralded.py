"""Heralds of a stream, checked: rows in the span of a herald satisfy it, or are taken out.

Answer   `Heralded.check` judges a stretch of the stream's order: rows after a herald and within its span that do not match are violations.
         The next herald ends the one in force. A stretch whose least and greatest values fit is not looked at row by row.
State    The herald in force.
Limits   Heralds say nothing that zones do not find out themselves: a herald that is kept changes no answer. A null matches IS NULL only.
Reading  docs/heralds.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import DataType
from eddyline.model.expression import columns_of
from eddyline.model.herald import KIND, TEXT, Herald
from eddyline.model.records import Flags
from eddyline.operators.evaluate import Predicate, compile_predicate
from eddyline.operators.gate import Load, Passing, Placed, Verdict
from eddyline.operators.sharing.predicates import Box, boxes_of
from eddyline.operators.stream import whole_columns
from eddyline.state.columns import Ints
from eddyline.state.zones import arrow_keys, ranges_of


@dataclass(frozen=True, slots=True)
class InForce:
    text: str
    #: The event time of its place; the number of the first row of the stream beyond its span, or the last instant of it.
    since: int
    until_row: int | None
    until: int | None


class Heralded:
    """The checker of one stream. `read` binds the text of a herald."""

    def __init__(self, alias: str, read: Callable[[str], Herald]) -> None:
        self.alias = alias
        self._read = read
        self._known: dict[str, _Test] = {}
        self.in_force: InForce | None = None

    def check(self, passing: Passing, dead: Flags) -> Verdict | None:
        if self.in_force is None and not any(placed.records.kind == KIND for placed in passing.records):
            return None
        columns = _Columns(whole_columns(passing.table))
        broken = np.zeros(len(passing.ts), np.bool_)
        reasons = np.full(len(passing.ts), None, object)
        begin = 0
        for herald, place in [*self._heralds(passing), (None, len(passing.ts))]:
            if self.in_force is not None and place > begin:
                self._judge(self.in_force, passing, columns, begin, place, broken, reasons)
            begin = place
            if herald is not None:
                self.in_force = herald
        self._expire(passing)
        if not broken.any():
            return None
        return Verdict(broken, pa.array(reasons[broken].tolist(), pa.string()))

    def _heralds(self, passing: Passing) -> list[tuple[InForce | None, int]]:
        """The heralds of a stretch in order, each with the number of rows before it; of several at one place the last."""
        found = [one for placed in passing.records if placed.records.kind == KIND for one in self._placed(placed, passing)]
        return [(herald, place) for _, herald, place in sorted(found, key=lambda one: one[0])]

    def _placed(self, placed: Placed, passing: Passing) -> list[tuple[tuple[Any, ...], InForce, int]]:
        records = placed.records
        serial = records.serial if records.serial is not None else np.arange(len(records))
        # In a stream with a sequence, its values order what has one time; null stands after all of them.
        sequence = [None] * len(records) if records.sequence is None else records.sequence.to_pylist()
        found = []
        for at, text in enumerate(records.body.column(TEXT).to_pylist()):
            herald = self._test(text).herald
            ts, total = int(records.ts[at]), int(placed.before_total[at])
            until_row = None if herald.rows is None else passing.rows_before + total + herald.rows
            until = None if herald.micros is None else ts + herald.micros
            within = (int(records.number[at]),) if records.sequence is None else (sequence[at] is None, sequence[at] or 0)
            order = (total, ts, *within, int(serial[at]))
            found.append((order, InForce(text, ts, until_row, until), int(placed.before[at])))
        return found

    def _judge(
        self,
        herald: InForce,
        passing: Passing,
        columns: _Columns,
        begin: int,
        stop: int,
        broken: Flags,
        reasons: np.ndarray[tuple[int], np.dtype[np.object_]],
    ) -> None:
        """Flag the rows begin … stop-1 that lie in the span of a herald and break it."""
        inside = np.ones(stop - begin, np.bool_)
        if herald.until is not None:
            inside = passing.ts[begin:stop] <= herald.until
        if herald.until_row is not None:
            places = np.arange(begin, stop) if passing.place is None else passing.place[begin:stop]
            inside = inside & (passing.rows_before + places < herald.until_row)
        if passing.straggling:
            # Rows that come below the frontier stand where their time says.
            inside = inside & (passing.ts[begin:stop] > herald.since)
        rows = np.flatnonzero(inside) + begin
        if len(rows):
            wrong = rows[self._test(herald.text).breaks(columns, rows)]
            broken[wrong] = True
            reasons[wrong] = f"violation: herald {herald.text}"

    def _expire(self, passing: Passing) -> None:
        """A herald whose span is over is forgotten."""
        one = self.in_force
        if one is None:
            return
        seen = passing.rows_before + passing.rows_total
        by_rows = one.until_row is not None and seen >= one.until_row
        by_time = one.until is not None and passing.frontier > one.until and not passing.straggling
        if by_rows or by_time:
            self.in_force = None

    def _test(self, text: str) -> _Test:
        if text not in self._known:
            if len(self._known) > 4096:
                self._known.clear()
            self._known[text] = _Test(self._read(text), self.alias)
        return self._known[text]

    def snapshot(self) -> tuple[object, Mapping[str, Callable[[], pa.Table]]]:
        one = self.in_force
        return None if one is None else {"text": one.text, "since": one.since, "until_row": one.until_row, "until": one.until}, {}

    def restore(self, state: object, load: Load) -> None:
        if isinstance(state, dict):
            self.in_force = InForce(state["text"], state["since"], state["until_row"], state["until"])


class _Test:
    """The condition of a herald, ready to be tested: first against the ends of a stretch, then row by row."""

    def __init__(self, herald: Herald, alias: str) -> None:
        self.herald = herald
        self.alias = alias
        self._names = tuple({name for _, name in columns_of(herald.condition)})
        boxes = boxes_of(herald.condition, alias)
        #: None: the ends of a stretch do not decide.
        self._box: Box | None = boxes[0] if len(boxes) == 1 and not boxes[0].rest else None

    @cached_property
    def _predicate(self) -> Predicate:
        """Compiled for the first stretch whose ends do not decide."""
        return compile_predicate(self.herald.condition)

    def breaks(self, columns: _Columns, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Flags:
        """Which of the rows do not satisfy the condition; they are neighbours."""
        first, count = int(rows[0]), len(rows)
        is_whole = int(rows[-1]) - first + 1 == count
        if self._box is not None and is_whole and self._fits(self._box, columns, first, first + count):
            return np.zeros(count, np.bool_)
        arrays = columns.arrays
        chosen = {name: arrays[name].slice(first, count) if is_whole else arrays[name].take(pa.array(rows)) for name in self._names}
        given = {(alias, name): chosen[name] for alias, name in self._predicate.columns}
        return ~self._predicate(given, count)

    @staticmethod
    def _fits(box: Box, columns: _Columns, first: int, stop: int) -> bool:
        """Whether least and greatest values of the rows first … stop-1 lie in one span of every column's set."""
        for name, values in box.sets.items():
            if box.types[name].name == "STRING":
                return False
            keys, valid = columns.keys(name, box.types[name])
            low, high, nulls = ranges_of(keys, valid, np.array([first, stop]))
            if nulls[0] and not values.null:
                return False
            if low[0] <= high[0] and not any(a <= int(low[0]) and int(high[0]) < b for a, b in values.spans):
                return False
        return True


class _Columns:
    """The columns of a stretch, and their ordered keys, made when they are first asked for."""

    def __init__(self, arrays: Mapping[str, pa.Array]) -> None:
        self.arrays = arrays
        self._keys: dict[str, tuple[Ints, Flags | None]] = {}

    def keys(self, name: str, kind: DataType) -> tuple[Ints, Flags | None]:
        if name not in self._keys:
            self._keys[name] = arrow_keys(self.arrays[name], kind)
        return self._keys[name]
