"""Results on their way out of an epoch: strip by strip where a shared join has several windows, and timed.

Answer   `deliver` runs a group over a slice's new rows and hands each member its results: those of a group with several windows
         as the scheduler releases them, all others when the slice is done. `on_release` is called with each table at once;
         the epoch's outcome holds them too.
State    How each group is worked off, until a query of it comes or goes; the response times, where they are measured.
Limits   Without anybody to take results before the epoch ends, groups are worked off as a whole: there is nothing to gain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter

import numpy as np
import pyarrow as pa

from eddyline.model.query import Output
from eddyline.operators.evaluate import Issues
from eddyline.operators.intake import Intake, Released
from eddyline.operators.join import release
from eddyline.operators.join.combination import Combinations, in_order
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.node import RowsSeen
from eddyline.operators.sharing.filter_group import Bundle
from eddyline.operators.sharing.router import split
from eddyline.runtime.epoch import Outcome
from eddyline.runtime.newest import NewestPlaces
from eddyline.runtime.response import Responses
from eddyline.runtime.standing import SelectQuery, StandingQuery
from eddyline.state.columns import Ints

#: From so many queries of one group on, results are split in one pass and projected together.
_MANY = 8

Members = Mapping[str, StandingQuery]


class HandOut:
    def __init__(self, issues: Issues) -> None:
        self.issues = issues
        #: Called with a query's name and each table of its results as soon as it is released.
        self.on_release: Callable[[str, pa.Table], None] | None = None
        #: The same for results of many queries in one table; None: every query's results come apart.
        self.on_bundle: Callable[[Bundle], None] | None = None
        self.responses: Responses | None = None
        #: Results say where their newest rows stand among those of all shards; None: there is one pipeline, their order says it.
        self.places: NewestPlaces | None = None
        self._schedules: dict[JoinGroup, release.SharedSchedule | None] = {}

    # -- told by the pipeline

    def measure(self, responses: Responses) -> None:
        """Measure response times from here on."""
        self.responses = responses

    def changed(self, group: JoinGroup) -> None:
        """A query of the group has come or gone, or its tree is another."""
        self._schedules.pop(group, None)

    def dropped(self, query: StandingQuery) -> None:
        self.changed(query.group)
        if self.responses is not None:
            self.responses.drop(query.name)

    def begin(self) -> None:
        """An epoch begins: what it brings arrives now."""
        if self.responses is not None:
            self.responses.begin()

    def arrived(self, stream: str, upto: int) -> None:
        if self.responses is not None:
            self.responses.arrived(stream, upto)

    def released(
        self, first: int, total: int, rows: Mapping[str, Released], ranks: Mapping[str, Ints], intakes: Mapping[str, Intake]
    ) -> None:
        """An epoch begins to work on these rows: when each of them arrived, and where it stands among those of all shards."""
        if self.places is not None:
            self.places.note(first, total, rows, ranks)
        if self.responses is None:
            return
        found = []
        for name, all_ranks in ranks.items():
            place = rows[name].place
            found.append((name, all_ranks if place is None else all_ranks[place], rows[name].number))
        self.responses.released(first, total, found)
        for name, intake in intakes.items():
            waiting = [chunk.first for chunk in intake.chunks]
            self.responses.forget(name, min(waiting, default=intake.arrived))

    # -- a slice

    def deliver(
        self, group: JoinGroup, members: Members, fresh: Mapping[str, tuple[int, int]], rows_seen: RowsSeen, ranks: range, outcome: Outcome
    ) -> int:
        """Run a group over a slice's new rows and hand out what it makes; returns how many combinations that are."""
        schedule = self._schedule(group, members, len(ranks))
        if schedule is not None:
            return self._strips(schedule, members, fresh, rows_seen, outcome)
        pieces = group.step(fresh, rows_seen)
        self._worked(group)
        if not pieces:
            return 0
        rows = in_order(pieces, ranks.start, len(ranks))
        self._hand_all(members, tuple(members.values()), rows, outcome)
        return len(rows)

    def _schedule(self, group: JoinGroup, members: Members, rows: int) -> release.SharedSchedule | None:
        if self.on_release is None or rows < release.LEAST_ROWS or len(members) < 2:
            return None
        if group not in self._schedules:
            # The newest member says how: a setting holds for what is created after it.
            newest = next(reversed(list(members.values())))
            self._schedules[group] = release.shared_schedule(group, newest.query.settings.scheduler)
        return self._schedules[group]

    def _strips(
        self,
        schedule: release.SharedSchedule,
        members: Members,
        fresh: Mapping[str, tuple[int, int]],
        rows_seen: RowsSeen,
        outcome: Outcome,
    ) -> int:
        by_slot = {query.slot: query for query in members.values()}
        made = 0
        for portion in schedule.run(fresh, rows_seen):
            self._worked(schedule.group)
            self._hand_all(members, tuple(by_slot[slot] for slot in portion.slots), portion.rows, outcome)
            if portion.last:
                made += len(portion.rows)
        self._worked(schedule.group)
        return made

    def _worked(self, group: JoinGroup) -> None:
        if self.responses is not None:
            self.responses.worked(group.config.name, group.counters.values())

    def _hand_all(self, members: Members, queries: tuple[StandingQuery, ...], rows: Combinations, outcome: Outcome) -> None:
        # Decided by the whole group, so that all results of a query go one way.
        if self.on_bundle is None or len(members) < _MANY:
            for query in queries:
                self._hand(query, rows, outcome)
            return
        lists: dict[tuple[Output, ...], list[SelectQuery]] = {}
        for query in queries:
            if isinstance(query, SelectQuery):
                lists.setdefault(query.lowered.outputs, []).append(query)
            else:
                self._hand(query, rows, outcome)
        for same in lists.values():
            self._hand_bundle(sorted(same, key=lambda query: query.slot), rows, outcome)

    def _hand_bundle(self, queries: list[SelectQuery], rows: Combinations, outcome: Outcome) -> None:
        """Results of queries with one SELECT list, split by lineage and projected together."""
        assert self.on_bundle is not None
        began = perf_counter()
        mine, edges = split(rows, [query.slot for query in queries], [query.stop for query in queries])
        if not len(mine):
            return
        sizes = np.diff(edges)
        table = queries[0].projection.table(mine, self.issues)
        seconds = (perf_counter() - began) / len(queries)
        for query, size in zip(queries, sizes.tolist(), strict=True):
            query.rows_in += size
            query.results += size
            query.seconds += seconds
        names = [query.name for query in queries]
        bundle = Bundle(table, np.arange(len(queries)), edges, pa.array(names, pa.string()))
        if self.responses is not None:
            self.responses.heard_all(names, edges, mine)
        outcome.bundles.append(bundle)
        self.on_bundle(bundle)

    def _hand(self, query: StandingQuery, rows: Combinations, outcome: Outcome) -> None:
        query.heard = None if self.responses is None else self.responses.heard
        query.places = self.places
        tables = query.accept(rows, self.issues)
        outcome.results[query.name].extend(tables)
        if self.on_release is not None:
            for table in tables:
                self.on_release(query.name, table)
