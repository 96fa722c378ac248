"""The queries of an embedded run as they come and go: by the session that runs it, or by control records.

Answer   `add` starts a query at the newest instant of its streams, with its sinks; `drop` stops one at that instant,
         and it goes once the frontier has passed it. `poll` carries out the control records that are new, between two
         epochs; `fold` removes them when the checkpoint knows what they did.
State    How many records have been carried out, what they did together, and what became of dropped queries. All of it
         is part of the checkpoint, which is written before `announce`: a start that has been seen is kept through a
         crash.
Limits   A record that cannot be carried out is refused as a whole, noted and set aside; the job runs on, unless the disk
         is full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from eddyline.errors import CheckpointProblem, UserError
from eddyline.language import DeclaredSink, Job
from eddyline.model.clock import WALL, Clock
from eddyline.model.query import BoundQuery, one_line
from eddyline.model.schema import Stream
from eddyline.model.template import BoundTemplate
from eddyline.operators.join.port import LONG_AGO
from eddyline.plan.prepare import check
from eddyline.runtime.control.control import ControlFolder, apply_record, undo
from eddyline.runtime.control.control_fold import Fold
from eddyline.runtime.control.control_record import Record
from eddyline.runtime.driving.query_sinks import SessionSinks
from eddyline.runtime.driving.record_taking import RecordTaking
from eddyline.runtime.embedded.delivery import Delivery
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.unit import Registered
from eddyline.runtime.figures.memory import without_collection
from eddyline.runtime.recovery.catalog_text import punctuation_text, written_catalog
from eddyline.runtime.recovery.snapshot import pass_on, saved_queries

if TYPE_CHECKING:
    from eddyline.runtime.embedded.requests import EmbeddedRequests

#: How many of the newest dropped queries and refused records are remembered.
_NOTES = 1_000
#: A record behind a gap in the numbers is found this number of seconds later.
_GAP_SECONDS = 1.0


class EmbeddedRoster:
    def __init__(
        self,
        job: Job,
        pipeline: Pipeline,
        delivery: Delivery,
        own: SessionSinks,
        promise: Callable[[list[Stream]], None],
        control: ControlFolder | None = None,
        clock: Clock = WALL,
    ) -> None:
        """
        Args:
            promise: Takes the streams that CREATE PUNCTUATION has declared more of.
            control: The folder of control records; None: none are read.
        """
        self.job = job
        self._clock = clock
        self.pipeline = pipeline
        self.delivery = delivery
        self.applied = 0
        self.folded = Fold()
        self._own = own
        self._promise = promise
        self._looked = float("-inf")
        #: Whether the records of this poll have changed what a checkpoint keeps.
        self._changed = False
        #: Queries that have been dropped: start and stop.
        self._dropped: dict[str, tuple[int | None, int | None]] = {}
        self._refused: dict[str, str] = {}
        self.records = None if control is None else RecordTaking(control)
        #: Requests of other processes; None: no request has come.
        self.requests: EmbeddedRequests | None = None

    def be_controlled(self, control: ControlFolder) -> None:
        """From now on records in this folder are carried out; the job had none."""
        self.records = RecordTaking(control)
        control.write_catalog(written_catalog(self.job))
        self.announce()

    # -- queries

    def add(self, query: BoundQuery) -> Registered:
        """Start a query now: it sees the rows after the newest one of the streams that it reads."""
        self.check_free(query.name)
        newest = self.pipeline.newest(query)
        return self._register(
            query, LONG_AGO if newest is None else newest, None, self.job.catalog.sinks_of(query.name)
        )

    def check_free(self, name: str) -> None:
        """A dropped query keeps its name until its last result is out."""
        registered = self.pipeline.queries.get(name)
        if registered is not None:
            raise UserError(
                f"query {name} has been dropped and still has results to give",
                detail=f"it goes when the streams that it reads have passed {registered.stop}",
                hint="choose another name, or add it again once it has gone",
            )

    def drop(self, name: str, by_record: bool = False) -> None:
        """Stop a query now: results up to the newest instant of the streams that it reads are still delivered."""
        registered = self.pipeline.queries[name]
        gone = self.pipeline.stop_query(name, self.pipeline.newest(registered.query))
        if registered.query.feeds is None:
            self._dropped[name] = (instant(registered.start), registered.stop)
            _keep_newest(self._dropped)
        if name in self.folded.added or by_record:
            self.folded.drop(registered.query)
        if gone and registered.query.feeds is None:
            self.delivery.drop_query(name)

    def _register(
        self,
        query: BoundQuery,
        start: int,
        slot: int | None,
        sinks: Iterable[DeclaredSink],
        saved: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Registered:
        registered = self.pipeline.add_query(query, start, slot, saved)
        if query.feeds is not None:
            # The results stay in the pipeline.
            return registered
        if isinstance(query, BoundTemplate):
            # It has no results of its own, hence no folder for them.
            self._own(query.name, registered.schema)
            return registered
        try:
            self.delivery.open_query(query, registered.schema, sinks, self._own)
        except BaseException:
            self.pipeline.drop_query(query.name)
            raise
        return registered

    # -- the start of a run

    @without_collection()
    def open(self, header: dict[str, Any] | None, control: dict[str, Any] | None) -> list[BoundQuery]:
        """Register the job's queries, and those that control records brought; returns the ones that begin after the
        resume."""
        if self.records is not None:
            self.records.control.write_catalog(written_catalog(self.job))
        sinks = {query.name: self.job.catalog.sinks_of(query.name) for query in self.job.queries}
        bound = {query.name: query for query in self.job.queries}
        if self.records is not None and control is not None:
            self.applied = int(control["applied"])
            self._dropped = {name: (start, stop) for name, (start, stop) in control["dropped"].items()}
            self._refused = dict(control["refused"])
            self.folded = Fold.of(control["folded"])
            gone = self.folded.apply(self.job)
            bound |= {query.name: query for query in self.job.queries}
            bound |= {name: query for name, (query, _) in gone.items() if name not in self.job.catalog.queries}
            sinks |= {name: had for name, (_, had) in gone.items()}
            sinks |= {query.name: self.job.catalog.sinks_of(query.name) for query in self.job.queries}
        if header is not None:
            pass_on(
                header,
                {name for query in bound.values() for name in (query.name, *(maker.name for maker in query.makers))},
            )
        known = saved_queries(header) if header is not None else {}
        for name, saved in known.items():
            if name in bound:
                _check_same(bound[name], saved["text"])
                self._register(bound[name], saved["start"], saved["slot"], sinks[name], known)
        fresh = [query for query in self.job.queries if query.name not in known]
        if header is None:
            for query in fresh:
                self._register(query, LONG_AGO, None, sinks[query.name])
            return []
        return fresh

    # -- control

    def poll(self) -> bool:
        """Carry out the records that are new; whether the checkpoint has to know of them."""
        if self.records is None or not self._is_due(self.records.control):
            return False
        self._changed = False
        self.applied = self.records.take_up(self.applied, self._carry_out, self._refuse)
        # Requests change nothing: after a crash they are answered again, and no process waits for them.
        return self._changed or self.records.is_fold_due

    def _is_due(self, control: ControlFolder) -> bool:
        """Whether to read new records: the next one is there, or may lie behind a gap."""
        if control.has(self.applied):
            return True
        now = self._clock.now()
        late = now - self._looked >= _GAP_SECONDS
        self._looked = now if late else self._looked
        return late

    def fold(self, at_once: bool = False) -> None:
        """Remove the records that the checkpoint, which has just been written, knows."""
        if self.records is not None and (at_once or self.records.is_fold_due):
            self.records.fold(self.applied, self.folded, self._refused)

    def _answer(self, record: Record, control: ControlFolder) -> None:
        if self.requests is None:
            # What only requests need is loaded with the first of them.
            from eddyline.runtime.control.request_answers import AnswerFolder
            from eddyline.runtime.embedded.requests import EmbeddedRequests

            self.requests = EmbeddedRequests(self.pipeline, AnswerFolder(control.folder))
        self.requests.take(record, self.job.catalog)

    def _refuse(self, number: int, reason: str) -> None:
        self._changed = True
        self._refused[str(number)] = reason
        _keep_newest(self._refused)

    def _carry_out(self, record: Record) -> int:
        """Carry out a record; returns how many queries it has brought."""
        if record["op"] == "request":
            assert self.records is not None
            self._answer(record, self.records.control)
            return 0
        self._changed = True
        change = apply_record(self.job, record)
        if change.triggers is not None:
            self.pipeline.triggers.change(*change.triggers)
        added: list[str] = []
        try:
            for query in change.added:
                check(query, {**self.job.catalog.streams, **self.job.catalog.tables})
                self.add(query)
                added.append(query.name)
        except BaseException:
            for name in reversed(added):
                self.pipeline.drop_query(name)
                self.delivery.drop_query(name)
            undo(self.job, change.added, change.promised)
            raise
        if change.promised:
            names = dict.fromkeys(name for derived in change.promised for name in (derived.stream, derived.source))
            self._promise([self.job.catalog.streams[name] for name in names])
            self.folded.promised |= {derived.name: punctuation_text(derived) for derived in change.promised}
        for query, _ in change.dropped:
            self.drop(query.name, by_record=True)
        for query in change.added:
            self._dropped.pop(query.name, None)
            self.folded.add(query, self.job.catalog.sinks_of(query.name))
        return len(change.added)

    def marks(self) -> dict[str, Any]:
        """What the checkpoint keeps of this."""
        self.folded.forget(self.pipeline.queries)
        dropped = {name: list(at) for name, at in self._dropped.items()}
        return {"applied": self.applied, "dropped": dropped, "refused": self._refused, "folded": self.folded.as_json()}

    def announce(self) -> None:
        """Write down what became of the queries, for `eddyline query list`."""
        if self.records is None:
            return
        queries = []
        for name, registered in self.pipeline.queries.items():
            if registered.query.feeds is not None:
                continue
            state = "running" if registered.stop is None else "stopping"
            queries.append({"query": name, "state": state, "start": instant(registered.start), "stop": registered.stop})
        for name, (start, stop) in self._dropped.items():
            if name not in self.pipeline.queries:
                queries.append({"query": name, "state": "dropped", "start": start, "stop": stop})
        self.records.control.write_state({"applied": self.applied, "queries": queries, "refused": self._refused})


def _keep_newest(notes: dict[str, Any]) -> None:
    if len(notes) > _NOTES:
        del notes[next(iter(notes))]


def instant(start: int) -> int | None:
    """A start as people see it; None: from the first row on."""
    return None if start == LONG_AGO else start


def _check_same(query: BoundQuery, text: str) -> None:
    if query.identity != one_line(text):
        named = query.feeds is not None and not query.feeds.name.startswith("_")
        kind, name = ("stream", query.feeds.name) if named and query.feeds is not None else ("query", query.name)
        raise CheckpointProblem(
            f"{kind} {name} is not the one in the checkpoint",
            detail=f"it was {one_line(text)}",
            hint=f"give the changed {kind} another name, or start with an empty checkpoint",
        )
