"""Heralds of a stream, checked: rows in the span of a herald that do not satisfy it are removed.

Answer   `Heralded.check` takes a stretch of the stream's rows with the heralds among them: rows after a herald and
         within its span that do not match are violations. The next herald ends the one in force. All heralds of a
         stretch are tested together:

             heralds      h0        h1            h2               each owns the rows up to the next one
             rows      ···|·········|·············|······
             inside       xxxxxxx    xxxxxxxxxxxxx xxxxxx          least and greatest keys per herald and column

         Rows are tested one by one only where these keys lie outside of the herald's range.
State    The herald in force.
Limits   A herald changes no answer if all rows satisfy it: zones compute ranges from the rows. A null matches IS NULL
         only.
Reading  docs/heralds.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import DataType
from eddyline.model.records.herald import KIND, NEVER, TEXT, TextHeralds
from eddyline.model.records.records import Flags
from eddyline.operators.promises.herald_bounds import Bounding, Bounds, HeraldKeys
from eddyline.operators.stream.gate import GateStretch, Load, PlacedRecords, Verdict
from eddyline.operators.stream.stream import whole_columns
from eddyline.state.columns import Ints
from eddyline.state.zones import arrow_keys, ranges_of


@dataclass(frozen=True, slots=True)
class InForce:
    text: str
    #: The event time of its place; the number of the first row of the stream beyond its span, or the last instant of
    #: it.
    since: int
    until_row: int | None
    until: int | None


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """The heralds of a stretch in order. Herald i is in force for the rows begin[i] … begin[i + 1] - 1; `begin` ends
    with the number of rows."""

    texts: pa.Array
    begin: Ints
    since: Ints
    until_row: Ints
    until: Ints
    bounds: Bounds

    def in_force(self) -> InForce:
        """The last of them, which stays in force after the stretch."""
        row = int(self.until_row[-1]) if self.bounds.by_rows else None
        instant = int(self.until[-1]) if self.bounds.by_time else None
        return InForce(self.texts[-1].as_py(), int(self.since[-1]), row, instant)


class Heralded:
    """The checker of one stream. `read` binds texts of heralds."""

    def __init__(self, alias: str, read: Callable[[pa.Array], TextHeralds]) -> None:
        self._read = read
        self._bounding = Bounding(alias)
        self.in_force: InForce | None = None

    def check(self, passing: GateStretch, dead: Flags) -> Verdict | None:
        batches = [placed for placed in passing.records if placed.records.kind == KIND]
        if self.in_force is None and not batches:
            return None
        line = self._line(passing, batches)
        verdict = self._judged(line, passing) if len(passing.ts) else None
        self.in_force = line.in_force()
        self._expire(passing)
        return verdict

    # -- which herald is in force for which rows

    def _line(self, passing: GateStretch, batches: Sequence[PlacedRecords]) -> _Line:
        """The herald in force and those in a stretch; of several at one place the last is in force for the rows."""
        one = self.in_force
        # The position of the active herald is irrelevant: its end is known.
        texts = [] if one is None else [pa.array([one.text], pa.string())]
        begin, total, since = (np.zeros(len(texts), np.int64) for _ in range(3))
        if batches:
            columns = [(placed.before, placed.before_total, placed.records.ts) for placed in batches]
            before, counted, times = map(np.concatenate, zip(*columns, strict=True))
            came = pa.concat_arrays([chunk for placed in batches for chunk in placed.records.body.column(TEXT).chunks])
            if len(batches) > 1:
                order = np.array(_in_order(batches, counted), np.int64)
                came, before, counted, times = came.take(pa.array(order)), before[order], counted[order], times[order]
            texts.append(came)
            begin, total, since = map(np.concatenate, ((begin, before), (total, counted), (since, times)))
        whole = texts[0] if len(texts) == 1 else pa.concat_arrays(texts)
        said = self._read(whole)
        for problem in said.problems.values():
            raise problem
        until_row, until = _after(total + passing.rows_before, said.rows), _after(since, said.micros)
        if one is not None:
            since[0] = one.since
            until_row[0] = NEVER if one.until_row is None else one.until_row
            until[0] = NEVER if one.until is None else one.until
        return _Line(whole, np.append(begin, len(passing.ts)), since, until_row, until, self._bounding.bounds(said))

    def _expire(self, passing: GateStretch) -> None:
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

    def _judged(self, line: _Line, passing: GateStretch) -> Verdict | None:
        first = int(line.begin[0])
        owner = np.repeat(np.arange(len(line.texts)), np.diff(line.begin))
        place = np.arange(first, len(passing.ts)) if passing.place is None else passing.place[first:]
        ts = passing.ts[first:]
        inside: Flags = (ts <= line.until[owner]) & (place + passing.rows_before < line.until_row[owner])
        if passing.straggling:
            # Rows that come below the frontier have the places of their event times.
            inside &= ts > line.since[owner]
        rows = np.flatnonzero(inside)
        if not len(rows):
            return None
        if len(rows) < len(owner):
            owner = owner[rows]
        spans = _Spans(_Columns(whole_columns(passing.table)), rows + first, owner, len(line.texts))
        wrong = spans.breaking(line.bounds)
        if not wrong.any():
            return None
        broken = np.zeros(len(passing.ts), np.bool_)
        broken[spans.rows[wrong]] = True
        broken_ones = line.texts.take(pa.array(spans.owner[wrong]))
        return Verdict(broken, pc.binary_join_element_wise("violation: herald", broken_ones, " "))

    def snapshot(self) -> tuple[object, Mapping[str, Callable[[], pa.Table]]]:
        return None if self.in_force is None else asdict(self.in_force), {}

    def restore(self, state: object, load: Load) -> None:
        if isinstance(state, dict):
            self.in_force = InForce(**state)


def _after(start: Ints, lengths: Ints) -> Ints:
    """The ends of spans that begin at these numbers or instants; NEVER: a span of the other kind, or an end beyond all
    numbers."""
    ends: Ints = np.where(start <= NEVER - lengths, start + np.minimum(lengths, NEVER - np.maximum(start, 0)), NEVER)
    return np.where(lengths == NEVER, NEVER, ends)


def _in_order(batches: Sequence[PlacedRecords], total: Ints) -> list[int]:
    """The order of heralds that came in several batches, each of which is in order."""
    keys: list[tuple[Any, ...]] = []
    for placed in batches:
        records = placed.records
        serial = np.arange(len(records)) if records.serial is None else records.serial
        # In a stream with a sequence, its values order rows and heralds of one time; null comes last.
        sequence = [None] * len(records) if records.sequence is None else records.sequence.to_pylist()
        for at, value in enumerate(sequence):
            within = (int(records.number[at]),) if records.sequence is None else (value is None, value or 0)
            keys.append((int(total[len(keys)]), int(records.ts[at]), *within, int(serial[at])))
    return sorted(range(len(keys)), key=keys.__getitem__)


class _Spans:
    """The rows that lie in the span of their herald, in order."""

    def __init__(self, columns: _Columns, rows: Ints, owner: Ints, heralds: int) -> None:
        self.columns = columns
        self.rows = rows
        self.owner = owner
        self._cuts: Ints = np.searchsorted(owner, np.arange(heralds + 1))

    def breaking(self, bounds: Bounds) -> Flags:
        """Which of the rows break their heralds."""
        wrong = np.zeros(len(self.rows), np.bool_)
        for name, bound in bounds.by_column.items():
            self._outside(name, bound, wrong)
        for at, test in bounds.others.items():
            begin, stop = self._cuts[at], self._cuts[at + 1]
            if stop > begin:
                wrong[begin:stop] = test.breaks(self.columns.arrays, self.rows[begin:stop])
        return wrong

    def _outside(self, name: str, bound: HeraldKeys, wrong: Flags) -> None:
        """Flag the rows whose value of a column lies outside the range that their herald has for it."""
        keys, valid = self.columns.keys(name, bound.kind)
        if len(self.rows) < len(keys):
            keys, valid = keys[self.rows], None if valid is None else valid[self.rows]
        low, high, nulls = ranges_of(keys, valid, self._cuts)
        sticks_out = (low <= high) & ((low < bound.least) | (high > bound.most))
        if valid is not None:
            sticks_out |= nulls & ~bound.takes_null
        if not sticks_out.any():
            return
        # The stretches that stick out, row by row.
        rows = np.flatnonzero(sticks_out[self.owner])
        owner, values = self.owner[rows], keys[rows]
        outside: Flags = (values < bound.least[owner]) | (values > bound.most[owner])
        wrong[rows] |= outside if valid is None else np.where(valid[rows], outside, ~bound.takes_null[owner])


class _Columns:
    """The columns of a stretch, and their ordered keys, which are made when they are first read."""

    def __init__(self, arrays: Mapping[str, pa.Array]) -> None:
        self.arrays = arrays
        self._keys: dict[str, tuple[Ints, Flags | None]] = {}

    def keys(self, name: str, kind: DataType) -> tuple[Ints, Flags | None]:
        if name not in self._keys:
            self._keys[name] = arrow_keys(self.arrays[name], kind)
        return self._keys[name]
