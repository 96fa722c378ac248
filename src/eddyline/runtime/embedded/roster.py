"""The queries of an embedded run as they come and go: by the session that runs it, or by control records.

Answer   `add` starts a query at the newest instant of any stream, with its sinks; `drop` stops one at that instant, and it goes
         once the frontier has passed it. `poll` carries out the control records that are new, between two epochs.
State    How many records have been carried out, and what became of dropped queries. Both are part of the checkpoint, which is
         written before anyone is told: a start that has been seen is kept through a crash.
Limits   A record that cannot be carried out is refused as a whole and noted; the job runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from eddyline.connectors.base import Sink
from eddyline.errors import CheckpointProblem, EddylineError, UserError
from eddyline.language import Job
from eddyline.language import Sink as DeclaredSink
from eddyline.model.query import BoundQuery
from eddyline.operators.join.port import LONG_AGO
from eddyline.plan.prepare import prepare_tree
from eddyline.runtime.control import Change, ControlFolder, Record, apply_record, catalog_text, replay, undo
from eddyline.runtime.embedded.delivery import Delivery
from eddyline.runtime.pipeline import Pipeline
from eddyline.runtime.snapshot import saved_queries
from eddyline.runtime.standing import AnyQuery

#: What a session wants for itself of a query: called with the query once it stands, gives further sinks.
Own = Callable[[AnyQuery], Iterable[Sink]]


#: So many dropped queries and so many refused records are remembered: the newest.
_NOTES = 1_000


class Roster:
    def __init__(self, job: Job, pipeline: Pipeline, delivery: Delivery, own: Own, control: ControlFolder | None = None) -> None:
        self.job = job
        self.pipeline = pipeline
        self.delivery = delivery
        self.control = control
        self.applied = 0
        self._own = own
        #: Queries that have been dropped: start and stop.
        self._dropped: dict[str, tuple[int | None, int | None]] = {}
        self._refused: dict[str, str] = {}

    # -- queries

    def add(self, query: BoundQuery) -> AnyQuery:
        """Start a query now: it sees the rows after the newest one of any stream."""
        self.check_free(query.name)
        newest = self.pipeline.newest()
        return self._stand(query, LONG_AGO if newest is None else newest, None, self.job.catalog.sinks_of(query.name))

    def check_free(self, name: str) -> None:
        """A dropped query keeps its name until its last result is out."""
        standing = self.pipeline.queries.get(name)
        if standing is not None:
            raise UserError(
                f"query {name} has been dropped and still has results to give",
                detail=f"it goes when every stream has passed {standing.stop}",
                hint="choose another name, or add it again once it has gone",
            )

    def drop(self, name: str) -> None:
        """Stop a query now: results up to the newest instant of any stream are still delivered."""
        standing = self.pipeline.queries[name]
        gone = self.pipeline.stop_query(name, self.pipeline.newest())
        self._dropped[name] = (instant(standing.start), standing.stop)
        _keep_newest(self._dropped)
        if gone:
            self.delivery.drop_query(name)

    def _stand(self, query: BoundQuery, start: int, slot: int | None, sinks: Iterable[DeclaredSink]) -> AnyQuery:
        standing = self.pipeline.add_query(query, start, slot)
        try:
            self.delivery.add_query(query.name, standing.schema, sinks, self._own(standing))
        except EddylineError:
            self.pipeline.drop_query(query.name)
            raise
        return standing

    # -- the start of a run

    def open(self, header: dict[str, Any] | None, control: dict[str, Any] | None) -> list[BoundQuery]:
        """Stand up the job's queries, and those that control records brought; returns the ones that begin after the resume."""
        if self.control is not None:
            self.control.write_catalog(catalog_text(self.job))
        sinks = {query.name: self.job.catalog.sinks_of(query.name) for query in self.job.queries}
        bound = {query.name: query for query in self.job.queries}
        if self.control is not None and control is not None:
            self.applied = int(control["applied"])
            self._dropped = {name: (start, stop) for name, (start, stop) in control["dropped"].items()}
            self._refused = dict(control["refused"])
            for change in self._replayed():
                bound |= {query.name: query for query in change.added}
                sinks |= {query.name: self.job.catalog.sinks_of(query.name) for query in change.added}
                sinks |= {query.name: had for query, had in change.dropped}
        known = saved_queries(header) if header is not None else {}
        for name, saved in known.items():
            if name in bound:
                _check_same(bound[name], saved["text"])
                self._stand(bound[name], saved["start"], saved["slot"], sinks[name])
        fresh = [query for query in self.job.queries if query.name not in known]
        if header is None:
            for query in fresh:
                self._stand(query, LONG_AGO, None, sinks[query.name])
            return []
        return fresh

    def _replayed(self) -> list[Change]:
        assert self.control is not None
        records: list[Record] = []
        for number, record in enumerate(self.control.records(0)):
            if number < self.applied:
                records.append(record)
        return replay(self.job, records)

    # -- control

    def poll(self) -> bool:
        """Carry out the records that are new; whether there were any."""
        if self.control is None or not self.control.has(self.applied):
            return False
        for record in self.control.records(self.applied):
            try:
                self._carry_out(record)
            except EddylineError as problem:
                self._refused[str(self.applied)] = str(problem)
                _keep_newest(self._refused)
            self.applied += 1
        return True

    def _carry_out(self, record: Record) -> None:
        change = apply_record(self.job, record)
        stood: list[str] = []
        try:
            for query in change.added:
                prepare_tree(query)
                self.add(query)
                stood.append(query.name)
        except EddylineError:
            for name in stood:
                self.pipeline.drop_query(name)
                self.delivery.drop_query(name)
            undo(self.job, change.added)
            raise
        for query, _ in change.dropped:
            self.drop(query.name)
        for query in change.added:
            self._dropped.pop(query.name, None)

    def marks(self) -> dict[str, Any]:
        """What the checkpoint keeps of this."""
        return {"applied": self.applied, "dropped": {name: list(at) for name, at in self._dropped.items()}, "refused": self._refused}

    def tell(self) -> None:
        """Write down what became of the queries, for `eddyline query list`."""
        if self.control is None:
            return
        queries = []
        for name, standing in self.pipeline.queries.items():
            state = "running" if standing.stop is None else "stopping"
            queries.append({"query": name, "state": state, "start": instant(standing.start), "stop": standing.stop})
        for name, (start, stop) in self._dropped.items():
            if name not in self.pipeline.queries:
                queries.append({"query": name, "state": "dropped", "start": start, "stop": stop})
        self.control.write_state({"applied": self.applied, "queries": queries, "refused": self._refused})


def _keep_newest(notes: dict[str, Any]) -> None:
    if len(notes) > _NOTES:
        del notes[next(iter(notes))]


def instant(start: int) -> int | None:
    """A start as people see it; None: from the first row on."""
    return None if start == LONG_AGO else start


def _check_same(query: BoundQuery, text: str) -> None:
    if " ".join(query.text.split()) != " ".join(text.split()):
        raise CheckpointProblem(
            f"query {query.name} is not the one in the checkpoint",
            detail=f"it was {' '.join(text.split())}",
            hint="give the changed query another name, or start with an empty checkpoint",
        )
