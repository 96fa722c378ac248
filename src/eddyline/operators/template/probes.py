"""Requests as columns, and the probes that find their rows.

Answer   `Requests` holds many requests to one template as arrays: instants, windows, grouping columns, wanted
         aggregates, and *probes*. A probe fixes some grouping columns to one value each; a request with IN lists has
         one probe per combination of values, so that a row matches at most one probe of a request. A probe may also
         keep some columns within a range. `patterns` gives the probes by the columns that they fix and keep within
         ranges; `PatternProbes` are the probes of one pattern with the ids of their windows.
State    None.
Limits   Ranges of whole numbers, dates and times are ranges of keys; other conditions beyond equality (`tests`) are
         tested row by row. Streams of requests have neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from itertools import product
from math import prod
from operator import or_
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.kernels.requests.request_blocks import Alone
from eddyline.model.datatypes import DataType
from eddyline.model.template import Request, RequestCondition, RequestStream, Template, window_size
from eddyline.model.window import Rows
from eddyline.operators.stream.keys import keys_of
from eddyline.state.columns import Ints

#: From this bit on, the columns with ranges follow the fixed columns in one number: a template has fewer grouping
#: columns.
_RANGED = 32
#: Types whose keys are in the order of their values.
_ORDERED = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIMESTAMP"})
#: The number of a single probe, and the key of a column that it does not fix. No code writes to them.
_FIRST, _OPEN = np.zeros(1, np.int64), np.zeros(1, np.int64)
_LEAST, _GREATEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


@dataclass(slots=True)
class Requests:
    """`count` requests, numbered from 0."""

    count: int
    #: Per request: the instant, the size of its window, the grouping columns and the wanted aggregates as bits.
    instant: Ints
    size: Ints
    group_by: Ints
    aggregates: Ints
    #: Per probe: its request, the columns that it fixes as bits, and per grouping column keys and values.
    request: Ints
    fixed: Ints
    keys: list[Ints]
    #: None: equal keys are equal values, or no probe fixes the column.
    values: list[pa.Array | None]
    #: Further conditions: request number and condition.
    tests: list[tuple[int, RequestCondition]] = field(default_factory=list)
    #: Per probe the columns with a range as bits, and per grouping column the least and the greatest key; None: no
    #: probe has a range.
    ranged: Ints | None = None
    lows: list[Ints] = field(default_factory=list)
    highs: list[Ints] = field(default_factory=list)

    def patterns(self) -> Iterator[tuple[int, int, Ints]]:
        """The sets of fixed columns and of columns with ranges that occur, as bits, with the numbers of their
        probes."""
        if len(self.fixed) == 1:
            yield int(self.fixed[0]), 0 if self.ranged is None else int(self.ranged[0]), _FIRST
            return
        both = self.fixed if self.ranged is None else self.fixed | self.ranged << _RANGED
        if len(both) and (both == both[0]).all():
            yield int(self.fixed[0]), int(both[0]) >> _RANGED, np.arange(len(both))
            return
        for pattern in np.unique(both).tolist():
            yield int(pattern) & (1 << _RANGED) - 1, int(pattern) >> _RANGED, np.flatnonzero(both == pattern)

    def some(self, chosen: Ints) -> Requests:
        """Some of the requests, in this order; their conditions come along."""
        place = np.full(self.count, -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        probes = np.flatnonzero(place[self.request] >= 0)
        return Requests(
            len(chosen),
            self.instant[chosen],
            self.size[chosen],
            self.group_by[chosen],
            self.aggregates[chosen],
            place[self.request[probes]],
            self.fixed[probes],
            [w[probes] for w in self.keys],
            [None if v is None else v.take(pa.array(probes)) for v in self.values],
            [(int(place[n]), condition) for n, condition in self.tests if place[n] >= 0],
            None if self.ranged is None else self.ranged[probes],
            [w[probes] for w in self.lows],
            [w[probes] for w in self.highs],
        )


@dataclass(frozen=True, slots=True)
class PatternProbes:
    """The probes of one pattern, and the rows among which each searches."""

    requests: Requests
    #: The columns that the probes fix, and those that they keep within ranges, as bits.
    fixed: int
    ranged: int
    #: Their numbers among the probes of the requests.
    numbers: Ints
    #: The ids of the window of each; `high` is excluded.
    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def columns(self) -> list[int]:
        """The columns that the probes fix."""
        return columns_in(self.fixed)

    def keys(self) -> Ints:
        """The keys of the fixed columns, one line each."""
        keys = np.empty((self.fixed.bit_count(), len(self.numbers)), np.int64)
        for line, column in enumerate(self.columns):
            keys[line] = self.requests.keys[column][self.numbers]
        return keys

    def spans(self) -> dict[int, tuple[Ints, Ints]]:
        """Per column with a range the least and the greatest key of each probe."""
        ends = self.requests.lows, self.requests.highs
        return {c: (ends[0][c][self.numbers], ends[1][c][self.numbers]) for c in columns_in(self.ranged)}

    def some(self, chosen: Ints) -> PatternProbes:
        return replace(self, numbers=self.numbers[chosen], low=self.low[chosen], high=self.high[chosen])

    def alone(self) -> Alone:
        """The probes for kernels that read for one probe after the other."""
        return Alone(np.array(self.columns, np.int64), self.fixed, self.keys(), self.low, self.high)


def columns_in(bits: int) -> list[int]:
    """The numbers of columns that are given as bits.

    >>> columns_in(0b101)
    [0, 2]
    """
    return [column for column in range(bits.bit_length()) if bits >> column & 1]


def of_requests(template: Template, requests: Sequence[Request], instants: Sequence[int], most_probes: int) -> Requests:
    """Single requests with their instants."""
    if len(requests) == 1 and (found := _one(template, requests[0], instants[0])) is not None:
        return found
    probes: list[tuple[int, dict[int, object]]] = []
    tests: list[tuple[int, RequestCondition]] = []
    spans: list[dict[int, tuple[int, int]]] = []
    for number, request in enumerate(requests):
        lists, rest = _lists(request, most_probes)
        spans.append(_spans(template, rest) if rest else {})
        tests += [(number, condition) for condition in rest if _bound(template, condition) is None]
        keys = sorted(lists)
        probes += [(number, dict(zip(keys, values, strict=True))) for values in product(*(lists[k] for k in keys))]
    patterns = [sum(1 << k for k in values) for _, values in probes]
    fixed, fixed_by_some = np.array(patterns, np.int64), reduce(or_, patterns, 0)
    # The keys of columns that no probe fixes are not read.
    open_keys = np.zeros(len(probes), np.int64)
    arrays, key_columns = [], []
    for k, output in enumerate(template.keys):
        is_fixed = fixed_by_some >> k & 1
        array = _array([values.get(k) for _, values in probes], output.type) if is_fixed else None
        arrays.append(array)
        key_columns.append(open_keys if array is None else keys_of(array, output.type))
    mine = [spans[number] for number, _ in probes]
    ranged = np.array([sum(1 << k for k in span) for span in mine], np.int64) if any(spans) else None
    lows, highs = ([], []) if ranged is None else _ends(mine, len(template.keys))
    return Requests(
        len(requests),
        np.array(instants, np.int64),
        np.array([window_size(r.window) for r in requests], np.int64),
        np.array([_bits(r.group_by) for r in requests], np.int64),
        np.array([_wanted(r.columns) for r in requests], np.int64),
        np.array([number for number, _ in probes], np.int64),
        fixed,
        key_columns,
        arrays,
        tests,
        ranged,
        lows,
        highs,
    )


def _one(template: Template, request: Request, instant: int) -> Requests | None:
    """A request that fixes columns to one value each; None: it has other conditions."""
    fixed = 0
    keys: list[Ints] = [_OPEN] * len(template.keys)
    values: list[pa.Array | None] = [None] * len(template.keys)
    for condition in request.conditions:
        key = condition.key
        if condition.kind != "in" or len(condition.values) != 1 or condition.values[0] is None or fixed >> key & 1:
            return None
        fixed |= 1 << key
        kind = template.keys[key].type
        if kind.name in _ORDERED:
            keys[key] = np.array(condition.values, np.int64)
        else:
            values[key] = array = _array(condition.values, kind)
            keys[key] = keys_of(array, kind)
    return Requests(
        1,
        np.array([instant], np.int64),
        np.array([window_size(request.window)], np.int64),
        np.array([_bits(request.group_by)], np.int64),
        np.array([_wanted(request.columns)], np.int64),
        _FIRST,
        np.array([fixed], np.int64),
        keys,
        values,
    )


@lru_cache(maxsize=256)
def _bits(numbers: tuple[int, ...]) -> int:
    return sum(1 << number for number in set(numbers))


@lru_cache(maxsize=256)
def _wanted(columns: tuple[tuple[bool, int], ...]) -> int:
    """The aggregates among output columns, as bits."""
    return _bits(tuple(number for is_key, number in columns if not is_key))


def _ends(spans: list[dict[int, tuple[int, int]]], keys: int) -> tuple[list[Ints], list[Ints]]:
    """Per grouping column the least and the greatest key of each probe."""
    ends = [
        np.array([span.get(k, (_LEAST, _GREATEST)) for span in spans], np.int64).reshape(-1, 2) for k in range(keys)
    ]
    return [np.ascontiguousarray(e[:, 0]) for e in ends], [np.ascontiguousarray(e[:, 1]) for e in ends]


def _bound(template: Template, condition: RequestCondition) -> tuple[int, int] | None:
    """The keys that satisfy a comparison, where these are a range: both ends included; None: they are not."""
    if template.keys[condition.key].type.name not in _ORDERED or condition.kind not in ("<", "<=", ">", ">="):
        return None
    (value,) = condition.values
    # A key of BOOLEAN is a number too, and a literal of another type is computed.
    if type(value) is not int or not _LEAST < value < _GREATEST:
        return None
    ends = {"<": (_LEAST, value - 1), "<=": (_LEAST, value), ">": (value + 1, _GREATEST), ">=": (value, _GREATEST)}
    return ends[condition.kind]


def _spans(template: Template, conditions: Sequence[RequestCondition]) -> dict[int, tuple[int, int]]:
    """Per grouping column the keys that all its comparisons leave."""
    found: dict[int, tuple[int, int]] = {}
    for condition in conditions:
        bound = _bound(template, condition)
        if bound is not None:
            low, high = found.get(condition.key, (_LEAST, _GREATEST))
            found[condition.key] = max(low, bound[0]), min(high, bound[1])
    return found


def _lists(request: Request, most_probes: int) -> tuple[dict[int, list[object]], list[RequestCondition]]:
    """Per grouping column the values that equalities and IN lists leave, without NULL; and the other conditions."""
    lists: dict[int, list[object]] = {}
    rest: list[RequestCondition] = []
    for condition in request.conditions:
        if condition.kind != "in":
            rest.append(condition)
            continue
        values = list(dict.fromkeys(v for v in condition.values if v is not None))
        known = lists.get(condition.key)
        lists[condition.key] = values if known is None else [v for v in known if v in values]
    total = prod(map(len, lists.values()))
    if total <= most_probes:
        return lists, rest
    for key in sorted(lists, key=lambda k: -len(lists[k])):
        if total <= most_probes:
            break
        total //= max(len(lists[key]), 1)
        rest.append(RequestCondition(key, "in", tuple(lists.pop(key))))
    return lists, rest


def _array(values: Sequence[object], kind: DataType) -> pa.Array:
    if kind.name in ("TIMESTAMP", "DATE"):
        plain = pa.array(values, pa.int64() if kind.name == "TIMESTAMP" else pa.int32())
        return plain.view(kind.arrow)
    return pa.array(values, kind.arrow)


def of_rows(stream: RequestStream, rows: pa.Table, instants: Ints) -> tuple[Requests, npt.NDArray[np.bool_], list[str]]:
    """The rows of a stream of requests. Also which of them can be answered, and the reasons why the others cannot."""
    template, count = stream.template, len(rows)
    good = np.ones(count, np.bool_)
    reasons = [""] * count
    longest = window_size(template.window)
    size = np.full(count, longest, np.int64)
    if stream.window is not None:
        given = rows.column(stream.window).combine_chunks()
        sizes = np.asarray(given.fill_null(longest).cast(pa.int64()))
        # As in the language: a window of no rows is none, one of no length has the rows of its instant.
        refuse = (sizes > longest) | (sizes < (1 if isinstance(template.window, Rows) else 0))
        for at in np.flatnonzero(refuse).tolist():
            reasons[at] = f"bad: a window of {sizes[at]}, and the template has {longest}"
        good &= ~refuse
        size = np.where(refuse, size, sizes)
    everything = (1 << len(template.keys)) - 1, (1 << len(template.aggregates)) - 1
    masks = []
    for column, whole, find, what in (
        (stream.group_by, everything[0], template.key, "grouping column"),
        (stream.aggregates, everything[1], template.aggregate, "aggregate"),
    ):
        mask = np.full(count, whole, np.int64)
        if column is not None:
            _read_lists(rows.column(column).combine_chunks(), find, what, mask, good, reasons)
        masks.append(mask)
    fixed = np.zeros(count, np.int64)
    keys, values = [], []
    known = {key: name for name, key in stream.parameters}
    for key, output in enumerate(template.keys):
        array = rows.column(known[key]).combine_chunks() if key in known else pa.nulls(count, output.type.arrow)
        fixed |= np.asarray(array.is_valid()).astype(np.int64) << key
        keys.append(keys_of(array, output.type))
        values.append(array)
    requests = Requests(count, instants, size, masks[0], masks[1], np.arange(count), fixed, keys, values)
    return requests, good, reasons


def _read_lists(
    given: pa.Array, find: object, what: str, mask: Ints, good: npt.NDArray[np.bool_], reasons: list[str]
) -> None:
    """Comma lists of names to bits; each distinct text is read once."""
    encoded = given.dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1))
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        bits, unknown = 0, None
        for name in (part.strip() for part in text.split(",") if part.strip()):
            number = cast("int | None", find(name))  # type: ignore[operator]
            if number is None:
                unknown = name
            else:
                bits |= 1 << number
        here = codes == code
        mask[here] = bits
        if unknown is not None:
            good &= ~here
            for at in np.flatnonzero(here).tolist():
                reasons[at] = f"bad: the template has no {what} {unknown}"
