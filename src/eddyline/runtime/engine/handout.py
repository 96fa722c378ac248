"""Results on their way out of an epoch, and when they leave it.

Answer   A unit puts results into the outcome of the epoch and counts them with `hold`. They leave by one queue: `leave`
         takes them out of the outcome and hands them to the driver. Results that a callback waits for leave at once
         (`put`), many results as soon as there are many (`part_with`), all others at the end of the epoch.
State    How many rows of results the outcome holds; the response times, where they are measured.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pyarrow as pa

from eddyline.model.query import BoundQuery
from eddyline.operators.sharing.filter_group import Bundle
from eddyline.operators.stream.waiting import Released
from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.engine.newest import NewestPlaces
from eddyline.runtime.engine.registered.crowd import Crowd
from eddyline.runtime.engine.registered.query import RegisteredQuery
from eddyline.runtime.figures.response import Responses
from eddyline.state.columns import Ints
from eddyline.tuning import Tuning

log = logging.getLogger("eddyline.results")


@dataclass(frozen=True)
class PipelineHooks:
    """What a driver wants of the results of a pipeline."""

    #: Queries whose results a callback takes before their epoch ends; the driver adds to them and removes from them.
    listening: Set[str] = frozenset()
    #: Whether results of several queries with one SELECT list stay together in a table.
    bundles: bool = False


class HandOut:
    def __init__(
        self,
        tuning: Tuning,
        hooks: PipelineHooks,
        leave: Callable[[Outcome, Iterable[str] | None], int],
        whose: Callable[[BoundQuery], str],
        feed_readers: Callable[[Iterable[RegisteredQuery], int, Outcome], None],
    ) -> None:
        self.tuning = tuning
        self.bundles = hooks.bundles
        self.listening = hooks.listening
        #: Takes the results of some queries, or all results that may leave, out of the outcome; returns how many rows
        #: these have.
        self._leave = leave
        #: What a user calls a query: that of a part of a query is the whole one.
        self.whose = whose
        #: Called with queries and an instant, when they have given their combinations before it: their results before it
        #: may go to queries that read them.
        self.feed_readers = feed_readers
        #: Queries with a row that makes very many results. When its slice is done, `warn` is called with the query and
        #: the warning.
        self.crowds: list[Crowd] = []
        self.warn: Callable[[str, str], None] = lambda _, text: log.warning("%s", text)
        self._warned: set[str] = set()
        #: Rows of results in the outcome of the epoch at hand, and the most that were there or under way at once.
        self.held = 0
        self.peak_held = 0
        self.responses: Responses | None = None
        #: Adds to results the places of their newest rows among those of all shards. None: there is one pipeline, and
        #: results are in order.
        self.places: NewestPlaces | None = None

    # -- called by the pipeline

    def measure(self, responses: Responses) -> None:
        """Measure response times from here on."""
        self.responses = responses

    def dropped(self, query: BoundQuery) -> None:
        self._warned.discard(self.whose(query))
        if self.responses is not None:
            self.responses.drop(query.name)

    def begin(self) -> None:
        """An epoch begins: what it brings arrives now."""
        self.held = 0
        if self.responses is not None:
            self.responses.begin()

    def released(self, first: int, total: int, rows: Mapping[str, Released], ranks: Mapping[str, Ints]) -> None:
        """A timeline begins to work on these rows: note when each of them arrived, and its place among those of all
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

    # -- what the outcome holds

    def put(self, query: str, table: pa.Table, outcome: Outcome) -> None:
        """A result that is complete before its epoch ends: it leaves at once where a callback waits for it."""
        outcome.results[query].append(table)
        if query in self.listening:
            self.under_way(len(table))
            self._leave(outcome, (query,))
        else:
            self.hold(len(table))

    def put_bundle(self, names: Sequence[str], bundle: Bundle, rows: int, outcome: Outcome) -> None:
        """The same of results of several queries."""
        outcome.bundles.append(bundle)
        if not self.listening.isdisjoint(names):
            self.under_way(rows)
            self._leave(outcome, ())
        else:
            self.hold(rows)

    def hold(self, rows: int) -> None:
        """The outcome has got rows of results."""
        self.held += rows
        self.under_way(0)

    def let_go(self, rows: int) -> None:
        """The outcome has rows of results no longer."""
        self.held -= rows

    def under_way(self, rows: int) -> None:
        """So many rows of results have been made and are not in the outcome."""
        self.peak_held = max(self.peak_held, self.held + rows)

    def part_with(self, outcome: Outcome) -> None:
        """Many results leave before the epoch is done; of few the outcome is the only place."""
        if self.held >= self.tuning.results_held:
            self.let_go(self._leave(outcome, None))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Another timeline releases rows within; what is known of those of the timeline at hand is kept."""
        with ExitStack() as kept:
            for known in (self.places, self.responses):
                if known is not None:
                    kept.enter_context(known.kept())
            yield

    def warn_of_crowds(self, others: int) -> None:
        """A slice is done: warn of its rows that make very many results. The first `others` are of slices that are not done."""
        while len(self.crowds) > others:
            crowd = self.crowds.pop()
            self.warn_once(crowd.lowered.query, crowd.told())

    def warn_once(self, query: BoundQuery, text: str) -> None:
        """Say something of a query, which is named as its user does; of each query the first thing only."""
        whose = self.whose(query)
        if whose not in self._warned:
            self._warned.add(whose)
            self.warn(whose, f"{whose}: {text}")
