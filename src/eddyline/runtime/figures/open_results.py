"""What a run has left open, and what it has never shown, by what users call their queries.

Answer   `left_open` counts what only later rows, time or the end of the streams can end: groups and windows of ON CLOSE, rows
         that wait for a partner, matches that wait for their end. `unseen` counts groups and ranked rows that came and
         went between two outputs.
State    None. Queries count; what a subquery counts is its query's.
Limits   On Spark a group that several shards have in parts counts once for each.
"""

from __future__ import annotations

from collections.abc import Callable

from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.unit import Registered


def left_open(pipeline: Pipeline) -> dict[str, int]:
    return _by_user(pipeline, lambda query: query.left_open)


def unseen(pipeline: Pipeline) -> dict[str, int]:
    return _by_user(pipeline, lambda query: query.unseen)


def _by_user(pipeline: Pipeline, count: Callable[[Registered], int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for query in pipeline.queries.values():
        if some := count(query):
            name = pipeline.derived.whose(query.query).removeprefix("query ")
            found[name] = found.get(name, 0) + some
    return found
