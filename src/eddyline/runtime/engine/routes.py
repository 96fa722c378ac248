"""Which rows reach a query in this pipeline: all of them, or those that a route sends to its shard.

Answer   `routed` gives a lowered query with the routes of its references; `is_merged` says whether other pipelines have
         parts of its groups, `here` which keys of a template have their rows in this pipeline. Of a derived stream
         whose rows are placed anew for other pipelines, `hands_on` is true, and `has_readers` says whether some query
         reads the rows where they are made. `Everything` is the answer of a pipeline that sees all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.patterns.constraint import EventBook
from eddyline.model.query import BoundQuery
from eddyline.model.template import Template
from eddyline.plan.lower import Lowered
from eddyline.state.columns import Ints

#: Values of a column to which of them have their results in this pipeline.
Homes = Callable[[pa.Array], npt.NDArray[np.bool_]]


class Routes(Protocol):
    def routed(self, lowered: Lowered) -> Lowered:
        """The query with the route of each reference; queries with different routes do not share a join."""

    def is_merged(self, query: str) -> bool: ...

    def makes(self, query: str) -> bool:
        """Whether results of a query are made in this pipeline; of others there may be rows without a meaning."""

    def hands_on(self, stream: str) -> bool: ...

    def has_readers(self, stream: str) -> bool: ...

    def homes(self, query: str, columns: Collection[tuple[str, str]]) -> Homes | bool:
        """Which values of columns (by alias) that are equal to each other have their results here; True: all, False:
        none has all."""

    def book(self, book: EventBook) -> int | None:
        """The route that sends the rows of a book with constraints; None: all rows are for it."""

    def pattern(self, query: BoundQuery) -> int | None:
        """The route of an EVENT query, which is that of its book."""

    def here(self, template: Template, keys: Sequence[Ints]) -> npt.NDArray[np.bool_] | None:
        """Whether the rows of whole grouping keys, given as keys per column, are sent here; None: all rows may be."""


class Everything:
    def routed(self, lowered: Lowered) -> Lowered:
        return lowered

    def is_merged(self, query: str) -> bool:
        return False

    def makes(self, query: str) -> bool:
        return True

    def hands_on(self, stream: str) -> bool:
        return False

    def has_readers(self, stream: str) -> bool:
        return True

    def homes(self, query: str, columns: Collection[tuple[str, str]]) -> Homes | bool:
        return True

    def book(self, book: EventBook) -> int | None:
        return None

    def pattern(self, query: BoundQuery) -> int | None:
        return None

    def here(self, template: Template, keys: Sequence[Ints]) -> npt.NDArray[np.bool_] | None:
        return None
