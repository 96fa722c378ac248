"""Queries over queries: derived streams, subqueries in FROM, WITH, UNION ALL.

Answer   `bind_body` binds a query with everything inside of it: each subquery becomes a *maker*, a query whose results
         are the rows of a derived stream, and the query reads that stream. `bind_derived` does so for CREATE STREAM …
         AS.

             SELECT … FROM (SELECT … FROM bids) b

             ─►  maker _q-1: SELECT … FROM bids  ─►  stream _q-1  ─►  q: SELECT … FROM _q-1 b

Limits   A maker's results are final: a select, a join, a pattern, or an aggregate with EMIT ON CLOSE. A changelog is
         refused. A query cannot read itself: FROM may name a query only after its body has been bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from eddyline.errors import BindingProblem, located
from eddyline.language.binding.bind import bind_query
from eddyline.language.binding.bind_event import bind_event
from eddyline.language.catalog import Catalog
from eddyline.language.derived.changing import refuse_changing
from eddyline.language.derived.latest import latest_sources
from eddyline.language.derived.outer import bind_outer, has_outer
from eddyline.language.derived.unnest import Unnesting
from eddyline.language.syntax import Body, CreateDerived, Event, FromEntry, Item, Select, Star, Union
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.expressions.expression import Expression
from eddyline.model.query import BoundQuery, Keeping, OutputColumn, Reference, UnnestedTable
from eddyline.model.schema import DERIVED_TIME, Column, Schema, Stream, Table
from eddyline.settings import Settings

#: Bodies that are neither SELECT nor UNION ALL -> what binds them.
_BINDERS: dict[type[Body], Callable[[str, Any, Settings, Catalog], BoundQuery]] = {
    Event: bind_event,
}


def bind_body(name: str, body: Body, settings: Settings, catalog: Catalog) -> BoundQuery:
    """The query of a body, with its makers."""
    found = Derivation(name, settings, catalog)
    query = found.with_tables(found.query(name, body))
    return replace(query, makers=tuple(map(found.with_tables, found.makers)), text=body.text)


def bind_derived(
    statement: CreateDerived, settings: Settings, catalog: Catalog
) -> tuple[Stream, tuple[BoundQuery, ...]]:
    """The stream that CREATE STREAM … AS declares, and the queries that make it; neither is in the catalog yet."""
    catalog.check_free("stream", statement.name)
    found = Derivation(statement.name, settings, catalog)
    parts = statement.body.parts if isinstance(statement.body, Union) else (statement.body,)
    named = statement.body.named if isinstance(statement.body, Union) else ()
    sequence = next((str(o.value) for o in statement.options if o.name == "sequence"), None)
    with found.unfinished([statement.name]), found.names(named):
        stream = found.stream(statement.name, parts, sequence)
    # The makers that feed the stream are its own queries. Those of their subqueries are created and dropped with the
    # first of them.
    makers = [found.with_tables(maker) for maker in found.makers]
    own = [maker for maker in makers if maker.feeds is stream]
    inner = tuple(maker for maker in makers if maker.feeds is not stream)
    return stream, (replace(own[0], makers=inner, text=statement.body.text), *own[1:])


@dataclass
class Derivation:
    """The derived streams of one statement, and the queries that make them.

    Queries of the statement can read what `know` has added to the names of the catalog; the end of `names` removes it.
    """

    #: The name of the statement's query or stream, which begins the names of its makers.
    owner: str
    settings: Settings
    catalog: Catalog
    makers: list[BoundQuery] = field(default_factory=list)
    #: Tables with one row per element of arrays of other tables.
    unnested: list[UnnestedTable] = field(default_factory=list)
    count: int = 0

    def with_tables(self, query: BoundQuery) -> BoundQuery:
        """The query, with the unnested tables of the statement if it reads one of them."""
        read = {reference.source for reference in query.references}
        if not any(table.name in read for table in self.unnested):
            return query
        return replace(query, unnested=tuple(self.unnested))

    @contextmanager
    def unfinished(self, names: Iterable[str]) -> Iterator[None]:
        """Within, no query can read a stream under these names."""
        unfinished = self.catalog.unfinished | {name.lower() for name in names}
        with self.catalog.with_names(self.catalog.local, unfinished):
            yield

    @contextmanager
    def names(self, named: Sequence[tuple[str, Body]]) -> Iterator[None]:
        """Within, FROM may name the queries of a WITH. Each of them may name those before it."""
        with self.catalog.with_names(self.catalog.local, self.catalog.unfinished):
            for at, (name, body) in enumerate(named):
                with self.unfinished(later for later, _ in named[at:]):
                    stream = self.derived(body)
                self.know(stream, name)
            yield

    def know(self, relation: Stream | Table, name: str | None = None) -> None:
        """From now on FROM may name this stream or table, under its name or another one."""
        self.catalog.local = {**self.catalog.local, (name or relation.name).lower(): relation}

    def query(self, name: str, body: Body) -> BoundQuery:
        """The bound query of a body, whose makers join those of the statement."""
        if isinstance(body, Event):
            return _BINDERS[Event](name, body, self.settings, self.catalog)
        with self.names(body.named):
            if isinstance(body, Union):
                whole = self.derived(body)
                self.know(whole)
                item, source = Item(Star()), FromEntry(whole.name, "all")
                select = Select((item,), (source,), text=body.text, position=body.position)
                return bind_query(name, select, self.settings, self.catalog)
            sources = tuple(map(self.plain_source, latest_sources(self, body)))
            select = replace(body, sources=sources, named=())
            if any(source.unnest is not None for source in sources):
                select = Unnesting(self.catalog, self._unnested, self._unnested_table).without(select)
            if has_outer(select):
                refuse_changing(select, self.catalog)
                return bind_outer(self, name, select)
            return bind_query(name, select, self.settings, self.catalog)

    def plain_source(self, source: FromEntry) -> FromEntry:
        """The source with the name of a derived stream in the place of its subquery, if it has one."""
        if source.query is None:
            return source
        stream = self.derived(source.query)
        self.know(stream)
        return replace(source, name=stream.name, query=None)

    def add_maker(
        self,
        name: str,
        references: Iterable[Reference],
        where: Iterable[Expression],
        outputs: Iterable[OutputColumn],
        stream: Stream,
        text: str,
        keeping: Keeping | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Add a query whose results are rows of a derived stream; `text` is the statement as written."""
        query = BoundQuery(name, tuple(references), tuple(where), tuple(outputs), settings=settings or self.settings)
        self.makers.append(replace(query, text=text, feeds=stream, keeping=keeping))

    def next_name(self) -> str:
        """A name that no user can give."""
        self.count += 1
        return f"_{self.owner}-{self.count}"

    def unordered_stream(self, columns: Sequence[Column], makers: int = 1) -> Stream:
        """A derived stream with these columns, whose rows of equal time have no order."""
        name = self.next_name()
        names = (name,) if makers == 1 else tuple(f"{name}.{number + 1}" for number in range(makers))
        schema = Schema((*columns, Column(DERIVED_TIME, TIMESTAMP)))
        position = self._next_position()
        return Stream(name=name, schema=schema, time=DERIVED_TIME, position=position, makers=names, ordered=False)

    def _next_position(self) -> int:
        self.catalog.next_position += 1
        return self.catalog.next_position - 1

    def _unnested(self, body: Select, change: Callable[[Stream], Stream]) -> Stream:
        """The derived stream of a subquery, after `change`; FROM may name it from now on."""
        settings = self.settings
        # The setting `plan` may name a tree over the references of the query, which are not those of this subquery.
        self.settings = replace(settings, plan="auto")
        made = self.derived(body)
        self.settings = settings
        stream = change(made)
        self.makers = [replace(maker, feeds=stream) if maker.feeds is made else maker for maker in self.makers]
        self.know(stream)
        return stream

    def _unnested_table(self, table: Table, array: Expression, element: Column) -> Table:
        """A table with one row per element, which FROM may name from now on."""
        made = Table(self.next_name(), Schema((*table.schema.columns, element)))
        self.unnested.append(UnnestedTable(made.name, table.name, array, made.schema))
        self.know(made)
        return made

    def derived(self, body: Body) -> Stream:
        """The stream of a subquery, which has a name that no user can give."""
        name = self.next_name()
        if isinstance(body, Union):
            with self.names(body.named):
                return self.stream(name, body.parts)
        return self.stream(name, (body,))

    def stream(self, name: str, parts: Sequence[Body], sequence: str | None = None) -> Stream:
        """The derived stream that the results of these bodies make; `sequence` orders its rows of equal time."""
        plain = name if name.startswith("_") else f"_{name}"
        names = [plain] if len(parts) == 1 else [f"{plain}.{at + 1}" for at in range(len(parts))]
        queries = [self.query(of_part, part) for of_part, part in zip(names, parts, strict=True)]
        for query, part in zip(queries, parts, strict=True):
            with located(part.position):
                _check_maker(query, queries[0])
        columns = [Column(o.name, o.type) for o in queries[0].outputs]
        stream = Stream(
            name=name,
            schema=Schema((*columns, Column(DERIVED_TIME, TIMESTAMP))),
            time=DERIVED_TIME,
            position=self._next_position(),
            makers=tuple(names),
            sequence=sequence,
            # Values that all its queries finish are punctuations of it.
            receives_punctuations=all(
                query.settings.propagate != "off" and self._may_finish(query) for query in queries
            ),
            ordered=sequence is not None or (len(queries) == 1 and self._is_selection(queries[0])),
        )
        self.makers += [replace(query, feeds=stream) for query in queries]
        return stream

    def _is_selection(self, query: BoundQuery) -> bool:
        """Whether the results of a query are rows of one stream, in their order."""
        if query.is_aggregate or query.ranking is not None or query.pattern is not None or len(query.references) != 1:
            return False
        source = self._source(query.references[0].source)
        return isinstance(source, Stream) and source.ordered

    def _may_finish(self, query: BoundQuery) -> bool:
        """Whether a query may find values of its outputs finished. One over a single derived stream does so only if that
        stream has punctuations; those of outer joins have none."""
        sources = [self._source(reference.source) for reference in query.streams]
        return (
            len(sources) != 1
            or not isinstance(sources[0], Stream)
            or not sources[0].is_derived
            or sources[0].is_punctuated
        )

    def _source(self, name: str) -> Stream | Table:
        inner = {maker.feeds.name: maker.feeds for maker in self.makers if maker.feeds is not None}
        return inner[name] if name in inner else self.catalog.relation(name)


def _check_maker(query: BoundQuery, first: BoundQuery) -> None:
    """Refuse a maker whose results change, or are of other types than those of the first maker of its stream."""
    if query.is_changelog:
        raise BindingProblem(
            "a changelog cannot be read by another query",
            detail=f"EMIT {query.emit} changes results that it has given",
            hint="add EMIT ON CLOSE and a group window, such as GROUP BY TUMBLE(ts, '10 seconds'), whose results are final; "
            "or join the table of an EMIT EVERY query: s JOIN LATEST q ON …",
        )
    types, others = ([o.type for o in one.outputs] for one in (first, query))
    if types != others:
        detail = f"{', '.join(map(str, types))} and {', '.join(map(str, others))}"
        hint = "CAST them to one type"
        raise BindingProblem("the parts of UNION ALL have different columns", detail=detail, hint=hint)
