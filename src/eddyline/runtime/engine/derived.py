"""Derived streams in a pipeline: the results of some queries are the rows of streams that other queries read.

Answer   `DerivedStreams.levels` orders the timelines, so that a query runs after those that make what it reads: a chain
         of queries answers in one epoch. `DerivedStreams.hand_over` takes the results of the queries that make a stream
         out of the outcome and gives them to the stream's readers, in order. The stream has then come as far as the
         slowest of these queries. `feed_readers` does the same with many results in the middle of an epoch, where the
         answers of the readers do not depend on it. Values that all its makers have finished (`propagate`) are punctuations of the
         stream.
State    Per derived stream its makers, and values that some of them have finished (`united.py`).
Limits   A derived stream exists while a maker or a reader does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.expressions.expression import columns_of
from eddyline.model.query import BoundQuery, UnnestedTable
from eddyline.model.records.punctuation import KIND
from eddyline.model.records.records import AFTER_ALL, Records
from eddyline.model.schema import DERIVED_TIME, Stream
from eddyline.operators.expressions.evaluate import Issues, compile_expression
from eddyline.operators.promises.covering import alike
from eddyline.operators.stream.intake import DerivedIntake
from eddyline.runtime.engine.epoch import Arrival, Epoch, Outcome, punctuations_of
from eddyline.runtime.engine.newest import ordering_columns
from eddyline.runtime.engine.registered.query import RegisteredQuery
from eddyline.runtime.engine.timeline import Timeline
from eddyline.runtime.engine.united import United
from eddyline.runtime.engine.units.joins import until

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline


@dataclass(frozen=True)
class DerivedLevel:
    """Timelines that do not wait for each other, and the streams that are complete after them; a level needs those
    before it."""

    timelines: list[Timeline]
    made: list[str]


class DerivedStreams:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        #: Stream -> the registered queries that make it.
        self.makers: dict[str, list[str]] = {}
        #: Of streams with several makers: what some of them have finished.
        self.united: dict[str, United] = {}

    def begin(self, query: BoundQuery) -> None:
        """A query comes: its stream exists from now on."""
        if query.feeds is not None:
            if query.feeds.name not in self.pipeline.intakes:
                self.pipeline.add_stream(query.feeds)
            self.makers.setdefault(query.feeds.name, []).append(query.name)

    def end(self, query: BoundQuery) -> None:
        """A query has gone."""
        if query.feeds is None:
            return
        left = self.makers[query.feeds.name]
        left.remove(query.name)
        if not left:
            del self.makers[query.feeds.name]
            self.united.pop(query.feeds.name, None)
            self.pipeline.drop_stream(query.feeds.name)

    def is_read(self, query: BoundQuery) -> bool:
        """Whether some query reads the stream that a query makes."""
        name = None if query.feeds is None else query.feeds.name
        return any(name in registered.unit.streams for registered in self.pipeline.queries.values())

    def whose(self, query: BoundQuery) -> str:
        """What its user calls a query: a part of one has the name of the whole, and a maker that of its stream."""
        while query.feeds is not None:
            name = query.feeds.name
            if not name.startswith("_"):
                return f"stream {name}"
            readers = [one.query for one in self.pipeline.queries.values() if name in one.unit.streams]
            if not readers:
                break
            query = readers[0]
        return f"query {query.name}"

    # -- an epoch

    def depths(self) -> dict[str, int]:
        """How many queries lie between rows that come from outside and each derived stream."""
        below = {
            stream: {s for maker in makers for s in self._sources(maker)} for stream, makers in self.makers.items()
        }
        found: dict[str, int] = {}
        while below:
            # In the order of creation one pass finds all.
            for stream in [*below]:
                if not below[stream] & below.keys():
                    found[stream] = 1 + max((found.get(source, 0) for source in below.pop(stream)), default=-1)
        return found

    def _sources(self, maker: str) -> frozenset[str]:
        return self.pipeline.queries[maker].unit.streams

    def levels(self) -> list[DerivedLevel]:
        """The timelines in the order in which they run."""
        timelines = self.pipeline.timelines
        if not self.makers:
            return [DerivedLevel(list(timelines.values()), [])]
        streams = self.depths()
        depths = {read: max(streams.get(stream, 0) for stream in read) for read in timelines}
        found = [
            DerivedLevel([], [])
            for _ in range(max([0, *depths.values(), *(depth - 1 for depth in streams.values())]) + 1)
        ]
        for read, depth in depths.items():
            found[depth].timelines.append(timelines[read])
        for stream, depth in streams.items():
            if depth:
                found[depth - 1].made.append(stream)
        return found

    def hand_over(self, stream: str, epoch: Epoch, outcome: Outcome) -> None:
        """The results of this epoch become rows, and the values that they finish become punctuations of the stream. At
        a bounded end
        the stream follows its fastest maker: every row counts."""
        intake = self.pipeline.intakes[stream]
        assert isinstance(intake, DerivedIntake)
        routes, made = self.pipeline.routes, []
        for maker in self.makers[stream]:
            results = outcome.results.pop(maker, ())
            made += [(maker, table) for table in results if routes.makes(maker)]
        here = None
        if routes.hands_on(stream):
            self._hand_on(intake.stream, made, outcome)
            made = made if routes.has_readers(stream) else []
            # Those that read the rows where they are made have no route.
            here = np.uint64(0)
        announced = {maker: outcome.results.pop(punctuations_of(maker), ()) for maker in self.makers[stream]}
        records = [] if intake.stream.unnests else _promises(self._finished(intake.stream, announced), intake.stream)
        self._take(intake.stream, [table for _, table in made], here, records, outcome)
        frontiers = [self.pipeline.timeline_of(maker).frontier for maker in self.makers[stream]]
        known = [frontier for frontier in frontiers if frontier is not None]
        if epoch.closing and known:
            intake.move(max(known))
            if epoch.final and not intake.stream.is_changes:
                # What the end of the streams has closed may lie beyond it.
                intake.move(1 + max([max(known) - 1, *(_newest(table) for _, table in made if len(table))]))
        elif len(known) == len(frontiers):
            intake.move(min(known))
        if stream in self.pipeline.gating.gates:
            self.pipeline.gating.arrive()
            self.pipeline.gating.release_one(stream, epoch, self.pipeline.fronts(), outcome)

    def feed_readers(self, queries: Iterable[RegisteredQuery], upto: int, outcome: Outcome) -> None:
        """Queries have given their combinations before an instant: where they have made many results, the queries that
        read these work on them in the middle of the epoch."""
        for query in queries:
            if query.query.feeds is None or not self._is_many(outcome.results[query.name]):
                continue
            reader = self._reader_within(query, query.query.feeds)
            if reader is not None and (reader.frontier is None or upto > reader.frontier):
                self._feed(query, query.query.feeds, reader, upto, outcome)

    def _is_many(self, results: Iterable[pa.Table]) -> bool:
        return sum(len(table) for table in results) >= self.pipeline.settings.tuning.results_held

    def _reader_within(self, query: RegisteredQuery, stream: Stream) -> Timeline | None:
        """The timeline that may work on results of a query in the middle of an epoch: it alone reads them, and what
        it answers is the same however often it works. None: there is no such timeline."""
        pipeline, routes = self.pipeline, self.pipeline.routes
        if (
            not query.advances_within
            or query.propagation is not None
            or len(stream.makers) > 1
            or stream.name in pipeline.gating.gates
            or not routes.makes(query.name)
            or routes.hands_on(stream.name)
        ):
            return None
        found = [timeline for streams, timeline in pipeline.timelines.items() if stream.name in streams]
        if len(found) != 1 or found[0].reads != {stream.name} or found[0].follows:
            return None
        return found[0] if all(unit.steps_within for unit in pipeline.units.get(found[0].reads, [])) else None

    def _feed(self, query: RegisteredQuery, stream: Stream, reader: Timeline, upto: int, outcome: Outcome) -> None:
        pipeline, handout = self.pipeline, self.pipeline.handout
        came = partial(pipeline.timeline_of(query.name).came_before, upto)
        made = query.advance(upto, False, pipeline.issues, came)
        handout.hold(sum(len(table) for table in made))
        tables = [*outcome.results[query.name], *(made if query.stop is None else until(query.stop, made))]
        outcome.results[query.name] = []
        queue = reader.queues[stream.name]
        waited = len(queue)
        self._take(stream, tables, None, (), outcome)
        intake = pipeline.intakes[stream.name]
        assert isinstance(intake, DerivedIntake)
        intake.move(upto)
        reader.move(pipeline.intakes, Epoch({}))
        pipeline.supplies[stream.name].begin(pipeline.fronts(), pipeline.queues_of)
        # Rows of the instant itself wait: more of them may come.
        handout.let_go(sum(len(table) for table in tables) + waited - queue.from_on(upto))
        with handout.aside():
            pipeline.work(reader, False, outcome)

    def _take(
        self,
        stream: Stream,
        tables: Iterable[pa.Table],
        route: np.uint64 | None,
        records: Iterable[Records],
        outcome: Outcome,
    ) -> None:
        """Results become rows of a stream, which some route or all send here."""
        rows = [as_rows(table, stream) for table in tables]
        table = pa.concat_tables(rows).combine_chunks() if rows else stream.schema.arrow.empty_table()
        bits = None if route is None else np.full(len(table), route)
        arrival = Arrival(table, routes=bits, records=tuple(records))
        self.pipeline.take(stream.name, arrival, self.pipeline.fronts(), outcome)

    def _hand_on(self, stream: Stream, made: Iterable[tuple[str, pa.Table]], outcome: Outcome) -> None:
        """Rows for other pipelines, each maker's alone: what orders them among those of other pipelines goes along."""
        by_maker: dict[int, list[pa.Table]] = {}
        for maker, table in made:
            by_maker.setdefault(stream.makers.index(maker), []).append(as_rows(table, stream, ordering=True))
        for number, tables in by_maker.items():
            outcome.handed[stream.name, number] = pa.concat_tables(tables, promote_options="default").combine_chunks()

    def _finished(self, stream: Stream, announced: Mapping[str, Sequence[pa.Table]]) -> Iterable[pa.Table]:
        """The values that a stream has finished, by what its makers have."""
        if len(stream.makers) == 1:
            return [table for tables in announced.values() for table in tables]
        if stream.name not in self.united and not any(announced.values()):
            return []
        return self.of_parts(stream).take(announced)

    def of_parts(self, stream: Stream) -> United:
        return self.united.setdefault(stream.name, United(stream))


