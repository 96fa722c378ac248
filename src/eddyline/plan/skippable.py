"""Which stretches of a stream need not be read, by the queries that read it.

Answer   `skipping_of` gives the filters of all references to a stream, or the reason why all its rows are read: a row
         that no filter lets pass may still count, for a ROWS window, a pattern, a template, or a promise of the stream.
Limits   Conditions between two references decide nothing. No row of a join that keeps rows without a partner is left
         out. Beyond a number of queries all rows are read: each row group is compared with each of them.
Reading  docs/formats.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.model.template import BoundRequests, BoundTemplate
from eddyline.model.window import PartitionedRows, Rows
from eddyline.operators.sharing.predicates import Box, boxes_of
from eddyline.operators.sharing.skipping import Skipping
from eddyline.plan.lower import Lowered
from eddyline.plan.prepare import prepare
from eddyline.settings import Settings


def skipping_of(
    stream: Stream,
    queries: Iterable[BoundQuery],
    settings: Settings,
    promises: bool,
    lowered_of: Callable[[BoundQuery], Lowered] = prepare,
) -> Skipping:
    """
    Args:
        stream: Whose rows.
        queries: All that run, those behind subqueries too.
        settings: Those of the job.
        promises: Whether records may speak of the stream, or lie among its rows.
        lowered_of: Gives the lowered form of a query.
    """
    if settings.row_groups == "off":
        return Skipping(stream.time, problem="row_groups is off")
    if promises or stream.constraints or stream.remember is not None:
        return Skipping(stream.time, problem="rows are checked against promises or constraints")
    if stream.most_ahead is not None:
        return Skipping(stream.time, problem="rows may lie too far ahead of the clock")
    readers = [query for query in queries if any(r.source == stream.name for r in query.references)]
    most = settings.tuning.input.most_readers
    problems = [f"more than {most:,} queries read the stream"] if len(readers) > most else []
    problems = problems or [problem for query in readers if (problem := _problem(query, stream.name))]
    if problems:
        return Skipping(stream.time, problem=problems[0])
    lowered = [lowered_of(query) for query in readers]

    @cache
    def references() -> list[Sequence[Box]]:
        return [
            boxes_of(one.filters[place], place)
            for one in lowered
            for place, seat in enumerate(one.seats)
            if seat.source == stream.name
        ]

    return Skipping(stream.time, references, least_rows=settings.tuning.input.least_looked_at)


def _problem(query: BoundQuery, stream: str) -> str:
    """Why a query may need rows that its filters do not let pass."""
    if isinstance(query, BoundTemplate | BoundRequests):
        return "a template or its requests read the stream"
    if query.pattern is not None:
        return "an event pattern reads the stream"
    if query.keeping is not None or query.living is not None:
        return "an outer join, or EXISTS, keeps rows without a partner"
    if query.is_aggregate and not query.group_by and not query.distinct:
        return "an aggregate without GROUP BY begins with the first row of the stream"
    if any(isinstance(r.window, Rows | PartitionedRows) for r in query.references if r.source == stream):
        return "a ROWS window counts all rows"
    return ""
