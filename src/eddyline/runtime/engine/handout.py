"""Results on their way out of an epoch: strip by strip where a shared join has several windows, and timed.

Answer   `deliver` runs a group over a slice's new rows and hands each member its results: those of a group with several
         windows as the scheduler releases them where a callback takes them early, all others when the slice is done.
         `on_release` is called with each table at once; the epoch's outcome holds those that a sink takes at its end.
State    How each group is worked off, until a query of it comes or goes; the response times, where they are measured.
         Results that the outcome holds leave it while the epoch runs, as soon as they are many (`part_with`).
Limits   Where no callback takes results before the epoch ends, groups are worked off as a whole: a schedule would gain
         nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import methodcaller
from time import perf_counter

import numpy as np
import pyarrow as pa

from eddyline.model.query import BoundQuery, OutputColumn
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.join_slice import JoinSlice
from eddyline.operators.join.pieces import cut, in_pieces
from eddyline.operators.join.policy import Schedule
from eddyline.operators.join.probing.expansion import Expansion, Roll
from eddyline.operators.sharing.filter_group import Bundle
from eddyline.operators.stream.waiting import Released
from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.engine.newest import NewestPlaces
from eddyline.runtime.engine.standing.crowd import Crowd
from eddyline.runtime.engine.standing.query import StandingQuery
from eddyline.runtime.figures.response import Responses
from eddyline.state.columns import Ints
from eddyline.state.renumbering import Renumbering
from eddyline.tuning import Tuning

log = logging.getLogger("eddyline.results")

Members = Mapping[str, StandingQuery]


class HandOut:
    def __init__(self, issues: Issues, tuning: Tuning) -> None:
        self.issues = issues
        self.tuning = tuning
        #: Called with a query's name and each table of its results as soon as it is released; says whether the outcome
        #: of the epoch has to hold it too.
        self.on_release: Callable[[str, pa.Table], bool] | None = None
        #: The same for results of many queries in one table; None: every query's results come apart.
        self.on_bundle: Callable[[Bundle], bool] | None = None
        #: Whether a callback takes results of these queries before their epoch ends.
        self.listens: Callable[[Iterable[str]], bool] | None = None
        #: Called with the outcome when it holds many results: takes out those that may leave, and returns how many rows
        #: these have.
        self.leave: Callable[[Outcome], int] | None = None
        #: Called with queries and an instant, when they have given their combinations before it: their results before it
        #: may go to queries that read them.
        self.feed_readers: Callable[[Iterable[StandingQuery], int, Outcome], None] = lambda *_: None
        #: Queries with a row that makes very many results. When its slice is done, `warn` is called with the query and
        #: the warning.
        self.crowds: list[Crowd] = []
        self.warn: Callable[[str, str], None] = lambda _, text: log.warning("%s", text)
        #: What a user calls a query: that of a part of a query is the whole one.
        self.whose: Callable[[BoundQuery], str] = lambda query: f"query {query.name}"
        self._warned: set[str] = set()
        #: Rows of results in the outcome of the epoch at hand, and the most that were there or under way at once.
        self.held = 0
        self.peak_held = 0
        self.responses: Responses | None = None
        #: Results say where their newest rows stand among those of all shards; None: there is one pipeline, their order
        #: says it.
        self.places: NewestPlaces | None = None
        self._seatings: dict[JoinGroup, dict[tuple[int, ...], _Seating]] = {}
        self._schedules: dict[JoinGroup, Schedule | None] = {}

    # -- called by the pipeline

    def measure(self, responses: Responses) -> None:
        """Measure response times from here on."""
        self.responses = responses

    def changed(self, group: JoinGroup) -> None:
        """A query of the group has come or gone, or its tree is another."""
        self._schedules.pop(group, None)
        self._seatings.pop(group, None)

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a stream have new ids."""
        for schedule in self._schedules.values():
            if schedule is not None:
                schedule.renumber(old_to_new)

    def dropped(self, query: StandingQuery) -> None:
        self.changed(query.group)
        self._warned.discard(self.whose(query.query))
        if self.responses is not None:
            self.responses.drop(query.name)

    def begin(self) -> None:
        """An epoch begins: what it brings arrives now."""
        self.held = 0
        if self.responses is not None:
            self.responses.begin()

    def arrived(self, stream: str, upto: int) -> None:
        if self.responses is not None:
            self.responses.arrived(stream, upto)

    def released(self, first: int, total: int, rows: Mapping[str, Released], ranks: Mapping[str, Ints]) -> None:
        """A timeline begins to work on these rows: when each of them arrived, and where it stands among those of all
        shards."""
        if self.places is not None:
            self.places.note(first, total, rows, ranks)
        if self.responses is None:
            return
        found = []
        for name, all_ranks in ranks.items():
            place = rows[name].place
            found.append((name, all_ranks if place is None else all_ranks[place], rows[name].number))
        self.responses.released(first, total, found)

    def waits(self, stream: str, lowest: int) -> None:
        """No row of the stream with a smaller arrival number waits any longer."""
        if self.responses is not None:
            self.responses.forget(stream, lowest)

    # -- a slice

    def deliver(self, group: JoinGroup, members: Members, join_slice: JoinSlice, ranks: range, outcome: Outcome) -> int:
        """Run a group over a slice's new rows and hand out what it makes; returns how many combinations that are."""
        # Those of a slice in whose middle this one is worked off have more results to come.
        others = len(self.crowds)
        made = self._deliver(group, members, join_slice, ranks, outcome)
        while len(self.crowds) > others:
            crowd = self.crowds.pop()
            whose = self.whose(crowd.lowered.query)
            text = crowd.told(whose)
            if whose not in self._warned:
                self._warned.add(whose)
                self.warn(whose, text)
        return made

    def _deliver(
        self, group: JoinGroup, members: Members, join_slice: JoinSlice, ranks: range, outcome: Outcome
    ) -> int:
        schedule = self._schedule(group, members, len(ranks))
        if schedule is not None:
            return self._strips(group, schedule, members, join_slice, ranks, outcome)
        if len(members) < self.tuning.sharing.many_queries:
            return self._pieces(group, members, join_slice, ranks, outcome)
        seating = self._seated(group, tuple(members.values()))
        for strand in group.step(replace(join_slice, into=seating.into)):
            for piece in strand:
                seating.into.add(piece)
        self._worked(group)
        return self._hand_shares(seating, ranks, outcome)

    def _pieces(self, group: JoinGroup, members: Members, join_slice: JoinSlice, ranks: range, outcome: Outcome) -> int:
        """Each piece goes to all queries, and leaves, before the next is made."""
        reads, made = self._reads(members), 0
        strands = group.step(replace(join_slice, reads=reads))
        if reads is not None:
            strands = [map(methodcaller("only", reads), strand) for strand in strands]
        whole = not all(query.takes_parts for query in members.values())
        for rows in in_pieces(strands, ranks, self.tuning.results_held, whole, self._note_held):
            self._worked(group)
            for query in members.values():
                self._hand(query, rows, outcome)
            made += len(rows)
            self.feed_readers(members.values(), int(rows.clock[-1]), outcome)
            self.part_with(outcome)
        self._worked(group)
        return made

    # -- what the outcome holds

    def hold(self, rows: int) -> None:
        """The outcome has got rows of results."""
        self.held += rows
        self._note_held(0)

    def _note_held(self, under_way: int) -> None:
        self.peak_held = max(self.peak_held, self.held + under_way)

    def let_go(self, rows: int) -> None:
        """The outcome has rows of results no longer."""
        self.held -= rows

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Another timeline releases rows within; what is known of those of the timeline at hand is kept."""
        with ExitStack() as kept:
            for known in (self.places, self.responses):
                if known is not None:
                    kept.enter_context(known.kept())
            yield

    def part_with(self, outcome: Outcome) -> None:
        """Many results leave before the epoch is done; of few the outcome is the only place."""
        if self.leave is not None and self.held >= self.tuning.results_held:
            self.let_go(self.leave(outcome))

    def _reads(self, members: Members) -> frozenset[int] | None:
        """The references whose rows some of these queries look at; None: all."""
        found = [query.reads for query in members.values()]
        known = [reads for reads in found if reads is not None]
        return frozenset().union(*known) if len(known) == len(found) else None

    def by_strips(self, groups: Mapping[JoinGroup, Members], rows: int) -> bool:
        """Whether all groups release their results in portions."""
        return bool(groups) and all(
            self._schedule(group, members, rows) is not None for group, members in groups.items()
        )

    def _schedule(self, group: JoinGroup, members: Members, rows: int) -> Schedule | None:
        if (
            self.listens is None
            or rows < self.tuning.scheduling.least_rows
            or len(members) < 2
            or not self.listens(members)
        ):
            return None
        if group not in self._schedules:
            # The newest member says how: a setting holds for what is created after it.
            newest = next(reversed(list(members.values())))
            self._schedules[group] = group.schedule(newest.query.settings)
        return self._schedules[group]

    def _strips(
        self,
        group: JoinGroup,
        schedule: Schedule,
        members: Members,
        join_slice: JoinSlice,
        ranks: range,
        outcome: Outcome,
    ) -> int:
        by_slot = {query.slot: query for query in members.values()}
        made = 0
        now = perf_counter if self.responses is None else self.responses.clock.now
        for portion in schedule.run(join_slice, now, partial(self._worked, group)):
            queries = tuple(by_slot[slot] for slot in portion.slots)
            self._note_held(len(portion.rows))
            # Decided by the whole group, so that all results of a query go one way.
            if len(members) < self.tuning.sharing.many_queries:
                whole = not all(query.takes_parts for query in queries)
                for part in [portion.rows] if whole else cut(portion.rows, self.tuning.results_held):
                    for query in queries:
                        self._hand(query, part, outcome)
                    self.part_with(outcome)
            else:
                seating = self._seated(group, queries)
                if portion.rows.lineage is None and all(query.stop is None for query in queries):
                    self._hand_all(seating, portion.rows, outcome)
                else:
                    seating.into.add(portion.rows)
                    self._hand_shares(seating, ranks, outcome)
            if portion.last:
                made += len(portion.rows)
        return made

    def _worked(self, group: JoinGroup) -> None:
        if self.responses is not None:
            self.responses.worked(group.config.name, group.counters.values())

    def _seated(self, group: JoinGroup, queries: tuple[StandingQuery, ...]) -> _Seating:
        seatings = self._seatings.setdefault(group, {})
        slots = tuple(query.slot for query in queries)
        if slots not in seatings:
            seatings[slots] = _Seating(queries, group, self.tuning.sharing.least_room)
        return seatings[slots]

    def _hand_shares(self, seating: _Seating, ranks: range, outcome: Outcome) -> int:
        began = perf_counter()
        made = seating.into.made
        self._note_held(made)
        shares = seating.into.shares(ranks.start, len(ranks)).until([query.stop for query in seating.queries])
        seconds = (perf_counter() - began) / len(seating.queries)
        for query in seating.queries:
            query.seconds += seconds
        for first, stop in seating.lists:
            if self.on_bundle is not None:
                self._hand_bundle(
                    seating.queries[first:stop], shares.part(first, stop), shares.edges[first : stop + 1], outcome
                )
            else:
                for place in range(first, stop):
                    self._hand(seating.queries[place], shares.part(place, place + 1), outcome)
        for place in range(seating.apart, len(seating.queries)):
            self._hand(seating.queries[place], shares.part(place, place + 1), outcome)
        return made

    def _hand_all(self, seating: _Seating, rows: Combinations, outcome: Outcome) -> None:
        """Rows that all of these queries want: projected once for those with one SELECT list, which get the same
        table."""
        for first, stop in seating.lists:
            began = perf_counter()
            projection = seating.queries[first].projection
            assert self.on_bundle is not None and projection is not None
            table = projection.table(rows, self.issues)
            edges = np.array([0, len(rows)])
            seconds = (perf_counter() - began) / (stop - first)
            if self.responses is not None:
                self.responses.note_same([query.name for query in seating.queries[first:stop]], rows)
            for query in seating.queries[first:stop]:
                query.rows_in += len(rows)
                query.results += len(rows)
                query.seconds += seconds
                query.crowd.see(rows)
                bundle = Bundle(table, np.zeros(1, np.int64), edges, pa.array([query.name], pa.string()))
                if self.on_bundle(bundle):
                    outcome.bundles.append(bundle)
                    self.hold(len(rows))
        for query in seating.queries[seating.apart :]:
            self._hand(query, rows, outcome)

    def _hand_bundle(self, queries: Sequence[StandingQuery], rows: Combinations, edges: Ints, outcome: Outcome) -> None:
        """Results of queries with one SELECT list, query by query, projected together."""
        projection = queries[0].projection
        assert self.on_bundle is not None and projection is not None
        if not len(rows):
            return
        began = perf_counter()
        edges = edges - edges[0]
        table = projection.table(rows, self.issues)
        seconds = (perf_counter() - began) / len(queries)
        for query, size in zip(queries, np.diff(edges).tolist(), strict=True):
            query.rows_in += size
            query.results += size
            query.seconds += seconds
        for number, query in enumerate(queries):
            query.crowd.see(rows.part(int(edges[number]), int(edges[number + 1])))
        names = [query.name for query in queries]
        bundle = Bundle(table, np.arange(len(queries)), edges, pa.array(names, pa.string()))
        if self.responses is not None:
            self.responses.note_all(names, edges, rows)
        if self.on_bundle(bundle):
            outcome.bundles.append(bundle)
            self.hold(len(rows))

    def _hand(self, query: StandingQuery, rows: Combinations, outcome: Outcome) -> None:
        query.note = None if self.responses is None else self.responses.note
        query.places = self.places
        for table in query.accept(rows, self.issues):
            if query.query.feeds is not None or self.on_release is None or self.on_release(query.name, table):
                outcome.results[query.name].append(table)
                self.hold(len(table))


class _Seating:
    """In which order queries of a group get their results: those with one SELECT list side by side, aggregates and
    makers last."""

    def __init__(self, queries: tuple[StandingQuery, ...], group: JoinGroup, room: int) -> None:
        lists: dict[tuple[OutputColumn, ...], list[StandingQuery]] = {}
        apart = []
        for query in queries:
            # Results that make a derived stream go to its readers, never to a sink.
            if query.projection is not None and query.query.feeds is None:
                lists.setdefault(query.lowered.outputs, []).append(query)
            else:
                apart.append(query)
        cuts = np.cumsum([0, *(len(same) for same in lists.values())]).tolist()
        self.queries: list[StandingQuery] = [*(query for same in lists.values() for query in same), *apart]
        #: Places with one SELECT list, and the first place of a query that is served apart.
        self.lists: list[tuple[int, int]] = list(pairwise(cuts))
        self.apart: int = cuts[-1]
        roll = Roll.of(tuple(query.slot for query in self.queries), group.bases[0].port.width)
        self.into = Expansion(roll, tuple(group.bases), room)
