"""The queries of a Spark job as they come and go: by its file, by control records, by the session that runs it.

Answer   Between two micro-batches (`after_batch`, called while the batch that ends is not yet committed) new control
         records are taken up. A query that is added is *prepared*: checked, its sinks opened, written into the ledger
         and into a layout that holds from the next batch on, so that packers route for it. Then it is *started* by a
         record in the control stream, which every shard reads in the same batch; the instant is the newest of any
         stream, and ticks make that the same everywhere. Dropping is a `stop` record; the query goes when the shards
         say that its last result is out.
State    The ledger. Everything is written before it is acted upon, and what was not acted upon when the driver died is
         said again at the next start: shards ignore a record that they have carried out.
Limits   A record that cannot be carried out is refused as a whole and noted; the job runs on. A query that has gone is
         kept for one batch more: the one that brought its last result may run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eddyline.errors import EddylineError, UserError
from eddyline.language import Job, parse_script
from eddyline.language.catalog import Catalog, DeclaredSink
from eddyline.language.syntax import CreateDerived, CreateQuery
from eddyline.model.query import BoundQuery
from eddyline.model.records.punctuation import DerivedPunctuation
from eddyline.model.template import BoundRequests, BoundTemplate, RequestStream, Template
from eddyline.plan.prepare import check
from eddyline.runtime.control.control import FOLD_RECORDS, ControlFolder, apply_record, undo
from eddyline.runtime.control.control_fold import Fold, is_first
from eddyline.runtime.control.control_record import Record
from eddyline.runtime.driving.query_sinks import SessionSinks
from eddyline.runtime.driving.record_taking import RecordTaking
from eddyline.runtime.recovery.catalog_text import punctuation_text, sink_text, written_catalog
from eddyline.runtime.sharded.ingest.control import write_control
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch, planned_batch
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.job.ledger import CONTROL, Ledger, LedgerEntry, statements_of
from eddyline.runtime.sharded.job.reconciling import laid_out, promised_at
from eddyline.runtime.sharded.job.refreshing import ShardedRefreshing
from eddyline.runtime.sharded.job.replanning import Replanning
from eddyline.runtime.sharded.job.requests import ShardedRequests
from eddyline.runtime.sharded.output.delivery import BatchDelivery, Delivered
from eddyline.runtime.sharded.shard.pipeline import LayoutRoutes, model_pipeline


class ShardedRoster:
    def __init__(self, layout: JobLayout, catalog: Catalog, delivery: BatchDelivery, own: SessionSinks):
        self.layout = layout
        self.ledger = Ledger.read(layout.checkpoint)
        self.control = ControlFolder(layout.checkpoint)
        self.delivery = delivery
        self.own = own
        #: The layout of the run's first batch, and that of the next one.
        self.first = self.packed = PackedLayout.of(layout)
        #: All queries without rows: their schemas and plans.
        self.model = model_pipeline(layout, self.ledger.initial if committed_batch(layout.checkpoint) >= 0 else ())
        self.replanning = Replanning(self.model)
        self.requests = ShardedRequests(self.control.folder)
        self.refreshing = ShardedRefreshing(layout.tables, layout.checkpoint, committed_batch(layout.checkpoint) >= 0)
        self.job = self._job(catalog)
        self.control.write_catalog(written_catalog(Job(layout.settings, catalog)))
        for name in self.ledger.routed:
            self._open_sinks(name)
        self.ledger.write()
        #: Control files below this number have been brought to a batch.
        self._brought = 0
        # At the start all records that an earlier run has left are folded.
        self.records = RecordTaking(self.control, unfolded=FOLD_RECORDS)
        #: The first batch that is not yet planned.
        self._next_batch = 0

    def _job(self, catalog: Catalog) -> Job:
        """The job as it stands now, for records to be applied to; the sinks of its queries are noted on the way."""
        job = Job(self.layout.settings)
        leaving = {name for name, entry in self.ledger.queries.items() if entry.is_leaving}
        for stream in catalog.streams.values():
            if stream.name not in catalog.requests and leaving.isdisjoint(stream.makers):
                job.catalog.add(stream)
        for derived in catalog.punctuations.values():
            job.catalog.add(derived)
        for name, (sql, _) in self.ledger.promised.items():
            if name not in job.catalog.punctuations:
                job.apply(parse_script(sql)[0])
        for table in catalog.tables.values():
            job.catalog.add(table)
        for own in catalog.functions.values():
            job.catalog.add(own)
        for name, entry in self.ledger.routed.items():
            if (name in catalog.queries or name in catalog.requests) and not entry.is_leaving:
                entry.sinks = [(s.name, dict(s.options)) for s in catalog.sinks.values() if s.query == name]
            if not entry.is_leaving:
                query = self.layout.by_name[name]
                if query.feeds is None:
                    job.catalog.add(_entry_of(query))
                else:
                    if query.feeds.name not in job.catalog.streams:
                        # A control record brought it.
                        job.catalog.add(query.feeds)
                    job.catalog.makers[query.feeds.name] = (*job.catalog.makers.get(query.feeds.name, ()), query)
        for sink in catalog.sinks.values():
            if sink.query is None:
                job.catalog.add(sink)
        for name, entry in self.ledger.routed.items():
            for sink_name, options in [] if entry.is_leaving else entry.sinks:
                job.catalog.add(DeclaredSink(sink_name, name, options))
        return job

    def _open_sinks(self, name: str) -> None:
        query = self.model.queries[name].query
        self.delivery.derived |= {m.feeds.name: m.feeds for m in (*query.makers, query) if m.feeds is not None}
        if query.feeds is not None:
            # The results stay in the shards.
            return
        found = self.model.queries[name]
        if isinstance(query, BoundTemplate):
            # It has no results of its own.
            return
        declared = [s for s in self.job.sinks if s.query is None]
        declared += [DeclaredSink(sink, name, options) for sink, options in self.ledger.queries[name].sinks]
        self.delivery.open_query(query, found.schema, declared, self.own)
        if found.merging is not None:
            self.delivery.merging[name] = found.merging

    # -- a run

    def begin(self) -> None:
        """Before the first batch: write again the records that shards may not have carried out, and take up new control
        records."""
        self._next_batch = planned_batch(self.layout.checkpoint) + 1
        prepared = [name for name, entry in self.ledger.queries.items() if entry.state == "prepared"]
        leaving = [name for name, entry in self.ledger.queries.items() if entry.state == "dropping"]
        said: list[dict[str, object]] = [{"start": prepared}] if prepared else []
        said += [{"stop": leaving}] if leaving else []
        said += self._poll()
        self._follow_promises(committed_batch(self.layout.checkpoint) + 1)
        said += self.refreshing.refresh()
        self.ledger.write()
        self._say(said)
        self._pack()
        self.first = self.packed
        self.first.keep()
        self.announce()
        self._fold()

    def _pack(self) -> None:
        """From the next batch on the layout holds as it is now. The one before may still be read by tasks."""
        self.layout = replace(self.layout, files=self.delivery.files(self.layout.queries))
        before, self.packed = self.packed, PackedLayout.of(self.layout)
        self.first.keep(before, self.packed)

    def request_batch(self) -> None:
        """Write a control record whenever a control file or a table is new: Spark runs no batch without input."""
        new = self.control.waiting(max(self._brought, self.ledger.applied))
        if new:
            self._brought = new[-1] + 1
            self._say([{}])
        self._say(self.refreshing.refresh())

    def after_batch(self, delivered: Delivered) -> None:
        """What a batch brought about, and what is to happen before the next."""
        before, applied = self.layout, self.ledger.applied
        self._next_batch = delivered.batch + 1
        changed = self._note(delivered)
        changed = self._release(delivered.batch) or changed
        self.refreshing.after_batch(delivered.notes)
        said = [
            *self.replanning.after_batch(delivered),
            *self.refreshing.refresh(),
            *self.requests.after_batch(delivered, self.model),
            *self._poll(),
        ]
        self._follow_promises(self._next_batch)
        if changed or applied != self.ledger.applied:
            self.ledger.write()
        if self.layout is not before:
            self._pack()
        self._say(said)
        if changed or applied != self.ledger.applied:
            self.announce()
        self._fold()

    def _say(self, records: Iterable[Mapping[str, object]]) -> None:
        for record in records:
            write_control(self.layout.checkpoint, record)

    def _note(self, delivered: Delivered) -> bool:
        """What the shards say of queries that have started, stopped or gone; ticks make it the same on all."""
        changed: dict[str, Any] = min(delivered.notes.items())[1].get("changed", {}) if delivered.notes else {}
        queries = self.ledger.queries
        for name, start in changed.get("started", {}).items():
            queries[name].start = start
            if queries[name].state == "prepared":
                queries[name].state = "running"
        for name, stop in changed.get("stopped", {}).items():
            queries[name].state, queries[name].stop = "stopping", stop
        for name in changed.get("gone", ()):
            queries[name].state, queries[name].gone = "dropped", delivered.batch
        return any(changed.values())

    def _release(self, batch: int) -> bool:
        """Let go of queries whose last batch is committed: a later one has been delivered."""
        ready = [n for n, entry in self.ledger.routed.items() if entry.gone is not None and entry.gone < batch]
        # What reads a derived stream was created after what makes it.
        for name in reversed(ready):
            self.ledger.queries[name].final = True
            self.delivery.drop_query(name)
            self.model.drop_query(name)
        if ready:
            self._lay_out(self.layout.queries)
            self.ledger.forget_oldest()
        return bool(ready)

    # -- control records

    def _poll(self) -> list[dict[str, object]]:
        """Take up the records that are new; returns what the shards have to carry out."""
        said: list[dict[str, object]] = []

        def take_up(record: Record) -> int | None:
            if self._must_wait(record):
                # The name is free after one batch more.
                said.append({})
                return None
            new = self._take_up(record)
            said.extend(new)
            return len(new)

        self.ledger.applied = self.records.take_up(self.ledger.applied, take_up, self.ledger.refuse)
        return said

    def _fold(self) -> None:
        """Remove the control records that the ledger, which has just been written, knows."""
        if not self.records.is_fold_due:
            return
        fold = Fold()
        for name, entry in self.ledger.queries.items():
            known = self.layout.by_name.get(name)
            if known is not None and not is_first(known):
                continue
            if entry.origin == CONTROL and not entry.is_leaving:
                sinks = [DeclaredSink(sink, name, options) for sink, options in entry.sinks]
                fold.added[name] = [entry.statement, *map(sink_text, sinks)]
            elif entry.origin != CONTROL and entry.is_leaving and entry.dropped_by == CONTROL:
                fold.dropped.append(name)
        fold.promised = {name: sql for name, (sql, _) in self.ledger.promised.items()}
        self.records.fold(self.ledger.applied, fold, self.ledger.refused)

    def _must_wait(self, record: Record) -> bool:
        """Whether a record speaks of a query that has gone but is not yet forgotten."""
        # The parts of UNION ALL have the name of their stream and a number.
        going = {name.lower().partition(".")[0] for name, entry in self.ledger.routed.items() if entry.gone is not None}
        return bool(going) and not going.isdisjoint(created_queries(record))

    def _take_up(self, record: Record) -> list[dict[str, object]]:
        if record["op"] == "request":
            return self.requests.take(record, self.job.catalog)
        change = apply_record(self.job, record)
        if change.triggers is not None:
            # What the model refuses, every shard would.
            self.model.triggers.change(*change.triggers)
            return [{"set": [change.triggers[0], dict(change.triggers[1])]}]
        if change.added or change.promised:
            try:
                self._prepare(change.added)
            except BaseException:
                undo(self.job, change.added, change.promised)
                raise
            self._promise(change.promised)
            # An empty record asks for the batch whose rows are read otherwise.
            return [{"start": [query.name for query in change.added]} if change.added else {}]
        for query, _ in change.dropped:
            entry = self.ledger.queries[query.name]
            entry.state, entry.dropped_by = "dropping", record.get("by", CONTROL)
        return [{"stop": [query.name for query, _ in change.dropped]}]

    def _prepare(self, added: Sequence[BoundQuery]) -> None:
        """Make everything ready for queries, or leave everything as it was."""
        for query in added:
            self._check_free(query)
            check(query, {**self.job.catalog.streams, **self.job.catalog.tables})
        layout, entries, said = self.layout, dict(self.ledger.queries), statements_of(added)
        for query in added:
            sinks = [(s.name, dict(s.options)) for s in self.job.catalog.sinks.values() if s.query == query.name]
            # In the order of coming: what reads a derived stream stands after what makes it.
            self.ledger.queries.pop(query.name, None)
            self.ledger.queries[query.name] = LedgerEntry(
                query.identity, said[query.name], sinks, state="prepared", origin=CONTROL
            )
        try:
            self._lay_out((*layout.queries, *added))
            for query in added:
                self.model.add_query(query)
                self._open_sinks(query.name)
        except BaseException:
            for query in reversed(added):
                if query.name in self.model.queries:
                    self.model.drop_query(query.name)
                self.delivery.drop_query(query.name)
            self.ledger.queries = entries
            self._lay_out(layout.queries)
            raise

    def _promise(self, promised: Iterable[DerivedPunctuation]) -> None:
        """From the next batch on that was not planned before, rows are read with what CREATE PUNCTUATION says."""
        streams = self.job.catalog.streams
        for derived in promised:
            mine = [streams[name] for name in dict.fromkeys((derived.stream, derived.source))]
            self.ledger.promise(derived.name, punctuation_text(derived), self._next_batch, mine)

    def _follow_promises(self, batch: int) -> None:
        """The layout of a batch has the streams as its rows are read."""
        now = {stream.name: stream for stream in self.job.catalog.streams.values()}
        known = [
            replace(s, promised=now[s.name].promised, promising=now[s.name].promising) for s in self.layout.streams
        ]
        streams = promised_at(known, self.ledger, batch)
        changed = [new for old, new in zip(self.layout.streams, streams, strict=True) if old != new]
        if changed:
            self.layout = replace(self.layout, streams=streams)
            self.model.gating.promise(changed)

    def _check_free(self, query: BoundQuery) -> None:
        """A dropped query keeps its name until its last result is out, and a derived stream until its queries have
        gone."""
        names = (
            [query.name]
            if query.feeds is None
            else [q.name for q in self.layout.queries if _feeds(q, query.feeds.name)]
        )
        for name in [name for name in names if name in self.ledger.routed]:
            what = f"query {name}" if query.feeds is None else f"stream {query.feeds.name}"
            raise UserError(
                f"{what} has been dropped and still has results to give",
                detail=f"it goes when every stream has passed {self.ledger.queries[name].stop}",
                hint="choose another name, or add it again once it has gone",
            )

    def _lay_out(self, queries: Iterable[BoundQuery]) -> None:
        """Another set of queries; those that stay keep their routes."""
        self.layout = laid_out(
            self.layout, tuple(q for q in queries if self.ledger.queries[q.name].is_routed), self.ledger
        )
        self.model.routes = LayoutRoutes(self.layout)

    # -- what became of it

    def announce(self) -> None:
        """Write down what became of the queries, for `eddyline query list`."""
        states = {"prepared": "pending", "dropping": "stopping"}
        queries = [
            {"query": name, "state": states.get(entry.state, entry.state), "start": entry.start, "stop": entry.stop}
            for name, entry in self.ledger.queries.items()
        ]
        self.control.write_state({"applied": self.ledger.applied, "queries": queries, "refused": self.ledger.refused})


def _feeds(query: BoundQuery, stream: str) -> bool:
    return query.feeds is not None and query.feeds.name == stream


def _entry_of(query: BoundQuery) -> BoundQuery | Template | RequestStream:
    """What the catalog has of a query that stands."""
    if isinstance(query, BoundTemplate) and query.template is not None:
        return query.template
    if isinstance(query, BoundRequests) and query.request_stream is not None:
        return query.request_stream
    return query


def created_queries(record: Record) -> set[str]:
    """The names of the queries that a record creates, those that make derived streams too, in small letters; none where
    it cannot be read:
    then it is refused."""
    try:
        statements = parse_script(record["sql"]) if record.get("op") == "add" else []
    except EddylineError:
        return set()
    made = {f"_{statement.name}".lower() for statement in statements if isinstance(statement, CreateDerived)}
    return made | {statement.name.lower() for statement in statements if isinstance(statement, CreateQuery)}
