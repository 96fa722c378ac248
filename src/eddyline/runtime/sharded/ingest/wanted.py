"""Which rows of a stream no query of a layout can use: they are left where they are read.

Answer   `WantedRows.of` gives a test of the rows of a stream in a batch; None: all of them are placed. A row is placed
         if the constant conditions of some reference to its stream hold for it, or if it may be late for some query.
State    The compiled conditions, by stream.
Limits   The ticks, the census and the numbers of a piece are those of all its rows, so horizons, frontiers, places and
         `[ROWS n]` stay. All rows are placed where more than the constant conditions depends on them: in streams that
         `NeededColumns.is_plain` refuses; in jobs with templates, requests or patterns; for `[PARTITION BY k ROWS n]`,
         which counts before any filter; for groups without GROUP BY, which begin with the first row of the stream; for
         rows that an outer join keeps, unless WHERE alone tests them. Of the conditions of a reference those before the
         first one that may have no value are tested, so that as many values are counted as without this test.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from eddyline.model.expressions.expression import ColumnKey, Expression, columns_of, conjunction, refs_of, rename_refs
from eddyline.model.query import BoundQuery, Reference
from eddyline.model.schema import Stream
from eddyline.model.window import PartitionedRows
from eddyline.operators.expressions.evaluate import Predicate, compile_predicate, may_fail
from eddyline.operators.stream.stream import whole_columns
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.ingest.needed import NeededColumns, knows_late_rows
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.state.columns import Ints

#: The places of the rows that are wanted, of rows and their event times; None: all are.
Wanted = Callable[[pa.Table, Ints], Ints | None]


class WantedRows:
    def __init__(self, layout: JobLayout, needed: NeededColumns) -> None:
        self._layout, self._needed = layout, needed
        self._found: dict[str, tuple[Predicate, ...] | None] = {}

    def of(self, stream: Stream, batch: BatchDocument) -> Wanted | None:
        """The test of the rows of a stream in a batch."""
        if not knows_late_rows(stream, batch):
            return None
        if stream.name not in self._found:
            self._found[stream.name] = self._tests(stream)
        tests = self._found[stream.name]
        if tests is None:
            return None
        bound = batch.late_below.get(stream.name)

        def wanted(rows: pa.Table, times: Ints) -> Ints | None:
            columns: dict[ColumnKey, pa.Array] = {
                (stream.name, name): values for name, values in whole_columns(rows).items()
            }
            found = np.zeros(len(times), np.bool_) if bound is None else times < bound
            for test in tests:
                if found.all():
                    break
                found = found | test(columns, len(times))
            return None if found.all() else np.flatnonzero(found)

        return wanted

    def _tests(self, stream: Stream) -> tuple[Predicate, ...] | None:
        """The conditions of which one holds for each row that a query can use; None: a query can use any row."""
        if not self._needed.is_plain(stream) or stream.name in self._layout.whole:
            return None
        tests: set[Expression] = set()
        for query in self._layout.queries:
            for part in (*query.makers, query):
                for reference in part.streams:
                    if reference.source == stream.name and not reference.derived:
                        test = constant_condition(part, reference, stream)
                        if test is None:
                            return None
                        tests.add(test)
        if len(tests) > self._layout.settings.tuning.sharing.few_filters:
            return None
        return tuple(map(compile_predicate, tests))


def constant_condition(query: BoundQuery, reference: Reference, stream: Stream) -> Expression | None:
    """A condition over the columns of a stream that holds for all rows which a query can use under a reference to it;
    None: it can use any row."""
    alias, kept = reference.alias, query.keeping
    if isinstance(reference.window, PartitionedRows) or (kept is not None and kept.kind == "pushed"):
        return None
    if query.is_aggregate and not query.group_by and not query.distinct:
        return None
    parts = [part for part in query.where if refs_of(part) <= {alias}]
    if kept is not None and alias in kept.aliases and any(part not in kept.conditions for part in parts):
        return None
    certain: list[Expression] = []
    for part in parts:
        if may_fail(part) or any(stream.schema.find(name) is None for _, name in columns_of(part)):
            break
        certain.append(part)
    return rename_refs(conjunction(tuple(certain)), {alias: stream.name}) if certain else None
