"""From pairs of requests and rows to answers: the existing aggregation, once per set of grouping columns.

Answer   `Answering.tables(requests, request, ids)` groups the pairs by (request, chosen columns) and gives one table for all requests:
         their number, all grouping columns (NULL where not grouped by), all aggregates (NULL where not wanted). A request that groups
         by nothing has one row, also without any pair; a grouped request without pairs has none.
State    The expressions of the template, compiled.
Limits   Transient: every call begins with an empty aggregation.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import BIGINT
from eddyline.model.expression import ColumnRef, Expression, columns_of
from eddyline.model.query import Emit, Output
from eddyline.model.template import Template
from eddyline.operators.aggregate.aggregation import Aggregation
from eddyline.operators.aggregate.config import AggregateConfig
from eddyline.operators.aggregate.contributions import Batch
from eddyline.operators.evaluate import Compiled, Issues, compile_expression
from eddyline.operators.template.probes import Requests
from eddyline.operators.template.rows import TemplateRows
from eddyline.state.columns import Ints

#: The column of results that says whose they are.
REQUEST = "_request"
_REQUEST = ColumnRef("", REQUEST, BIGINT)


class Answering:
    def __init__(self, template: Template, keys: tuple[Output, ...], aggregates: tuple[Output, ...], rows: TemplateRows) -> None:
        """`keys` and `aggregates` as the planner renamed their references."""
        self.template = template
        self.keys = keys
        self.aggregates = aggregates
        self.rows = rows
        self._compiled: dict[Expression, Compiled | None] = {}
        self.schema = pa.schema([(REQUEST, pa.int64()), *((o.name, o.type.arrow) for o in (*keys, *aggregates))])

    def tables(self, requests: Requests, request: Ints, ids: Ints, issues: Issues) -> pa.Table:
        """The answers of all requests; `request[i]` is the number of the request that row `ids[i]` counts for."""
        made = [self.schema.empty_table()]
        for mask in np.unique(requests.group_by).tolist():
            here = requests.group_by == mask
            chosen = np.flatnonzero(here[request]) if not here.all() else slice(None)
            made.append(self._grouped(int(mask), request[chosen], ids[chosen], np.flatnonzero(here), issues))
        whole = pa.concat_tables(made)
        order = np.argsort(np.asarray(whole.column(REQUEST)), kind="stable")
        whole = whole.take(pa.array(order)).combine_chunks()
        return self._unwanted_as_null(requests, whole)

    def _grouped(self, mask: int, request: Ints, ids: Ints, asking: Ints, issues: Issues) -> pa.Table:
        chosen = [k for k in range(len(self.keys)) if mask >> k & 1]
        outputs = (Output(REQUEST, _REQUEST), *(self.keys[k] for k in chosen), *self.aggregates)
        groups = (_REQUEST, *(self.keys[k].expression for k in chosen))
        aggregation = Aggregation(AggregateConfig(outputs, groups, None, Emit(), 0))
        if len(request):
            aggregation.enter(self._batch(aggregation, chosen, request, ids, issues))
        found = aggregation.changes(0, issues)
        table = pa.table({}) if found is None else found
        parts = [] if found is None else [self._complete(table, chosen)]
        if not chosen:
            rest = np.setdiff1d(asking, request)
            if len(rest):
                parts.append(self._nothing(rest, issues))
        return pa.concat_tables([self.schema.empty_table(), *parts])

    def _batch(self, aggregation: Aggregation, chosen: list[int], request: Ints, ids: Ints, issues: Issues) -> Batch:
        values: dict[tuple[str, str], pa.Array] = {}
        wanted = [self.keys[k].expression for k in chosen] + list(aggregation.layout.arguments)
        for alias, column in frozenset().union(*(columns_of(e) for e in wanted)) if wanted else ():
            values[alias, column] = self.rows.values(column, ids)
        keys = [pa.array(request), *(self.value(self.keys[k].expression, values, len(ids), issues) for k in chosen)]
        kinds = [BIGINT, *(self.keys[k].type for k in chosen)]
        words = aggregation.words
        groups = words.encode_rows(keys, kinds)
        pairs = [words.encode(self.value(e, values, len(ids), issues), e.type) for e in aggregation.layout.arguments]
        return Batch(np.zeros(len(ids), np.int64), groups, [w for w, _ in pairs], [v for _, v in pairs], [])

    def value(self, e: Expression, values: Mapping[tuple[str, str], pa.Array], rows: int, issues: Issues) -> pa.Array:
        if isinstance(e, ColumnRef):
            return values[e.ref, e.column]
        if e not in self._compiled:
            self._compiled[e] = compile_expression(e)
        compiled = self._compiled[e]
        assert compiled is not None
        return compiled(values, rows, issues)

    def _complete(self, table: pa.Table, chosen: list[int]) -> pa.Table:
        columns = [table.column(REQUEST)]
        for k, output in enumerate(self.keys):
            columns.append(table.column(output.name) if k in chosen else pa.nulls(len(table), output.type.arrow))
        columns += [table.column(output.name) for output in self.aggregates]
        return pa.table(columns, schema=self.schema)

    def _nothing(self, requests: Ints, issues: Issues) -> pa.Table:
        """What a request that groups by nothing gets where no row counts: COUNT is 0."""
        empty = Aggregation(AggregateConfig(self.aggregates, (), None, Emit(), 0)).changes(0, issues)
        assert empty is not None
        columns = [pa.array(requests)] + [pa.nulls(len(requests), o.type.arrow) for o in self.keys]
        columns += [empty.column(o.name).take(pa.array(np.zeros(len(requests), np.int64))) for o in self.aggregates]
        return pa.table(columns, schema=self.schema)

    def _unwanted_as_null(self, requests: Requests, table: pa.Table) -> pa.Table:
        wanted = requests.aggregates[np.asarray(table.column(REQUEST))]
        for number, output in enumerate(self.aggregates):
            here = wanted >> number & 1 == 1
            if not here.all():
                kept = pa.compute.if_else(pa.array(here), table.column(output.name), pa.scalar(None, output.type.arrow))
                table = table.set_column(table.schema.get_field_index(output.name), output.name, kept)
        return table
