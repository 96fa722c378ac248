"""Rows that leave the stores of streams from the middle, and the gaps that they leave.

Answer   `drop_unwanted` drops the rows that no query wants any more, when a query has gone. `close_gaps` makes every
         store compact of which half is gone, and gives the map from old ids to new ones to everything that holds ids
         between two epochs. `make_room` does so when rows have come between others.
Limits   Called between two epochs only: within one, slices, probes and results hold ids that have no method `renumber`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from eddyline.operators.stream.stream import StreamState
from eddyline.runtime.engine.supply import Supply
from eddyline.state.renumbering import Renumbering

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline


class HoldsIds(Protocol):
    """What keeps row ids of stores from epoch to epoch."""

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of one store have new ids; a holder of ids of other stores does nothing."""


def drop_unwanted(streams: list[StreamState]) -> None:
    for stream in streams:
        if not stream.is_table:
            stream.drop_unwanted()


def close_gaps(pipeline: Pipeline) -> None:
    for supply in pipeline.supplies.values():
        moved = supply.state.store.compact(pipeline.settings.tuning.state.least_dropped)
        if moved is not None:
            for reader in supply.state.readers.values():
                reader.renumber(moved)
            renumber(pipeline, supply, moved)


def renumber(pipeline: Pipeline, supply: Supply, moved: Renumbering) -> None:
    """Give the map to new ids to everything that holds ids of a store, apart from the read positions in it."""
    holders: list[HoldsIds] = [supply.segments, pipeline.planner, *pipeline.kinds.all]
    for holder in holders:
        holder.renumber(moved)


def make_room(pipeline: Pipeline, supply: Supply, moved: Renumbering) -> None:
    """Rows have been put between others: what was made of a store whose rows a query passed over is made anew."""
    renumber(pipeline, supply, moved)
    for group in pipeline.groups.values():
        if any(base.stream is supply.state for base in group.bases.values()):
            pipeline.replant(group, group.tree)
