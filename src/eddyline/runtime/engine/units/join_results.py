"""The results of a join: strip by strip where a shared join has several windows, piece by piece elsewhere, and timed.

Answer   `deliver` runs a group over a slice's new rows and hands each query its results. Those of a group with several
         windows go as the schedule releases them where a callback takes them early, all others in pieces.
State    How the group is worked off, until a query of it comes or goes, or its tree is another.
Limits   Where no callback takes results before the epoch ends, groups are worked off as a whole: a schedule would gain
         nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import methodcaller
from time import perf_counter

import numpy as np
import pyarrow as pa

from eddyline.model.query import OutputColumn
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.join_slice import JoinSlice
from eddyline.operators.join.pieces import cut, in_pieces
from eddyline.operators.join.policy import Schedule
from eddyline.operators.join.probing.expansion import Expansion, Roll
from eddyline.operators.sharing.filter_group import Bundle
from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.engine.handout import HandOut
from eddyline.runtime.engine.registered.query import RegisteredQuery
from eddyline.state.columns import Ints
from eddyline.state.renumbering import Renumbering


class JoinResults:
    def __init__(
        self, group: JoinGroup, queries: Mapping[str, RegisteredQuery], handout: HandOut, issues: Issues
    ) -> None:
        self.group = group
        self.queries = queries
        self.handout = handout
        self.issues = issues
        self.tuning = handout.tuning
        self._seatings: dict[tuple[int, ...], _Seating] = {}
        self.changed()

    def changed(self) -> None:
        """A query of the group has come or gone, or its tree is another."""
        self._seatings.clear()
        #: None: the group is worked off as a whole.
        self.schedule: Schedule | None = None
        self._is_scheduled = False
        reads = [query.reads for query in self.queries.values()]
        known = [one for one in reads if one is not None]
        #: The references whose rows some query reads; None: all.
        self._reads = frozenset[int]().union(*known) if len(known) == len(reads) else None
        self._takes_parts = all(query.takes_parts for query in self.queries.values())
        self._feeding = [query for query in self.queries.values() if query.query.feeds is not None]

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a stream have new ids."""
        if self.schedule is not None:
            self.schedule.renumber(old_to_new)

    def deliver(self, join_slice: JoinSlice, ranks: range, outcome: Outcome) -> int:
        """Run the group over a slice's new rows and hand out what it makes; returns how many combinations that are."""
        # Those of a slice in whose middle this one is worked off have more results to come.
        others = len(self.handout.crowds)
        if self.is_scheduled(len(ranks)):
            made = self._strips(join_slice, ranks, outcome)
        elif len(self.queries) < self.tuning.sharing.many_queries:
            made = self._pieces(join_slice, ranks, outcome)
        else:
            seating = self._seated(tuple(self.queries.values()))
            for strand in self.group.step(replace(join_slice, into=seating.into)):
                for piece in strand:
                    seating.into.add(piece)
            self._worked()
            made = self._hand_shares(seating, ranks, outcome)
        if len(self.handout.crowds) > others:
            self.handout.warn_of_crowds(others)
        return made

    def _pieces(self, join_slice: JoinSlice, ranks: range, outcome: Outcome) -> int:
        """Each piece goes to all queries, and leaves, before the next is made."""
        made = 0
        strands = self.group.step(replace(join_slice, reads=self._reads))
        if self._reads is not None:
            strands = [map(methodcaller("only", self._reads), strand) for strand in strands]
        whole, under_way = not self._takes_parts, self.handout.under_way
        is_virtual = self.handout.responses is not None and self.handout.responses.is_virtual
        for rows in in_pieces(strands, ranks, self.tuning.results_held, whole, under_way):
            if is_virtual:
                self._worked()
            for query in self.queries.values():
                self._hand(query, rows, outcome)
            made += len(rows)
            if self._feeding:
                self.handout.feed_readers(self._feeding, int(rows.clock[-1]), outcome)
            self.handout.part_with(outcome)
        if is_virtual:
            self._worked()
        return made

    def is_scheduled(self, rows: int) -> bool:
        """Whether results of so many new rows are released in portions."""
        if (
            rows < self.tuning.scheduling.least_rows
            or len(self.queries) < 2
            or self.handout.listening.isdisjoint(self.queries)
        ):
            return False
        if not self._is_scheduled:
            # The settings of the newest query decide: a setting holds for what is created after it.
            newest = next(reversed(list(self.queries.values())))
            self.schedule, self._is_scheduled = self.group.schedule(newest.query.settings), True
        return self.schedule is not None

    def _strips(self, join_slice: JoinSlice, ranks: range, outcome: Outcome) -> int:
        assert self.schedule is not None
        by_slot = {query.slot: query for query in self.queries.values()}
        made = 0
        now = perf_counter if self.handout.responses is None else self.handout.responses.clock.now
        for portion in self.schedule.run(join_slice, now, self._worked):
            queries = tuple(by_slot[slot] for slot in portion.slots)
            self.handout.under_way(len(portion.rows))
            # Decided by the whole group, so that all results of a query go one way.
            if len(self.queries) < self.tuning.sharing.many_queries:
                whole = not all(query.takes_parts for query in queries)
                for part in [portion.rows] if whole else cut(portion.rows, self.tuning.results_held):
                    for query in queries:
                        self._hand(query, part, outcome)
                    self.handout.part_with(outcome)
            else:
                seating = self._seated(queries)
                if portion.rows.lineage is None and all(query.stop is None for query in queries):
                    self._hand_all(seating, portion.rows, outcome)
                else:
                    seating.into.add(portion.rows)
                    self._hand_shares(seating, ranks, outcome)
            if portion.last:
                made += len(portion.rows)
        return made

    def _worked(self) -> None:
        responses = self.handout.responses
        if responses is not None and responses.is_virtual:
            responses.worked(self.group.config.name, self.group.counters.values())

    def _seated(self, queries: tuple[RegisteredQuery, ...]) -> _Seating:
        slots = tuple(query.slot for query in queries)
        if slots not in self._seatings:
            self._seatings[slots] = _Seating(queries, self.group, self.tuning.sharing.least_room)
        return self._seatings[slots]

    def _hand_shares(self, seating: _Seating, ranks: range, outcome: Outcome) -> int:
        began = perf_counter()
        made = seating.into.made
        self.handout.under_way(made)
        shares = seating.into.shares(ranks.start, len(ranks)).until([query.stop for query in seating.queries])
        seconds = (perf_counter() - began) / len(seating.queries)
        for query in seating.queries:
            query.seconds += seconds
        for first, stop in seating.lists:
            if self.handout.bundles:
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
            assert projection is not None
            table = projection.table(rows, self.issues)
            edges = np.array([0, len(rows)])
            seconds = (perf_counter() - began) / (stop - first)
            if self.handout.responses is not None:
                self.handout.responses.note([query.name for query in seating.queries[first:stop]], rows)
            for query in seating.queries[first:stop]:
                query.rows_in += len(rows)
                query.results += len(rows)
                query.seconds += seconds
                query.crowd.see(rows)
                bundle = Bundle(table, np.zeros(1, np.int64), edges, pa.array([query.name], pa.string()))
                self.handout.put_bundle([query.name], bundle, len(rows), outcome)
        for query in seating.queries[seating.apart :]:
            self._hand(query, rows, outcome)

    def _hand_bundle(
        self, queries: Sequence[RegisteredQuery], rows: Combinations, edges: Ints, outcome: Outcome
    ) -> None:
        """Results of queries with one SELECT list, query by query, projected together."""
        projection = queries[0].projection
        assert projection is not None
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
        if self.handout.responses is not None:
            self.handout.responses.note(names, rows, edges)
        self.handout.put_bundle(names, bundle, len(rows), outcome)

    def _hand(self, query: RegisteredQuery, rows: Combinations, outcome: Outcome) -> None:
        query.note = None if self.handout.responses is None else self.handout.responses.note
        query.places = self.handout.places
        for table in query.accept(rows, self.issues):
            if query.query.feeds is None:
                self.handout.put(query.name, table, outcome)
            else:
                outcome.results[query.name].append(table)
                self.handout.hold(len(table))


class _Seating:
    """In which order queries of a group get their results: those with one SELECT list side by side, aggregates and
    makers last."""

    def __init__(self, queries: tuple[RegisteredQuery, ...], group: JoinGroup, room: int) -> None:
        lists: dict[tuple[OutputColumn, ...], list[RegisteredQuery]] = {}
        apart = []
        for query in queries:
            # Results that make a derived stream go to its readers, never to a sink.
            if query.projection is not None and query.query.feeds is None:
                lists.setdefault(query.lowered.outputs, []).append(query)
            else:
                apart.append(query)
        cuts = np.cumsum([0, *(len(same) for same in lists.values())]).tolist()
        self.queries: list[RegisteredQuery] = [*(query for same in lists.values() for query in same), *apart]
        #: Places with one SELECT list, and the first place of a query that is served apart.
        self.lists: list[tuple[int, int]] = list(pairwise(cuts))
        self.apart: int = cuts[-1]
        roll = Roll.of(tuple(query.slot for query in self.queries), group.bases[0].port.width)
        self.into = Expansion(roll, tuple(group.bases), room)
