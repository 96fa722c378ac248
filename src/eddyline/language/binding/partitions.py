"""Windows `[PARTITION BY … ROWS n]`: their columns, and the queries that cannot have them.

Answer   `partition_of` finds the columns of a partition. `check_windows` refuses queries in which it is never certain
         that a row has left such a window.
Limits   Partitions are columns, not expressions: a derived stream can compute one.
"""

from __future__ import annotations

from eddyline.errors import BindingProblem, Unsupported
from eddyline.language.syntax import Select
from eddyline.model.query import BoundQuery
from eddyline.model.schema import DERIVED_TIME, Stream
from eddyline.model.window import PartitionedRows


def partition_of(window: PartitionedRows, stream: Stream) -> PartitionedRows:
    """The window with the columns as the stream spells them."""
    found = []
    for name in window.columns:
        column = stream.schema.find(name)
        if column is None:
            raise BindingProblem(
                f"{stream.name} has no column {name} to partition by",
                detail=f"columns are {', '.join(name for name in stream.schema.names if name != DERIVED_TIME)}",
                hint="PARTITION BY in a window takes columns of its stream",
            )
        if column.name in found:
            raise BindingProblem(f"PARTITION BY names {column.name} twice", hint="keep one")
        if column.type.is_nested:
            hint = "PARTITION BY in a window takes columns of plain types"
            message = f"column {column.name} of {stream.name} is {column.type}, which is not compared"
            raise BindingProblem(message, hint=hint)
        found.append(column.name)
    return PartitionedRows(tuple(found), window.count)


def check_windows(query: BoundQuery, select: Select) -> None:
    """Refuses aggregates and rankings that read a PARTITION BY window and whose groups are closed by punctuations: only
    a later row of the partition decides when a row leaves the window."""
    if not query.is_aggregate and query.ranking is None:
        return
    for reference, source in zip(query.references, select.sources, strict=True):
        if query.by_promises and isinstance(reference.window, PartitionedRows):
            raise Unsupported(
                f"a group that punctuations close cannot read {reference.alias} [{reference.window}]",
                detail="only later rows say when a row leaves",
                hint="group by a time bucket too",
                position=source.position,
            )
