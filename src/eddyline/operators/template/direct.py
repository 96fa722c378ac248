"""Answers of plain aggregates over whole numbers: straight from the rows, without an aggregation that could go on.

Answer   `Direct.table(mask, request, ids)` groups rows by (request, columns of the mask) and gives the groups with their aggregates, as the
         aggregation of standing queries would. None: a value is too large for it, or texts with equal hashes differ.
State    None.
Limits   COUNT, SUM, AVG, MIN and MAX of columns of whole numbers, and COUNT of any column (`serves`). Sums of absolute values stay below
         2^53, where doubles are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.kernels.request_groups import count_groups, group_requests, group_rows, sum_groups
from eddyline.model.expression import Aggregate, Call, ColumnRef, Expression
from eddyline.model.joining import is_exact
from eddyline.model.query import Output
from eddyline.operators.template.rows import TemplateRows
from eddyline.state.columns import Ints, as_plain, pack_bits, validity

_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_EXACT = float(1 << 53)
_NONE = np.empty(0, np.bool_)
_INTS = np.empty(0, np.int64)


def serves(aggregates: Sequence[Output]) -> bool:
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
    def __init__(self, keys: Sequence[Output], aggregates: Sequence[Output], rows: TemplateRows) -> None:
        self.keys = keys
        self.aggregates = aggregates
        self.rows = rows

    def table(
        self, schema: pa.Schema, chosen: list[int], request: Ints, ids: Ints, values: Callable[[Expression, Ints], pa.Array]
    ) -> pa.Table | None:
        """One row per group, in the order of requests; `values` computes an expression over rows. There is at least one row."""
        words = self.rows.keys
        columns = np.array(chosen, np.int64)
        mask = sum(1 << k for k in chosen)
        if chosen:
            codes, first = group_rows(request, ids - words.base, words.words, words.nulls, columns, mask)
        else:
            codes, first = group_requests(request, int(request.max()) + 1)
        keys: list[pa.Array] = [pa.nulls(len(first), output.type.arrow) for output in self.keys]
        for k in chosen:
            output = self.keys[k]
            keys[k] = values(output.expression, ids[first])
            if output.type.name == "DOUBLE":
                # -0.0 and 0.0 are one group, whose value is 0.0.
                keys[k] = pc.add(keys[k], 0.0)
            elif not is_exact(output.type) and not _agree(values(output.expression, ids), keys[k], codes):
                return None
        aggregates = self._aggregates(codes, len(first), ids)
        if aggregates is None:
            return None
        asked = request[first]
        found = pa.Table.from_arrays([pa.array(asked), *keys, *aggregates], schema=schema)
        return found if (asked[1:] >= asked[:-1]).all() else found.take(pa.array(np.argsort(asked, kind="stable")))

    def _aggregates(self, codes: Ints, groups: int, ids: Ints) -> list[pa.Array] | None:
        """The aggregates of all groups; each column is read once."""
        known: dict[str, tuple[Ints, Ints, Ints, Ints]] = {}
        made = []
        for output in self.aggregates:
            aggregate = output.expression
            assert isinstance(aggregate, Aggregate)
            if aggregate.arg is None:
                made.append(pa.array(count_groups(codes, groups, _NONE)))
                continue
            over = argument(aggregate)
            assert over is not None
            column = over.column
            if column not in known:
                given = self.rows.values(column, ids)
                valid = validity(given)
                valid = _NONE if valid is None else valid
                if over.type.name in _WHOLE:
                    *found, largest = sum_groups(codes, groups, as_plain(given, over.type), valid)
                    if largest >= _EXACT:
                        return None
                    known[column] = tuple(found)
                else:
                    known[column] = count_groups(codes, groups, valid), _INTS, _INTS, _INTS
            made.append(read(aggregate, *known[column]))
        return made


def read(aggregate: Aggregate, counts: Ints, sums: Ints, least: Ints, greatest: Ints) -> pa.Array:
    """An aggregate of groups, from what they count, sum up and have at the ends."""
    if aggregate.function == "count":
        return pa.array(counts)
    there = counts > 0
    mask = None if there.all() else pack_bits(there)
    found = {"sum": sums, "min": least, "max": greatest, "avg": sums}[aggregate.function]
    if aggregate.function == "avg":
        return pa.Array.from_buffers(pa.float64(), len(found), [mask, pa.py_buffer(sums / np.maximum(counts, 1))])
    assert aggregate.type.numpy is not None
    return pa.Array.from_buffers(aggregate.type.arrow, len(found), [mask, pa.py_buffer(found.astype(aggregate.type.numpy))])


def _agree(values: pa.Array, keys: pa.Array, codes: Ints) -> bool:
    """Whether every row has the value of its group."""
    mine = keys.take(pa.array(codes))
    same = pc.or_kleene(pc.equal(values, mine), pc.and_(values.is_null(), mine.is_null()))
    return bool(pc.all(same.fill_null(False)).as_py())
