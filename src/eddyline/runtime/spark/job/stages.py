"""Spark's seconds per stage of a micro-batch.

Answer   `StageTimes.take` counts the progress events of batches that are new; `take_from` reads them from a query.
State    Sums, and the newest batches one by one.
Limits   Spark forgets its oldest events: they have to be taken in time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from eddyline.runtime.sharded.front.batch_times import BatchTimes
from eddyline.runtime.spark.job.failure import is_lost

#: Spark's names of the stages of a micro-batch, in order, and what they do.
STAGES = {
    "latestOffset": "ask the sources what is new",
    "walCommit": "write the batch's offsets",
    "queryPlanning": "plan the batch",
    "getBatch": "hand the sources their ranges",
    "addBatch": "read, pack, shuffle, step, write results",
    "commitOffsets": "write that the batch is done",
    "triggerExecution": "all of it",
}


class StageTimes(BatchTimes):
    """Spark's seconds per stage: of the newest micro-batches one by one, of all of them in sum."""

    def __init__(self) -> None:
        super().__init__(STAGES, "triggerExecution")
        #: The run whose events were taken last, and its last batch.
        self._last = ("", -1)

    def take(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Count the events of batches that are new; a trigger without a batch has an event too."""
        for event in events:
            if "addBatch" in event["durationMs"] and not self.knows(event):
                self._last = (event["runId"], event["batchId"])
                for stage, times in self.stages.items():
                    times.add(event["durationMs"].get(stage, 0) / 1000)

    def take_from(self, query: StreamingQuery) -> None:
        """Count what a query measured, from its newest event back to those that are known; nothing where the JVM has
        ended."""
        # One call per event: PySpark's own objects make a hundred.
        new: list[dict[str, Any]] = []
        try:
            for found in reversed(query._jsq.recentProgress()):
                event = json.loads(found.json())
                if self.knows(event):
                    break
                new.append(event)
        except Exception as problem:
            # The driver raises what ended the job.
            if not is_lost(problem):
                raise
        self.take(reversed(new))

    def knows(self, event: Mapping[str, Any]) -> bool:
        """Whether the batch of an event, and so every one before it, has been counted."""
        run, last = self._last
        return bool(event["runId"] == run and event["batchId"] <= last)
