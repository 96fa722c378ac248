"""A registered query above its join group: what it wants of the group's combinations, and what it makes of them.

Answer   `accept` turns the complete combinations of a slice into result tables; `advance` gives what the frontier alone
         brings about (windows that slide, buckets that close). A select answers at once and has nothing to advance.
State    Counts; for aggregates what the aggregation keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eddyline.model.expressions.expression import Ref
from eddyline.model.query import BoundQuery
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.project import Projection
from eddyline.operators.promises.closings import Closings
from eddyline.plan.lower import Lowered
from eddyline.plan.shape import Part, query_shape
from eddyline.runtime.engine.newest import NewestPlaces
from eddyline.runtime.engine.registered.base import RegisteredBase
from eddyline.runtime.engine.registered.crowd import Crowd
from eddyline.runtime.engine.unit import EpochEnd, Slice, Unit
from eddyline.runtime.figures.analysis import join_lines
from eddyline.runtime.figures.plan_text import plan_text
from eddyline.state.columns import Ints

if TYPE_CHECKING:
    from eddyline.operators.join.punctuations.propagation import Propagation
    from eddyline.runtime.engine.pipeline import Pipeline

#: A stream's name to how many of its rows came before this epoch, and the event times of those released in it.
Released = Callable[[str], tuple[int, Ints]]


def linger(group: JoinGroup, frontier: int, released: Released) -> None:
    """Keep rows that leave their windows in this epoch until the next one: values and groups end with them."""
    for base in group.bases.values():
        if not base.stream.is_table:
            before, times = released(base.port.source)
            base.port.lingers = frontier, before + len(times)


@dataclass(frozen=True, slots=True)
class Registration:
    """What makes a registered query over a join group: the query as it was bound and lowered, and its place."""

    query: BoundQuery
    lowered: Lowered
    unit: Unit
    group: JoinGroup
    #: Its place among the queries of the group.
    slot: int
    #: Rows at or before this instant do not exist for it.
    start: int
    #: The event-time columns of the streams.
    times: Mapping[str, str]
    #: Takes queries with a row that makes very many results.
    crowds: list[Crowd]
    #: ON CLOSE: others have parts of the same groups.
    parts: bool = False
    closings: Closings | None = None


class RegisteredQuery(RegisteredBase):
    #: Gathers the columns of results; None: results are not rows of combinations.
    projection: Projection | None = None
    #: Whether the end of an epoch can make results: windows slide, groups close.
    advances = True
    #: Whether it may get the combinations of one newest row in several calls.
    takes_parts = True
    #: Whether it may advance to an instant in the middle of an epoch, when it has got all combinations before it.
    advances_within = False
    #: The references whose rows it reads in combinations; None: all.
    reads: frozenset[int] | None = None

    def __init__(self, given: Registration) -> None:
        super().__init__(given.query, given.unit, given.slot, given.start)
        self.lowered = given.lowered
        self.group = given.group
        #: Results after this instant are not delivered; None: the query has not been dropped.
        self.stop: int | None = None
        #: Whether it announces finished values.
        self.announces = given.query.announces
        self.results = 0
        self.rows_in = 0
        self.bases: dict[Ref, StreamInput] = dict(given.group.bases.items())
        #: Finds which values of its outputs are finished; None: it announces none.
        self.propagation: Propagation | None = None
        #: Called with each slice before its combinations come; None: the query reads combinations alone.
        self.watch: Callable[[Slice], None] | None = None
        #: Called with results as they are released; for response times.
        self.note: Callable[[Sequence[str], Combinations], None] | None = None
        #: Watches for rows that make very many results.
        self.crowd = Crowd(given.lowered, given.group.bases, given.query.settings.most_results, given.crowds)
        #: Adds to results the places of their newest rows; None: one pipeline has all rows, and results are in order.
        self.places: NewestPlaces | None = None

    @property
    def schema(self) -> pa.Schema:
        raise NotImplementedError

    def shape(self, text: str) -> Part:
        group = self.group
        return query_shape(
            self.lowered, group.tree, lambda at: group.name_of(at) if len(at) > 1 else group.input_name(at[0])
        )

    def plan(self, pipeline: Pipeline | None = None) -> str:
        return plan_text(
            self.lowered,
            self.group.tree,
            None if pipeline is None else pipeline.planner.lines(self.group, self.lowered),
        )

    def analysis(self) -> list[str]:
        return join_lines(self.group, self.lowered.aliases)

    def mine(self, rows: Combinations) -> Combinations:
        """The combinations that carry this query's bit."""
        if rows.lineage is not None and len(self.group.members) > 1:
            bit = (rows.lineage[:, self.slot // 64] >> np.uint64(self.slot % 64)) & np.uint64(1)
            if not bit.all():
                rows = rows.take(bit.astype(np.bool_))
        if self.stop is not None and len(rows):
            rows = rows.take(rows.clock <= self.stop)
        return rows

    def accept(self, rows: Combinations, issues: Issues) -> list[pa.Table]:
        """Results that the complete combinations of a slice make at once, in order."""
        raise NotImplementedError

    def advance(self, frontier: int, closing: bool, issues: Issues, released: Released) -> list[pa.Table]:
        """Results that the end of an epoch makes: everything below the frontier has been accepted."""
        return []

    def end(self, now: int, issues: Issues, released: Released) -> list[pa.Table]:
        """Results that the end of the streams makes: it is `now`, and nothing comes any more."""
        return []

    @property
    def punctuations_out(self) -> int:  # type: ignore[override]
        return 0 if self.propagation is None else self.propagation.out

    @property
    def triggers(self) -> Mapping[str, Callable[[str], None]]:  # type: ignore[override]
        found = {name: given for policy in self.group.policies for name, given in policy.triggers.items()}
        return found if self.propagation is None else {**found, "propagate": self.propagation.run_when}

    def finished(self, end: EpochEnd) -> list[pa.Table] | None:
        """The punctuations of its results that an epoch brings about; None: it puts out none."""
        if self.propagation is None:
            return None
        linger(self.group, end.frontier, end.came)
        return self.propagation.announce(end.frontier, end.came, self.stop)

    def snapshot(self) -> tuple[object, dict[str, Callable[[], pa.Table]]]:
        """What cannot be recomputed from live rows: a JSON value, and named blocks. A select has only the values that
        it has announced."""
        return (None, {}) if self.propagation is None else self.propagation.snapshot()

    def restore(self, state: object, load: Callable[[str], pa.Table]) -> None:
        """The reverse of `snapshot`."""
        if self.propagation is not None:
            self.propagation.restore(state, load)


class RowsQuery(RegisteredQuery):
    """Each of its combinations is a result, and nothing else makes one."""

    is_timed = True
    advances = False

    def table(self, rows: Combinations, issues: Issues) -> pa.Table:
        """The results of some combinations, which come in order."""
        raise NotImplementedError

    def accept(self, rows: Combinations, issues: Issues) -> list[pa.Table]:
        began = perf_counter()
        rows = self.mine(rows)
        self.rows_in += len(rows)
        if not len(rows):
            return []
        self.results += len(rows)
        self.crowd.see(rows)
        made = [self.table(rows, issues)]
        if self.places is not None:
            made = [self.places.placed(made[0], rows.rank)]
        self.seconds += perf_counter() - began
        if self.note is not None:
            self.note((self.name,), rows)
        return made


class SelectQuery(RowsQuery):
    """A join without aggregates."""

    projection: Projection
    advances_within = True

    def __init__(self, given: Registration) -> None:
        super().__init__(given)
        self.projection = Projection(given.lowered.outputs, (), self.bases)
        self.reads = self.projection.reads

    @property
    def schema(self) -> pa.Schema:
        return self.projection.schema

    def table(self, rows: Combinations, issues: Issues) -> pa.Table:
        return self.projection.table(rows, issues)
