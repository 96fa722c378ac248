"""Sealed blocks of a template's rows, clustered by address.

Answer   `Addressing` makes addresses of keys: a field of bits per column (`Fields`), or one hash of some columns
         (`Together`). `build` clusters one block; `IndexBlock.pairs` gives the rows of a block that probes match.
State    A block holds copies of ids, keys and null bits of its rows, and one offset per address.
Limits   The values that a column has in a block are numbered, and the numbers spread evenly over its field (*code*),
         unless they are very many. Of such columns those that requests bound by ranges are cut at quantiles of the
         block (*range*), the rest are hashed. Codes and cuts are in the order of the keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from eddyline.kernels.hashing import mix_all
from eddyline.kernels.requests import request_blocks as tables
from eddyline.kernels.requests import requests as kernels
from eddyline.kernels.requests.block_building import add_field, cluster_rows, code_rows, number_distinct
from eddyline.operators.stream.keys import combined
from eddyline.operators.template.probes import PatternProbes
from eddyline.operators.template.rows import TemplateRows
from eddyline.operators.template.visits import Visits, read_all
from eddyline.state.columns import Ints
from eddyline.state.runs import places_within
from eddyline.tuning import TemplateTuning


@dataclass(slots=True)
class Located:
    """Where probes of one pattern read: the fixed part of each address, whether the block can have rows for it, and the
    open bits."""

    address: Ints
    alive: npt.NDArray[np.bool_]
    free: int
    low_free: int
    #: Which probe each address is for; a range has one per field that it covers.
    probe: Ints


#: Per column with a range the least and the greatest key of each probe.
Spans = Mapping[int, tuple[Ints, Ints]]


@dataclass(slots=True)
class Codes:
    """The codes of rows: one line per column, -1 for nulls; and the distinct keys of each column in order, None where
    they are many."""

    rows: npt.NDArray[np.int32]
    distinct: list[Ints | None]

    @classmethod
    def of(cls, keys: Ints, nulls: Ints, most: Sequence[int]) -> Codes:
        """Columns are coded that have at most `most` distinct keys, a number for each column."""
        rows = np.empty(keys.shape, np.int32)
        distinct: list[Ints | None] = []
        for column, limit in enumerate(most):
            found, numbers = number_distinct(keys[column], nulls, column, limit)
            if not len(found) and len(numbers) and not (nulls >> column & 1).all():
                distinct.append(None)
                continue
            order = np.argsort(found)
            codes = np.empty(len(order), np.int32)
            codes[order] = np.arange(len(order))
            code_rows(numbers, codes)
            rows[column] = numbers
            distinct.append(found[order])
        return cls(rows, distinct)

    @property
    def coded(self) -> npt.NDArray[np.bool_]:
        return np.array([found is not None for found in self.distinct])


class Addresses(Protocol):
    bits: int

    def describe(self, line: Ints) -> None:
        """Write how keys become addresses into the line of a block table (`kernels/requests/request_blocks.py`)."""

    def locate(self, columns: list[int], keys: Ints, spans: Spans) -> Located: ...


class Addressing(Protocol):
    """A configuration: makes the addresses of a block from its rows."""

    def helps(self, pattern: int, ranged: int) -> bool:
        """Whether probes that fix these columns, and keep those within ranges, read less than the whole block."""

    def fit(self, keys: Ints, nulls: Ints, codes: Codes, tuning: TemplateTuning) -> tuple[Addresses, Ints]:
        """How these rows are addressed, and the address of each."""


@dataclass(slots=True)
class Field:
    """How one column's keys become a field of the address."""

    bits: int
    #: The bits of the address below its own.
    shift: int
    #: The distinct keys in order, where these are numbered; None: there are too many.
    codes: Ints | None
    #: Where there are no codes: the first key of every field but the lowest, in order; None: keys are hashed.
    cuts: Ints | None = None

    def covered(self, low: Ints, high: Ints) -> tuple[Ints, Ints] | None:
        """The fields of the keys from low to high: the first and the one after the last.

        None: keys are hashed, and the range may lie in every field.
        """
        if self.codes is not None:
            begin, end = np.searchsorted(self.codes, low), np.searchsorted(self.codes, high, side="right")
            first = self.numbered(begin)
            return first, np.where(begin < end, self.numbered(end - 1) + 1, first)
        if self.cuts is None:
            return None
        first, last = np.searchsorted(self.cuts, low, side="right"), np.searchsorted(self.cuts, high, side="right")
        return first, np.where(low <= high, last + 1, first)

    def of(self, keys: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Fields, and which of the keys can be in the block at all."""
        if self.cuts is not None:
            return np.searchsorted(self.cuts, keys, side="right"), np.ones(len(keys), np.bool_)
        if self.codes is None:
            hashed: Ints = mix_all(keys) & ((1 << self.bits) - 1)
            return hashed, np.ones(len(keys), np.bool_)
        at = np.minimum(np.searchsorted(self.codes, keys), max(len(self.codes) - 1, 0))
        there = self.codes[at] == keys if len(self.codes) else np.zeros(len(keys), np.bool_)
        return np.where(there, self.numbered(at), 0), there

    def describe(self, line: Ints) -> None:
        """The numbers of a field in a block table's line."""
        values = self.codes if self.codes is not None else self.cuts
        kind = tables.CODES if self.codes is not None else tables.HASHED if self.cuts is None else tables.CUTS
        address, count = (0, 0) if values is None else (values.ctypes.data, len(values))
        line[:] = self.bits, self.shift, kind, address, count

    def numbered(self, codes: Ints) -> Ints:
        """Codes as fields: each code has its own, or each field has about the same number of neighbouring codes."""
        assert self.codes is not None
        values = len(self.codes)
        return codes if values <= 1 << self.bits else (codes << self.bits) // values


@dataclass(frozen=True)
class Fields:
    """The IMP index: `bits[c]` bits of the address for grouping column c. `order` has the columns from the lowest field
    to the highest."""

    bits: tuple[int, ...]
    #: Columns that requests bound by ranges, as bits.
    ranged: int = 0
    #: Empty: the first column's field lies lowest.
    order: tuple[int, ...] = ()

    @cached_property
    def served(self) -> int:
        """The columns that have a field, as bits."""
        return sum(1 << c for c, bits in enumerate(self.bits) if bits)

    def helps(self, pattern: int, ranged: int) -> bool:
        return (pattern | ranged) & self.served != 0

    def fit(self, keys: Ints, nulls: Ints, codes: Codes, tuning: TemplateTuning) -> tuple[Addresses, Ints]:
        fields: list[Field] = [Field(0, 0, distinct) for distinct in codes.distinct]
        address = np.zeros(keys.shape[1], np.int64)
        shift = 0
        for column in self.order or range(len(self.bits)):
            bits = self.bits[column]
            if not bits:
                continue
            distinct = codes.distinct[column]
            if distinct is not None:
                fields[column] = field = Field(bits, shift, distinct)
                add_field(address, codes.rows[column], field.numbered(np.arange(len(distinct))), shift)
            else:
                fields[column] = field = Field(bits, shift, None, self._cuts(column, keys[column], nulls))
                # The key of a null is arbitrary: its row gets field 0, and no probe takes the row.
                address |= np.where(nulls >> column & 1 == 0, field.of(keys[column])[0], 0) << shift
            shift += bits
        return FieldAddresses(fields, tuning), address

    def _cuts(self, column: int, keys: Ints, nulls: Ints) -> Ints | None:
        """Quantiles of the keys of a column that requests bound by ranges; None: none does, and keys are hashed."""
        if not self.ranged >> column & 1:
            return None
        known = np.sort(keys[nulls >> column & 1 == 0])
        return np.unique(known[np.arange(1, 1 << self.bits[column]) * len(known) >> self.bits[column]])


class FieldAddresses:
    def __init__(self, fields: list[Field], tuning: TemplateTuning) -> None:
        """One field per column; columns without a share in the address have fields without bits."""
        self.fields = fields
        self.tuning = tuning
        self.bits = sum(f.bits for f in fields)

    def describe(self, line: Ints) -> None:
        for column, field in enumerate(self.fields):
            at = tables.FIELDS + tables.PER_FIELD * column
            field.describe(line[at : at + tables.PER_FIELD])

    def locate(self, columns: list[int], keys: Ints, spans: Spans) -> Located:
        address, alive = np.zeros(keys.shape[1], np.int64), np.ones(keys.shape[1], np.bool_)
        probe = np.arange(keys.shape[1])
        taken = 0
        for column, field in enumerate(self.fields):
            if not field.bits:
                continue
            shift = field.shift
            here = ((1 << field.bits) - 1) << shift
            if column in columns:
                part, there = field.of(keys[columns.index(column)])
                address |= part[probe] << shift
                alive &= there[probe]
                taken |= here
            elif column in spans and (covered := field.covered(*spans[column])) is not None:
                first, count = covered[0], np.maximum(covered[1] - covered[0], 0)
                narrow = count.mean() <= self.tuning.widest_range * (1 << field.bits)
                if narrow and count[probe].sum() <= self.tuning.most_addresses:
                    address, alive, probe = _spread(address, alive, probe, first, count, shift)
                    taken |= here
        # The lowest open bits, up to the lowest fixed one, make one run.
        low_free = self.bits if not taken else (taken & -taken).bit_length() - 1
        return Located(address, alive, ((1 << self.bits) - 1) & ~taken & ~((1 << low_free) - 1), low_free, probe)


def _spread(
    address: Ints, alive: npt.NDArray[np.bool_], probe: Ints, first: Ints, count: Ints, shift: int
) -> tuple[Ints, npt.NDArray[np.bool_], Ints]:
    """Each address once per field that the range of its probe covers."""
    times = count[probe]
    at = np.repeat(np.arange(len(address)), times)
    return address[at] | (first[probe[at]] + places_within(times)) << shift, alive[at], probe[at]


@dataclass(frozen=True)
class Together:
    """One hash of some columns, to compare `Fields` with. It serves only requests that fix all of these columns."""

    columns: tuple[int, ...]
    bits: int

    def helps(self, pattern: int, ranged: int) -> bool:
        return all(pattern >> c & 1 for c in self.columns)

    def fit(self, keys: Ints, nulls: Ints, codes: Codes, tuning: TemplateTuning) -> tuple[Addresses, Ints]:
        addresses = _HashAddresses(self.columns, self.bits, [Field(0, 0, distinct) for distinct in codes.distinct])
        whole = sum(1 << c for c in self.columns)
        return addresses, np.where(nulls & whole == 0, addresses.hashed([keys[c] for c in self.columns]), 0)


class _HashAddresses:
    def __init__(self, columns: tuple[int, ...], bits: int, fields: list[Field]) -> None:
        """`fields` have no bits: they know the codes of the columns."""
        self.columns = columns
        self.bits = bits
        self.fields = fields

    def describe(self, line: Ints) -> None:
        FieldAddresses.describe(self, line)  # type: ignore[arg-type]
        line[tables.TOGETHER], line[tables.HASH_BITS] = sum(1 << c for c in self.columns), self.bits

    def locate(self, columns: list[int], keys: Ints, spans: Spans) -> Located:
        address = self.hashed([keys[columns.index(c)] for c in self.columns])
        return Located(address, np.ones(keys.shape[1], np.bool_), 0, 0, np.arange(keys.shape[1]))

    def hashed(self, columns: list[Ints]) -> Ints:
        hashed: Ints = mix_all(combined([np.ascontiguousarray(c) for c in columns])) & ((1 << self.bits) - 1)
        return hashed


@dataclass(slots=True)
class IndexBlock:
    """The rows of one block, under one configuration."""

    addressing: Addressing
    addresses: Addresses
    rows: kernels.Clustered
    #: The id after the last row that it covers.
    stop: int
    #: Short forms of the keys (`kernels/requests/request_blocks.py`).
    forms: npt.NDArray[np.uint16]
    least_room: int

    def line(self, columns: int) -> Ints:
        """The block in a block table; it holds for as long as the block does."""
        found = np.zeros(tables.FIELDS + tables.PER_FIELD * columns, np.int64)
        rows = self.rows
        found[tables.FIRST], found[tables.STOP], found[tables.ROWS] = rows.first, self.stop, len(rows.rows)
        found[tables.OFFSETS], found[tables.IDS] = rows.offsets.ctypes.data, rows.rows.ctypes.data
        found[tables.KEYS], found[tables.NULLS] = rows.keys.ctypes.data, rows.nulls.ctypes.data
        found[tables.FORMS] = self.forms.ctypes.data
        found[tables.NULL_BITS] = np.bitwise_or.reduce(rows.nulls) if len(rows.nulls) else 0
        self.addresses.describe(found)
        return found

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.rows[:4]) + self.forms.nbytes

    def pairs(self, probes: PatternProbes, visits: Visits) -> tuple[Ints, Ints]:
        """Pairs (number of a probe, row id); rows outside of ranges may be among them."""
        at = self.addresses.locate(probes.columns, probes.keys(), probes.spans())
        probes, fixed = probes.some(at.probe), np.array(probes.columns, np.int64)
        probed = kernels.Probes(probes.keys(), probes.low, probes.high)
        places = kernels.ProbePlaces(at.address, at.alive, at.free, at.low_free)
        read = partial(kernels.read_addresses, self.rows, fixed, probes.fixed, probed, places)
        found, ids = read_all(read, len(probes), self.least_room, visits)
        return probes.numbers[found], ids


