"""Rows that leave the stores of streams from the middle, and the gaps that they leave.

Answer   `drop_unwanted` drops the rows that no query wants any more, when a query has gone. `close_gaps` makes every store compact of
         which half is gone, and gives the map from old ids to new ones to everything that holds ids between two epochs.
Limits   Called between two epochs only: within one, slices, probes and results hold ids that have no method `renumber`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from eddyline.operators.stream import StreamState
from eddyline.state.renumbering import Renumbering

if TYPE_CHECKING:
    from eddyline.runtime.pipeline import Pipeline


class HoldsIds(Protocol):
    """What keeps row ids of stores from epoch to epoch."""

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of one store have new ids; a holder of ids of other stores does nothing."""


def drop_unwanted(streams: list[StreamState]) -> None:
    for stream in streams:
        if not stream.is_table:
            stream.drop_unwanted()


def close_gaps(pipeline: Pipeline) -> None:
    for segments in [segments for timeline in pipeline.timelines.values() for segments in timeline.segments.values()]:
        moved = segments.store.compact(pipeline.settings.tuning.state.least_dropped)
        if moved is not None:
            holders: list[HoldsIds] = [segments, pipeline.handout, pipeline.planner, *pipeline.groups.values()]
            for holder in holders:
                holder.renumber(moved)
