"""Answers of plain aggregates over whole numbers: straight from the rows, without the state of an aggregation.

Answer   `Direct.table(columns, requests, request, ids)` groups rows by (request, columns) and gives the groups with
         their aggregates, the same as an aggregation gives. None: a value is too large for it, or texts with equal
         hashes differ.
State    None.
Limits   COUNT, SUM, AVG, MIN and MAX of columns of whole numbers, and COUNT of any column (`serves`). Sums of absolute
         values stay below 2^53, where doubles are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.kernels.groups.whole_sums import read_means
from eddyline.kernels.requests.request_groups import group_requests, group_rows, sum_groups
from eddyline.model.datatypes import BIGINT, DOUBLE
from eddyline.model.expressions.expression import Aggregate, Call, ColumnRef, Expression
from eddyline.model.joining import is_exact
from eddyline.model.query import OutputColumn
from eddyline.operators.template.rows import TemplateRows
from eddyline.state.columns import Ints, validity
from eddyline.state.plain_arrays import plain_array

#: Computes an expression over rows.
Reader = Callable[[Expression, Ints], pa.Array]

_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_EXACT = float(1 << 53)
#: Whole numbers are summed up in units of 1: the halves of that 128-bit number.
_UNITS = np.array([1, 0], np.uint64)
#: The first row of a single group.
_FIRST = np.zeros(1, np.int64)


def serves(aggregates: Sequence[OutputColumn]) -> bool:
    """Whether all aggregates are plain."""
    return all(isinstance(o.expression, Aggregate) and _is_plain(o.expression) for o in aggregates)


def _is_plain(aggregate: Aggregate) -> bool:
    if aggregate.distinct or aggregate.parameter is not None:
        return False
    column = argument(aggregate)
    if aggregate.function == "count":
        return aggregate.arg is None or column is not None
    return column is not None and column.type.name in _WHOLE and aggregate.function in ("sum", "avg", "min", "max")


def argument(aggregate: Aggregate) -> ColumnRef | None:
    """The column that an aggregate is over, also where its whole numbers are widened: their sums are the same."""
    e = aggregate.arg
    if isinstance(e, Call) and e.function == "cast" and e.type.name in ("BIGINT", "DOUBLE") and len(e.args) == 1:
        inner = e.args[0]
        return inner if isinstance(inner, ColumnRef) and inner.type.name in _WHOLE else None
    return e if isinstance(e, ColumnRef) else None


class Direct:
    def __init__(self, keys: Sequence[OutputColumn], aggregates: Sequence[OutputColumn], rows: TemplateRows) -> None:
        """`aggregates` are plain (`serves`)."""
        self.keys = keys
        self.rows = rows
        found = [o.expression for o in aggregates if isinstance(o.expression, Aggregate)]
        #: The aggregates, each with the column that it is over (None: it counts rows).
        self._over = [(aggregate, argument(aggregate)) for aggregate in found]
        self._open = [output.type.arrow for output in keys]

    def table(
        self, schema: pa.Schema, chosen: list[int], count: int, request: Ints, ids: Ints, values: Reader
    ) -> pa.Table | None:
        """One row per group, in the order of requests, of which there are `count`; `values` computes an expression over
        rows.

        There is at least one row.
        """
        codes, first = self._groups(chosen, count, request, ids)
        found_keys = self._keys(chosen, codes, first, ids, values)
        aggregates = None if found_keys is None else self._aggregates(self._over, codes, len(first), ids)
        if found_keys is None or aggregates is None:
            return None
        keys = [found_keys[k] if k in found_keys else pa.nulls(len(first), kind) for k, kind in enumerate(self._open)]
        number = request[first]
        found = pa.Table.from_arrays([pa.array(number), *keys, *aggregates], schema=schema)
        in_order = count == 1 or (number[1:] >= number[:-1]).all()
        return found if in_order else found.take(pa.array(np.argsort(number, kind="stable")))

    def columns(
        self, wanted: Sequence[tuple[bool, int]], chosen: list[int], request: Ints, ids: Ints, values: Reader
    ) -> list[pa.Array] | None:
        """The same for one request: the columns that it wants, (whether a grouping column, its number) each, and no
        others."""
        codes, first = self._groups(chosen, 1, request, ids)
        keys = self._keys(chosen, codes, first, ids, values) if chosen else {}
        numbers = [number for is_key, number in wanted if not is_key]
        if keys is None:
            return None
        aggregates = self._aggregates([self._over[n] for n in numbers], codes, len(first), ids)
        if aggregates is None:
            return None
        made = iter(aggregates)
        return [keys[number] if is_key else next(made) for is_key, number in wanted]

    def _groups(self, chosen: list[int], count: int, request: Ints, ids: Ints) -> tuple[Ints, Ints]:
        """The group of each row, and the first row of each group."""
        if chosen:
            keys = self.rows.keys
            columns, mask = np.array(chosen, np.int64), sum(1 << k for k in chosen)
            found: tuple[Ints, Ints] = group_rows(request, ids - keys.base, keys.keys, keys.nulls, columns, mask)
        elif count == 1:
            found = request, _FIRST
        else:
            found = group_requests(request, count)
        return found

    def _keys(
        self, chosen: list[int], codes: Ints, first: Ints, ids: Ints, values: Reader
    ) -> dict[int, pa.Array] | None:
        """The grouping columns of all groups; None: texts with equal hashes differ."""
        keys: dict[int, pa.Array] = {}
        for k in chosen:
            output = self.keys[k]
            keys[k] = values(output.expression, ids[first])
            if output.type.name == "DOUBLE":
                # -0.0 and 0.0 are one group, whose value is 0.0.
                keys[k] = pc.add(keys[k], 0.0)
            elif not is_exact(output.type) and not _agree(values(output.expression, ids), keys[k], codes):
                return None
        return keys

    def _aggregates(
        self, wanted: Sequence[tuple[Aggregate, ColumnRef | None]], codes: Ints, groups: int, ids: Ints
    ) -> list[pa.Array] | None:
        """Aggregates of all groups; each column is read once, where it is stored."""
        known: dict[str, Ints] = {}
        #: How many rows each group has.
        rows: Ints | None = None
        at = ids - self.rows.store.base
        made = []
        for aggregate, over in wanted:
            if over is None:
                rows = np.bincount(codes, minlength=groups) if rows is None else rows
                made.append(plain_array(BIGINT, rows))
                continue
            column = over.column
            if column not in known:
                known[column] = found = np.empty((4, groups), np.int64)
                if over.type.name in _WHOLE:
                    stored, valid = self.rows.plain(column)
                    if sum_groups(codes, at, stored, valid, found) >= _EXACT:
                        return None
                    rows = found[0] if not len(valid) else rows
                else:
                    there = validity(self.rows.values(column, ids))
                    found[0] = np.bincount(codes if there is None else codes[there], minlength=groups)
            made.append(read(aggregate, *known[column]))
        return made


def read(aggregate: Aggregate, counts: Ints, sums: Ints, least: Ints, greatest: Ints) -> pa.Array:
    """An aggregate of groups, from their counts, sums, least and greatest values."""
    if aggregate.function == "count":
        return plain_array(BIGINT, counts)
    there = counts > 0
    if aggregate.function == "avg":
        return plain_array(DOUBLE, _means(sums, counts), there)
    found = sums if aggregate.function == "sum" else least if aggregate.function == "min" else greatest
    assert aggregate.type.numpy is not None
    return plain_array(aggregate.type, found.astype(aggregate.type.numpy, copy=False), there)


def _means(sums: Ints, counts: Ints) -> npt.NDArray[np.float64]:
    if (np.abs(sums) < 1 << 53).all():
        # Both are doubles: their quotient is rounded once.
        return sums / np.maximum(counts, 1)
    halves = np.stack([sums, sums >> 63], axis=1)
    found: npt.NDArray[np.float64] = read_means(np.arange(len(sums)), halves, counts, _UNITS)
    return found


def _agree(values: pa.Array, keys: pa.Array, codes: Ints) -> bool:
    """Whether every row has the value of its group."""
    mine = keys.take(pa.array(codes))
    same = pc.or_kleene(pc.equal(values, mine), pc.and_(values.is_null(), mine.is_null()))
    return bool(pc.all(same.fill_null(False)).as_py())
