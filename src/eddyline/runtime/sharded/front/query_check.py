"""Queries that one process can answer, and several shards cannot.

Answer   `check_query` raises, with a hint, where a query needs what shards and DataFrames do not have.
State    None.
Limits   Before the query is routed; `plan/shards` refuses what cannot be routed.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from eddyline.errors import BindingProblem, Unsupported
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.model.window import PartitionedRows, Rows


def check_query(query: BoundQuery, streams: Mapping[str, Stream], frames: Container[str]) -> None:
    """
    Args:
        query: The query.
        streams: Of the job, by name.
        frames: The names of streams whose rows come from a DataFrame.
    """
    for part in (*query.makers, query):
        if query.is_composed and part.pattern is not None and streams[part.references[0].source].constraints:
            raise Unsupported(
                f"query {query.name} reads the matches of a pattern over {part.pattern.book.stream}, which has constraints",
                detail="on several shards violations are found where a trace is, and derived rows are made in one shard",
                hint="run the job in one process, or write the pattern as a query of its own",
            )
    for reference in query.streams:
        source = reference.source
        if (
            isinstance(reference.window, Rows | PartitionedRows)
            and source in frames
            and streams[source].sequence is None
        ):
            raise BindingProblem(
                f"query {query.name} counts the rows of {source}, which have no repeatable order",
                detail="Spark may hand out the rows of a DataFrame in another order when it reads them again",
                hint=f"stream('{source}', …, sequence='…') names a column that orders rows of equal time; or use RANGE",
            )
