"""The triggers of the queries of a pipeline, as they are now: changed while it runs, and run when nothing comes in.

Answer   `change` gives a query another `purge` or `propagate`, `changed` is what was changed so far, `rest` runs what runs when nothing
         comes in, and `line` is what EXPLAIN says.
State    What was changed; a snapshot keeps it. Each component keeps its own trigger.
Limits   Queries that share a join share its `purge`. Answers never change: `propagate` decides when values are announced, not which.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from eddyline.errors import UserError
from eddyline.model.triggers import checked, trigger_line
from eddyline.operators.join.punctuations import Punctuations
from eddyline.runtime.standing.query import StandingQuery
from eddyline.settings import Settings
from eddyline.state.columns import Ints

if TYPE_CHECKING:
    from eddyline.runtime.pipeline import Pipeline


class PipelineTriggers:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._changed: dict[str, dict[str, str]] = {}

    def changed(self, query: str) -> dict[str, str]:
        """What was changed of a query, by setting."""
        return dict(self._changed.get(query, {}))

    def change(self, query: str, given: Mapping[str, str]) -> None:
        """Give a query that stands other triggers; an error leaves everything as it was."""
        standing = self._pipeline.queries[query]
        new = checked(query, given)
        group = standing.group if isinstance(standing, StandingQuery) else None
        purging = None if group is None else group.policy(Punctuations)
        propagation = standing.propagation if isinstance(standing, StandingQuery) else None
        if "purge" in new and purging is None:
            raise UserError(f"query {query} forgets no rows", hint="a join with punctuations = 'on' does")
        if "propagate" in new and (propagation is None or new["propagate"] == "off"):
            raise UserError(
                f"query {query} cannot change whether values are announced while it runs",
                detail="propagate = 'off' keeps no values",
                hint="a join that was created with propagate takes on, a number or a time; or drop the query and add it again",
            )
        if "purge" in new and purging is not None:
            purging.run_when(new["purge"])
        if "propagate" in new and propagation is not None:
            propagation.run_when(new["propagate"])
        self._changed[query] = {**self._changed.get(query, {}), **new}

    def forget(self, query: str) -> None:
        self._changed.pop(query, None)

    def line(self, query: str, settings: Settings) -> str:
        now = {"purge": settings.purge, "propagate": settings.propagate, **self.changed(query)}
        return trigger_line(now["purge"], now["propagate"], settings.over_budget == "spill")

    def rest(self) -> None:
        """Nothing comes in: joins look for rows to forget."""
        for unit in self._pipeline.kinds.joins.units.values():
            timeline = self._pipeline.timelines[unit.streams]
            purging = unit.group.policy(Punctuations)
            if purging is not None and timeline.frontier is not None:
                released = {name: queue.released for name, queue in timeline.queues.items()}
                purging.settle(unit.group, timeline.frontier, partial(_nothing_since, released), closing=False, idle=True)


def _nothing_since(released: Mapping[str, int], source: str) -> tuple[int, Ints]:
    return released[source], np.empty(0, np.int64)
