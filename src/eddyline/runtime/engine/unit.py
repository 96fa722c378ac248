"""What a pipeline runs behind its stores: units, the queries that are registered in them, and the kinds of queries that there
are.

Answer   A `Unit` answers one or many queries over a fixed set of streams. The pipeline hands it every row of those
         streams exactly once, in the total order, in slices; then it calls `advance` with the frontier. The unit hands
         results to the outcome.

             Kind.register ─► Registered in a Unit       once per query
             Unit.take(slice), take(slice) … advance(end), purge(now)      every epoch
             Unit.snapshot / Unit.restore              checkpoints

State    None here. A unit keeps what it cannot compute from the streams' stores, and gives it to the snapshot.
Limits   A row that is late for a unit is not in its slices. A unit never looks at a clock, a file or another unit.
Reading  docs/add-a-kind-of-query.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.query import BoundQuery
from eddyline.operators.expressions.evaluate import Issues
from eddyline.plan.shape import Part
from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.engine.records.ranked import RankedRecords
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Merging:
    """Makes the results of an epoch of the parts that the shards sent."""

    merge: Callable[[Sequence[pa.Table], Issues], pa.Table]
    #: Parts come in slices (`operators/aggregate/parts.py`), of which each can be merged by itself.
    in_slices: bool = False

    def __call__(self, parts: Sequence[pa.Table], issues: Issues) -> pa.Table:
        return self.merge(parts, issues)


@dataclass(slots=True)
class Slice:
    """A stretch of the total order of a unit's streams: per stream the rows in it, and what orders them.

    A stream without rows in the stretch has no entry. All arrays of a stream have one entry per row, oldest first.
    """

    #: All declared columns.
    tables: dict[str, pa.Table]
    #: Event times in microseconds.
    ts: dict[str, Ints]
    #: Places in the total order of the unit's streams: a smaller rank is an older row. Ranks are comparable across
    #: epochs.
    ranks: dict[str, Ints]
    #: Numbers of the rows in their streams: the rows that are not late for the unit are counted, wherever they are.
    numbers: dict[str, Ints]
    #: Numbers of arrival: a row has one in its stream, whichever unit takes it.
    arrival: dict[str, Ints]
    #: Per row a bit for each route that sent it here; None: every route did.
    routes: dict[str, npt.NDArray[np.uint64] | None]
    #: The ranks of the slice; on a shard some of their rows are elsewhere.
    span: range
    #: (stream, ranks) -> how many rows of the stream there are at or before each of these ranks.
    rows_seen: Callable[[str, Ints], Ints]
    #: stream -> the first id that its rows have in the stream's store and the id after the last, where a unit reads
    #: that store.
    fresh: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: stream -> the records before some row of the slice and after those of earlier slices.
    records: Mapping[str, list[RankedRecords]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The end of an epoch for a unit: all its rows below the frontier have been taken."""

    frontier: int
    #: The end of a bounded run.
    closing: bool
    #: stream -> how many of its rows came before this epoch, and the event times of those that were taken in it.
    came: Callable[[str], tuple[int, Ints]]
    #: stream -> the records after all rows of the epoch and below the frontier.
    records: Mapping[str, list[RankedRecords]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamsEnd:
    """The end of a unit's streams: no row of them comes any more."""

    #: The end of the streams, the instant at which a unit is from now on.
    now: int
    #: As that of `EpochEnd`, after the last row.
    came: Callable[[str], tuple[int, Ints]]


@dataclass(frozen=True, slots=True)
class UnitFigures:
    """What a unit has done so far, and what it holds now."""

    #: operator -> rows_in, rows_out, seconds.
    operators: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: Stores of its own -> most rows that they have held.
    stored: Mapping[str, int] = field(default_factory=dict)
    partials: int = 0
    probes: int = 0
    probes_shared: int = 0
    visited: int = 0
    #: Pairs of stretches of rows that were skipped or passed as a whole, and tests of conditions that were left out.
    zones_skipped: int = 0
    zones_passed: int = 0
    conditions_avoided: int = 0
    #: Edge -> its state and counts; edges of plans that the unit has left.
    edges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    earlier_edges: tuple[Mapping[str, Any], ...] = ()
    #: Figures of the kind's own, by their names in `--stats`: those of several units are put together.
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Counts of join policies by their names in `--stats`.
    counts: Mapping[str, int] = field(default_factory=dict)


class Unit(Protocol):
    name: str
    #: The streams that it reads: its time follows these and no others.
    streams: frozenset[str]

    @property
    def queries(self) -> Mapping[str, Registered]:
        """The queries that are registered in it, by name."""

    def leave(self, name: str) -> None:
        """A query leaves at once; a unit without any query leaves its kind and lets go of everything that it holds."""

    def take(self, part: Slice, outcome: Outcome) -> int:
        """Take the rows of a slice; returns about how many results they made, which sizes the next slice."""

    def advance(self, end: EpochEnd, outcome: Outcome) -> None:
        """Give what the end of the epoch brings about."""

    def end(self, end: StreamsEnd, outcome: Outcome) -> None:
        """Close what is open: `advance` has been called with the last epoch, and nothing comes any more."""

    def purge(self, now: int) -> None:
        """Rows still to come are at or after `now`: forget what none of them can use."""

    def rest(self, end: EpochEnd) -> None:
        """Nothing comes in: do what waits for that."""

    def held(self) -> tuple[int, int]:
        """Rows and bytes of its own stores now."""

    @property
    def steps_within(self) -> bool:
        """Whether its timeline may work several times in an epoch: its results are the same."""

    def in_portions(self, rows: int) -> bool:
        """Whether the results of `rows` rows leave in portions while a slice is worked off."""

    def snapshot(self) -> dict[str, tuple[object, Blocks]]:
        """Per query what cannot be computed from live rows: a JSON value, and named blocks. A query without is left
        out. A unit may
        add entries of its own, under names that no query has."""

    def restore(self, states: Mapping[str, object], load: Load) -> None:
        """The reverse of `snapshot`: the JSON values of its queries, and all entries that units have added of their
        own."""

    def report(self) -> UnitFigures: ...


class Registered(Protocol):
    """One registered query in its unit."""

    query: BoundQuery
    name: str
    #: Its place among the queries of its unit; a restored query gets the one that it had.
    slot: int
    #: Rows at or before this instant do not exist for the query.
    start: int
    #: Results after this instant are not delivered; None: the query has not been dropped.
    stop: int | None
    results: int
    seconds: float

    @property
    def unit(self) -> Unit: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def rows_in(self) -> int: ...

    @property
    def is_timed(self) -> bool:
        """Whether response times of its results are measured."""

    @property
    def punctuations_out(self) -> int:
        """Punctuations of its results so far."""

    @property
    def left_open(self) -> int:
        """How many of its groups, rows or matches only later rows, time or the end of the streams can end."""

    @property
    def unseen(self) -> int:
        """Groups and ranked rows that came and went between two outputs, in this run."""

    @property
    def triggers(self) -> Mapping[str, Callable[[str], None]]:
        """Its components whose triggers change while it runs (`model/triggers.py`): what gives each another trigger."""

    @property
    def merging(self) -> Merging | None:
        """What merges the parts that shards have of its groups; None: each shard gives whole results."""

    def plan(self, pipeline: Pipeline | None = None) -> str:
        """How the query is answered now, with what that costs where the pipeline is at hand."""

    def analysis(self) -> list[str]:
        """What its operators did in this run, one line each."""

    def shape(self, text: str) -> Part:
        """The plan as parts that can be drawn; `text` is the text of `plan`."""
