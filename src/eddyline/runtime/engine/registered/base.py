"""What every registered query has, whatever its kind: its text, its unit, its place in the unit and its start.

Limits   Results, stop and schema are the kinds' own: some keep them here, others take them from the operator that
         serves many queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from eddyline.model.query import BoundQuery
from eddyline.plan.shape import Part, text_shape
from eddyline.runtime.engine.unit import Merging, Unit


class RegisteredBase:
    #: Punctuations of its results so far.
    punctuations_out: int = 0
    #: Components whose triggers change while it runs, with what gives each another trigger.
    triggers: Mapping[str, Callable[[str], None]] = MappingProxyType({})
    #: Whether response times of its results are measured.
    is_timed = False

    def __init__(self, query: BoundQuery, unit: Unit, slot: int, start: int) -> None:
        self.query = query
        self.name = query.name
        self.unit = unit
        self.slot = slot
        self.start = start
        #: Seconds of work for this query alone.
        self.seconds = 0.0

    @property
    def left_open(self) -> int:
        """How many of its groups, rows or matches only later rows, time or the end of the streams can end."""
        return 0

    @property
    def unseen(self) -> int:
        """Groups and ranked rows that came and went between two outputs, in this run."""
        return 0

    @property
    def merging(self) -> Merging | None:
        """What merges the parts that shards have of its groups; None: each shard gives whole results."""
        return None

    def analysis(self) -> list[str]:
        """What its operators did in this run, one line each."""
        return []

    def shape(self, text: str) -> Part:
        """The plan as parts that can be drawn: of a query that is no join, one part with the lines of the text."""
        return text_shape(self.name, text, self.unit.streams, self.unit.name)


class StoppedQuery(RegisteredBase):
    """A query that an operator answers together with others: the operator takes the instant at which it stops."""

    _stop: int | None = None

    def __init__(
        self, query: BoundQuery, unit: Unit, slot: int, start: int, stop_at: Callable[[str, int], None]
    ) -> None:
        """`stop_at` takes the name of the query and the instant of its last result."""
        super().__init__(query, unit, slot, start)
        self._stop_at = stop_at

    @property
    def stop(self) -> int | None:
        """Results after this instant are not delivered; None: the query has not been dropped."""
        return self._stop

    @stop.setter
    def stop(self, stop: int | None) -> None:
        self._stop = stop
        if stop is not None:
            self._stop_at(self.name, stop)
