"""The triggers of the queries of a pipeline, as they are now: changed while it runs, and run when nothing comes in.

Answer   `change` gives a query another `purge` or `propagate`, `changed` is what was changed so far, `rest` runs what
         runs when nothing comes in, and `line` is what EXPLAIN says.
State    What was changed; a snapshot keeps it. Each component keeps its own trigger.
Limits   Queries that share a join share its `purge`. Answers never change: `propagate` decides when values are
         announced, not which.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from eddyline.errors import UserError
from eddyline.model.query import BoundQuery
from eddyline.model.triggers import checked
from eddyline.plan.promised import triggers_text
from eddyline.runtime.engine.unit import EpochEnd
from eddyline.state.columns import Ints

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline


class PipelineTriggers:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._changed: dict[str, dict[str, str]] = {}

    def changed(self, query: str) -> dict[str, str]:
        """What was changed of a query, by setting."""
        return dict(self._changed.get(query, {}))

    def change(self, query: str, given: Mapping[str, str]) -> None:
        """Give a registered query other triggers; an error leaves everything as it was."""
        new = checked(query, given)
        known = self._pipeline.queries[query].triggers
        if "purge" in new and "purge" not in known:
            raise UserError(f"query {query} forgets no rows", hint="a join with punctuations = 'on' does")
        if "propagate" in new and ("propagate" not in known or new["propagate"] == "off"):
            raise UserError(
                f"query {query} cannot change whether values are announced while it runs",
                detail="propagate = 'off' keeps no values",
                hint="a join that was created with propagate takes on, a number or a time; or drop the query and add it again",
            )
        for component, trigger in new.items():
            known[component](trigger)
        self._changed[query] = {**self._changed.get(query, {}), **new}

    def resume(self, query: str, saved: Mapping[str, str]) -> None:
        """What was changed before a restart; settings of the new run may have taken components from the query."""
        known = self._pipeline.queries[query].triggers
        if mine := {component: trigger for component, trigger in saved.items() if component in known}:
            self.change(query, mine)

    def forget(self, query: str) -> None:
        self._changed.pop(query, None)

    def line(self, query: BoundQuery) -> str:
        return triggers_text(query, self.changed(query.name))

    def rest(self) -> None:
        """Nothing comes in: units do what waits for that."""
        ends: dict[frozenset[str], EpochEnd] = {}
        for streams, timeline in self._pipeline.timelines.items():
            if timeline.frontier is not None:
                released = {name: queue.released for name, queue in timeline.queues.items()}
                ends[streams] = EpochEnd(timeline.frontier, False, partial(_nothing_since, released))
        for unit in self._pipeline.kinds.units():
            if unit.streams in ends:
                unit.rest(ends[unit.streams])


def _nothing_since(released: Mapping[str, int], source: str) -> tuple[int, Ints]:
    return released[source], np.empty(0, np.int64)