def _newest(results: pa.Table) -> int:
    return int(pc.max(results.column("_ts").cast(pa.int64())).as_py())


def _promises(announced: Iterable[pa.Table], stream: Stream) -> list[Records]:
    """Finished values of results as punctuations: those with the same columns together."""
    records = []
    names = stream.schema.names[:-1]
    for table in announced:
        ts = np.array(table.column("_ts").cast(pa.int64()), np.int64)
        lines = table.select(list(range(len(names)))).rename_columns(names)
        for chosen, columns in alike(lines, names):
            body = lines.select(columns).take(pa.array(chosen))
            records.append(Records(stream.name, KIND, ts[chosen], np.full(len(chosen), AFTER_ALL), body))
    return records


def as_rows(results: pa.Table, stream: Stream, ordering: bool = False) -> pa.Table:
    """Results as rows: the selected columns, under the names of the first maker, and the time; with `ordering` also
    what orders them among
    those of other pipelines."""
    names = stream.schema.names
    if stream.unnests:
        results = _one_per_element(results, stream)
        rows = pa.table([results.column(name) for name in names], schema=stream.schema.arrow)
    else:
        columns = [results.column(at) for at in range(len(names) - 1)]
        rows = pa.table([*columns, results.column("_ts")], schema=stream.schema.arrow)
    for name in ordering_columns(results) if ordering else ():
        rows = rows.append_column(name, results.column(name))
    return rows


def one_per_element(rows: pa.Table, made: UnnestedTable, issues: Issues) -> pa.Table:
    """Rows of a static table, one per element of their arrays; a row without elements has none."""
    read = columns_of(made.array)
    columns = {key: rows.column(key[1]).combine_chunks() for key in read}
    lists = compile_expression(made.array)(columns, rows.num_rows, issues)
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    spread = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), counts)))
    return pa.table([*spread.columns, pc.list_flatten(lists)], schema=made.schema.arrow).combine_chunks()


def _one_per_element(results: pa.Table, stream: Stream) -> pa.Table:
    """Results with an array as rows, one per element; a result without elements has none."""
    lists = results.column(stream.unnests).combine_chunks()
    rows = np.repeat(np.arange(len(results)), pc.fill_null(pc.list_value_length(lists), 0).to_numpy())
    spread = results.take(pa.array(rows))
    columns = {
        name: spread.column("_ts" if name == DERIVED_TIME else name)
        for name in stream.schema.names
        if name != stream.unnests
    }
    columns[stream.unnests] = pa.chunked_array([lists.flatten()])
    return pa.table(columns | {name: spread.column(name) for name in ordering_columns(results)})
