"""Heralds of a stream, checked: rows in the span of a herald satisfy it, or are taken out.

Answer   `Heralded.check` judges a stretch of the stream's order: rows after a herald and within its span that do not match are violations.
         The next herald ends the one in force. All heralds of a stretch are judged together:

             heralds      h0        h1            h2               each owns the rows up to the next one
             rows      ···|·········|·············|······
             inside       xxxxxxx    xxxxxxxxxxxxx xxxxxx          least and greatest keys per herald, one pass per column

         Rows are looked at one by one only where these stick out.
State    The herald in force; the tests of the texts that came.
Limits   Heralds say nothing that zones do not find out themselves: a herald that is kept changes no answer. A null matches IS NULL only.
Reading  docs/heralds.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import DataType
from eddyline.model.expression import Call, ColumnRef, Expression, Literal, columns_of, conjuncts
from eddyline.model.herald import KIND, TEXT, Herald
from eddyline.model.records import Flags
from eddyline.operators.evaluate import Predicate, compile_predicate
from eddyline.operators.gate import Load, Passing, Placed, Verdict
from eddyline.operators.sharing.column_keys import has_keys, literal_key
from eddyline.operators.sharing.predicates import boxes_of
from eddyline.operators.stream import whole_columns
from eddyline.state.columns import Ints
from eddyline.state.zones import arrow_keys, ranges_of

#: Beyond the last row of every stream, and beyond every instant.
_NEVER = 2**63 - 1
#: Texts whose tests are kept. A bound of memory: a test has about a kilobyte.
_MOST_KNOWN = 4096
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class InForce:
    text: str
    #: The event time of its place; the number of the first row of the stream beyond its span, or the last instant of it.
    since: int
    until_row: int | None
    until: int | None


@dataclass(frozen=True, slots=True)
class _Line:
    """The heralds of a stretch in order. Herald i owns the rows begin[i] … begin[i + 1] - 1; `begin` ends with the number of rows."""

    tests: list[_Test]
    begin: Ints
    since: Ints
    until_row: Ints
    until: Ints

    def in_force(self) -> InForce:
        """The last of them, which goes on."""
        one = self.tests[-1]
        by_rows, by_time = one.herald.rows is not None, one.herald.micros is not None
        return InForce(
            one.text, int(self.since[-1]), int(self.until_row[-1]) if by_rows else None, int(self.until[-1]) if by_time else None
        )


class Heralded:
    """The checker of one stream. `read` binds the text of a herald."""

    def __init__(self, alias: str, read: Callable[[str], Herald]) -> None:
        self.alias = alias
        self._read = read
        self._known: dict[str, _Test] = {}
        self.in_force: InForce | None = None

    def check(self, passing: Passing, dead: Flags) -> Verdict | None:
        batches = [placed for placed in passing.records if placed.records.kind == KIND]
        if self.in_force is None and not batches:
            return None
        line = self._line(passing, batches)
        verdict = self._judged(line, passing) if len(passing.ts) else None
        self.in_force = line.in_force()
        self._expire(passing)
        return verdict

    # -- which herald owns which rows

    def _line(self, passing: Passing, batches: Sequence[Placed]) -> _Line:
        """The herald in force and those that stand in a stretch; of several at one place the last owns the rows."""
        tests: list[_Test] = []
        begin, since, until_row, until = (np.empty(0, np.int64) for _ in range(4))
        if batches:
            tests = [self._test(text) for placed in batches for text in placed.records.body.column(TEXT).to_pylist()]
            before, total, since = (
                np.concatenate(parts)
                for parts in zip(*((placed.before, placed.before_total, placed.records.ts) for placed in batches), strict=True)
            )
            begin, until_row, until = before, _after(total + passing.rows_before, tests, "rows"), _after(since, tests, "micros")
            if len(batches) > 1:
                order = _in_order(batches, total)
                tests = [tests[at] for at in order]
                begin, since, until_row, until = (values[order] for values in (begin, since, until_row, until))
        one = self.in_force
        if one is not None:
            tests = [self._test(one.text), *tests]
            begin, since = np.concatenate(([0], begin)), np.concatenate(([one.since], since))
            until_row = np.concatenate(([_NEVER if one.until_row is None else one.until_row], until_row))
            until = np.concatenate(([_NEVER if one.until is None else one.until], until))
        return _Line(tests, np.append(begin, len(passing.ts)), since, until_row, until)

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

    # -- which rows break theirs

    def _judged(self, line: _Line, passing: Passing) -> Verdict | None:
        first = int(line.begin[0])
        owner = np.repeat(np.arange(len(line.tests)), np.diff(line.begin))
        place = np.arange(first, len(passing.ts)) if passing.place is None else passing.place[first:]
        ts = passing.ts[first:]
        inside: Flags = (ts <= line.until[owner]) & (place + passing.rows_before < line.until_row[owner])
        if passing.straggling:
            # Rows that come below the frontier stand where their time says.
            inside &= ts > line.since[owner]
        rows = np.flatnonzero(inside)
        if not len(rows):
            return None
        spans = _Spans(_Columns(whole_columns(passing.table)), rows + first, owner[rows], len(line.tests))
        wrong = spans.breaking(line.tests)
        if not wrong.any():
            return None
        broken = np.zeros(len(passing.ts), np.bool_)
        broken[spans.rows[wrong]] = True
        reasons = pa.array([f"violation: herald {test.text}" for test in line.tests], pa.string())
        return Verdict(broken, reasons.take(pa.array(spans.owner[wrong])))

    def _test(self, text: str) -> _Test:
        found = self._known.get(text)
        if found is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            found = self._known[text] = _Test(text, self._read(text), self.alias)
        return found

    def snapshot(self) -> tuple[object, Mapping[str, Callable[[], pa.Table]]]:
        one = self.in_force
        return None if one is None else {"text": one.text, "since": one.since, "until_row": one.until_row, "until": one.until}, {}

    def restore(self, state: object, load: Load) -> None:
        if isinstance(state, dict):
            self.in_force = InForce(state["text"], state["since"], state["until_row"], state["until"])


def _after(start: Ints, tests: Sequence[_Test], span: str) -> Ints:
    """Where spans end that begin at these numbers or instants; `_NEVER`: they are spans of the other kind, or end beyond all numbers."""
    lengths = np.array([_NEVER if (given := getattr(test.herald, span)) is None else min(given, _NEVER) for test in tests], np.int64)
    ends = np.full(len(tests), _NEVER)
    fits = start <= _NEVER - lengths
    ends[fits] = start[fits] + lengths[fits]
    ends[lengths == _NEVER] = _NEVER
    return ends


def _in_order(batches: Sequence[Placed], total: Ints) -> list[int]:
    """The order of heralds that came in several batches, each of which is in order."""
    keys: list[tuple[Any, ...]] = []
    for placed in batches:
        records = placed.records
        serial = np.arange(len(records)) if records.serial is None else records.serial
        # In a stream with a sequence, its values order what has one time; null stands after all of them.
        sequence = [None] * len(records) if records.sequence is None else records.sequence.to_pylist()
        for at, value in enumerate(sequence):
            within = (int(records.number[at]),) if records.sequence is None else (value is None, value or 0)
            keys.append((int(total[len(keys)]), int(records.ts[at]), *within, int(serial[at])))
    return sorted(range(len(keys)), key=keys.__getitem__)


class _Test:
    """The condition of a herald, ready to be tested: as ranges of keys, or as it is written."""

    def __init__(self, text: str, herald: Herald, alias: str) -> None:
        self.text = text
        self.herald = herald
        #: Per column its range; None: no ranges say what the condition says.
        self.ranges = _plain_ranges(herald.condition) or _set_ranges(herald.condition, alias)

    @cached_property
    def _predicate(self) -> Predicate:
        return compile_predicate(self.herald.condition)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name for _, name in columns_of(self.herald.condition))

    def breaks(self, columns: _Columns, rows: Ints) -> Flags:
        """Which of the rows do not satisfy the condition, row by row."""
        arrays, chosen = columns.arrays, pa.array(rows)
        found = {name: arrays[name].take(chosen) for name in self._names}
        return ~self._predicate({(alias, name): found[name] for alias, name in self._predicate.columns}, len(rows))


class _Range(NamedTuple):
    """The keys of a column that match, and whether nulls do."""

    kind: DataType
    least: int
    most: int
    takes_null: bool


def _plain_ranges(condition: Expression) -> dict[str, _Range] | None:
    """The ranges of comparisons of columns with literals of their types, which is what most heralds are; None: there is something else."""
    found: dict[str, _Range] = {}
    for part in conjuncts(condition):
        if not isinstance(part, Call) or part.function not in _FLIPPED:
            return None
        function, (column, literal) = part.function, part.args
        if isinstance(column, Literal):
            function, column, literal = _FLIPPED[function], literal, column
        if not isinstance(column, ColumnRef) or not isinstance(literal, Literal) or literal.type != column.type or literal.value is None:
            return None
        if not has_keys(column.type):
            return None
        key = literal_key(literal.value, column.type)
        least = key + (function == ">") if function in (">", ">=", "=") else -_NEVER - 1
        most = key - (function == "<") if function in ("<", "<=", "=") else _NEVER
        if least > _NEVER or most < -_NEVER - 1:
            return None
        if column.column in found:
            least, most = max(least, found[column.column].least), min(most, found[column.column].most)
        found[column.column] = _Range(column.type, least, most, False)
    return found


def _set_ranges(condition: Expression, alias: str) -> dict[str, _Range] | None:
    """The ranges of a condition whose sets have one range per column; texts have no keys of their own."""
    boxes = boxes_of(condition, alias)
    if len(boxes) != 1 or boxes[0].rest:
        return None
    found: dict[str, _Range] = {}
    for name, values in boxes[0].sets.items():
        if boxes[0].types[name].name == "STRING" or len(values.spans) > 1:
            return None
        low, high = values.spans[0] if values.spans else (1, 1)
        found[name] = _Range(boxes[0].types[name], low, high - 1, values.null)
    return found


class _Spans:
    """The rows that lie in the span of the herald that owns them, in order."""

    def __init__(self, columns: _Columns, rows: Ints, owner: Ints, heralds: int) -> None:
        self.columns = columns
        self.rows = rows
        self.owner = owner
        self._cuts: Ints = np.searchsorted(owner, np.arange(heralds + 1))

    def breaking(self, tests: Sequence[_Test]) -> Flags:
        """Which of the rows break their heralds."""
        wrong = np.zeros(len(self.rows), np.bool_)
        for name in {name: None for test in tests if test.ranges is not None for name in test.ranges}:
            self._outside(name, tests, wrong)
        for at, test in enumerate(tests):
            begin, stop = self._cuts[at], self._cuts[at + 1]
            if test.ranges is None and stop > begin:
                wrong[begin:stop] = test.breaks(self.columns, self.rows[begin:stop])
        return wrong

    def _outside(self, name: str, tests: Sequence[_Test], wrong: Flags) -> None:
        """Flag the rows whose value of a column lies outside the range that their herald has for it."""
        said = [None if test.ranges is None else test.ranges.get(name) for test in tests]
        kind = next(one.kind for one in said if one is not None)
        least = np.array([-_NEVER - 1 if one is None else one.least for one in said])
        most = np.array([_NEVER if one is None else one.most for one in said])
        takes_null = np.array([one is None or one.takes_null for one in said])
        keys, valid = self.columns.keys(name, kind)
        if len(self.rows) < len(keys):
            keys, valid = keys[self.rows], None if valid is None else valid[self.rows]
        low, high, nulls = ranges_of(keys, valid, self._cuts)
        sticks_out = ((low <= high) & ((low < least) | (high > most))) | (nulls & ~takes_null)
        if not sticks_out.any():
            return
        # The stretches that stick out, row by row.
        rows = np.flatnonzero(sticks_out[self.owner])
        owner, values = self.owner[rows], keys[rows]
        outside: Flags = (values < least[owner]) | (values > most[owner])
        wrong[rows] |= outside if valid is None else np.where(valid[rows], outside, ~takes_null[owner])


class _Columns:
    """The columns of a stretch, and their ordered keys, made when they are first asked for."""

    def __init__(self, arrays: Mapping[str, pa.Array]) -> None:
        self.arrays = arrays
        self._keys: dict[str, tuple[Ints, Flags | None]] = {}

    def keys(self, name: str, kind: DataType) -> tuple[Ints, Flags | None]:
        if name not in self._keys:
            self._keys[name] = arrow_keys(self.arrays[name], kind)
        return self._keys[name]
