"""What rewriting a FROM needs of the statement under way: names for makers, the catalog, and how sources and subqueries
are bound.

Answer   `Derivation` is the protocol that outer joins, JOIN LATEST and their trees call; `derive.py` has the one class
         that keeps it.
State    None here: the makers that were derived so far belong to the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from eddyline.language.catalog import Catalog
from eddyline.language.syntax import Body, FromEntry
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Column, Stream
from eddyline.settings import Settings


class Derivation(Protocol):
    """What is derived on the way, for one statement."""

    settings: Settings
    catalog: Catalog
    makers: list[BoundQuery]

    def next_name(self) -> str:
        """A name that no user can give."""

    def unordered_stream(self, columns: Sequence[Column], makers: int = 1) -> Stream:
        """A derived stream with these columns, whose rows of equal time have no order."""

    def query(self, name: str, body: Body) -> BoundQuery:
        """The bound query of a body, whose makers join those of the statement."""

    def plain_source(self, source: FromEntry) -> FromEntry:
        """The source with the name of its stream in the place of a subquery."""
