"""The promises of one generation: which values they cover, and the blocks that a snapshot has of them.

Answer   `add` takes the bodies of promises, `matches` flags the values that one of them covers. `snapshot` names blocks
         with what has been promised since the last one.
State    Per column set the keys of promises (`state/closed.py`), and patterns of several columns one by one.
Limits   Of a column with an order the blocks have the spans as they were promised. When these are more than twice as many
         as the intervals that they make, the next snapshot writes the intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import DataType
from eddyline.model.records.punctuation import PATTERN, ValuePattern, from_text
from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.operators.promises.covering import Columns, Mask, covered, has_order, ordered_keys, span_of, there
from eddyline.operators.row_blocks import GrownBlocks
from eddyline.operators.stream.keys import combined, keys_of
from eddyline.operators.stream.stream import whole_columns
from eddyline.state.blocks import Blocks, Load
from eddyline.state.closed import Intervals, Keys, spans_of
from eddyline.state.columns import Ints, validity

#: Fewer spans than these are not written anew.
_FEW_SPANS = 256


class _Spans:
    """The intervals of one column, and the spans that have made them."""

    def __init__(self) -> None:
        self.held = Intervals()
        self._blocks = GrownBlocks()
        #: Low and high end by number; kept from the first snapshot on.
        self._said: Ints = np.zeros((0, 2), np.int64)
        self._count = 0
        self._is_saved = False

    def add(self, low: Ints, high: Ints) -> None:
        self.held.add(low, high)
        if self._is_saved:
            self._note(low, high)

    def _note(self, low: Ints, high: Ints) -> None:
        end = self._count + len(low)
        self._said = grown(self._said, end)
        self._said[self._count : end, 0], self._said[self._count : end, 1] = low, high
        self._count = end

    def snapshot(self, name: str) -> tuple[list[list[Any]], Blocks]:
        if not self._is_saved or self._count > 2 * self.held.count + _FEW_SPANS:
            self._blocks.renew()
            self._count, self._is_saved = 0, True
            self._note(*self.held.spans())
        return self._blocks.snapshot(name, self._count, self._content)

    def _content(self, numbers: Ints) -> pa.Table:
        return pa.table({"low": self._said[numbers, 0], "high": self._said[numbers, 1]})

    def restore(self, saved: Any, load: Load) -> None:
        table = self._blocks.restore(saved, load)
        low, high = (np.array(table.column(name).to_numpy()) for name in ("low", "high"))
        self._is_saved = True
        self.add(low, high)


class PromiseSets:
    def __init__(self, types: Mapping[str, DataType]) -> None:
        self.types = types
        self._spans: dict[str, _Spans] = {}
        self._keys: dict[tuple[str, ...], tuple[Keys, GrownBlocks]] = {}
        self._texts: dict[str, dict[str, ValuePattern]] = {}
        self._text_blocks = GrownBlocks()

    @property
    def nbytes(self) -> int:
        held: list[Intervals | Keys] = [
            *(spans.held for spans in self._spans.values()),
            *(keys for keys, _ in self._keys.values()),
        ]
        return sum(keys.nbytes for keys in held) + sum(map(len, self._texts))

    def intervals(self, name: str) -> Intervals | None:
        """The covered keys of a column that promises of this column alone give."""
        return self._spans[name].held if name in self._spans else None

    # -- what is promised

    def add(self, body: pa.Table) -> None:
        if body.column_names == [PATTERN]:
            for text in body.column(PATTERN).to_pylist():
                self._add_text(text)
            return
        name = body.column_names[0]
        if len(body.column_names) == 1 and has_order(self.types[name]):
            column = whole_columns(body)[name]
            given, keys = validity(column), ordered_keys(column, self.types[name])
            self._add_spans(name, *spans_of(keys if given is None else keys[given]))
            return
        self._add_keys(tuple(sorted(body.column_names)), body)

    def _add_spans(self, name: str, low: Ints, high: Ints) -> None:
        self._spans.setdefault(name, _Spans()).add(low, high)

    def _add_keys(self, names: tuple[str, ...], body: pa.Table) -> None:
        values = whole_columns(body.select(names))
        present = np.logical_and.reduce([there(values[name]) for name in names])
        table, keys = pa.table(values), self._hashes(names, values)
        if not present.all():
            table, keys = table.filter(pa.array(present)), keys[present]
        self._keys.setdefault(names, (Keys(), GrownBlocks()))[0].add(keys, table)

    def _add_text(self, text: str) -> None:
        patterns = from_text(text, self.types)
        if any(pattern.is_empty for pattern in patterns.values()):
            return
        (column, pattern), *others = patterns.items()
        if not others and not pattern.null and has_order(self.types[column]):
            spans = [span_of(i, self.types[column]) for i in pattern.intervals]
            low = np.array([a for a, b in spans if a <= b], np.int64)
            high = np.array([b for a, b in spans if a <= b], np.int64)
            self._add_spans(column, low, high)
            return
        self._texts[text] = patterns

    def include(self, other: PromiseSets) -> None:
        """Everything that has been promised in another generation of the same stream."""
        for name, spans in other._spans.items():
            self._add_spans(name, *spans.held.spans())
        for names, (keys, _) in other._keys.items():
            for part in keys.values.parts:
                self._add_keys(names, part)
        self._texts |= other._texts

    def _hashes(self, names: tuple[str, ...], values: Columns) -> Ints:
        return combined([keys_of(values[name], self.types[name]) for name in names])

    # -- what is covered

    def is_by_key(self, name: str, regions: Mapping[str, ValuePattern]) -> bool:
        """Whether the keys of one column decide which of its values promises cover."""
        others = [*self._keys, *map(tuple, self._texts.values()), *((n,) for n in self._spans if n != name)]
        return not any(set(names) <= {name, *regions} for names in others)

    def matches(self, columns: Columns, regions: Mapping[str, ValuePattern], rows: int) -> Mask:
        found = np.zeros(rows, np.bool_)
        for name, spans in self._spans.items():
            if name in columns:
                inside = spans.held.holds(ordered_keys(columns[name], self.types[name]))
                present = validity(columns[name])
                found |= inside if present is None else inside & present
            elif name in regions and not regions[name].null:
                ends = [span_of(i, self.types[name]) for i in regions[name].intervals]
                if all(a > b or spans.held.covers(a, b) for a, b in ends):
                    found[:] = True
        for names, (keys, _) in self._keys.items():
            if all(name in columns for name in names):
                present = np.logical_and.reduce([there(columns[name]) for name in names])
                table = pa.table({name: columns[name] for name in names})
                found |= present & keys.holds(self._hashes(names, columns), table)
        for patterns in self._texts.values():
            mask = covered(patterns, columns, regions, rows, self.types)
            if mask is not None:
                found |= mask
        return found

    # -- snapshots

    def snapshot(self, name: str) -> tuple[dict[str, Any], Blocks]:
        """`name` begins the names of blocks; no other state has it."""
        blocks: Blocks = {}
        spans, keys = [], []
        for place, (column, held) in enumerate(self._spans.items()):
            saved, made = held.snapshot(f"{name}-spans-{place}")
            spans.append([column, saved])
            blocks |= made
        for place, (names, (values, written)) in enumerate(self._keys.items()):
            if not len(values.values):
                continue
            saved, made = written.snapshot(f"{name}-keys-{place}", len(values.values), values.values.take)
            keys.append([list(names), saved])
            blocks |= made
        texts = None
        if self._texts:
            texts, made = self._text_blocks.snapshot(
                f"{name}-texts", len(self._texts), self._texts_at(list(self._texts))
            )
            blocks |= made
        return {"spans": spans, "keys": keys, "texts": texts}, blocks

    def _texts_at(self, texts: list[str]) -> Callable[[Ints], pa.Table]:
        return lambda numbers: pa.table(
            {PATTERN: pa.array([texts[number] for number in numbers.tolist()], pa.string())}
        )

    def restore(self, saved: Mapping[str, Any], load: Load) -> None:
        for name, rows in saved["spans"]:
            self._spans.setdefault(name, _Spans()).restore(rows, load)
        for columns, rows in saved["keys"]:
            names, blocks = tuple(columns), GrownBlocks()
            self._keys[names] = Keys(), blocks
            self._add_keys(names, blocks.restore(rows, load))
        if saved["texts"] is not None:
            for text in self._text_blocks.restore(saved["texts"], load).column(PATTERN).to_pylist():
                self._texts[text] = from_text(text, self.types)
