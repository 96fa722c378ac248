"""Kinds of queries, and what their units do alike.

Answer   `QueryKind` decides which bound queries it serves and puts each of them into a unit. The pipeline calls it when
         streams, tables and queries come and go; without a method of its own a kind does nothing then. `UnitBase`
         serves units that keep no rows of their own and do nothing while nothing comes in.
State    A kind has its units.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.operators.join.group import JoinGroup
from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.engine.unit import EpochEnd, Registered, Slice, StreamsEnd, Unit, UnitFigures
from eddyline.state.blocks import Blocks, Load
from eddyline.state.renumbering import Renumbering

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline

U = TypeVar("U", bound=Unit)


class UnitBase:
    """A unit without rows of its own: it answers when rows come, and nothing later."""

    steps_within = False

    def take(self, part: Slice, outcome: Outcome) -> int:
        """No row makes a result by itself."""
        return 0

    def advance(self, end: EpochEnd, outcome: Outcome) -> None:
        """Every row has been answered when it came."""

    def end(self, end: StreamsEnd, outcome: Outcome) -> None:
        """Nothing is open."""

    def in_portions(self, rows: int) -> bool:
        return False

    def purge(self, now: int) -> None:
        """No row is kept here: stores keep the rows that ports need."""

    def rest(self, end: EpochEnd) -> None:
        """Nothing waits for a pause."""

    def held(self) -> tuple[int, int]:
        return 0, 0

    def snapshot(self) -> dict[str, tuple[object, Blocks]]:
        return {}

    def restore(self, states: Mapping[str, object], load: Load) -> None:
        """Nothing is kept that cannot be computed."""

    def report(self) -> UnitFigures:
        return UnitFigures()


class QueryKind(ABC, Generic[U]):
    """One kind of query in one pipeline: a line in `kinds.py` registers it."""

    #: Whether results of its queries leave as bundles where the driver takes bundles; otherwise each query has a list
    #: in the outcome.
    in_bundles = False
    #: Whether its units work after those of the other kinds, whose results they take.
    runs_last = False
    #: What `UnitFigures.own` has, by name: what makes one figure of those of two shards.
    figures: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = MappingProxyType({})

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        #: By a name of the kind's choice; a unit without queries is gone.
        self.units: dict[str, U] = {}

    @abstractmethod
    def serves(self, query: BoundQuery, start: int) -> bool:
        """Whether the kind answers a query that begins at `start`."""

    @abstractmethod
    def register(self, query: BoundQuery, start: int, slot: int | None) -> Registered:
        """Put a query into its unit, which is made if it does not exist; the query sees the rows after `start`."""

    def groups(self) -> Iterator[tuple[str, JoinGroup]]:
        """The join groups of its units, with their signatures."""
        return iter(())

    # -- called by the pipeline, which knows no kind by name

    def add_stream(self, stream: Stream) -> None:
        """A stream has been added to the pipeline."""

    def load_table(self, table: str) -> None:
        """The rows of a table are others: queries that read it read it anew."""

    def replanted(self, group: JoinGroup) -> None:
        """The tree of a join is another."""

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a store have new ids."""

    def before_drop(self, query: str) -> None:
        """A query of any kind is about to stop or to go."""

    # -- called for snapshots

    def before_restore(self, saved: Mapping[str, Mapping[str, Any]]) -> None:
        """Queries of a snapshot are about to be added; `saved` has the entry of each in the snapshot."""

    def after_restore(self) -> None:
        """The queries of the snapshot have been added, and new ones may come."""

    @classmethod
    def pass_on(cls, header: dict[str, Any], here: Collection[str]) -> None:
        """A snapshot is about to be restored with the queries `here`: give them what they need of those that are
        gone."""

    @classmethod
    def block_content(cls, query: str, state: Mapping[str, Any], block: str) -> str | None:
        """What a block that belongs to the state of a query holds, in words; None: it is none of this kind's."""
        return None
