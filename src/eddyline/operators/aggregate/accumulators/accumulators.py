"""The state of aggregates per group: contributions that come and leave change it, and it is not computed over again.

Answer   `add` and `retract` take groups' codes and an argument's encoded values; `read` gives the aggregates of groups
         as an Arrow array. COUNT, SUM, AVG and STDDEV keep sums, MIN and MAX a heap (only the extreme, where nothing
         leaves), DISTINCT a count per value. `part` gives the state of groups as columns that another process can read,
         `merge` adds such columns to groups.
State    Arrays by group, named in `by_group` for snapshots; heaps are derived from the live contributions.
Limits   Where taking values back has cost digits, `renew` sums the live ones anew. Heaps have no parts.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import numpy as np
import pyarrow as pa

from eddyline.kernels.groups import group as kernels
from eddyline.kernels.groups import heaps, sums, whole_sums
from eddyline.model.datatypes import BIGINT, DOUBLE, DataType, decimal
from eddyline.operators.aggregate.accumulators.encoding import ALL, ValueEncoder, floats, grown
from eddyline.operators.aggregate.accumulators.groups import Dictionary, mask_of
from eddyline.operators.aggregate.accumulators.partition_rows import PartitionRows
from eddyline.operators.aggregate.contributions import Contributions
from eddyline.operators.aggregate.tables import Arrays, arrays_of, as_table
from eddyline.operators.expressions.functions_decimal import to_doubles
from eddyline.operators.expressions.vectors import Issues, Mask
from eddyline.state.columns import Array, Ints
from eddyline.state.plain_arrays import plain_array

#: DECIMAL(38, s) holds integers below this.
_WIDEST = 10**38


class Accumulator:
    """One argument's state for every group. `held`: the encoded values of all contributions by slot, if there are
    any."""

    by_group: tuple[str, ...] = ()

    def reserve(self, groups: int) -> None:
        for name in self.by_group:
            setattr(self, name, grown(getattr(self, name), groups))

    def add(self, codes: Ints, slots: Ints, encoded: Ints, valid: Mask, held: Ints) -> None:
        self.change(codes, encoded, valid, 1)

    def retract(self, codes: Ints, slots: Ints, encoded: Ints, valid: Mask, held: Ints) -> None:
        self.change(codes, encoded, valid, -1)

    def change(self, codes: Ints, encoded: Ints, valid: Mask, sign: int) -> None:
        raise NotImplementedError

    def reset(self, codes: Ints) -> None:
        """The groups are gone; another may get the code."""
        for name in self.by_group:
            getattr(self, name)[codes] = 0

    def renew(self, codes: Ints, values: Callable[[Mask], tuple[Ints, Ints, Mask]], groups: int) -> None:
        """Compute the groups anew whose state is inexact; `values` gives the live values of the groups in a mask."""

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        raise NotImplementedError

    # -- groups in parts, where nothing leaves

    def part(self, codes: Ints) -> pa.Table:
        return as_table({name: getattr(self, name)[codes] for name in self.by_group})

    def merge(self, codes: Ints, part: pa.Table) -> None:
        """Add the state of groups elsewhere to the state here; a code may come several times."""
        raise NotImplementedError


class Tally(Accumulator):
    """COUNT of values that are not null."""

    by_group = ("counts",)

    def __init__(self) -> None:
        self.counts: Ints = np.zeros(0, np.int64)

    def change(self, codes: Ints, encoded: Ints, valid: Mask, sign: int) -> None:
        kernels.add_counts(self.counts, codes, valid, sign)

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        return plain_array(BIGINT, self.counts[codes])

    def merge(self, codes: Ints, part: pa.Table) -> None:
        np.add.at(self.counts, codes, arrays_of(part)["counts"])


class FloatSums(Accumulator):
    """SUM, AVG and STDDEV of doubles, and STDDEV of distinct numbers of another type as doubles."""

    def __init__(self, squares: bool, kind: DataType, encoder: ValueEncoder) -> None:
        self.kind, self.encoder = kind, encoder
        self.by_group = ("sums", "squares", "tallies") if squares else ("sums", "tallies")
        self.sums: Array = np.zeros((0, 5))
        self.squares: Array = np.zeros((0, 5))
        self.tallies: Array = np.zeros((0, 4), np.int64)

    def change(self, codes: Ints, encoded: Ints, valid: Mask, sign: int) -> None:
        sums.add_floats(codes, self.doubles(encoded), valid, sign, self.sums, self.squares, self.tallies)

    def doubles(self, encoded: Ints) -> Array:
        if self.kind == DOUBLE:
            return floats(encoded)
        if self.kind.name != "DECIMAL":
            return encoded.astype(np.float64)
        return to_doubles(self.encoder.decode(encoded, ALL, self.kind), self.kind)

    def renew(self, codes: Ints, values: Callable[[Mask], tuple[Ints, Ints, Mask]], groups: int) -> None:
        bad = sums.doubtful(codes, self.sums)
        if "squares" in self.by_group:
            bad |= sums.doubtful(codes, self.squares) | sums.uncertain(codes, self.sums, self.squares, self.tallies)
        if bad.any():
            self.reset(codes[bad])
            self.change(*values(mask_of(codes[bad], groups)), 1)

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        values = self.tallies[codes, 0]
        if function == "stddev":
            deviations = sums.read_deviations(codes, self.sums, self.squares, self.tallies)
            return plain_array(DOUBLE, deviations, values > 1)
        return plain_array(DOUBLE, sums.read_sums(codes, self.sums, self.tallies, function == "avg"), values > 0)

    def merge(self, codes: Ints, part: pa.Table) -> None:
        more = arrays_of(part)
        sums.merge_floats(codes, more["sums"], self.sums)
        if "squares" in self.by_group:
            sums.merge_floats(codes, more["squares"], self.squares)
        np.add.at(self.tallies, codes, more["tallies"])


class WholeSums(Accumulator):
    """SUM and AVG of integers and decimals: exact in 128 bits for integers and in 192 for decimals. Only the final
    value has to fit."""

    by_group = ("sums", "tallies")

    def __init__(self, kind: DataType, encoder: ValueEncoder) -> None:
        exact = kind.name == "DECIMAL"
        self.result = decimal(38, kind.scale) if exact else BIGINT
        self.encoder = encoder if exact else None
        self.sums: Array = np.zeros((0, 3 if exact else 2), np.int64)
        self.tallies: Ints = np.zeros(0, np.int64)

    def change(self, codes: Ints, encoded: Ints, valid: Mask, sign: int) -> None:
        whole_sums.add_whole(codes, *self.halves(encoded), valid, sign, self.sums, self.tallies)

    def halves(self, encoded: Ints) -> tuple[Ints, Ints]:
        """The low and the high 64 bits of values."""
        return (encoded, encoded >> 63) if self.encoder is None else self.encoder.whole(encoded)

    def empty(self) -> WholeSums:
        """The same for other groups."""
        found = copy(self)
        found.sums, found.tallies = self.sums[:0].copy(), np.zeros(0, np.int64)
        return found

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        known = self.tallies[codes] > 0
        if function == "avg":
            means = whole_sums.read_means(codes, self.sums, self.tallies, _units(self.result))
            return plain_array(DOUBLE, means, known)
        low, high = self.sums[codes, 0], self.sums[codes, 1]
        if self.encoder is None:
            fits = high == low >> 63
        else:
            limit_high, limit_low = _WIDEST >> 64, np.uint64(_WIDEST & (2**64 - 1))
            below = (high < limit_high) | ((high == limit_high) & (low.view(np.uint64) < limit_low))
            # -10**38 itself is excluded by its neighbour: the two's complement of the limit lies at ~limit + 1.
            lowest = np.uint64(2**64 - int(limit_low))
            above = (high > ~limit_high) | ((high == ~limit_high) & (low.view(np.uint64) > lowest))
            fits = below & above & (self.sums[codes, 2] == high >> 63)
        if not fits.all() and (lost := int((known & ~fits).sum())):
            issues.add("overflow", lost)
            known = known & fits
        if self.encoder is None:
            return plain_array(self.result, low, known)
        return plain_array(self.result, np.stack([low, high], axis=1), known)

    def merge(self, codes: Ints, part: pa.Table) -> None:
        more = arrays_of(part)
        whole_sums.merge_whole(codes, more["sums"], self.sums)
        np.add.at(self.tallies, codes, more["tallies"])


def _units(kind: DataType) -> Array:
    """How many of the units that are summed up are one, as the two halves of a 128-bit integer."""
    units = 10**kind.scale if kind.name == "DECIMAL" else 1
    return np.array([units & (2**64 - 1), units >> 64], np.uint64)


class LastingExtreme(Accumulator):
    """MIN or MAX where nothing ever leaves: the extreme is enough."""

    by_group = ("extremes", "known")

    def __init__(self, largest: bool, kind: DataType, encoder: ValueEncoder) -> None:
        self.largest, self.kind, self.encoder = largest, kind, encoder
        self.extremes: Ints = np.zeros(0, np.int64)
        self.known: Mask = np.zeros(0, np.bool_)

    def change(self, codes: Ints, encoded: Ints, valid: Mask, sign: int) -> None:
        heaps.best(codes, encoded, valid, self.extremes, self.known, self.largest, self.encoder.texts(self.kind))

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        return self.encoder.decode(self.extremes[codes], self.known[codes], self.kind)

    def part(self, codes: Ints) -> pa.Table:
        # Not as encoded values: another encoder gives texts other ids.
        return pa.table({"values": self.encoder.decode(self.extremes[codes], self.known[codes], self.kind)})

    def merge(self, codes: Ints, part: pa.Table) -> None:
        self.change(codes, *self.encoder.encode(part.column("values").combine_chunks(), self.kind), 1)


class Extreme(Accumulator):
    """MIN or MAX over contributions that leave: a heap per group."""

    def __init__(self, largest: bool, kind: DataType, encoder: ValueEncoder) -> None:
        self.largest, self.kind, self.encoder = largest, kind, encoder
        self.roots: Ints = np.full(0, -1, np.int64)
        self.links = np.zeros((0, 3), np.int32)
        self.held: Ints = np.zeros(0, np.int64)

    def reserve(self, groups: int) -> None:
        self.roots = grown(self.roots, groups, -1)

    def add(self, codes: Ints, slots: Ints, encoded: Ints, valid: Mask, held: Ints) -> None:
        self.held, self.links = held, grown(self.links, len(held))
        heaps.insert(self.roots, codes, slots, held, self.links, valid, self.largest, self.encoder.texts(self.kind))

    def retract(self, codes: Ints, slots: Ints, encoded: Ints, valid: Mask, held: Ints) -> None:
        self.held = held
        heaps.remove(self.roots, codes, slots, held, self.links, valid, self.largest, self.encoder.texts(self.kind))

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        roots = self.roots[codes]
        known = roots >= 0
        encoded = self.held[np.where(known, roots, 0)] if len(self.held) else np.zeros(len(codes), np.int64)
        return self.encoder.decode(np.where(known, encoded, 0), known, self.kind)


class Distinct(Accumulator):
    """Adds each value of a group to `inner` when it comes for the first time, and removes it when its last row leaves."""

    def __init__(self, inner: Accumulator, lasting: bool, kind: DataType, encoder: ValueEncoder) -> None:
        self.inner = inner
        self.lasting = lasting
        self.kind, self.encoder = kind, encoder
        self.values = Dictionary(2)
        self.counts: Ints = np.zeros(self.values.capacity, np.int64)
        self.by_group = inner.by_group
        #: The values of each group; None: nobody asks for them.
        self.members: PartitionRows | None = PartitionRows() if lasting else None

    def reserve(self, groups: int) -> None:
        self.inner.reserve(groups)

    def change(self, codes: Ints, encoded: Ints, valid: Mask, sign: int) -> None:
        if len(valid):
            codes, encoded = codes[valid], encoded[valid]
        if sign > 0:
            crossing = self._count(codes, encoded)
        else:
            entries = self.values.find(np.stack([codes, encoded], axis=1))
            crossing = kernels.count_by(self.counts, entries, -1)
            self.unlink(entries[crossing])
            self.values.release(entries[crossing])
        self.inner.change(codes[crossing], encoded[crossing], ALL, sign)

    def counts_of(self, entries: Ints) -> Arrays:
        """What a snapshot has of values, by their codes."""
        return {"count": self.counts[entries]}

    def recount(self, codes: Ints, encoded: Ints, valid: Mask) -> None:
        """Count values that `inner` has already, as after a restart."""
        self._count(*(codes, encoded) if not len(valid) else (codes[valid], encoded[valid]))

    def _count(self, codes: Ints, encoded: Ints) -> Mask:
        """Count values of groups; True where one is the first."""
        entries = self.values.codes(np.stack([codes, encoded], axis=1))
        self.counts = grown(self.counts, self.values.capacity)
        first: Mask = kernels.count_by(self.counts, entries, 1)
        self.link(entries[first])
        return first

    def link(self, entries: Ints) -> None:
        """Values come to their groups."""
        if self.members is not None and len(entries):
            groups = np.ascontiguousarray(self.values.keys[entries, 0])
            self.members.reserve(int(groups.max()) + 1, self.values.capacity)
            self.members.add(groups, entries)

    def unlink(self, entries: Ints) -> None:
        """Values leave their groups, whose codes they still have."""
        if self.members is not None and len(entries):
            self.members.remove(self.values.keys[:, 0], entries)

    def reset(self, codes: Ints) -> None:
        # Where contributions leave one by one, a group that is gone has no values; one that closes still has them.
        if self.lasting and self.values.held:
            lost, _ = self.entries(codes)
            self.counts[lost] = 0
            self.unlink(lost)
            self.values.release(lost)
        self.inner.reset(codes)

    def renew(self, codes: Ints, values: Callable[[Mask], tuple[Ints, Ints, Mask]], groups: int) -> None:
        def distinct(wanted: Mask) -> tuple[Ints, Ints, Mask]:
            rows = self.values.keys[self.values.live()]
            rows = rows[wanted[rows[:, 0]]]
            return np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1]), ALL

        self.inner.renew(codes, distinct, groups)

    def read(self, function: str, codes: Ints, issues: Issues) -> pa.Array:
        return self.inner.read(function, codes, issues)

    def entries(self, codes: Ints) -> tuple[Ints, Ints]:
        """The codes of the values of groups, and the place of each one's group among `codes`."""
        assert self.members is not None
        self.members.reserve(int(codes.max(initial=-1)) + 1, self.values.capacity)
        entries, order = self.members.of(codes), np.argsort(codes)
        return entries, order[np.searchsorted(codes, self.values.keys[entries, 0], sorter=order)]

    def part(self, codes: Ints) -> pa.Table:
        """The distinct values of each group: their sums cannot be added where two parts have the same value."""
        entries, rows = self.entries(codes)
        order = np.argsort(rows, kind="stable")
        ends = np.cumsum(np.bincount(rows, minlength=len(codes)))
        values = self.encoder.decode(self.values.keys[entries[order], 1], ALL, self.kind)
        offsets = pa.array(np.concatenate([[0], ends]).astype(np.int64))
        return pa.table({"values": pa.LargeListArray.from_arrays(offsets, values)})

    def merge(self, codes: Ints, part: pa.Table) -> None:
        lists = part.column("values").combine_chunks()
        encoded, valid = self.encoder.encode(lists.flatten(), self.kind)
        self.change(np.repeat(codes, lists.value_lengths().to_numpy()), encoded, valid, 1)


def live_values(contributions: Contributions, argument: int) -> Callable[[Mask], tuple[Ints, Ints, Mask]]:
    """The live contributions' codes, encoded values and validity of one argument, for the groups in a mask."""

    def values(wanted: Mask) -> tuple[Ints, Ints, Mask]:
        slots = contributions.live()
        slots = slots[wanted[contributions.codes[slots]]]
        encoded = contributions.encoded[argument][slots]
        return contributions.codes[slots], encoded, contributions.valid_at(argument, slots)

    return values
