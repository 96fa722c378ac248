"""Results on their way out of an epoch: strip by strip where a shared join has several windows, and timed.

Answer   `deliver` runs a group over a slice's new rows and hands each member its results: those of a group with several windows
         as the scheduler releases them, all others when the slice is done. `on_release` is called with each table at once;
         the epoch's outcome holds them too.
State    How each group is worked off, until a query of it comes or goes; the response times, where they are measured.
Limits   Without anybody to take results before the epoch ends, groups are worked off as a whole: there is nothing to gain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from eddyline.operators.evaluate import Issues
from eddyline.operators.intake import Intake, Released
from eddyline.operators.join import release
from eddyline.operators.join.combination import Combinations, in_order
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.node import RowsSeen
from eddyline.runtime.epoch import Outcome
from eddyline.runtime.response import Responses
from eddyline.runtime.standing import StandingQuery
from eddyline.state.columns import Ints

Members = Mapping[str, StandingQuery]


class HandOut:
    def __init__(self, issues: Issues) -> None:
        self.issues = issues
        #: Called with a query's name and each table of its results as soon as it is released.
        self.on_release: Callable[[str, pa.Table], None] | None = None
        self.responses: Responses | None = None
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

    def arrived(self, stream: str, upto: int) -> None:
        if self.responses is not None:
            self.responses.arrived(stream, upto)

    def released(
        self, first: int, total: int, rows: Mapping[str, Released], ranks: Mapping[str, Ints], intakes: Mapping[str, Intake]
    ) -> None:
        """An epoch begins to work on these rows: when each of them arrived."""
        if self.responses is None:
            return
        found = []
        for name, all_ranks in ranks.items():
            place = rows[name].place
            found.append((name, all_ranks if place is None else all_ranks[place], rows[name].number))
        self.responses.released(first, total, found)
        for name, intake in intakes.items():
            waiting = [int(chunk.number.min()) for chunk in intake.chunks if len(chunk)]
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
        for query in members.values():
            self._hand(query, rows, outcome)
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
            for slot in portion.slots:
                self._hand(by_slot[slot], portion.rows, outcome)
            if portion.last:
                made += len(portion.rows)
        self._worked(schedule.group)
        return made

    def _worked(self, group: JoinGroup) -> None:
        if self.responses is not None:
            self.responses.worked(group.config.name, group.counters.values())

    def _hand(self, query: StandingQuery, rows: Combinations, outcome: Outcome) -> None:
        query.heard = None if self.responses is None else self.responses.heard
        tables = query.accept(rows, self.issues)
        outcome.results[query.name].extend(tables)
        if self.on_release is not None:
            for table in tables:
                self.on_release(query.name, table)
