"""The values that the punctuations of one stream have closed: no further row has them.

Answer   `Closed.old` flags the rows of the stream, or the values of some of its columns, that a promise covers. A
         promise covers values if every column that it restricts is given and matches, or is restricted by a filter at
         least as far. `instants` gives when values were closed by promises since the last `make_old`; `before` flags
         the values that are closed at places among the rows of the epoch at hand.
State    Promises in generations (`promise_sets.py`), and those that are fresh.
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
)
from eddyline.operators.promises.promise_sets import PromiseSets
from eddyline.operators.stream.stream import whole_columns
from eddyline.state.blocks import Blocks, Load
from eddyline.state.closed import Intervals, earliest, joint_codes, least_places
from eddyline.state.columns import Ints, validity

LONG_AGO = -FOREVER
_NOTHING: Ints = np.empty(0, np.int64)


class Closed:
    """All promises about one stream that have taken effect."""

    def __init__(self, types: Mapping[str, DataType], remember: int | None = None) -> None:
        self.types = dict(types)
        self.remember = remember
        self.generations: dict[int, PromiseSets] = {}
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

    def _generation(self, number: int) -> PromiseSets:
        return self.generations.setdefault(number, PromiseSets(self.types))

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
        if any(intervals.is_near(low, high) for intervals in self._intervals(name)):
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
        intervals = self._intervals(name)
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
        for intervals in self._intervals(name):
            found |= intervals.holds(keys)
        return found

    def _intervals(self, name: str) -> list[Intervals]:
        """Per generation the covered keys of a column."""
        found = (sets.intervals(name) for sets in self.generations.values())
        return [intervals for intervals in found if intervals is not None]

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

    def snapshot(self, prefix: str) -> tuple[object, Blocks]:
        """A JSON value and named blocks; call it when nothing is fresh. `prefix` begins the names of blocks; no other
        state has it."""
        blocks: Blocks = {}
        saved = []
        for number, sets in self.generations.items():
            state, made = sets.snapshot(f"{prefix}-{number}")
            saved.append([number, state])
            blocks |= made
        return saved, blocks

    def restore(self, saved: object, load: Load) -> None:
        assert isinstance(saved, list)
        for number, state in saved:
            self._generation(number).restore(state, load)
        self._forget()

    def copy_old(self, other: Closed) -> None:
        """Everything that another has, as old: for a reader that comes later."""
        for number, sets in other.generations.items():
            self._generation(number).include(sets)
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
