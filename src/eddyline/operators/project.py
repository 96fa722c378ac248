"""Late projection: payload is gathered once, by row number, only for results.

Answer   The selected columns and `_ts` for complete combinations, in the order in which they are given.
State    None.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.expressions.expression import ColumnKey, ColumnRef, Expression, Ref, columns_of
from eddyline.model.query import OutputColumn
from eddyline.operators.expressions.evaluate import Issues, compile_expression, compile_predicate
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.inputs import StreamInput
from eddyline.state.plain_arrays import plain_array


def gather(
    columns: frozenset[ColumnKey], rows: Combinations, bases: Mapping[Ref, StreamInput]
) -> dict[ColumnKey, pa.Array]:
    """The named columns of the combinations' rows, by (reference, column)."""
    return {(ref, name): bases[ref].store.gather(name, rows.ids[bases[ref].port.position]) for ref, name in columns}


class Projection:
    """The SELECT list of one query over the references of its group."""

    def __init__(
        self, outputs: tuple[OutputColumn, ...], residuals: tuple[Expression, ...], bases: Mapping[Ref, StreamInput]
    ) -> None:
        self.outputs = outputs
        self.bases = bases
        self.schema = result_schema(outputs)
        self._compiled = [
            None if isinstance(o.expression, ColumnRef) else compile_expression(o.expression) for o in outputs
        ]
        self._columns = frozenset().union(*(columns_of(o.expression) for o in outputs)) if outputs else frozenset()
        self._conditions = [(compile_predicate(e), columns_of(e)) for e in residuals]
        #: The references whose columns are selected.
        self.reads = frozenset(bases[ref].port.position for ref, _ in self._columns)
        for ref, name in self._columns.union(*(c for _, c in self._conditions)):
            bases[ref].stream.need_column(name)

    def select(self, rows: Combinations, issues: Issues) -> Combinations:
        """The combinations that satisfy the query's own conditions beyond those of its group."""
        for condition, columns in self._conditions:
            if len(rows):
                rows = rows.take(condition(gather(columns, rows, self.bases), len(rows), issues))
        return rows

    def table(self, rows: Combinations, issues: Issues) -> pa.Table:
        values = gather(self._columns, rows, self.bases)
        arrays = []
        for output, compiled in zip(self.outputs, self._compiled, strict=True):
            if compiled is None:
                assert isinstance(output.expression, ColumnRef)
                arrays.append(values[output.expression.ref, output.expression.column])
            else:
                arrays.append(compiled(values, len(rows), issues))
        arrays.append(plain_array(TIMESTAMP, rows.clock))
        return pa.Table.from_arrays(arrays, schema=self.schema)


def result_schema(outputs: tuple[OutputColumn, ...]) -> pa.Schema:
    return pa.schema([(o.name, o.type.arrow) for o in outputs] + [("_ts", TIMESTAMP.arrow)])
