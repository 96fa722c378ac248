"""What every registered query has, whatever its kind: its text, its unit, its place in the unit and its start.

Limits   Results, stop and schema are the kinds' own: some keep them here, others ask the operator that serves many
         queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from eddyline.model.query import BoundQuery
from eddyline.plan.shape import Part, text_shape
from eddyline.runtime.engine.unit import Unit


class RegisteredBase:
    #: Punctuations of its results so far.
    punctuations_out: int = 0
    #: Components whose triggers change while it runs, with what gives each another trigger.
    triggers: Mapping[str, Callable[[str], None]] = MappingProxyType({})

    def __init__(self, query: BoundQuery, unit: Unit, slot: int, start: int) -> None:
        self.query = query
        self.name = query.name
        self.unit = unit
        self.slot = slot
        self.start = start
        #: Seconds of work for this query alone.
        self.seconds = 0.0

    def shape(self, text: str) -> Part:
        """The plan as parts that can be drawn: of a query that is no join, one part with the lines of the text."""
        return text_shape(self.name, text, self.unit.streams, self.unit.name)
