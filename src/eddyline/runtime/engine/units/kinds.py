"""The kinds of queries: one line each.

Answer   `KINDS` has the kinds in the order in which a pipeline tries them: the first kind that serves a query answers
         it. A new kind is a new file in this folder and one line here. Pipeline, results, snapshots and reports know no
         kind by name. `Kinds` has the kinds of one pipeline.
State    Each kind has its units; a unit without queries is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from eddyline.errors import Fault
from eddyline.model.query import BoundQuery
from eddyline.runtime.engine.unit import Unit
from eddyline.runtime.engine.units.base import QueryKind
from eddyline.runtime.engine.units.copies import CopyKind
from eddyline.runtime.engine.units.filters import FilterKind
from eddyline.runtime.engine.units.joins import JoinKind
from eddyline.runtime.engine.units.patterns import PatternKind
from eddyline.runtime.engine.units.requests import RequestsKind
from eddyline.runtime.engine.units.templates import TemplateKind

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline

K = TypeVar("K")

#: A join answers whatever no kind before it does.
KINDS: tuple[type[QueryKind[Any]], ...] = (
    CopyKind,
    TemplateKind,
    RequestsKind,
    PatternKind,
    FilterKind,
    JoinKind,
)


class Kinds:
    def __init__(self, pipeline: Pipeline) -> None:
        self._made: tuple[QueryKind[Any], ...] = tuple(kind(pipeline) for kind in KINDS)
        #: In the order in which their units work.
        self.all = tuple(sorted(self._made, key=lambda kind: kind.runs_last))

    def one(self, kind: type[K]) -> K:
        """The kind of a class."""
        return next(found for found in self._made if isinstance(found, kind))

    def of(self, query: BoundQuery, start: int) -> QueryKind[Any]:
        """The kind of a query that begins at `start`."""
        found = next((kind for kind in self._made if kind.serves(query, start)), None)
        if found is None:
            raise Fault(f"no kind of query serves {query.name}")
        return found

    def units(self) -> Iterator[Unit]:
        for kind in self.all:
            yield from kind.units.values()
