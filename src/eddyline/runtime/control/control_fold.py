"""What all control records of a job together have done: ten thousand of them fold into the queries that are left.

Answer   `Fold` keeps, in the order of coming, the queries that records have added (with their sinks) and the names of
         the job's own queries that records have dropped. `taken` folds one more change in; `apply` does to the job of
         the file what all the records did.
State    Plain JSON: part of the checkpoint, and of `control/folded.json`, from which `eddyline query` knows the job
         without the records.
Limits   A query that has been dropped is kept while it still has results to give (`leaving`), then `forget` lets it go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from eddyline.errors import EddylineError
from eddyline.language import DeclaredSink, Job, parse_script
from eddyline.model.query import BoundQuery
from eddyline.runtime.recovery.catalog_text import created_by, sink_text
from eddyline.settings import Settings


@dataclass
class Fold:
    #: Query -> the statements that create it and its own sinks.
    added: dict[str, list[str]] = field(default_factory=dict)
    #: The same for added queries that have been dropped and still have results to give.
    leaving: dict[str, list[str]] = field(default_factory=dict)
    #: Queries of the job's file that have been dropped.
    dropped: list[str] = field(default_factory=list)
    #: CREATE PUNCTUATION statements, by name.
    promised: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(found: Mapping[str, Any]) -> Fold:
        return Fold(
            dict(found["added"]), dict(found["leaving"]), list(found["dropped"]), dict(found.get("promised", {}))
        )

    def as_json(self) -> dict[str, Any]:
        return {"added": self.added, "leaving": self.leaving, "dropped": self.dropped, "promised": self.promised}

    def add(self, query: BoundQuery, sinks: Iterable[DeclaredSink]) -> None:
        if not is_first(query):
            # The statement of the first maker creates all.
            return
        self.leaving.pop(query.name, None)
        self.added[query.name] = statements(query, sinks)

    def drop(self, query: BoundQuery) -> None:
        name = query.name
        if not is_first(query):
            return
        if name in self.added:
            self.leaving[name] = self.added.pop(name)
        elif name not in self.dropped:
            self.dropped.append(name)

    def forget(self, kept: Iterable[str]) -> None:
        """Let go of dropped queries that have given their last result."""
        if self.leaving:
            left = set(kept)
            self.leaving = {name: said for name, said in self.leaving.items() if name in left}

    def apply(self, job: Job) -> dict[str, tuple[BoundQuery, tuple[DeclaredSink, ...]]]:
        """Change the job of the file into the one that the records made of it.

        Returns:
            every query that has been dropped, with the sinks that it had: it may still have results to give.
        """
        gone: dict[str, tuple[BoundQuery, tuple[DeclaredSink, ...]]] = {}
        for promise in self.promised.values():
            self._create(job, [promise])
        for name in self.dropped:
            _take_out(job, name, gone)
        # Streams stay until the queries that read them are out again; what reads an added stream is tried once more
        # after that.
        streams = [name for name, said in reversed(self.leaving.items()) if said[0].startswith("CREATE STREAM")]
        for name in streams:
            self._create(job, self.leaving[name])
        others = [name for name in self.leaving if name not in streams]
        again = [name for name in others if not self._pass_through(job, name, gone)]
        for said in self.added.values():
            self._create(job, said)
        for name in again:
            self._pass_through(job, name, gone)
        for name in reversed(streams):
            _take_out(job, name, gone)
        return gone

    def plan(self, job: Job) -> None:
        """Like `apply`, for a process that asks about few queries: those that records have added are bound when they
        are asked for."""
        for promise in self.promised.values():
            self._create(job, [promise])
        job.catalog.forget_queries(self.dropped)
        for name in self.dropped:
            _take_out(job, name, {})
        for name, said in self.added.items():
            if said[0].startswith("CREATE QUERY"):
                job.defer(name, said[0], certain=False)
                said = said[1:]
            self._create(job, said)

    def _pass_through(self, job: Job, name: str, gone: dict[str, tuple[BoundQuery, tuple[DeclaredSink, ...]]]) -> bool:
        """Create a query that has been dropped and take it out again; whether that worked."""
        created = self._create(job, self.leaving[name])
        _take_out(job, name, gone)
        return created

    def _create(self, job: Job, said: Iterable[str]) -> bool:
        """A query that the edited file has under the same name, or whose stream it no longer has, is the file's."""
        settings, job.settings = job.settings, Settings()
        try:
            for text in said:
                job.apply(parse_script(text)[0])
        except EddylineError:
            return False
        finally:
            job.settings = settings
        return True


def is_first(query: BoundQuery) -> bool:
    """Whether a query is the first, or only, one that its statement creates."""
    return query.feeds is None or query.feeds.makers[0] == query.name


def _take_out(job: Job, name: str, gone: dict[str, tuple[BoundQuery, tuple[DeclaredSink, ...]]]) -> None:
    """Drop a query, or the derived stream whose first maker has this name, from a job."""
    if name in job.catalog.queries:
        gone[name] = (job.catalog.queries[name], job.catalog.sinks_of(name))
        job.catalog.drop("query", name)
    for stream, makers in list(job.catalog.makers.items()):
        if makers[0].name == name:
            with suppress(EddylineError):
                # A query of the edited file may read it.
                job.catalog.drop("stream", stream)
                gone |= {maker.name: (maker, ()) for maker in makers}


def statements(query: BoundQuery, sinks: Iterable[DeclaredSink]) -> list[str]:
    """What creates a query and the sinks that it does not share."""
    return [created_by(query), *(sink_text(sink) for sink in sinks if sink.query is not None)]
