"""Access path *precomputed*: the finest groups of the whole window, kept up to date, and an index over their keys.

Answer   `move(low, high)` makes the groups those of the rows with ids from `low` to `high`: new rows enter their
         groups, rows that have left the window leave them. `pairs` finds the groups of each request, `table` adds them
         up. `pays` compares the cost of groups with that of reading the rows.
State    Per group its keys, rows and sums; per row of the window its group and values. There is none before requests
         have cost as much as it costs to make the groups.
Limits   COUNT, SUM and AVG of whole numbers below 2^31, which can be subtracted exactly. Windows move forward. Once
         two texts have the same hash, this path is not used again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.kernels.groups.lasting_groups import Groups, chain_groups, enter_groups, leave_groups, merge_groups
from eddyline.kernels.requests.request_blocks import read_blocks, scan_each
from eddyline.kernels.requests.request_groups import group_rows
from eddyline.model.expressions.expression import Aggregate, Expression
from eddyline.model.joining import is_exact
from eddyline.model.query import OutputColumn
from eddyline.operators.template.blocks import Fields, IndexBlock, clustered
from eddyline.operators.template.direct import argument, read
from eddyline.operators.template.probes import PatternProbes, Requests
from eddyline.operators.template.rows import TemplateRows
from eddyline.operators.template.visits import read_all
from eddyline.state.columns import Ints, as_plain, joined_pairs, validity

_SMALL = frozenset({"TINYINT", "SMALLINT", "INT"})
_EVERY = np.empty(0, np.bool_)
Values = Callable[[Expression, Ints], pa.Array]


def serves(aggregates: Sequence[OutputColumn]) -> bool:
    """Whether all aggregates can be added up from groups, and rows removed from the groups again."""
    return all(isinstance(o.expression, Aggregate) and _is_summed(o.expression) for o in aggregates)


def _is_summed(aggregate: Aggregate) -> bool:
    if aggregate.distinct or aggregate.parameter is not None:
        return False
    if aggregate.function == "count" and aggregate.arg is None:
        return True
    column = argument(aggregate)
    return column is not None and column.type.name in _SMALL and aggregate.function in ("count", "sum", "avg")


@dataclass(frozen=True, slots=True)
class Brought:
    """The values that rows, one after the other, have added to their groups; a row in no group has the code -1."""

    codes: Ints
    values: Ints
    valid: npt.NDArray[np.bool_]

    @classmethod
    def of_none(cls, rows: int, summed: int) -> Brought:
        return cls(np.full(rows, -1, np.int64), np.zeros((summed, rows), np.int64), np.zeros((summed, rows), np.bool_))


class Precomputed:
    def __init__(self, keys: Sequence[OutputColumn], aggregates: Sequence[OutputColumn], rows: TemplateRows) -> None:
        self.keys, self.aggregates, self.rows = keys, aggregates, rows
        #: The columns that are counted or summed up, by name.
        found = (argument(o.expression) for o in aggregates if isinstance(o.expression, Aggregate))
        self.summed = list(dict.fromkeys(column.column for column in found if column is not None))
        #: Seconds that requests would have saved so far.
        self._owed = 0.0
        #: Whether texts with equal hashes have come.
        self.collided = False
        self.forget()

    def forget(self) -> None:
        """Row ids have changed, or the groups are no longer wanted."""
        self.has_groups = False
        self._start(0)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self._groups) + sum(
            c.codes.nbytes + c.values.nbytes + c.valid.nbytes for c in self._brought
        )

    def pays(self, requests: int, low: int, high: int, otherwise: float, groups: float) -> bool:
        """Whether requests for the rows low … high-1 are answered from groups; `otherwise` is the price of the best
        other path.

        Groups are made, and moved, once requests would have saved what that costs; `groups` is the number that there will
        be.
        """
        tuning = self.rows.tuning
        if self.collided or low >= high:
            return False
        if self.has_groups and (low > self.high or self.count > (high - low) * tuning.most_groups):
            self.forget()
        if self.has_groups and (low < self.low or high < self.high):
            return False
        moved = (high - self.high) + (low - self.low) if self.has_groups else high - low
        groups = float(self.count) if self.has_groups else groups
        saved = otherwise - requests * groups * tuning.single_scan
        self._owed += max(saved, 0.0)
        if saved <= 0.0 or groups > (high - low) * tuning.most_groups or self._owed < moved * tuning.build:
            return False
        self._owed = 0.0
        return True

    # -- rows come and leave

    def move(self, low: int, high: int, values: Values) -> bool:
        """Let the groups hold the rows low … high-1, which are not before those that they hold; False: hashes of texts
        collide."""
        if not self.has_groups:
            self._start(low)
            self.has_groups = True
        while self._brought and self.low < low:
            oldest = self._brought[0]
            gone = min(low - self.low, len(oldest.codes))
            leave_groups(self._groups, oldest.codes[:gone], oldest.values[:, :gone], oldest.valid[:, :gone])
            self.low += gone
            self._brought[0] = Brought(oldest.codes[gone:], oldest.values[:, gone:], oldest.valid[:, gone:])
            if gone == len(oldest.codes):
                self._brought.popleft()
        while self.high < high and not self.collided:
            self._enter(self.high, min(high, self.high + self.rows.tuning.portion), values)
        return not self.collided

    def _start(self, low: int) -> None:
        keys, summed = len(self.keys), len(self.summed)
        self.low = self.high = low
        self.count = 0
        self._index: tuple[IndexBlock, Ints] | None = None
        self._brought: deque[Brought] = deque()
        self._groups = _room(Groups(*(np.empty(0, np.int64),) * 2, *_empty(keys, summed)), 0, 16)

    def _enter(self, first: int, end: int, values: Values) -> None:
        """The rows first … end-1 enter; those that are not the template's are in no group."""
        wanted = self.rows.wanted(first, end)
        chosen = np.arange(end - first) if not len(wanted) else np.flatnonzero(wanted)
        ids = chosen + first
        keys = np.ascontiguousarray(self.rows.key_lines(list(range(self.rows.columns)), first, end)[:, chosen])
        nulls = self.rows.null_bits(first, end)[chosen]
        brought = np.zeros((len(self.summed), len(ids)), np.int64)
        valid = np.ones(brought.shape, np.bool_)
        for line, column in enumerate(self.summed):
            given = self.rows.values(column, ids)
            brought[line] = as_plain(given, self.rows.store.types[column])
            there = validity(given)
            valid[line] = True if there is None else there
        if self.count + len(ids) > len(self._groups.rows):
            self._groups = _room(self._groups, self.count, 2 * (self.count + len(ids)))
        codes = np.empty(len(ids), np.int64)
        older = np.where(self._groups.rows > 0, self._groups.newest, -1)
        self.count = enter_groups(self._groups, self.count, keys, nulls, ids, brought, valid, codes)
        self.collided = not self._agree(codes, ids, older, values)
        # Rows without a group take places between the others: ids are places.
        spread = Brought.of_none(end - first, len(self.summed))
        spread.codes[chosen], spread.values[:, chosen], spread.valid[:, chosen] = codes, brought, valid
        self._brought.append(spread)
        self.high = end

    def _agree(self, codes: Ints, ids: Ints, older: Ints, values: Values) -> bool:
        """Whether rows have the texts of their groups: those of an older row, or of the first of these rows."""
        texts = [output for output in self.keys if not is_exact(output.type)]
        if not texts or not len(ids):
            return True
        groups, first = np.unique(codes, return_index=True)
        known = np.where(older[groups] >= 0, older[groups], ids[first])
        stands_for = known[np.searchsorted(groups, codes)]
        for output in texts:
            mine, theirs = values(output.expression, ids), values(output.expression, stands_for)
            same = pc.or_kleene(pc.equal(mine, theirs), pc.and_(mine.is_null(), theirs.is_null()))
            if not pc.all(same.fill_null(False)).as_py():
                return False
        return True

    # -- answers

    def pairs(self, requests: Requests, addressing: Fields) -> tuple[Ints, Ints]:
        """Pairs of a request and a group that matches it."""
        made: list[tuple[Ints, Ints]] = []
        for fixed, _, numbers in requests.patterns():
            count = len(numbers)
            if not fixed:
                made.append((np.repeat(requests.request[numbers], self.count), np.tile(np.arange(self.count), count)))
                continue
            everything = np.zeros(count, np.int64), np.full(count, self.count)
            single = PatternProbes(requests, fixed, 0, numbers, *everything).alone()
            covered, kernels = 0, []
            if addressing.helps(fixed, 0) and self.count >= self.rows.tuning.block_rows >> 4:
                block, table = self._indexed(addressing)
                covered = block.stop
                kernels.append(partial(read_blocks, table, single))
            rest = self._groups.keys, self._groups.nulls, _EVERY, covered, self.count, 0
            kernels.append(partial(scan_each, *rest, single))
            for kernel in kernels:
                places, found = read_all(kernel, count, self.rows.tuning.least_room)
                made.append((requests.request[numbers[places]], found))
        request, group = joined_pairs(made)
        alive = self._groups.rows[group] > 0
        return request[alive], group[alive]

    def _indexed(self, addressing: Fields) -> tuple[IndexBlock, Ints]:
        """The groups clustered by address; those that came since are scanned until they are a quarter."""
        known = None if self._index is None else self._index[0]
        if known is None or known.addressing != addressing or 4 * (self.count - known.stop) > self.count:
            keys, nulls = np.ascontiguousarray(self._groups.keys[:, : self.count]), self._groups.nulls[: self.count]
            block = clustered(addressing, keys, nulls.copy(), np.arange(self.count), 0, self.count, self.rows.tuning)
            self._index = block, block.line(len(self.keys)).reshape(1, -1)
        assert self._index is not None
        return self._index

    def table(self, schema: pa.Schema, chosen: list[int], request: Ints, group: Ints, values: Values) -> pa.Table:
        """The groups of requests added up by their grouping columns: one row each, in the order of requests. There is
        at least one."""
        columns, mask = np.array(chosen, np.int64), sum(1 << k for k in chosen)
        codes, first = group_rows(request, group, self._groups.keys, self._groups.nulls, columns, mask)
        ids = self._groups.newest[group[first]]
        keys = [
            values(o.expression, ids) if k in chosen else pa.nulls(len(ids), o.type.arrow)
            for k, o in enumerate(self.keys)
        ]
        # -0.0 and 0.0 are one group, whose value is 0.0.
        keys = [pc.add(key, 0.0) if o.type.name == "DOUBLE" else key for key, o in zip(keys, self.keys, strict=True)]
        rows, counts, sums = merge_groups(self._groups, group, codes, len(first))
        made = []
        for output in self.aggregates:
            aggregate = output.expression
            assert isinstance(aggregate, Aggregate)
            if aggregate.arg is None:
                made.append(pa.array(rows))
                continue
            over = argument(aggregate)
            assert over is not None
            line = self.summed.index(over.column)
            made.append(read(aggregate, counts[line], sums[line], sums[line], sums[line]))
        number = request[first]
        found = pa.Table.from_arrays([pa.array(number), *keys, *made], schema=schema)
        return found if (number[1:] >= number[:-1]).all() else found.take(pa.array(np.argsort(number, kind="stable")))


def _empty(keys: int, summed: int) -> tuple[Ints, ...]:
    """Keys, nulls, rows, newest rows, counts and sums of no group."""
    lines = [np.empty((keys, 0), np.int64), *(np.empty(0, np.int64) for _ in range(3))]
    return (*lines, np.empty((summed, 0), np.int64), np.empty((summed, 0), np.int64))


def _room(groups: Groups, count: int, room: int) -> Groups:
    """The same groups with more room; chains are made anew."""
    size = 16
    while size < 2 * room:
        size *= 2
    wide = []
    for held in groups[2:]:
        more = np.zeros((*held.shape[:-1], room), np.int64)
        more[..., :count] = held[..., :count]
        wide.append(more)
    found = Groups(np.full(size, -1, np.int64), np.full(room, -1, np.int64), *wide)
    chain_groups(found, count)
    return found
