"""The effect of all control records of a job together: as large as the queries that are left, not as the records.

Answer   `Fold` keeps, in the order of the records, the queries that records have added (with their sinks) and the names of
         queries of the job file that records have dropped. `add` and `drop` note one more change. `apply` does to the
         job of the file what all the records did.
State    Plain JSON: part of the checkpoint, and of `control/folded.json`, which `eddyline query` reads.
Limits   A dropped query is kept in `leaving` while it still has results to deliver; then `forget` removes it.
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
    #: The same for added queries that have been dropped and still have results to deliver.
    leaving: dict[str, list[str]] = field(default_factory=dict)
    #: Queries of the job's file that have been dropped.
    dropped: list[str] = field(default_factory=list)
    #: CREATE PUNCTUATION statements, by name.
    promised: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(found: Mapping[str, Any]) -> Fold:
        added, leaving, promised = dict(found["added"]), dict(found["leaving"]), dict(found.get("promised", {}))
        return Fold(added, leaving, list(found["dropped"]), promised)

    def as_json(self) -> dict[str, Any]:
        return {"added": self.added, "leaving": self.leaving, "dropped": self.dropped, "promised": self.promised}

    def add(self, query: BoundQuery, sinks: Iterable[DeclaredSink]) -> None:
        if not is_first(query):
            # The statement of the first maker creates all makers of a stream.
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
        """Remove all dropped queries but the `kept` ones: the others have delivered their last result."""
        if self.leaving:
            left = set(kept)
            self.leaving = {name: texts for name, texts in self.leaving.items() if name in left}

    def apply(self, job: Job) -> dict[str, tuple[BoundQuery, tuple[DeclaredSink, ...]]]:
        """Change the job of the file into the one that the records made of it.

        Returns:
            every dropped query with the sinks that it had: it may still have results to deliver.
        """
        gone: dict[str, tuple[BoundQuery, tuple[DeclaredSink, ...]]] = {}
        for promise in self.promised.values():
            self._create(job, [promise])
        for name in self.dropped:
            _take_out(job, name, gone)
        # Derived streams are created first and dropped last: dropped queries may read them. A dropped query that reads
        # an added stream cannot be created before that stream, so it is tried a second time.
        streams = [name for name, texts in reversed(self.leaving.items()) if texts[0].startswith("CREATE STREAM")]
        for name in streams:
            self._create(job, self.leaving[name])
        others = [name for name in self.leaving if name not in streams]
        again = [name for name in others if not self._pass_through(job, name, gone)]
        for texts in self.added.values():
            self._create(job, texts)
        for name in again:
            self._pass_through(job, name, gone)
        for name in reversed(streams):
            _take_out(job, name, gone)
        return gone

    def plan(self, job: Job) -> None:
        """Like `apply`, for a process that reads few queries: each query that a record added is bound when it is first
        read."""
        for promise in self.promised.values():
            self._create(job, [promise])
        job.catalog.forget_queries(self.dropped)
        for name in self.dropped:
            _take_out(job, name, {})
        for name, texts in self.added.items():
            if texts[0].startswith("CREATE QUERY"):
                job.defer(name, texts[0], certain=False)
                texts = texts[1:]
            self._create(job, texts)

    def _pass_through(self, job: Job, name: str, gone: dict[str, tuple[BoundQuery, tuple[DeclaredSink, ...]]]) -> bool:
        """Create a dropped query and drop it again; returns whether it could be created."""
        created = self._create(job, self.leaving[name])
        _take_out(job, name, gone)
        return created

    def _create(self, job: Job, texts: Iterable[str]) -> bool:
        """Apply statements; returns False if one fails. A user may have edited the job file: it may now have a query of
        the same name, or may no longer have the stream."""
        settings, job.settings = job.settings, Settings()
        try:
            for text in texts:
                job.apply(parse_script(text)[0])
        except EddylineError:
            return False
        finally:
            job.settings = settings
        return True


def is_first(query: BoundQuery) -> bool:
    """Whether a query is the first one that its statement creates."""
    return query.feeds is None or query.feeds.makers[0] == query.name


def _take_out(job: Job, name: str, gone: dict[str, tuple[BoundQuery, tuple[DeclaredSink, ...]]]) -> None:
    """Drop a query, or the derived stream whose first maker has this name, from a job."""
    if name in job.catalog.queries:
        gone[name] = (job.catalog.queries[name], job.catalog.sinks_of(name))
        job.catalog.drop("query", name)
    for stream, makers in list(job.catalog.makers.items()):
        if makers[0].name == name:
            with suppress(EddylineError):
                # A query of the edited file may read the stream; it stays then.
                job.catalog.drop("stream", stream)
                gone |= {maker.name: (maker, ()) for maker in makers}


def statements(query: BoundQuery, sinks: Iterable[DeclaredSink]) -> list[str]:
    """The statements that create a query and those of its sinks that no other query shares."""
    return [created_by(query), *(sink_text(sink) for sink in sinks if sink.query is not None)]
