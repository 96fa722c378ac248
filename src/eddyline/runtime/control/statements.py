"""What a statement does to a job that may already run.

Answer   `Statements.execute` applies each statement of a script to the `Job` and passes the new entry to the `Runner`. The
         runner declares streams and tables, registers queries and templates, and forgets dropped entries.
State    The queries under EXPLAIN ANALYZE, and the warnings so far.
Limits   If the runner refuses an entry, `Statements` removes it from the catalog again: the job stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from eddyline.errors import UserError
from eddyline.language import Dropped, ExplainRequest, Job, parse_script
from eddyline.language.catalog import DeclaredSink
from eddyline.language.job import DerivedStream, ExplainTemplate
from eddyline.model.expressions.own_function import OwnFunction
from eddyline.model.patterns.constraint import ConstraintSet
from eddyline.model.query import BoundQuery
from eddyline.model.records.punctuation import DerivedPunctuation
from eddyline.model.records.records import Records
from eddyline.model.schema import Stream, Table
from eddyline.model.template import BoundTemplate, RequestStream, Template
from eddyline.plan.prepare import check, notices
from eddyline.runtime.front.own_functions import provide
from eddyline.runtime.front.runner import Runner
from eddyline.settings import EXPERIMENT, Settings

if TYPE_CHECKING:
    from eddyline.language.job import Applied


class Statements:
    """Statements, carried out one after the other."""

    def __init__(self, job: Job, runner: Runner, again: Callable[[], Runner]) -> None:
        """`again`: makes another runner, as the settings of the job say now."""
        self.job = job
        self.runner = runner
        self._again, self._chosen = again, _choice(job.settings)
        #: Queries under EXPLAIN ANALYZE: `Session.analysis` has the text of each after the run.
        self.analyzed: list[str] = []
        #: For example references whose store grows for ever, and options under their old names.
        self.warnings: list[str] = []
        #: Options whose old name has a warning already.
        self._reminded: set[str] = set()

    def execute(self, text: str) -> list[str]:
        """Carry out statements; returns the texts of EXPLAINs."""
        found = [self._carry_out(self.job.apply(statement)) for statement in parse_script(text)]
        return [text for text in found if text is not None]

    def follow_settings(self) -> None:
        """SET cores says which runner the job has, as long as that has heard nothing of the job."""
        chosen, before = _choice(self.job.settings), self._chosen
        if chosen == before:
            return
        if not (self.job.streams or self.runner.begun):
            self._chosen, self.runner = chosen, self._again()
        elif chosen[0] != before[0]:
            self.job.settings = replace(self.job.settings, cores=before[0])
            raise UserError("SET cores comes too late", hint="it stands before the first CREATE STREAM of the job")

    def _carry_out(self, applied: Applied) -> str | None:
        """Pass what a statement made to the runner; returns the text of an EXPLAIN."""
        match applied:
            case Settings():
                self.follow_settings()
            case BoundQuery():
                self.register(applied)
            case Template():
                self.register_request_unit(applied.as_query)
            case RequestStream():
                self.runner.declare(applied.stream)
                self.register_request_unit(applied.as_query)
            case DerivedStream():
                self._derive(applied)
            case Stream():
                self.runner.declare(applied)
            case Table():
                self.runner.load(applied)
            case ConstraintSet():
                self._constrain(applied)
            case DerivedPunctuation():
                self._promise(applied)
            case OwnFunction():
                self._provide(applied)
            case Records():
                if self.runner.begun:
                    self.runner.announce([applied])
            case DeclaredSink():
                self._check_sink(applied)
            case Dropped():
                self._drop(applied)
            case ExplainTemplate():
                return self._explain_template(applied)
            case ExplainRequest() if applied.analyze:
                self.analyzed.append(self._analyzed(applied.query))
            case ExplainRequest():
                return self.runner.explain(applied.query)
        return None

    @contextmanager
    def _dropped_if_refused(self, kind: str, name: str) -> Iterator[None]:
        """Remove an entry from the catalog again if the block raises a `UserError`."""
        try:
            yield
        except UserError:
            self.job.catalog.drop(kind, name)
            raise

    def register(self, query: BoundQuery) -> None:
        """Check a query and register it with the runner."""
        with self._dropped_if_refused("query", query.name):
            check(query, self._sources)
            self.runner.register(query)
        self.warnings += notices(query, self._sources)
        self._remind(query.settings)

    def _remind(self, settings: Settings) -> None:
        """Warn once of each option for experiments that a statement names without the prefix."""
        for name in sorted(settings.unprefixed - self._reminded):
            self._reminded.add(name)
            self.warnings.append(f"{name} = {getattr(settings, name)} is for experiments; write {EXPERIMENT}{name}")

    def _derive(self, derived: DerivedStream) -> None:
        """Register the queries that make a stream."""
        begun: list[str] = []
        with self._dropped_if_refused("stream", derived.stream.name):
            try:
                for maker in derived.makers:
                    check(maker, self._sources)
                    self.runner.register(maker)
                    begun.append(maker.name)
            except UserError:
                for name in reversed(begun):
                    self.runner.drop(name)
                raise
        for maker in derived.makers:
            self.warnings += notices(maker, self._sources)
        for maker in derived.makers:
            self._remind(maker.settings)

    @property
    def _sources(self) -> dict[str, Stream | Table]:
        return {**self.job.catalog.streams, **self.job.catalog.tables}

    def register_request_unit(self, query: BoundQuery) -> None:
        """Register a template or the answers of a stream of requests with the runner."""
        with self._dropped_if_refused("template" if isinstance(query, BoundTemplate) else "requests", query.name):
            self.runner.register(query)
        self._remind(query.settings)

    def _analyzed(self, query: BoundQuery) -> str:
        """The name of a query under EXPLAIN ANALYZE; a SELECT without CREATE QUERY is registered first."""
        if query.name not in self.job.catalog.queries:
            self.job.catalog.add(query)
            self.register(query)
        return query.name

    def _constrain(self, found: ConstraintSet) -> None:
        """Check the queries over a book again after CREATE CONSTRAINTS: each must still be able to match."""
        with self._dropped_if_refused("constraints", found.name):
            if self.runner.begun:
                raise UserError(
                    "constraints cannot be added to a running job", hint="CREATE CONSTRAINTS before push, start or run"
                )
            for query in self.job.queries:
                if query.pattern is not None and query.pattern.book == found.book:
                    check(query, self._sources)
                    # With the constraints a query may have other warnings than before.
                    self.warnings = [w for w in self.warnings if not w.startswith(f"query {query.name}: ")]
                    self.warnings += notices(query, self._sources)

    def _promise(self, found: DerivedPunctuation) -> None:
        """Pass CREATE PUNCTUATION to a running job: it holds for the rows that come after it."""
        if self.runner.begun:
            streams = [self.job.catalog.streams[name] for name in dict.fromkeys((found.stream, found.source))]
            with self._dropped_if_refused("punctuation", found.name):
                self.runner.promise(streams)

    def _provide(self, own: OwnFunction) -> None:
        with self._dropped_if_refused("function", own.name):
            provide(own, self.runner.begun)

    def _explain_template(self, explained: ExplainTemplate) -> str:
        found = self.runner.explain(explained.template.as_query)
        if explained.request is None:
            return found
        from eddyline.plan.template_text import request_text

        return request_text(explained.template, explained.request)

    def _drop(self, dropped: Dropped) -> None:
        kind, entry = dropped.kind, dropped.entry
        if kind in ("query", "template", "requests"):
            self.runner.drop(entry.name)
            return
        try:
            if dropped.makers:
                for maker in reversed(dropped.makers):
                    self.runner.drop(maker.name)
            elif kind in ("constraints", "punctuation"):
                if self.runner.begun:
                    kinds = "constraints" if kind == "constraints" else "punctuations"
                    raise UserError(f"{kinds} cannot be dropped from a running job", hint="stop it first")
            elif kind != "function":
                self.runner.forget(kind, entry.name)
        except UserError:
            self.job.catalog.add(entry)
            if dropped.makers:
                self.job.catalog.makers[entry.name] = dropped.makers
            raise

    def _check_sink(self, sink: DeclaredSink) -> None:
        with self._dropped_if_refused("sink", sink.name):
            warning = self.runner.check_sink(sink)
        if warning is not None:
            self.warnings.append(warning)


def _choice(settings: Settings) -> tuple[int | None, bool]:
    """What decides about the runner of a job."""
    return settings.cores, settings.cores is not None and settings.shards > 1
