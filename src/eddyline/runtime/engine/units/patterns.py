"""Event patterns and constraints: all those over one stream, its types and its traces are one unit.

Answer   `PatternUnit.take` runs the book over the rows of a slice and sends violations to the stream's dead letters;
         results that are ready leave at once, and `advance` hands out what time makes certain. A book with constraints
         is there without any query: violations do not depend on queries.
State    The book. All of it is in the snapshot: a trace may be older than any row in a store.
Limits   On a shard the book takes the rows that the route of its partition columns sends there.
Reading  docs/operators/patterns.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline.model.patterns.constraint import EventBook as Key
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.model.window import FOREVER
from eddyline.operators.pattern.book import TraceBook
from eddyline.operators.pattern.config import BookConfig
from eddyline.operators.pattern.matcher import Made, PatternMatcher
from eddyline.operators.pattern.saved import BookBlocks
from eddyline.plan.patterns.patterns import PatternPlan, explain_pattern, plan_pattern, rules_for
from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.engine.newest import placed
from eddyline.runtime.engine.registered.base import StoppedQuery
from eddyline.runtime.engine.unit import EpochEnd, Slice, StreamsEnd, UnitFigures
from eddyline.runtime.engine.units.base import QueryKind, UnitBase
from eddyline.state.blocks import Blocks, Load

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline

#: The unit's own entry in a snapshot; no query has such a name.
_OWN = "book"


class PatternQuery(StoppedQuery):
    def __init__(
        self, query: BoundQuery, unit: PatternUnit, matcher: PatternMatcher, slot: int, start: int, plan: PatternPlan
    ) -> None:
        super().__init__(query, unit, slot, start, unit.book.stop)
        self.matcher = matcher
        self._book = unit.book
        self._plan = plan

    @property
    def schema(self) -> pa.Schema:
        return self.matcher.schema

    @property
    def results(self) -> int:
        return self.matcher.results

    @results.setter
    def results(self, count: int) -> None:
        self.matcher.results = count

    @property
    def rows_in(self) -> int:
        return self.matcher.candidates

    @property
    def left_open(self) -> int:
        return self.matcher.waiting_count

    def plan(self, pipeline: Pipeline | None = None) -> str:
        return explain_pattern(self._plan)

    def analysis(self) -> list[str]:
        figures = self._book.report()
        return [
            f"book {self._book.config.key}: "
            + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in figures.items())
        ]


class PatternUnit(UnitBase):
    def __init__(self, kind: PatternKind, key: Key, stream: Stream, route: int | None) -> None:
        self.kind = kind
        self.pipeline = kind.pipeline
        self.key = key
        self.route = route
        self.stream = stream
        self.streams = frozenset([stream.name])
        self.name = f"patterns over {key}" + ("" if route is None else f" by route {route}")
        sets = [s for s in stream.constraints if s.book == key]
        on_violation = "error" if any(s.settings.on_violation == "error" for s in sets) else "dead-letter"
        columns = {c.name: c.type for c in stream.schema.columns}
        self.book = TraceBook(
            BookConfig(key, columns, rules_for(key, sets), on_violation),
            self.pipeline.issues,
            self.pipeline.settings.tuning.patterns,
        )
        self._blocks = BookBlocks(self.book)
        #: Begins the names of all blocks.
        self._block_name = f"{stream.name}-book-{uuid4().hex[:8]}"
        self.queries: dict[str, PatternQuery] = {}
        #: A book with rules stays without queries.
        self.stays = bool(sets)

    def add(self, query: BoundQuery, start: int, slot: int | None) -> PatternQuery:
        plan = plan_pattern(query, self.book.config.rules)
        sequence = None if self.pipeline.handout.places is None else self.stream.sequence
        matcher = self.book.add(plan.config(self.book.config.columns), query.outputs, start, sequence)
        slot = len(self.queries) if slot is None else slot
        registered = self.queries[query.name] = PatternQuery(query, self, matcher, slot, start, plan)
        return registered

    def leave(self, name: str) -> None:
        del self.queries[name]
        self.book.remove(name)
        if not self.queries and not self.stays:
            del self.kind.units[self.name]

    def take(self, part: Slice, outcome: Outcome) -> int:
        name = self.stream.name
        if name not in part.tables:
            return 0
        table, ts, ranks, numbers = part.tables[name], part.ts[name], part.ranks[name], part.arrival[name]
        routes = part.routes[name]
        if routes is not None and self.route is not None:
            sent = np.flatnonzero((routes >> np.uint64(self.route)) & np.uint64(1))
            if not len(sent):
                return 0
            if len(sent) < len(ts):
                table, ts, ranks, numbers = table.take(pa.array(sent)), ts[sent], ranks[sent], numbers[sent]
        before = sum(m.matcher.candidates for m in self.queries.values())
        broken = self.book.take(table, ts, ranks, numbers, partial(self._hand_out, outcome))
        self._hand_out(outcome)
        for query in self.queries.values():
            if (text := query.matcher.many.told()) is not None:
                self.pipeline.handout.warn_once(query.query, text)
        if broken is not None:
            outcome.dead.setdefault(name, []).append(broken)
        return sum(m.matcher.candidates for m in self.queries.values()) - before

    def advance(self, end: EpochEnd, outcome: Outcome) -> None:
        for name, made in self.book.advance(end.frontier).items():
            self._hold(name, made, outcome)

    def end(self, end: StreamsEnd, outcome: Outcome) -> None:
        for name, made in self.book.advance(FOREVER).items():
            self._hold(name, made, outcome)

    def _hand_out(self, outcome: Outcome) -> None:
        """Results that are ready, while the epoch runs."""
        for name, query in self.book.queries.items():
            self._hold(name, query.ready(), outcome)
        self.pipeline.handout.part_with(outcome)

    def _hold(self, name: str, made: Iterable[Made], outcome: Outcome) -> None:
        tables = [self._placed(m) for m in made if len(m.table)]
        outcome.results[name] += tables
        self.pipeline.handout.hold(sum(len(table) for table in tables))

    def _placed(self, made: Made) -> pa.Table:
        if self.pipeline.handout.places is None:
            return made.table
        return placed(made.table, self.stream, made.numbers, made.waits, made.sequence)

    def purge(self, now: int) -> None:
        self.book.purge(now)

    def held(self) -> tuple[int, int]:
        state = self.book.state
        return self.book.report()["events_held"], state.payload.nbytes + sum(
            a.nbytes for a in (*state.events, *state.links, *state.runs, *state.traces)
        )

    def snapshot(self) -> dict[str, tuple[object, Blocks]]:
        return {f"{_OWN}:{self.name}": self._blocks.snapshot(self._block_name)}

    def restore(self, states: Mapping[str, object], load: Load) -> None:
        state = states.get(f"{_OWN}:{self.name}")
        if state is not None:
            self._blocks.restore(state, load)

    def report(self) -> UnitFigures:
        figures = self.book.report()
        results = sum(m.results for m in self.queries.values())
        return UnitFigures(
            operators={self.name: {"rows_in": self.book.rows_in, "rows_out": results, "seconds": self.book.seconds}},
            stored={self.name: figures["peak_events_held"]},
            probes=figures["probes"],
            own={"patterns": {self.name: figures}},
        )


def summed(a: Mapping[str, Mapping[str, int]], b: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """The books of two shards, count by count."""
    found = {name: dict(counts) for name, counts in a.items()}
    for name, counts in b.items():
        mine = found.setdefault(name, {})
        for key, value in counts.items():
            mine[key] = mine.get(key, 0) + value
    return found


class PatternKind(QueryKind[PatternUnit]):
    figures: ClassVar = {"patterns": summed}

    def serves(self, query: BoundQuery, start: int) -> bool:
        return query.pattern is not None

    def add_stream(self, stream: Stream) -> None:
        """A stream with constraints has their books from the start."""
        for key in dict.fromkeys(found.book for found in stream.constraints):
            unit = self._unit(key, stream, self.pipeline.routes.book(key))
            # A book with rules takes rows without any query.
            self.pipeline.timeline(unit.streams)

    def register(self, query: BoundQuery, start: int, slot: int | None) -> PatternQuery:
        assert query.pattern is not None
        key = query.pattern.book
        stream = self.pipeline.intakes[key.stream].stream
        return self._unit(key, stream, self.pipeline.routes.pattern(query)).add(query, start, slot)

    def _unit(self, key: Key, stream: Stream, route: int | None) -> PatternUnit:
        made = PatternUnit(self, key, stream, route)
        return self.units.setdefault(made.name, made)