def build(rows: TemplateRows, first: int, stop: int, addressing: Addressing) -> IndexBlock:
    """Cluster the rows first … stop-1, without those that have left."""
    begin = max(first, rows.store.first)
    keys, nulls, wanted = rows.keys.lines(begin, stop), rows.null_bits(begin, stop), rows.wanted(begin, stop)
    ids = np.arange(begin - first, stop - first)
    if len(wanted):
        kept = np.flatnonzero(wanted)
        keys, nulls, ids = np.ascontiguousarray(keys[:, kept]), nulls[kept], ids[kept]
    return clustered(addressing, keys, nulls, ids, first, stop, rows.tuning)


def clustered(
    addressing: Addressing, keys: Ints, nulls: Ints, ids: Ints, first: int, stop: int, tuning: TemplateTuning
) -> IndexBlock:
    """A block of rows with these keys; `ids` are their distances from `first`."""
    shares = addressing.bits if isinstance(addressing, Fields) else (0,) * len(keys)
    codes = Codes.of(keys, nulls, [max(1 << bits, tuning.most_codes) for bits in shares])
    addresses, address = addressing.fit(keys, nulls, codes, tuning)
    offsets, places, sorted_keys, sorted_nulls, forms = cluster_rows(
        address, 1 << addresses.bits, keys, codes.rows, codes.coded, nulls, ids
    )
    rows = kernels.Clustered(offsets, places, sorted_keys, sorted_nulls, first)
    return IndexBlock(addressing, addresses, rows, stop, forms, tuning.least_room)
