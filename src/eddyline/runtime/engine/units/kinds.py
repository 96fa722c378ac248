"""The kinds of queries, in the order in which they are asked: the first kind that serves a query answers it.

Answer   `Kinds` has the kinds of one pipeline. A new kind of query is a new file in this folder and one line here;
         pipeline, hand-out, shard and report know units only.
State    Each kind has its units; a unit without queries is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from eddyline.errors import Fault
from eddyline.model.query import BoundQuery
from eddyline.runtime.engine.unit import QueryKind, Unit
from eddyline.runtime.engine.units.copies import CopyKind
from eddyline.runtime.engine.units.filters import FilterKind
from eddyline.runtime.engine.units.joins import JoinKind
from eddyline.runtime.engine.units.patterns import PatternKind
from eddyline.runtime.engine.units.requests import RequestsKind
from eddyline.runtime.engine.units.templates import TemplateKind

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline


class Kinds:
    def __init__(self, pipeline: Pipeline) -> None:
        self.templates = TemplateKind(pipeline)
        self.requests = RequestsKind(pipeline, self.templates)
        self.filters = FilterKind(pipeline)
        self.patterns = PatternKind(pipeline)
        self.joins = JoinKind(pipeline)
        # A join answers whatever no kind before it does.
        self.copies = CopyKind(pipeline, self.joins)
        #: A copy takes what its original has made: units of copies come last.
        self.all: tuple[QueryKind, ...] = (
            self.templates,
            self.requests,
            self.patterns,
            self.filters,
            self.joins,
            self.copies,
        )

    def of(self, query: BoundQuery, start: int) -> QueryKind:
        """The kind of a query that begins at `start`."""
        if self.copies.original_of(query, start) is not None:
            return self.copies
        found = next((kind for kind in self.all if kind.serves(query)), None)
        if found is None:
            raise Fault(f"no kind of query serves {query.name}")
        return found

    def units(self) -> Iterator[Unit]:
        for kind in self.all:
            yield from kind.units.values()
