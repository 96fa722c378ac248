"""Scripts, statement by statement: what they declare, and under which settings.

Answer   `Job.apply` carries out one statement on a catalog and the settings in force, and returns what it made;
         `bind_script` does so for a whole text. A query keeps the settings that were in force when it was created.
State    The catalog, the settings, and the EXPLAIN requests in order.
Limits   Nothing runs and no file is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eddyline.errors import Unsupported, located
from eddyline.language import syntax
from eddyline.language.binding.bind import bind_settings, bind_sink, bind_stream, bind_table
from eddyline.language.binding.bind_event import bind_constraints
from eddyline.language.catalog import Catalog, DeclaredSink, Entry
from eddyline.language.derived.derive import bind_body, bind_derived
from eddyline.language.own_functions import bind_function
from eddyline.language.parse import parse_script
from eddyline.language.records.heralds import bind_herald
from eddyline.language.records.punctuations import bind_punctuate, bind_punctuation
from eddyline.language.requests.templates import bind_request, bind_requests, bind_template
from eddyline.language.syntax import Body, Statement
from eddyline.model.patterns.constraint import ConstraintSet, Rule
from eddyline.model.query import BoundQuery
from eddyline.model.records.herald import KIND as HERALD
from eddyline.model.records.herald import spans_rows
from eddyline.model.schema import Stream, Table
from eddyline.model.template import Request, Template
from eddyline.settings import Settings

if TYPE_CHECKING:
    from eddyline.model.records.records import Records

#: The name of the query of a SELECT under EXPLAIN.
UNNAMED = "select"


@dataclass(frozen=True)
class Dropped:
    """What a DROP removed, with the sinks that went with a query."""

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
    Applied = Entry | DerivedStream | Records | Request | Dropped | Settings | ExplainRequest | ExplainTemplate

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
        """Carry out one statement; an error leaves everything as it was."""
        with located(statement.position):
            return self._apply(statement)

    def _apply(self, statement: Statement) -> Applied:
        if binder := _BINDERS.get(type(statement)):
            made = binder(self, statement)
            if isinstance(made, Request):
                self.requests.append(made)
            else:
                self.catalog.add(made)
            return made
        match statement:
            case syntax.CreateDerived():
                options = tuple(o for o in statement.options if o.name != "sequence")
                stream, makers = bind_derived(statement, bind_settings(options, self.settings), self.catalog)
                self.catalog.add(stream)
                self.catalog.makers[stream.name] = makers
                return DerivedStream(stream, makers)
            case syntax.CreateQuery():
                self.catalog.check_free("query", statement.name)
                return self.query(statement.name, statement.select, bind_settings(statement.options, self.settings))
            case syntax.Punctuate():
                return self.take_records(bind_punctuate(statement, self.catalog))
            case syntax.HeraldStatement():
                return self.take_records(bind_herald(statement, self.catalog))
            case syntax.Drop(kind, name):
                spelled = self.catalog.spelled(kind, name)
                with_results = kind in ("query", "requests")
                sinks = tuple(s for s in self.catalog.sinks.values() if with_results and s.query == spelled)
                makers = self.catalog.makers.get(spelled, ()) if kind == "stream" else ()
                return Dropped(kind, self.catalog.drop(kind, spelled), sinks, makers)
            case syntax.Set(name, value):
                self.settings = self.settings.with_option(name, value)
                return self.settings
            case syntax.Explain():
                return self._explain(statement)
        what, word = ("an", "EVENT") if isinstance(statement, syntax.Event) else ("a", "SELECT")
        raise Unsupported(f"{what} {word} of its own has no name", hint=f"CREATE QUERY name AS {word} …")

    def query(self, name: str, select: Body, settings: Settings | None = None) -> BoundQuery:
        """Bind a SELECT or an EVENT under a name, and add it to the catalog."""
        with located(select.position):
            self.catalog.check_free("query", name)
            query = bind_body(name, select, settings or self.settings, self.catalog)
            self.catalog.add(query)
            return query

    def defer(self, name: str, text: str, certain: bool) -> None:
        """Take a CREATE QUERY that was carried out before, under the default settings. It is bound when something reads
        the query.

        Args:
            certain: Whether it was carried out on these streams. If not, and it cannot be bound, it is left out.
        """

        def bind() -> BoundQuery:
            statement = parse_script(text)[0]
            assert isinstance(statement, syntax.CreateQuery)
            return bind_body(name, statement.select, bind_settings(statement.options, Settings()), self.catalog)

        self.catalog.defer_query(name, bind, certain)

    def take_records(self, records: Records) -> Records:
        """Add the records of a statement, and note at their stream that it has such records."""
        stream = self.catalog.streams[records.stream]
        if records.kind == HERALD:
            stream = replace(stream, heralded=True, counted=stream.counted or spans_rows(records))
        else:
            stream = replace(stream, receives_punctuations=True)
        self.catalog.streams[records.stream] = stream
        self.records.append(records)
        return records

    def _explain(self, statement: syntax.Explain) -> ExplainRequest | ExplainTemplate:
        target = statement.target
        if isinstance(target, syntax.RequestStatement):
            request = _BINDERS[syntax.RequestStatement](self, target)
            return ExplainTemplate(self.catalog.template(request.template), request)
        if isinstance(target, str) and (statement.kind == "template" or self.catalog.is_template(target)):
            return ExplainTemplate(self.catalog.template(target))
        if isinstance(target, str):
            query = self.catalog.query(target)
        else:
            query = bind_body(UNNAMED, target, self.settings, self.catalog)
        explained = ExplainRequest(query, statement.analyze)
        self.explains.append(explained)
        return explained


#: Statements that declare something for the catalog, or request something of a template -> what binds them.
_BINDERS: dict[type[Statement], Callable[[Job, Any], Any]] = {
    syntax.CreateStream: lambda job, statement: bind_stream(statement, job.catalog),
    syntax.CreateTable: lambda job, statement: bind_table(statement, job.catalog),
    syntax.CreateSink: lambda job, statement: bind_sink(statement, job.catalog),
    syntax.CreatePunctuation: lambda job, statement: bind_punctuation(statement, job.catalog),
    syntax.CreateFunction: lambda job, statement: bind_function(statement, job.settings, job.catalog),
    syntax.CreateTemplate: lambda job, statement: bind_template(statement, job.settings, job.catalog),
    syntax.CreateRequests: lambda job, statement: bind_requests(statement, job.catalog),
    syntax.RequestStatement: lambda job, statement: bind_request(statement, job.catalog),
    syntax.CreateConstraints: lambda job, said: bind_constraints(said, job.catalog, job.settings, job.workflows),
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
