"""From pairs of requests and rows to answers: plain aggregates directly, others by an aggregation per set of grouping
columns.

Answer   `Answering.tables(requests, request, ids)` groups the pairs by (request, chosen columns) and gives one table
         for all requests: their number, all grouping columns (NULL where not grouped by), all aggregates (NULL where
         not wanted). A request that groups by nothing has one row, also without any pair; a grouped request without
         pairs has none. Where other shards have rows of the template too, `parts` gives the state of the groups here,
         and `merged` makes the same tables of the parts of all shards.
State    The expressions of the template, compiled.
Limits   Transient: every call begins with an empty aggregation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import BIGINT
from eddyline.model.expressions.expression import Aggregate, ColumnKey, ColumnRef, Expression, columns_of
from eddyline.model.query import Emit, OutputColumn
from eddyline.model.template import Template
from eddyline.operators.aggregate.aggregation import Aggregation
from eddyline.operators.aggregate.config import AggregateConfig
from eddyline.operators.aggregate.contributions import Batch
from eddyline.operators.expressions.evaluate import Compiled, Issues, compile_expression
from eddyline.operators.template.direct import Direct, Reader, serves
from eddyline.operators.template.precomputed import Precomputed
from eddyline.operators.template.probes import Requests, columns_in
from eddyline.operators.template.rows import TemplateRows
from eddyline.state.columns import Ints

#: The column of results with the number of their request.
REQUEST = "_request"
_REQUEST = ColumnRef("", REQUEST, BIGINT)
#: Columns of parts: grouping columns and wanted aggregates of the request as bits, and the grouping columns by number.
_GROUPS, _WANTED, _KEY = "_groups", "_wanted", "_key_"


class Answering:
    def __init__(
        self,
        template: Template,
        keys: tuple[OutputColumn, ...],
        aggregates: tuple[OutputColumn, ...],
        rows: TemplateRows,
    ) -> None:
        """`keys` and `aggregates` as the planner renamed their references."""
        self.template = template
        self.keys = keys
        self.aggregates = aggregates
        self.rows = rows
        self._compiled: dict[Expression, Compiled | None] = {}
        #: By the set of grouping columns, as bits.
        self._configs: dict[int, AggregateConfig] = {}
        #: The aggregates of no row; None: not known yet, or to be computed each time.
        self._empty: pa.Table | None = None
        self._direct = Direct(keys, aggregates, rows) if serves(aggregates) else None
        self.schema = pa.schema([(REQUEST, pa.int64()), *((o.name, o.type.arrow) for o in (*keys, *aggregates))])

    def tables(self, requests: Requests, request: Ints, ids: Ints, issues: Issues) -> pa.Table:
        """The answers of all requests; `request[i]` is the number of the request that row `ids[i]` counts for."""
        made: list[pa.Table] = []
        for mask, chosen, grouped in _by_groups(requests, request):
            mine, here = request[chosen], ids[chosen]
            found = None
            if len(mine) and self._direct is not None:
                reader = self._reader(issues)
                found = self._direct.table(self.schema, columns_in(mask), requests.count, mine, here, reader)
            if len(mine) and found is None:
                found = self._results(self._grouped(mask, mine, here, issues), mask, issues)
            made += self._with_empty(found, mask, grouped, issues)
        return self._unwanted_as_null(self._in_order(made), requests.aggregates)

    def columns(
        self, requests: Requests, wanted: Sequence[tuple[bool, int]], request: Ints, ids: Ints, issues: Issues
    ) -> Sequence[pa.Array | pa.ChunkedArray]:
        """The columns of the answer of one request: per column whether it is a grouping column, and its number."""
        if self._direct is not None and len(ids):
            chosen = columns_in(int(requests.group_by[0]))
            found = self._direct.columns(wanted, chosen, request, ids, self._reader(issues))
            if found is not None:
                return found
        return self.picked(self.tables(requests, request, ids, issues), wanted)

    def picked(self, table: pa.Table, wanted: Sequence[tuple[bool, int]]) -> list[pa.ChunkedArray]:
        """Columns of answers. Before the keys come the numbers of requests; then follow the aggregates."""
        return [table.column(1 + number + (0 if is_key else len(self.keys))) for is_key, number in wanted]

    def _reader(self, issues: Issues) -> Reader:
        def values(e: Expression, ids: Ints) -> pa.Array:
            return self.value(e, {(a, c): self.rows.values(c, ids) for a, c in columns_of(e)}, len(ids), issues)

        return values

    def summed(self, requests: Requests, request: Ints, group: Ints, groups: Precomputed, issues: Issues) -> pa.Table:
        """The answers of all requests from pairs of a request and a group that is kept."""
        values = self._reader(issues)
        made: list[pa.Table] = []
        for mask, chosen, grouped in _by_groups(requests, request):
            mine, here = request[chosen], group[chosen]
            found = groups.table(self.schema, columns_in(mask), mine, here, values) if len(mine) else None
            made += self._with_empty(found, mask, grouped, issues)
        return self._unwanted_as_null(self._in_order(made), requests.aggregates)

    def _in_order(self, made: list[pa.Table]) -> pa.Table:
        if not made:
            return self.schema.empty_table()
        whole = made[0] if len(made) == 1 else pa.concat_tables(made)
        number = np.asarray(whole.column(REQUEST))
        if len(number) == 1:
            return whole
        if (number[1:] >= number[:-1]).all():
            return whole.combine_chunks()
        return whole.take(pa.array(np.argsort(number, kind="stable"))).combine_chunks()

    def _grouped(self, mask: int, request: Ints, ids: Ints, issues: Issues) -> Aggregation:
        aggregation = self._aggregation(mask)
        if len(request):
            aggregation.enter(self._batch(aggregation, columns_in(mask), request, ids, issues))
        return aggregation

    def _aggregation(self, mask: int) -> Aggregation:
        """An empty aggregation by request and the columns of a mask."""
        if mask not in self._configs:
            chosen = [self.keys[k] for k in columns_in(mask)]
            groups = (_REQUEST, *(key.expression for key in chosen))
            outputs = (OutputColumn(REQUEST, _REQUEST), *chosen, *self.aggregates)
            self._configs[mask] = AggregateConfig(outputs, groups, None, Emit(), 0)
        return Aggregation(self._configs[mask])

    def _results(self, aggregation: Aggregation, mask: int, issues: Issues) -> pa.Table | None:
        """The groups of an aggregation by the columns of a mask, with all columns of answers; None: there are none."""
        found = aggregation.changes(0, issues)
        if found is None:
            return None
        columns = [found.column(REQUEST)]
        for k, output in enumerate(self.keys):
            columns.append(found.column(output.name) if mask >> k & 1 else pa.nulls(len(found), output.type.arrow))
        columns += [found.column(output.name) for output in self.aggregates]
        return pa.table(columns, schema=self.schema)

    def _with_empty(self, found: pa.Table | None, mask: int, grouped: Ints, issues: Issues) -> list[pa.Table]:
        """The groups that were found; a request that groups by nothing and has no group gets the aggregates of no
        row."""
        parts = [] if found is None else [found]
        if not mask and (found is None or len(found) < len(grouped)):
            rest = grouped if found is None else np.setdiff1d(grouped, np.asarray(found.column(REQUEST)))
            parts += [self._of_no_row(rest, issues)] if len(rest) else []
        return parts

    # -- answers in parts

    def parts(self, requests: Requests, request: Ints, ids: Ints, issues: Issues) -> pa.Table:
        """The state here of the groups of all requests; a request that groups by nothing has a part even without
        rows."""
        made = []
        for mask, chosen, grouped in _by_groups(requests, request):
            aggregation = self._grouped(mask, request[chosen], ids[chosen], issues)
            assert aggregation.groups is not None
            if not mask:
                aggregation.groups.codes(aggregation.encoder.encode_rows([pa.array(grouped)], [BIGINT]))
                aggregation.reserve()
            held = aggregation.held_by(aggregation.groups.live())
            made.append(self._part(held, mask, requests.aggregates))
        return pa.concat_tables(made) if made else pa.table({})

    def _part(self, held: pa.Table, mask: int, wanted: Ints) -> pa.Table:
        """The state of groups, with a column for every grouping column of the template."""
        numbers = np.asarray(held.column("key-0"))
        columns = {
            REQUEST: pa.array(numbers),
            _GROUPS: pa.array(np.full(len(held), mask)),
            _WANTED: pa.array(wanted[numbers]),
        }
        chosen = columns_in(mask)
        for k, output in enumerate(self.keys):
            at = chosen.index(k) + 1 if k in chosen else None
            columns[f"{_KEY}{k}"] = pa.nulls(len(held), output.type.arrow) if at is None else held.column(f"key-{at}")
        rest = [name for name in held.column_names if not name.startswith("key-")]
        return pa.table(columns | {name: held.column(name) for name in rest})

    def merged(self, parts: Sequence[pa.Table], issues: Issues) -> pa.Table:
        """The answers of requests from the parts of all shards that have rows of the template, as `tables` gives
        them."""
        given = [part for part in parts if part.num_rows]
        if not given:
            return self.schema.empty_table()
        whole = pa.concat_tables(given).combine_chunks()
        numbers, masks = np.asarray(whole.column(REQUEST)), np.asarray(whole.column(_GROUPS))
        made: list[pa.Table] = []
        for mask in np.unique(masks).tolist():
            here = np.flatnonzero(masks == mask)
            aggregation = self._aggregation(mask)
            aggregation.enter_parts(self._held(whole.take(pa.array(here)), mask))
            made += self._with_empty(self._results(aggregation, mask, issues), mask, np.unique(numbers[here]), issues)
        wanted = np.zeros(int(numbers.max()) + 1, np.int64)
        wanted[numbers] = np.asarray(whole.column(_WANTED))
        return self._unwanted_as_null(self._in_order(made), wanted)

    def _held(self, part: pa.Table, mask: int) -> pa.Table:
        """The reverse of `_part`."""
        keys = [part.column(REQUEST), *(part.column(f"{_KEY}{k}") for k in columns_in(mask))]
        rest = [name for name in part.column_names if name == "total" or name.startswith("state-")]
        return pa.table({f"key-{at}": key for at, key in enumerate(keys)} | {name: part.column(name) for name in rest})

    # -- pairs to groups

    def _batch(self, aggregation: Aggregation, chosen: list[int], request: Ints, ids: Ints, issues: Issues) -> Batch:
        values: dict[ColumnKey, pa.Array] = {}
        wanted = [self.keys[k].expression for k in chosen] + list(aggregation.layout.arguments)
        for alias, column in frozenset().union(*(columns_of(e) for e in wanted)):
            values[alias, column] = self.rows.values(column, ids)
        keys = [pa.array(request), *(self.value(self.keys[k].expression, values, len(ids), issues) for k in chosen)]
        kinds = [BIGINT, *(self.keys[k].type for k in chosen)]
        encoder = aggregation.encoder
        groups = encoder.encode_rows(keys, kinds)
        arguments = aggregation.layout.arguments
        columns = [self.value(e, values, len(ids), issues) for e in arguments]
        encoded = encoder.encode_columns(columns, [e.type for e in arguments])
        return Batch(np.zeros(len(ids), np.int64), groups, *encoded, [])

    def value(self, e: Expression, values: Mapping[ColumnKey, pa.Array], rows: int, issues: Issues) -> pa.Array:
        if isinstance(e, ColumnRef):
            return values[e.ref, e.column]
        if e not in self._compiled:
            self._compiled[e] = compile_expression(e)
        compiled = self._compiled[e]
        assert compiled is not None
        return compiled(values, rows, issues)

    def _of_no_row(self, requests: Ints, issues: Issues) -> pa.Table:
        """The answers of requests that group by nothing and have no row: COUNT is 0."""
        empty = self._empty
        if empty is None:
            empty = Aggregation(AggregateConfig(self.aggregates, (), None, Emit(), 0)).changes(0, issues)
            assert empty is not None
            if all(isinstance(o.expression, Aggregate) for o in self.aggregates):
                # Other expressions are computed for every request, and their issues counted each time.
                self._empty = empty
        columns = [pa.array(requests)] + [pa.nulls(len(requests), o.type.arrow) for o in self.keys]
        columns += [empty.column(o.name).take(pa.array(np.zeros(len(requests), np.int64))) for o in self.aggregates]
        return pa.table(columns, schema=self.schema)

    def _unwanted_as_null(self, table: pa.Table, aggregates: Ints) -> pa.Table:
        everything = (1 << len(self.aggregates)) - 1
        if (aggregates == everything).all():
            return table
        wanted = aggregates[np.asarray(table.column(REQUEST))]
        for number, output in enumerate(self.aggregates):
            here = wanted >> number & 1 == 1
            if not here.all():
                kept = pa.compute.if_else(pa.array(here), table.column(output.name), pa.scalar(None, output.type.arrow))
                table = table.set_column(table.schema.get_field_index(output.name), output.name, kept)
        return table


def _by_groups(requests: Requests, request: Ints) -> Iterator[tuple[int, Ints | slice, Ints]]:
    """Per set of grouping columns, as bits: which pairs belong to it, and the numbers of its requests."""
    if requests.count == 1:
        yield int(requests.group_by[0]), slice(None), np.zeros(1, np.int64)
        return
    for mask in np.unique(requests.group_by).tolist():
        here = requests.group_by == mask
        yield int(mask), slice(None) if here.all() else np.flatnonzero(here[request]), np.flatnonzero(here)
