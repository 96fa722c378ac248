"""Rows that queries miss: which rows of an arrival are late, for which queries, and the reasons in their dead
letters.

Answer   `late_letters` gives each row that some query misses, once, with a `_reason` that names the queries. A row
         below the horizon of its stream is late for all queries that read the stream. A row at or above it is late for
         those whose frontier has passed it: a stream that was idle brings rows again, or a bounded run has ended.
Limits   On a shard only the home copy of a row is reported. A `_reason` names at most 20 queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eddyline.errors import DataProblem
from eddyline.operators.stream.intake import Intake, Taken
from eddyline.plan.shards.routing import HOME_BIT
from eddyline.runtime.engine.unit import Registered
from eddyline.state.columns import Ints

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline

#: Names in one report. A bound of the display.
_MOST_NAMES = 20


def late_below(pipeline: Pipeline, name: str) -> int | None:
    """The event time from which on no row of a stream is late in the next epoch, for any query; None: none is."""
    fronts = [timeline.frontier for streams, timeline in pipeline.timelines.items() if name in streams]
    return max((bound for bound in (pipeline.intakes[name].horizon, *fronts) if bound is not None), default=None)


@dataclass(frozen=True, slots=True)
class TimelineReader:
    """A timeline that reads the stream, with its queries."""

    frontier: int | None
    queries: Sequence[Registered]

    def missing(self, instant: int) -> list[str]:
        """The queries for which a row of this time exists."""
        return [q.name for q in self.queries if q.start < instant and (q.stop is None or instant <= q.stop)]


def late_letters(
    intake: Intake, horizon: int | None, taken: Taken, readers: Sequence[TimelineReader], on_late: str
) -> list[pa.Table]:
    """The dead letters of an arrival; the rows are counted. `horizon` is that of the beginning of the epoch."""
    found = []
    if taken.late is not None and len(taken.late):
        assert horizon is not None
        _refuse(intake, taken.late.ts, horizon, on_late)
        reason = f"late: event time lies before {np.datetime64(horizon, 'us')}, the newest seen minus lateness"
        found.append(_letters(taken.late.table, taken.late.ts, reason, readers))
    fronts = [reader.frontier for reader in readers if reader.frontier is not None]
    chunk = taken.chunk
    if chunk is not None and fronts and int(chunk.ts[0]) < max(fronts):
        passed = chunk.slice(0, int(np.searchsorted(chunk.ts, max(fronts))))
        table, ts = passed.table, passed.ts
        if passed.routes is not None:
            home = (passed.routes >> np.uint64(HOME_BIT)) & np.uint64(1) != 0
            table, ts = table.filter(pa.array(home)), ts[home]
        if len(ts):
            _refuse(intake, ts, max(fronts), on_late)
            found.append(_letters(table, ts, "late: event time lies before the frontier", readers, passed=True))
    intake.late += sum(len(table) for table in found)
    return found


def _letters(
    rows: pa.Table, ts: Ints, reason: str, readers: Sequence[TimelineReader], passed: bool = False
) -> pa.Table:
    """Rows with their reasons; `passed`: only the readers whose frontier lies above a row miss it."""
    bounds = {
        b
        for r in readers
        for q in r.queries
        for b in (q.start + 1, r.frontier, None if q.stop is None else q.stop + 1)
        if b is not None
    }
    thresholds = np.array(sorted(bounds), np.int64)
    kinds, which = np.unique(np.searchsorted(thresholds, ts, side="right"), return_inverse=True)
    texts = []
    for place in range(len(kinds)):
        instant = int(ts[np.argmax(which == place)])
        names = [
            n
            for r in readers
            if not passed or (r.frontier is not None and instant < r.frontier)
            for n in r.missing(instant)
        ]
        shown = ", ".join(names[:_MOST_NAMES]) + (
            f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        )
        texts.append(f"{reason}; missed by {shown}" if names else reason)
    return rows.append_column("_reason", pa.array(texts, pa.string()).take(pa.array(which)))


def _refuse(intake: Intake, ts: Ints, limit: int, on_late: str) -> None:
    if on_late == "error":
        raise DataProblem(
            f"a row of stream {intake.stream.name} is late",
            detail=f"its event time {np.datetime64(int(ts[0]), 'us')} lies before {np.datetime64(limit, 'us')}",
            hint="declare a larger lateness, or SET on_late = 'dead-letter'",
        )
