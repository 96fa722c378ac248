"""A script, understood statement by statement.

Answer   `Job.apply` carries out one statement on a catalog and the settings in force, and returns what it made;
         `bind_script` does so for a whole text. A query keeps the settings that were in force when it was created.
State    The catalog, the settings, and the EXPLAIN requests in order.
Limits   Nothing runs and no file is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from eddyline.errors import Unsupported, located
from eddyline.language.binding.bind import bind_settings, bind_sink, bind_stream, bind_table
from eddyline.language.binding.bind_event import bind_constraints
from eddyline.language.catalog import Catalog, DeclaredSink, Entry
from eddyline.language.derived.derive import bind_body, bind_derived
from eddyline.language.own_functions import bind_function
from eddyline.language.parse import parse_script
from eddyline.language.records.heralds import bind_herald
from eddyline.language.records.punctuations import bind_punctuate, bind_punctuation
from eddyline.language.requests.templates import bind_request, bind_requests, bind_template
from eddyline.language.syntax import (
    Body,
    CreateConstraints,
    CreateDerived,
    CreateFunction,
    CreatePunctuation,
    CreateQuery,
    CreateRequests,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateTemplate,
    Drop,
    Event,
    Explain,
    HeraldStatement,
    Punctuate,
    RequestStatement,
    Set,
    Statement,
)
from eddyline.model.expressions.own_function import OwnFunction
from eddyline.model.patterns.constraint import ConstraintSet, Rule
from eddyline.model.query import BoundQuery
from eddyline.model.records.herald import KIND as HERALD
from eddyline.model.records.herald import speaks_of_rows
from eddyline.model.records.punctuation import DerivedPunctuation
from eddyline.model.schema import Stream, Table
from eddyline.model.template import Request, RequestStream, Template
from eddyline.settings import Settings

if TYPE_CHECKING:
    from eddyline.model.records.records import Records

T = TypeVar("T", bound=Entry)

#: The name that a SELECT under EXPLAIN goes by.
UNNAMED = "select"


@dataclass(frozen=True)
class Dropped:
    """What a DROP let go, with the sinks that went with a query."""

    kind: str
    entry: Entry
    sinks: tuple[DeclaredSink, ...] = ()
    #: Of a derived stream, the queries that made it.
    makers: tuple[BoundQuery, ...] = ()


@dataclass(frozen=True)
class DerivedStream:
    """What CREATE STREAM … AS has made."""

    stream: Stream
    makers: tuple[BoundQuery, ...]


@dataclass(frozen=True)
class ExplainRequest:
    query: BoundQuery
    analyze: bool


@dataclass(frozen=True)
class ExplainTemplate:
    """EXPLAIN TEMPLATE, or EXPLAIN REQUEST with the request."""

    template: Template
    request: Request | None = None


if TYPE_CHECKING:
    #: What a statement made.
    Applied = (
        Stream
        | DerivedStream
        | Table
        | BoundQuery
        | DeclaredSink
        | ConstraintSet
        | DerivedPunctuation
        | OwnFunction
        | Records
        | Template
        | RequestStream
        | Request
        | Dropped
        | Settings
        | ExplainRequest
        | ExplainTemplate
    )

#: The rules of a workflow, by its path and the options of WITH.
Workflows = Callable[[str, Mapping[str, str]], Sequence[Rule]]


class Job:
    """The catalog, the settings, and what statements have declared so far."""

    def __init__(
        self, settings: Settings | None = None, catalog: Catalog | None = None, workflows: Workflows | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.catalog = catalog or Catalog()
        self.explains: list[ExplainRequest] = []
        #: The requests of REQUEST statements, in their order.
        self.requests: list[Request] = []
        #: The records of PUNCTUATE and HERALD statements; a checkpoint takes the records of one name (`once`) once.
        self.records: list[Records] = []
        #: Reads workflow files; None: FROM WORKFLOW is refused.
        self.workflows = workflows

    @property
    def streams(self) -> Sequence[Stream]:
        """The streams that rows come from; derived streams are made by queries."""
        return tuple(stream for stream in self.catalog.streams.values() if not stream.is_derived)

    @property
    def tables(self) -> Sequence[Table]:
        return tuple(self.catalog.tables.values())

    @property
    def queries(self) -> Sequence[BoundQuery]:
        """Everything that pipelines register: templates, then streams of requests, which read them, then queries."""
        templates = (template.as_query for template in self.catalog.templates.values())
        requests = (requests.as_query for requests in self.catalog.requests.values())
        makers = (maker for of_stream in self.catalog.makers.values() for maker in of_stream)
        return (*templates, *requests, *makers, *self.catalog.queries.values())

    @property
    def names(self) -> Sequence[str]:
        """What has results or answers requests, by name; no query is bound for it."""
        return (*self.catalog.templates, *self.catalog.requests, *self.catalog.queries)

    @property
    def sinks(self) -> Sequence[DeclaredSink]:
        return tuple(self.catalog.sinks.values())

    @property
    def constraints(self) -> Sequence[ConstraintSet]:
        return tuple(self.catalog.constraints.values())

    def apply(self, statement: Statement) -> Applied:
        """Carries out one statement; an error leaves everything as it was."""
        if binder := _BINDERS.get(type(statement)):
            made = binder(self, statement)
            if isinstance(made, Request):
                self.requests.append(made)
            else:
                self.catalog.add(made)
            return made
        match statement:
            case CreateStream():
                return self._add(bind_stream(statement, self.catalog))
            case CreateDerived():
                stream, makers = bind_derived(statement, self._derived_settings(statement), self.catalog)
                self.catalog.add(stream)
                self.catalog.makers[stream.name] = makers
                return DerivedStream(stream, makers)
            case CreateTable():
                return self._add(bind_table(statement, self.catalog))
            case CreateSink():
                return self._add(bind_sink(statement, self.catalog))
            case CreateQuery():
                self.catalog.check_free("query", statement.name, statement.position)
                return self.query(statement.name, statement.select, bind_settings(statement.options, self.settings))
            case CreatePunctuation():
                return self._add(bind_punctuation(statement, self.catalog))
            case CreateFunction():
                return self._add(bind_function(statement, self.settings, self.catalog))
            case Punctuate():
                return self.take_records(bind_punctuate(statement, self.catalog))
            case HeraldStatement():
                return self.take_records(bind_herald(statement, self.catalog))
            case Drop(kind, name, position):
                # What is not there is refused below, under the name of its kind.
                of = name.lower() if kind in ("query", "requests") else None
                sinks = tuple(s for s in self.catalog.sinks.values() if s.query is not None and s.query.lower() == of)
                made = (
                    {stream.lower(): makers for stream, makers in self.catalog.makers.items()}
                    if kind == "stream"
                    else {}
                )
                makers = made.get(name.lower(), ())
                return Dropped(kind, self.catalog.drop(kind, name, position), sinks, makers)
            case Set():
                return self._set(statement)
            case Explain():
                return self._explain(statement)
            case _:
                word = "EVENT" if isinstance(statement, Event) else "SELECT"
                hint = f"CREATE QUERY name AS {word} …"
                raise Unsupported(
                    f"{'a' if word == 'SELECT' else 'an'} {word} of its own has no name",
                    hint=hint,
                    position=statement.position,
                )

    def query(self, name: str, select: Body, settings: Settings | None = None) -> BoundQuery:
        """Binds a SELECT or an EVENT under a name and adds it."""
        self.catalog.check_free("query", name, select.position)
        query = self._bound(name, select, settings or self.settings)
        self.catalog.add(query, select.position)
        return query

    def defer(self, name: str, text: str, certain: bool) -> None:
        """Take a CREATE QUERY that was carried out before, under the default settings; it is read when the query is
        asked for.

        Args:
            certain: It was carried out on these streams; otherwise it is left out if it no longer can be.
        """

        def bind() -> BoundQuery:
            statement = parse_script(text)[0]
            assert isinstance(statement, CreateQuery)
            return self._bound(name, statement.select, bind_settings(statement.options, Settings()))

        self.catalog.defer_query(name, bind, certain)

    def _bound(self, name: str, body: Body, settings: Settings) -> BoundQuery:
        return bind_body(name, body, settings, self.catalog)

    def _derived_settings(self, statement: CreateDerived) -> Settings:
        return bind_settings(tuple(o for o in statement.options if o.name != "sequence"), self.settings)

    def take_records(self, records: Records) -> Records:
        """Take the records of a statement."""
        stream = self.catalog.streams[records.stream]
        if records.kind == HERALD:
            stream = replace(stream, heralded=True, counted=stream.counted or speaks_of_rows(records))
        else:
            stream = replace(stream, spoken_of=True)
        self.catalog.streams[records.stream] = stream
        self.records.append(records)
        return records

    def _add(self, entry: T) -> T:
        self.catalog.add(entry)
        return entry

    def _set(self, statement: Set) -> Settings:
        with located(statement.position):
            self.settings = self.settings.with_option(statement.name, statement.value)
        return self.settings

    def _explain(self, statement: Explain) -> ExplainRequest | ExplainTemplate:
        if isinstance(statement.target, RequestStatement):
            request = _BINDERS[RequestStatement](self, statement.target)
            return ExplainTemplate(self.catalog.template(request.template), request)
        if isinstance(statement.target, str) and (
            statement.kind == "template" or self.catalog.is_template(statement.target)
        ):
            return ExplainTemplate(self.catalog.template(statement.target, statement.position))
        if isinstance(statement.target, str):
            query = self.catalog.query(statement.target, statement.position)
        else:
            query = self._bound(UNNAMED, statement.target, self.settings)
        explained = ExplainRequest(query, statement.analyze)
        self.explains.append(explained)
        return explained


#: Statements of single features -> what carries them out.
_BINDERS: dict[type[Statement], Callable[[Job, Any], Any]] = {
    CreateTemplate: lambda job, said: bind_template(said, job.settings, job.catalog),
    CreateRequests: lambda job, said: bind_requests(said, job.catalog),
    RequestStatement: lambda job, said: bind_request(said, job.catalog),
    CreateConstraints: lambda job, said: bind_constraints(said, job.catalog, job.settings, job.workflows),
}


def bind_script(text: str, settings: Settings | None = None, workflows: Workflows | None = None) -> Job:
    """The job of a script.

    >>> job = bind_script('''
    ...     CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
    ...     CREATE QUERY dear AS SELECT item FROM bids WHERE price > 100;
    ... ''')
    >>> job.queries[0].outputs[0].name
    'item'
    """
    job = Job(settings, workflows=workflows)
    for statement in parse_script(text):
        job.apply(statement)
    return job
