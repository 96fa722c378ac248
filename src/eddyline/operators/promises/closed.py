"""The values that the punctuations of one stream have closed: no further row has them.

Answer   `Closed.old` flags the rows of the stream, or the values of some of its columns, that a promise covers. A
         promise covers values if every column that it restricts is given and matches, or is restricted by a filter at
         least as far. `instants` gives when values were closed by promises since the last `make_old`; `before` flags
         the values that are closed at places among the rows of the epoch at hand.
State    Per column set the keys of promises (`state/closed.py`), and patterns of several columns one by one.
Limits   Promises with ranges over several columns are tested one after the other. With `remember` promises are kept in
         generations of that length of event time: one is remembered for that long at least, and for twice that long at
         most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from eddyline.kernels.joins.probe import ClosedRanges
from eddyline.model.datatypes import DataType
from eddyline.model.records.punctuation import HEARTBEAT, KIND, PATTERN, ValuePattern, from_text
from eddyline.model.records.records import Records
from eddyline.model.window import FOREVER
from eddyline.operators.promises.covering import (
    Columns,
    Mask,
    covered,
    has_order,
    in_order,
    ordered_keys,
    span_of,
    there,
)
from eddyline.operators.stream.keys import combined, keys_of
from eddyline.operators.stream.stream import whole_columns
from eddyline.state.blocks import held_blocks
from eddyline.state.closed import Intervals, Keys, earliest, joint_codes, least_places
from eddyline.state.columns import Ints, validity

LONG_AGO = -FOREVER
_NOTHING: Ints = np.empty(0, np.int64)


class _Sets:
    """Promises of one generation."""

    def __init__(self, types: Mapping[str, DataType]) -> None:
        self.types = types
        self.intervals: dict[str, Intervals] = {}
        self.keys: dict[tuple[str, ...], Keys] = {}
        self.texts: dict[str, dict[str, ValuePattern]] = {}

    @property
    def nbytes(self) -> int:
        held: list[Intervals | Keys] = [*self.intervals.values(), *self.keys.values()]
        return sum(keys.nbytes for keys in held) + sum(map(len, self.texts))

    def add(self, body: pa.Table) -> None:
        if body.column_names == [PATTERN]:
            for text in body.column(PATTERN).to_pylist():
                self._add_text(text)
            return
        name = body.column_names[0]
        if len(body.column_names) == 1 and has_order(self.types[name]):
            column = whole_columns(body)[name]
            given, keys = validity(column), ordered_keys(column, self.types[name])
            keys = keys if given is None else keys[given]
            self.intervals.setdefault(name, Intervals()).add_keys(keys)
            return
        names = tuple(sorted(body.column_names))
        values = whole_columns(body.select(names))
        present = np.logical_and.reduce([there(values[name]) for name in names])
        table = pa.table(values)
        keys = self._keys(names, values)
        if not present.all():
            table, keys = table.filter(pa.array(present)), keys[present]
        self.keys.setdefault(names, Keys()).add(keys, table)

    def _add_text(self, text: str) -> None:
        patterns = from_text(text, self.types)
        if any(pattern.is_empty for pattern in patterns.values()):
            return
        (column, pattern), *others = patterns.items()
        if not others and not pattern.null and has_order(self.types[column]):
            spans = [span_of(i, self.types[column]) for i in pattern.intervals]
            low = np.array([a for a, b in spans if a <= b], np.int64)
            high = np.array([b for a, b in spans if a <= b], np.int64)
            self.intervals.setdefault(column, Intervals()).add(low, high)
            return
        self.texts[text] = patterns

    def _keys(self, names: tuple[str, ...], values: Columns) -> Ints:
        return combined([keys_of(values[name], self.types[name]) for name in names])

    def is_by_key(self, name: str, regions: Mapping[str, ValuePattern]) -> bool:
        """Whether the keys of one column decide which of its values promises cover."""
        others = [*self.keys, *map(tuple, self.texts.values()), *((n,) for n in self.intervals if n != name)]
        return not any(set(names) <= {name, *regions} for names in others)

    def matches(self, columns: Columns, regions: Mapping[str, ValuePattern], rows: int) -> Mask:
        found = np.zeros(rows, np.bool_)
        for name, intervals in self.intervals.items():
            if name in columns:
                inside = intervals.holds(ordered_keys(columns[name], self.types[name]))
                present = validity(columns[name])
                found |= inside if present is None else inside & present
            elif name in regions and not regions[name].null:
                spans = [span_of(i, self.types[name]) for i in regions[name].intervals]
                if all(a > b or intervals.covers(a, b) for a, b in spans):
                    found[:] = True
        for names, keys in self.keys.items():
            if all(name in columns for name in names):
                present = np.logical_and.reduce([there(columns[name]) for name in names])
                table = pa.table({name: columns[name] for name in names})
                found |= present & keys.holds(self._keys(names, columns), table)
        for patterns in self.texts.values():
            mask = covered(patterns, columns, regions, rows, self.types)
            if mask is not None:
                found |= mask
        return found


class Closed:
    """All promises about one stream that have taken effect."""

    def __init__(self, types: Mapping[str, DataType], remember: int | None = None) -> None:
        self.types = dict(types)
        self.remember = remember
        self.generations: dict[int, _Sets] = {}
        #: The instant at which the stream ended: all values are closed. None: it goes on.
        self.ended: int | None = None
        #: Promises since the last `make_old`, with the instants at which they took effect.
        self.fresh: list[tuple[pa.Table, Ints]] = []
        #: Promises among the rows of the epoch at hand, with the ranks of the first rows after them.
        self.coming: list[tuple[pa.Table, Ints]] = []
        #: Bodies of promises of one column since the last `make_old`, by identity: their keys without nulls, where they
        #: are not null, the least and the greatest key.
        self._keys_by_body: dict[int, tuple[Ints, Mask | None, int, int]] = {}
        #: Caches of `closed_ranges` and `is_by_key` per column; new punctuations clear them.
        self._ranges: dict[str, ClosedRanges | None] = {}
        self._by_key: dict[tuple[str, frozenset[str]], bool] = {}

    @property
    def nbytes(self) -> int:
        return sum(sets.nbytes for sets in self.generations.values())

    @property
    def is_empty(self) -> bool:
        return not self.generations and not self.fresh and not self.coming and self.ended is None

    def add(self, body: pa.Table, instants: Ints) -> None:
        """Promises that have taken effect; they are fresh until `make_old`."""
        if len(body):
            self.fresh.append((body, instants))
            self._forget()

    def expect(self, body: pa.Table, ranks: Ints) -> None:
        """Promises among the rows of an epoch that begins, with the ranks of the first rows after them."""
        self.coming.append((body, ranks))
        self._forget()

    def _forget(self) -> None:
        self._ranges, self._by_key = {}, {}

    def make_old(self, now: int | None = None) -> None:
        """The fresh promises count as old from now on; generations that are too old at `now` are forgotten."""
        for body, instants in self.fresh:
            if self.remember is None:
                self._generation(0).add(body)
                continue
            numbers = instants // self.remember
            for number in np.unique(numbers).tolist():
                self._generation(number).add(body.filter(pa.array(numbers == number)))
        self.fresh, self.coming, self._keys_by_body = [], [], {}
        self._forget()
        if self.remember is not None and now is not None:
            self.generations = {n: sets for n, sets in self.generations.items() if n >= now // self.remember - 1}

    def _generation(self, number: int) -> _Sets:
        return self.generations.setdefault(number, _Sets(self.types))

    def old(
        self, columns: Columns, rows: int, regions: Mapping[str, ValuePattern] | None = None, ts: Ints | None = None
    ) -> Mask:
        """Which values a promise of before the last `make_old` covers; with `ts`, the event times of rows, no promise
        of a generation that was forgotten at that time."""
        found = np.zeros(rows, np.bool_)
        columns, regions = self._given(columns, regions or {}, rows)
        for number, sets in self.generations.items():
            mask = sets.matches(columns, regions, rows)
            if ts is not None and self.remember is not None:
                mask = mask & (ts // self.remember <= number + 1)
            found |= mask
        return found

    def instants(self, columns: Columns, rows: int, regions: Mapping[str, ValuePattern] | None = None) -> Ints:
        """When values were closed: LONG_AGO before the last `make_old`, FOREVER not yet."""
        old = self.old(columns, rows, regions)
        found = np.full(rows, FOREVER)
        found[old] = LONG_AGO
        columns, regions = self._given(columns, regions or {}, rows)
        for body, instants in self.fresh:
            np.minimum(found, self._fresh_instants(body, instants, columns, regions, rows), out=found)
        return found if self.ended is None else np.minimum(found, self.ended)

    # -- values at places of the epoch at hand

    def before(self, columns: Columns, ranks: Ints, regions: Mapping[str, ValuePattern]) -> Mask:
        """Which values are closed at the ranks of rows that have them."""
        found = self.old(columns, len(ranks), regions)
        columns, regions = self._given(columns, regions, len(ranks))
        for body, places in self.coming:
            found |= self._fresh_instants(body, places, columns, regions, len(ranks)) <= ranks
        return found

    # -- the same of values of one column, given by their keys

    def is_by_key(self, name: str, regions: Mapping[str, ValuePattern]) -> bool:
        """Whether the keys of a column decide which of its values promises cover."""
        cached = name, frozenset(regions)
        if cached not in self._by_key:
            recent = all(body.column_names == [name] for body, _ in (*self.coming, *self.fresh))
            old = all(sets.is_by_key(name, regions) for sets in self.generations.values())
            self._by_key[cached] = recent and old and has_order(self.types[name])
        return self._by_key[cached]

    def is_near(self, name: str, keys: Ints) -> bool:
        """Whether a promise closes a value between the least and the greatest of some keys of a column. False is
        certain where keys decide (`is_by_key`)."""
        if not len(keys):
            return False
        ends = in_order(keys, self.types[name])
        low, high = int(ends.min()), int(ends.max())
        old = [sets.intervals[name] for sets in self.generations.values() if name in sets.intervals]
        if any(intervals.is_near(low, high) for intervals in old):
            return True
        recent = (self._keys_of(name, body) for body, _ in (*self.coming, *self.fresh))
        return any(len(closed) and first <= high and last >= low for closed, _, first, last in recent)

    def _keys_of(self, name: str, body: pa.Table) -> tuple[Ints, Mask | None, int, int]:
        if id(body) not in self._keys_by_body:
            values = whole_columns(body)[name]
            given, keys = validity(values), ordered_keys(values, self.types[name])
            keys = keys if given is None else keys[given]
            ends = (int(keys.min()), int(keys.max())) if len(keys) else (0, -1)
            self._keys_by_body[id(body)] = keys, given, *ends
        return self._keys_by_body[id(body)]

    def key_instants(self, name: str, keys: Ints) -> Ints:
        """As `instants`."""
        keys = in_order(keys, self.types[name])
        found = np.where(self._old_keys(name, keys), LONG_AGO, FOREVER)
        for body, instants in self.fresh:
            first = self._first_of(name, body, instants, keys)
            if first is not None:
                np.minimum(found, first, out=found)
        return found

    def closed_ranges(self, name: str) -> ClosedRanges | None:
        """The closed keys of a column, for `kernels/joins/probe.py`; None: use `keys_before`. Values of the type are
        their own keys in order."""
        if name not in self._ranges:
            self._ranges[name] = self._ranges_of(name)
        return self._ranges[name]

    def _ranges_of(self, name: str) -> ClosedRanges | None:
        if len(self.generations) > 1 or len(self.coming) > 1 or self.types[name].name == "DOUBLE":
            return None
        begin, places = 0, _NOTHING
        for body, ranks in self.coming:
            keys, given, low, high = self._keys_of(name, body)
            if len(keys):
                found = least_places(keys, low, high, ranks if given is None else ranks[given], FOREVER)
                if found is None:
                    return None
                begin, places = low, found
        intervals = [sets.intervals[name] for sets in self.generations.values() if name in sets.intervals]
        return ClosedRanges(*(intervals[0].parts() if intervals else (_NOTHING,) * 4), begin, places)

    def closed_ranges_by_now(self, name: str) -> ClosedRanges | None:
        """As `closed_ranges`, when the epoch has ended: its promises have taken effect."""
        in_effect = [id(body) for body, _ in self.fresh] == [id(body) for body, _ in self.coming]
        return self.closed_ranges(name) if in_effect else None

    def keys_before(self, name: str, keys: Ints, ranks: Callable[[], Ints]) -> Mask:
        """As `before`; `ranks` is called only where a promise of the epoch is near."""
        keys = in_order(keys, self.types[name])
        found = self._old_keys(name, keys)
        for body, places in self.coming:
            first = self._first_of(name, body, places, keys)
            if first is not None:
                found |= first <= ranks()
        return found

    def _old_keys(self, name: str, keys: Ints) -> Mask:
        found = np.zeros(len(keys), np.bool_)
        for sets in self.generations.values():
            if name in sets.intervals:
                found |= sets.intervals[name].holds(keys)
        return found

    def _first_of(self, name: str, body: pa.Table, places: Ints, keys: Ints) -> Ints | None:
        closed, given, _, _ = self._keys_of(name, body)
        return earliest(closed, places if given is None else places[given], keys, FOREVER)

    def _fresh_instants(
        self, body: pa.Table, instants: Ints, columns: Columns, regions: Mapping[str, ValuePattern], rows: int
    ) -> Ints:
        found = np.full(rows, FOREVER)
        if body.column_names == [PATTERN]:
            for text, instant in zip(body.column(PATTERN).to_pylist(), instants.tolist(), strict=True):
                mask = covered(from_text(text, self.types), columns, regions, rows, self.types)
                if mask is not None:
                    found[mask] = np.minimum(found[mask], instant)
            return found
        if not all(name in columns for name in body.column_names):
            return found
        places = first_places(body, instants, columns, self.types, FOREVER)
        return found if places is None else places

    def _given(
        self, columns: Columns, regions: Mapping[str, ValuePattern], rows: int
    ) -> tuple[Columns, Mapping[str, ValuePattern]]:
        """Adds the columns that a filter fixes to one value."""
        more = {
            n: pa.repeat(pa.scalar(p.constants[0], self.types[n].arrow), rows)
            for n, p in regions.items()
            if n not in columns and p.constants is not None and len(p.constants) == 1
        }
        return ({**columns, **more} if more else columns), regions

    # -- snapshots

    def snapshot(self, prefix: str) -> tuple[object, dict[str, Callable[[], pa.Table]]]:
        """A JSON value and named blocks; call it when nothing is fresh."""
        blocks: dict[str, Callable[[], pa.Table]] = {}
        saved = []
        for number, sets in self.generations.items():
            listed = []
            parts: list[tuple[str, list[str], Intervals | Keys]] = []
            parts += [(f"i{place}", [name], held) for place, (name, held) in enumerate(sets.intervals.items())]
            parts += [(f"k{place}", list(names), held) for place, (names, held) in enumerate(sets.keys.items())]
            for part, names, held in parts:
                listed.append([part[0], names, f"{prefix}-{number}-{part}"])
                blocks |= held_blocks(f"{prefix}-{number}", {part: held.tables()})
            saved.append([number, listed, list(sets.texts)])
        return saved, blocks

    def restore(self, saved: object, load: Callable[[str], pa.Table]) -> None:
        assert isinstance(saved, list)
        for number, listed, texts in saved:
            sets = self._generation(number)
            for kind, names, block in listed:
                if kind == "i":
                    sets.intervals.setdefault(names[0], Intervals()).load(load(block))
                else:
                    sets.keys.setdefault(tuple(names), Keys()).load(load(block))
            sets.texts = {text: from_text(text, self.types) for text in texts}
        self._forget()

    def copy_old(self, other: Closed) -> None:
        """Everything that another has, as old: for a reader that comes later."""
        saved, blocks = other.snapshot("copy")
        self.restore(saved, lambda name: blocks[name]())
        for body, instants in other.fresh:
            self.add(body, instants)
        self.make_old()


def first_places(
    body: pa.Table, places: Ints, columns: Columns, types: Mapping[str, DataType], none: int
) -> Ints | None:
    """Per row the least place of a promise that has its values as constants, `none` where there is no such promise.
    None: there is none for any row."""
    name = body.column_names[0]
    if len(body.column_names) == 1 and has_order(types[name]):
        values, constants = columns[name], whole_columns(body)[name]
        given = validity(constants)
        keys = ordered_keys(constants, types[name])
        if given is not None:
            keys, places = keys[given], places[given]
        found = earliest(keys, places, ordered_keys(values, types[name]), none)
        if found is None:
            return None
        present = validity(values)
        return found if present is None else np.where(present, found, none)
    closed, codes = joint_codes(body, pa.table({name: columns[name] for name in body.column_names}))
    found = earliest(closed[closed >= 0], places[closed >= 0], codes, none)
    return None if found is None else np.where(codes < 0, none, found)


def makes_promises(records: Records) -> bool:
    """Whether records are punctuations that close values: heartbeats are punctuations that close none."""
    return records.kind == KIND and records.body.column_names != [HEARTBEAT]
