"""A script, understood statement by statement.

Answer   `Job.apply` carries out one statement on a catalog and the settings in force, and returns what it made; `bind_script`
         does so for a whole text. A query keeps the settings that were in force when it was created.
State    The catalog, the settings, and the EXPLAIN requests in order.
Limits   Nothing runs and no file is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from eddyline.errors import EddylineError, Unsupported
from eddyline.language.bind import bind_query, bind_settings, bind_sink, bind_stream, bind_table
from eddyline.language.catalog import Catalog, Entry, Sink
from eddyline.language.parse import parse_script
from eddyline.language.syntax import (
    Ask,
    CreateQuery,
    CreateRequests,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateTemplate,
    Drop,
    Explain,
    Select,
    Set,
    Statement,
)
from eddyline.language.templates import bind_ask, bind_requests, bind_template
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.model.template import Request, RequestStream, Template
from eddyline.settings import Settings

T = TypeVar("T", bound=Entry)

#: The name that a SELECT under EXPLAIN goes by.
UNNAMED = "select"


@dataclass(frozen=True)
class Dropped:
    """What a DROP let go, with the sinks that went with a query."""

    kind: str
    entry: Entry
    sinks: tuple[Sink, ...] = ()


@dataclass(frozen=True)
class ExplainRequest:
    query: BoundQuery
    analyze: bool


@dataclass(frozen=True)
class ExplainTemplate:
    """EXPLAIN TEMPLATE, or EXPLAIN REQUEST with the request."""

    template: Template
    request: Request | None = None


Applied = Stream | Table | BoundQuery | Sink | Template | RequestStream | Request | Dropped | Settings | ExplainRequest | ExplainTemplate


class Job:
    """What has been said so far."""

    def __init__(self, settings: Settings | None = None, catalog: Catalog | None = None) -> None:
        self.settings = settings or Settings()
        self.catalog = catalog or Catalog()
        self.explains: list[ExplainRequest] = []
        #: What REQUEST statements ask, in their order.
        self.asked: list[Request] = []

    @property
    def streams(self) -> Sequence[Stream]:
        return tuple(self.catalog.streams.values())

    @property
    def tables(self) -> Sequence[Table]:
        return tuple(self.catalog.tables.values())

    @property
    def queries(self) -> Sequence[BoundQuery]:
        """All that stands: templates first, then streams of requests, which read them, then queries."""
        templates = (template.standing for template in self.catalog.templates.values())
        requests = (asking.standing for asking in self.catalog.requests.values())
        return (*templates, *requests, *self.catalog.queries.values())

    @property
    def sinks(self) -> Sequence[Sink]:
        return tuple(self.catalog.sinks.values())

    def apply(self, statement: Statement) -> Applied:
        """Carries out one statement; an error leaves everything as it was."""
        match statement:
            case CreateStream():
                return self._add(bind_stream(statement, self.catalog))
            case CreateTable():
                return self._add(bind_table(statement, self.catalog))
            case CreateSink():
                return self._add(bind_sink(statement, self.catalog))
            case CreateQuery():
                self.catalog.check_free("query", statement.name, statement.position)
                return self.query(statement.name, statement.select, bind_settings(statement.options, self.settings))
            case CreateTemplate():
                return self._add(bind_template(statement, self.settings, self.catalog))
            case CreateRequests():
                return self._add(bind_requests(statement, self.catalog))
            case Ask():
                self.asked.append(bind_ask(statement, self.catalog))
                return self.asked[-1]
            case Drop(kind, name, position):
                spelled = self.catalog.results_of(name, position) if kind in ("query", "requests") else ""
                sinks = tuple(s for s in self.catalog.sinks.values() if s.query == spelled)
                return Dropped(kind, self.catalog.drop(kind, name, position), sinks)
            case Set():
                return self._set(statement)
            case Explain():
                return self._explain(statement)
            case Select():
                raise Unsupported("a SELECT of its own has no name", hint="CREATE QUERY name AS SELECT …", position=statement.position)

    def query(self, name: str, select: Select, settings: Settings | None = None) -> BoundQuery:
        """Binds a SELECT under a name and adds it."""
        self.catalog.check_free("query", name, select.position)
        query = bind_query(name, select, settings or self.settings, self.catalog)
        self.catalog.add(query, select.position)
        return query

    def _add(self, entry: T) -> T:
        self.catalog.add(entry)
        return entry

    def _set(self, statement: Set) -> Settings:
        try:
            self.settings = self.settings.with_option(statement.name, statement.value)
        except EddylineError as problem:
            problem.position = problem.position or statement.position
            raise
        return self.settings

    def _explain(self, statement: Explain) -> ExplainRequest | ExplainTemplate:
        if isinstance(statement.target, Ask):
            request = bind_ask(statement.target, self.catalog)
            return ExplainTemplate(self.catalog.template(request.template), request)
        if statement.kind == "template":
            assert isinstance(statement.target, str)
            return ExplainTemplate(self.catalog.template(statement.target, statement.position))
        if isinstance(statement.target, str):
            query = self.catalog.query(statement.target, statement.position)
        else:
            query = bind_query(UNNAMED, statement.target, self.settings, self.catalog)
        explained = ExplainRequest(query, statement.analyze)
        self.explains.append(explained)
        return explained


def bind_script(text: str, settings: Settings | None = None) -> Job:
    """The job that a script says.

    >>> job = bind_script('''
    ...     CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
    ...     CREATE QUERY dear AS SELECT item FROM bids WHERE price > 100;
    ... ''')
    >>> job.queries[0].outputs[0].name
    'item'
    """
    job = Job(settings)
    for statement in parse_script(text):
        job.apply(statement)
    return job
