"""Sealed blocks of a template's rows, clustered by address.

Answer   `Addressing` says how words become addresses: a field of bits per column (`Fields`), or the hash of some columns together
         (`Together`). `build` clusters one block; `Block.pairs` lets probes read it.
State    A block holds copies of ids, key words and null bits of its rows, and one offset per address.
Limits   The values that a column has in a block are numbered, and the numbers spread evenly over its field (*code*), unless they are very
         many. Of such columns those that are asked for by ranges are cut at quantiles of the block (*range*), the rest are hashed. Codes
         and cuts are in the order of the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from eddyline.kernels import request_blocks as tables
from eddyline.kernels import requests as kernels
from eddyline.kernels.clustered import cluster
from eddyline.kernels.hashing import mix_all
from eddyline.operators.keys import combined
from eddyline.operators.template.rows import TemplateRows
from eddyline.operators.template.visits import Visits
from eddyline.state.columns import Ints
from eddyline.tuning import TemplateTuning


@dataclass(slots=True)
class Located:
    """Where probes of one pattern look: the fixed part of each address, probes that the block can hold, and the open bits."""

    address: Ints
    alive: npt.NDArray[np.bool_]
    free: int
    low_free: int
    #: Which probe each address is for; a range has one per field that it covers.
    probe: Ints


#: Per column with a range the least and the greatest word of each probe.
Spans = Mapping[int, tuple[Ints, Ints]]


class Addresses(Protocol):
    bits: int

    def describe(self, line: Ints) -> None:
        """Write how words become addresses into the line of a block table (`kernels/request_blocks.py`)."""

    def of_rows(self, words: Ints, nulls: Ints) -> Ints: ...

    def locate(self, columns: list[int], keys: Ints, spans: Spans) -> Located: ...


class Addressing(Protocol):
    """A configuration: makes the addresses of a block from its rows."""

    def helps(self, pattern: int, ranged: int) -> bool:
        """Whether probes that fix these columns, and keep those within ranges, read less than the whole block."""

    def fit(self, words: Ints, nulls: Ints, tuning: TemplateTuning) -> Addresses: ...


@dataclass(slots=True)
class Field:
    """How one column's words become a field of the address."""

    bits: int
    #: The distinct words in order, where these are numbered; None: there are too many.
    codes: Ints | None
    #: Where there are no codes: the first word of every field but the lowest, in order; None: words are hashed.
    cuts: Ints | None = None

    def covered(self, low: Ints, high: Ints) -> tuple[Ints, Ints] | None:
        """The fields of the words from low to high: the first and the one after the last.

        None: words are hashed, and the range may lie in every field.
        """
        if self.codes is not None:
            begin, end = np.searchsorted(self.codes, low), np.searchsorted(self.codes, high, side="right")
            first = self._numbered(begin)
            return first, np.where(begin < end, self._numbered(end - 1) + 1, first)
        if self.cuts is None:
            return None
        first, last = np.searchsorted(self.cuts, low, side="right"), np.searchsorted(self.cuts, high, side="right")
        return first, np.where(low <= high, last + 1, first)

    def of(self, words: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Fields, and which of the words can be in the block at all."""
        if self.cuts is not None:
            return np.searchsorted(self.cuts, words, side="right"), np.ones(len(words), np.bool_)
        if self.codes is None:
            hashed: Ints = mix_all(words) & ((1 << self.bits) - 1)
            return hashed, np.ones(len(words), np.bool_)
        at = np.minimum(np.searchsorted(self.codes, words), max(len(self.codes) - 1, 0))
        there = self.codes[at] == words if len(self.codes) else np.zeros(len(words), np.bool_)
        return np.where(there, self._numbered(at), 0), there

    def describe(self, line: Ints) -> None:
        """Four numbers of a block table's line."""
        values = self.codes if self.codes is not None else self.cuts
        kind = tables.CODES if self.codes is not None else tables.HASHED if self.cuts is None else tables.CUTS
        line[:] = self.bits, kind, 0 if values is None else values.ctypes.data, 0 if values is None else len(values)

    def _numbered(self, codes: Ints) -> Ints:
        """Codes as fields: each code has its own, or each field has about the same number of neighbouring codes."""
        assert self.codes is not None
        values = len(self.codes)
        return codes if values <= 1 << self.bits else (codes << self.bits) // values


@dataclass(frozen=True)
class Fields:
    """The IMP index: `bits[c]` bits of the address for grouping column c, the first column's lowest."""

    bits: tuple[int, ...]
    #: Columns that are asked for by ranges, as bits.
    ranged: int = 0

    def helps(self, pattern: int, ranged: int) -> bool:
        return any(bits and (pattern | ranged) >> c & 1 for c, bits in enumerate(self.bits))

    def fit(self, words: Ints, nulls: Ints, tuning: TemplateTuning) -> Addresses:
        fields: list[Field | None] = []
        for column, bits in enumerate(self.bits):
            if not bits:
                fields.append(None)
                continue
            known = np.sort(words[column][nulls >> column & 1 == 0])
            distinct = known[np.concatenate([[True], known[1:] != known[:-1]])] if len(known) else known
            if len(distinct) <= max(1 << bits, tuning.most_codes):
                fields.append(Field(bits, distinct))
            elif self.ranged >> column & 1:
                quantiles = known[np.arange(1, 1 << bits) * len(known) >> bits]
                fields.append(Field(bits, None, np.unique(quantiles)))
            else:
                fields.append(Field(bits, None))
        return FieldAddresses(fields, tuning)


class FieldAddresses:
    def __init__(self, fields: list[Field | None], tuning: TemplateTuning) -> None:
        self.fields = fields
        self.tuning = tuning
        self.bits = sum(f.bits for f in fields if f is not None)

    def describe(self, line: Ints) -> None:
        for column, field in enumerate(self.fields):
            if field is not None:
                at = tables.FIELDS + tables.PER_FIELD * column
                field.describe(line[at : at + tables.PER_FIELD])

    def of_rows(self, words: Ints, nulls: Ints) -> Ints:
        address = np.zeros(words.shape[1], np.int64)
        shift = 0
        for column, field in enumerate(self.fields):
            if field is not None:
                part, _ = field.of(words[column])
                # The word of a null means nothing: its row gets field 0, and no probe takes the row.
                address |= np.where(nulls >> column & 1 == 0, part, 0) << shift
                shift += field.bits
        return address

    def locate(self, columns: list[int], keys: Ints, spans: Spans) -> Located:
        address, alive = np.zeros(keys.shape[1], np.int64), np.ones(keys.shape[1], np.bool_)
        probe = np.arange(keys.shape[1])
        shift, taken = 0, 0
        for column, field in enumerate(self.fields):
            if field is None:
                continue
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
            shift += field.bits
        # The lowest open bits, up to the lowest fixed one, make one run.
        low_free = shift if not taken else (taken & -taken).bit_length() - 1
        return Located(address, alive, ((1 << shift) - 1) & ~taken & ~((1 << low_free) - 1), low_free, probe)


def _spread(
    address: Ints, alive: npt.NDArray[np.bool_], probe: Ints, first: Ints, count: Ints, shift: int
) -> tuple[Ints, npt.NDArray[np.bool_], Ints]:
    """Each address once per field that the range of its probe covers."""
    times = count[probe]
    at = np.repeat(np.arange(len(address)), times)
    within = np.arange(len(at)) - np.repeat(np.cumsum(times) - times, times)
    return address[at] | (first[probe[at]] + within) << shift, alive[at], probe[at]


@dataclass(frozen=True)
class Together:
    """One hash over some columns, for comparisons with `Fields`. It helps requests that fix all of them, and no others."""

    columns: tuple[int, ...]
    bits: int

    def helps(self, pattern: int, ranged: int) -> bool:
        return all(pattern >> c & 1 for c in self.columns)

    def fit(self, words: Ints, nulls: Ints, tuning: TemplateTuning) -> Addresses:
        return _HashAddresses(self.columns, self.bits)


class _HashAddresses:
    def __init__(self, columns: tuple[int, ...], bits: int) -> None:
        self.columns = columns
        self.bits = bits

    def describe(self, line: Ints) -> None:
        line[tables.TOGETHER], line[tables.HASH_BITS] = sum(1 << c for c in self.columns), self.bits

    def of_rows(self, words: Ints, nulls: Ints) -> Ints:
        whole = sum(1 << c for c in self.columns)
        return np.where(nulls & whole == 0, self._hash([words[c] for c in self.columns]), 0)

    def locate(self, columns: list[int], keys: Ints, spans: Spans) -> Located:
        address = self._hash([keys[columns.index(c)] for c in self.columns])
        return Located(address, np.ones(keys.shape[1], np.bool_), 0, 0, np.arange(keys.shape[1]))

    def _hash(self, columns: list[Ints]) -> Ints:
        hashed: Ints = mix_all(combined([np.ascontiguousarray(c) for c in columns])) & ((1 << self.bits) - 1)
        return hashed


@dataclass(slots=True)
class Block:
    """The rows of one block, under one configuration."""

    addressing: Addressing
    addresses: Addresses
    rows: kernels.Clustered
    #: The id after the last row that it covers.
    stop: int
    #: Short forms of the key words (`kernels/request_blocks.py`).
    prints: npt.NDArray[np.uint16]
    least_room: int

    def line(self, columns: int) -> Ints:
        """The block in a block table; it holds for as long as the block does."""
        found = np.zeros(tables.FIELDS + tables.PER_FIELD * columns, np.int64)
        rows = self.rows
        found[tables.FIRST], found[tables.STOP], found[tables.ROWS] = rows.first, self.stop, len(rows.rows)
        found[tables.OFFSETS], found[tables.IDS] = rows.offsets.ctypes.data, rows.rows.ctypes.data
        found[tables.WORDS], found[tables.NULLS] = rows.words.ctypes.data, rows.nulls.ctypes.data
        found[tables.PRINTS] = self.prints.ctypes.data
        found[tables.NULL_BITS] = np.bitwise_or.reduce(rows.nulls) if len(rows.nulls) else 0
        self.addresses.describe(found)
        return found

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.rows[:4]) + self.prints.nbytes

    def pairs(
        self, pattern: int, columns: list[int], keys: Ints, spans: Spans, probes: Ints, low: Ints, high: Ints, visits: Visits
    ) -> list[tuple[Ints, Ints]]:
        """Pairs (probe, row id); `keys` has one line per fixed column, `low` and `high` are the ids of each probe's window.

        Rows beside a range may be among them.
        """
        at = self.addresses.locate(columns, keys, spans)
        keys, probes, low, high = np.ascontiguousarray(keys[:, at.probe]), probes[at.probe], low[at.probe], high[at.probe]
        made: list[tuple[Ints, Ints]] = []
        fixed, asking = np.array(columns, np.int64), kernels.Probes(keys, low, high)
        places = kernels.Places(at.address, at.alive, at.free, at.low_free)
        begin, room = 0, self.least_room
        while begin < len(probes):
            out_probe, out_row = np.empty(room, np.int64), np.empty(room, np.int64)
            begin, count, runs, visited = kernels.read_addresses(self.rows, fixed, pattern, begin, asking, places, out_probe, out_row)
            visits.rows += visited
            visits.runs += runs
            made.append((probes[out_probe[:count]], out_row[:count]))
            room *= 2
        return made


def build(rows: TemplateRows, first: int, addressing: Addressing) -> Block:
    """Cluster the rows of one block, as far as the template has reached them."""
    begin, end = max(first, rows.store.first), min(first + rows.tuning.block_rows, rows.end)
    words = rows.words(list(range(rows.columns)), begin, end)
    nulls = rows.null_bits(begin, end)
    wanted = rows.wanted(begin, end)
    kept = np.arange(end - begin) if not len(wanted) else np.flatnonzero(wanted)
    return clustered(addressing, words[:, kept], nulls[kept], kept + (begin - first), first, end, rows.tuning)


def clustered(addressing: Addressing, words: Ints, nulls: Ints, ids: Ints, first: int, stop: int, tuning: TemplateTuning) -> Block:
    """A block of rows with these words; `ids` are their distances from `first`."""
    addresses = addressing.fit(words, nulls, tuning)
    order, offsets = cluster(addresses.of_rows(words, nulls), 1 << addresses.bits)
    rows = kernels.Clustered(offsets, ids[order].astype(np.int32), np.ascontiguousarray(words[:, order]), nulls[order], first)
    return Block(addressing, addresses, rows, stop, tables.prints_of(rows.words), tuning.least_room)
