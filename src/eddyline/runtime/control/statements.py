"""What a statement does to a running job.

Answer   `Statements.execute` applies each statement of a script to the `Job` and passes what it made to the `Runner`:
         streams and tables are declared, queries and templates registered, dropped entries forgotten.
State    The queries under EXPLAIN ANALYZE, and the warnings so far.
Limits   If the runner refuses an entry, the entry leaves the catalog again, so that the job stays as it was.
"""

from __future__ import annotations

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

    def __init__(self, job: Job, runner: Runner) -> None:
        self.job = job
        self.runner = runner
        #: Queries under EXPLAIN ANALYZE: their `analysis` is worth reading after the run.
        self.analyzed: list[str] = []
        #: What is worth knowing about the queries: references whose store grows for ever, options under their old
        #: names.
        self.warnings: list[str] = []
        self._reminded: set[str] = set()

    def execute(self, text: str) -> list[str]:
        """Carry out statements; returns the texts of EXPLAINs."""
        found = [self._carry_out(self.job.apply(statement)) for statement in parse_script(text)]
        return [text for text in found if text is not None]

    def _carry_out(self, applied: Applied) -> str | None:
        """Pass what a statement made to the runner; returns the text of an EXPLAIN."""
        match applied:
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

    def register(self, query: BoundQuery) -> None:
        """Check a query and register it with the runner."""
        try:
            check(query, self._sources)
            self.runner.register(query)
        except UserError:
            self.job.catalog.drop("query", query.name)
            raise
        self.warnings += notices(query, self._sources)
        self._remind(query.settings)

    def _remind(self, settings: Settings) -> None:
        """Say once of each option for experiments that its name has a prefix now."""
        for name in sorted(settings.unprefixed - self._reminded):
            self._reminded.add(name)
            self.warnings.append(f"{name} = {getattr(settings, name)} is for experiments; write {EXPERIMENT}{name}")

    def _derive(self, derived: DerivedStream) -> None:
        """Register the queries that make a stream."""
        begun: list[str] = []
        try:
            for maker in derived.makers:
                check(maker, self._sources)
                self.runner.register(maker)
                begun.append(maker.name)
        except UserError:
            self.job.catalog.drop("stream", derived.stream.name)
            for name in reversed(begun):
                self.runner.drop(name)
            raise
        self.warnings += [line for maker in derived.makers for line in notices(maker, self._sources)]
        for maker in derived.makers:
            self._remind(maker.settings)

    @property
    def _sources(self) -> dict[str, Stream | Table]:
        return {**self.job.catalog.streams, **self.job.catalog.tables}

    def register_request_unit(self, query: BoundQuery) -> None:
        """Register a template or the answers of a stream of requests with the runner."""
        try:
            self.runner.register(query)
        except UserError:
            self.job.catalog.drop("template" if isinstance(query, BoundTemplate) else "requests", query.name)
            raise
        self._remind(query.settings)

    def _analyzed(self, query: BoundQuery) -> str:
        """The name of a query to be analysed; a bare SELECT is registered to have one."""
        if query.name not in self.job.catalog.queries:
            self.job.catalog.add(query)
            self.register(query)
        return query.name

    def _constrain(self, found: ConstraintSet) -> None:
        """Constraints have been said: the queries of their book must still be able to match."""
        try:
            if self.runner.begun:
                raise UserError(
                    "constraints cannot be added to a running job", hint="CREATE CONSTRAINTS before push, start or run"
                )
            for query in self.job.queries:
                if query.pattern is not None and query.pattern.book == found.book:
                    check(query, self._sources)
                    # What was worth knowing without the constraints may be so no longer.
                    self.warnings = [w for w in self.warnings if not w.startswith(f"query {query.name}: ")]
                    self.warnings += notices(query, self._sources)
        except UserError:
            self.job.catalog.drop("constraints", found.name)
            raise

    def _promise(self, found: DerivedPunctuation) -> None:
        """CREATE PUNCTUATION decides what streams wait for; in a job that runs it speaks of the rows that come after
        it."""
        if self.runner.begun:
            try:
                self.runner.promise(
                    [self.job.catalog.streams[name] for name in dict.fromkeys((found.stream, found.source))]
                )
            except UserError:
                self.job.catalog.drop("punctuation", found.name)
                raise

    def _provide(self, own: OwnFunction) -> None:
        try:
            provide(own, self.runner.begun)
        except UserError:
            self.job.catalog.drop("function", own.name)
            raise

    def _explain_template(self, explained: ExplainTemplate) -> str:
        found = self.runner.explain(explained.template.as_query)
        if explained.request is None:
            return found
        from eddyline.plan.template_text import request_text

        return request_text(explained.template, explained.request)

    def _drop(self, dropped: Dropped) -> None:
        if dropped.kind in ("query", "template", "requests"):
            self.runner.drop(dropped.entry.name)
            return
        if dropped.makers:
            try:
                for maker in reversed(dropped.makers):
                    self.runner.drop(maker.name)
            except UserError:
                self.job.catalog.add(dropped.entry)
                self.job.catalog.makers[dropped.entry.name] = dropped.makers
                raise
            return
        if dropped.kind in ("constraints", "punctuation"):
            if self.runner.begun:
                self.job.catalog.add(dropped.entry)
                word = "constraints" if dropped.kind == "constraints" else "punctuations"
                raise UserError(f"{word} cannot be dropped from a running job", hint="stop it first")
            return
        if dropped.kind == "function":
            return
        try:
            self.runner.forget(dropped.kind, dropped.entry.name)
        except UserError:
            self.job.catalog.add(dropped.entry)
            raise

    def _check_sink(self, sink: DeclaredSink) -> None:
        try:
            warning = self.runner.check_sink(sink)
        except UserError:
            self.job.catalog.drop("sink", sink.name)
            raise
        if warning is not None:
            self.warnings.append(warning)
