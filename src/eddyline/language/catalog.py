"""What has been created: streams, tables, queries, sinks, templates, streams of requests, constraints, functions.

Answer   `Catalog` finds entries by name, refuses a second one of the same name, and removes what is dropped. As in SQL
         the case of letters does not matter; the spelling of the CREATE is kept.
State    Per kind a dictionary from names, as spelled, to entries. A stream and a table cannot have one name, for both
         are named in FROM. A stream of requests is a stream, and its results have its name. A template, a stream of
         requests and a query cannot have one name either: a pipeline registers all of them by name.
Limits   It checks names only. A problem has no position: the caller knows where the name is in the text (`located`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from eddyline.errors import BindingProblem, Position, located
from eddyline.language.deferred import Queries
from eddyline.model.expressions.own_function import OwnFunction, calls
from eddyline.model.patterns.constraint import ConstraintSet, EventBook
from eddyline.model.query import BoundQuery
from eddyline.model.records.punctuation import DerivedPunctuation
from eddyline.model.schema import Stream, Table
from eddyline.model.template import RequestStream, Template

#: In bytes. File systems take 255; names of files add a little to those of streams and queries.
LONGEST_NAME = 200


@dataclass(frozen=True)
class DeclaredSink:
    """Where results go; `query` is None for all queries."""

    name: str
    query: str | None
    #: format, path …, as text.
    options: Mapping[str, str] = field(default_factory=dict)


Entry = (
    Stream
    | Table
    | BoundQuery
    | DeclaredSink
    | Template
    | RequestStream
    | ConstraintSet
    | DerivedPunctuation
    | OwnFunction
)

#: Kinds whose names exclude each other.
_TOGETHER = {
    "stream": ("stream", "table"),
    "table": ("stream", "table"),
    "query": ("query", "requests", "template"),
    "template": ("query", "requests", "template"),
    "requests": ("stream", "table", "query", "template"),
}


class Catalog:
    def __init__(self) -> None:
        # Entries of each kind, in the order of creation.
        self.streams: dict[str, Stream] = {}
        self.tables: dict[str, Table] = {}
        self.queries = Queries()
        self.sinks: dict[str, DeclaredSink] = {}
        self.templates: dict[str, Template] = {}
        self.requests: dict[str, RequestStream] = {}
        self.constraints: dict[str, ConstraintSet] = {}
        self.punctuations: dict[str, DerivedPunctuation] = {}
        self.functions: dict[str, OwnFunction] = {}
        #: The queries that make named derived streams, by stream.
        self.makers: dict[str, tuple[BoundQuery, ...]] = {}
        #: Derived streams and tables of the statement that is being bound, by their names in small letters.
        self.local: dict[str, Stream | Table] = {}
        #: Per kind, the name in small letters to the name as spelled.
        self._spelling: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS.values()}
        #: The place in the catalog that the next stream gets; no place is used twice.
        self.next_position = 0
        #: Names of queries that are being bound, in small letters.
        self.unfinished: frozenset[str] = frozenset()

    def relation(self, name: str, position: Position | None = None) -> Stream | Table:
        """The stream or table of that name; a problem gets the position of the name in the text."""
        with located(position):
            return self._relation(name)

    def _relation(self, name: str) -> Stream | Table:
        if name.lower() in self.local:
            return self.local[name.lower()]
        for kind, found in (("stream", self.streams), ("table", self.tables)):
            spelled = self._spelling[kind].get(name.lower())
            if spelled is not None:
                return found[spelled]
        known = [*self.streams, *self.tables]
        if name.lower() in self.unfinished:
            raise BindingProblem(
                f"{name} is read before it is there",
                detail="a query reads what stands before it: one that reads its own results, also by way of others, has none",
                hint="read another stream, or put it after what it reads",
            )
        spelled = self._found("query", name)
        if spelled is not None and self.queries[spelled].is_changelog:
            hint = f"the table of an EMIT EVERY query is joined: s JOIN LATEST {name} ON …; what is final is a stream: CREATE STREAM …"
        elif spelled is not None:
            hint = f"results that other queries read are a stream: CREATE STREAM {name} AS …"
        else:
            hint = suggestion(name, known) or "CREATE STREAM or CREATE TABLE comes first"
        detail = f"streams and tables are {', '.join(known)}" if known else "there are no streams and no tables yet"
        raise BindingProblem(f"there is no stream or table {name}", detail=detail, hint=hint)

    def query(self, name: str) -> BoundQuery:
        return self.queries[self.spelled("query", name)]

    def stream(self, name: str) -> Stream:
        """The stream that a program names."""
        if not isinstance(name, str):
            raise BindingProblem(
                f"{name!r} is no name of a stream", hint="its name as in CREATE STREAM, such as 'bids'"
            )
        found = self.relation(name)
        if not isinstance(found, Stream):
            raise BindingProblem(f"{found.name} is a table", hint="rows come and go in streams; a table is read once")
        return found

    def query_or_none(self, name: str) -> BoundQuery | None:
        spelled = self._found("query", name)
        return None if spelled is None else self.queries[spelled]

    def template(self, name: str) -> Template:
        return self.templates[self.spelled("template", name)]

    def is_template(self, name: str) -> bool:
        return name.lower() in self._spelling["template"]

    def results_of(self, name: str) -> str:
        """The name, as spelled, of a query or of a stream of requests: both have results."""
        spelled = self._spelling["requests"].get(name.lower())
        if spelled is not None:
            return spelled
        if self.is_template(name):
            raise BindingProblem(
                f"template {name} has no results of its own",
                hint=f"REQUEST … FROM {name} asks it, and a stream of requests (CREATE REQUESTS … FOR {name}) has results",
            )
        return self.spelled("query", name)

    def function(self, name: str) -> OwnFunction | None:
        """The function of one's own of that name, if there is one."""
        spelled = self._spelling["function"].get(name.lower())
        return None if spelled is None else self.functions[spelled]

    def constraints_of(self, book: EventBook) -> tuple[ConstraintSet, ...]:
        """The constraints of a book; they add up."""
        return tuple(c for c in self.constraints.values() if c.book == book)

    def sinks_of(self, query: str) -> tuple[DeclaredSink, ...]:
        """The sinks that a query's results go to."""
        return tuple(s for s in self.sinks.values() if s.query is None or s.query == query)

    def add(self, entry: Entry) -> None:
        kind = kind_of(entry)
        self.check_free(kind, entry.name)
        self._spelling[kind][entry.name.lower()] = entry.name
        self._of_kind(kind)[entry.name] = entry
        if isinstance(entry, RequestStream):
            self.add(entry.stream)
        self._note(entry)
        if isinstance(entry, Stream):
            self.next_position = max(self.next_position, entry.position) + 1

    @contextmanager
    def with_names(self, local: dict[str, Stream | Table], unfinished: frozenset[str]) -> Iterator[None]:
        """Within, `local` and `unfinished` are these; afterwards they are what they were."""
        before = self.local, self.unfinished
        self.local, self.unfinished = local, unfinished
        try:
            yield
        finally:
            self.local, self.unfinished = before

    def defer_query(self, name: str, bind: Callable[[], BoundQuery], certain: bool) -> None:
        """Add a query that `bind` binds when something first reads it. If the catalog has a query of that name, nothing
        is added.

        Args:
            name: The name of the query.
            bind: Gives the query.
            certain: Whether `bind` succeeds for sure; if it is not and fails, the catalog has no such query.
        """
        if name.lower() in self._spelling["query"]:
            return

        def bound() -> BoundQuery:
            # The statement that is being bound may have names of its own, which this query cannot read.
            with self.with_names({}, frozenset()):
                return bind()

        self._spelling["query"][name.lower()] = name
        self.queries.defer(name, bound, certain)

    def forget_queries(self, names: Iterable[str]) -> None:
        """Remove queries and their sinks without binding what is deferred."""
        gone = {name for name in names if name in self.queries}
        for name in gone:
            del self._spelling["query"][name.lower()], self.queries[name]
        for sink in [sink.name for sink in self.sinks.values() if sink.query in gone]:
            self.drop("sink", sink)

    def check_free(self, kind: str, name: str) -> None:
        """Refuse a name that is taken, or that cannot name a folder of results."""
        if not re.fullmatch(r"[^\W_][\w-]*", name):
            hint = "names begin with a letter or digit and hold letters, digits, _ and -"
            raise BindingProblem(f"{name!r} cannot name {_a(kind)}", hint=hint)
        if len(name.encode()) > LONGEST_NAME:
            raise BindingProblem(
                f"the name of {_a(kind)} is too long",
                detail=f"{name[:40]}… has {len(name.encode())} bytes",
                hint=f"names have at most {LONGEST_NAME} bytes: they name folders and files",
            )
        for other in _TOGETHER.get(kind, (kind,)):
            if (spelled := self._found(other, name)) is not None:
                hint = f"choose another name, or DROP {other.upper()} {spelled} first"
                raise BindingProblem(f"there {_is(other)} already {_a(other)} {spelled}", hint=hint)

    def drop(self, kind: str, name: str) -> Entry:
        """Remove an entry, with the sinks of a query, and return it. A stream or table that a query reads is refused."""
        spelled = self.spelled(kind, name)
        if kind == "stream" and spelled in self.requests:
            raise BindingProblem(f"{spelled} is a stream of requests", hint=f"DROP REQUESTS {spelled}")
        readers = self._readers(kind, spelled)
        if readers:
            used, uses = ("called", "calls") if kind == "function" else ("read", "reads")
            hint = f"drop what {uses} it first"
            raise BindingProblem(f"{kind} {spelled} is {used} by {', '.join(readers)}", hint=hint)
        if kind in ("query", "requests"):
            for sink in [s.name for s in self.sinks.values() if s.query == spelled]:
                self.drop("sink", sink)
        del self._spelling[kind][spelled.lower()]
        entry: Entry = self._of_kind(kind).pop(spelled)
        if kind == "stream":
            self.makers.pop(spelled, None)
        if kind == "requests":
            self.drop("stream", spelled)
        self._note(entry)
        return entry

    def _note(self, entry: Entry) -> None:
        """After `entry` has come or gone: give its streams their constraints, the punctuations that CREATE PUNCTUATION
        declares for them, and those that it derives from their rows."""
        if isinstance(entry, ConstraintSet):
            stream = self.streams[entry.book.stream]
            found = tuple(c for c in self.constraints.values() if c.book.stream == stream.name)
            self.streams[stream.name] = replace(stream, constraints=found)
        for name in {entry.stream, entry.source} if isinstance(entry, DerivedPunctuation) else ():
            promised = tuple(d for d in self.punctuations.values() if d.stream == name)
            given = tuple(d for d in self.punctuations.values() if d.source == name)
            self.streams[name] = replace(self.streams[name], promised=promised, promising=given)

    def _readers(self, kind: str, name: str) -> list[str]:
        """What reads an entry, as messages name it: "query q", "template t", …"""
        found: list[str] = []
        if kind in ("stream", "table", "requests"):
            found += [f"query {q.name}" for q in self.queries.values() if name in sources_of(q)]
            found += [
                f"stream {made}" for made, makers in self.makers.items() if any(name in sources_of(q) for q in makers)
            ]
            found += [f"template {t.name}" for t in self.templates.values() if t.source == name]
        if kind == "stream":
            found += [f"constraints {c.name}" for c in self.constraints.values() if c.book.stream == name]
            found += [f"punctuation {d.name}" for d in self.punctuations.values() if name in (d.stream, d.source)]
        if kind == "function":
            key = self.functions[name].key
            found += [f"query {q.name}" for q in self.queries.values() if calls(q, key)]
            found += [f"stream {made}" for made, makers in self.makers.items() if calls(makers, key)]
            found += [f"template {t.name}" for t in self.templates.values() if calls(t, key)]
        if kind == "template":
            found += [f"stream of requests {r.name}" for r in self.requests.values() if r.template.name == name]
        return found

    def _found(self, kind: str, name: str) -> str | None:
        """The name as it is spelled, if there is such an entry."""
        spelled = self._spelling[kind].get(name.lower())
        if kind == "query" and spelled is not None and not self.queries.holds(spelled):
            del self._spelling[kind][name.lower()]
            return None
        return spelled

    def spelled(self, kind: str, name: str) -> str:
        """The name of an entry as it is spelled; a name that no entry of the kind has is refused."""
        spelled = self._found(kind, name)
        if spelled is None:
            known, what = list(self._of_kind(kind)), f"{_is(kind)} no {_named(kind)}"
            hint = suggestion(name, known) or (f"there are {', '.join(known)}" if known else f"there {what} yet")
            raise BindingProblem(f"there {what} {name}", hint=hint)
        return spelled

    def _of_kind(self, kind: str) -> dict[str, Any]:
        """The entries of a kind, which are in the attribute that has its plural for a name."""
        found: dict[str, Any] = getattr(self, {"query": "queries"}.get(kind, kind.removesuffix("s") + "s"))
        return found


def _is(kind: str) -> str:
    return "are" if kind == "constraints" else "is"


def _named(kind: str) -> str:
    return "stream of requests" if kind == "requests" else kind


def _a(kind: str) -> str:
    return kind if kind == "constraints" else f"a {_named(kind)}"


def kind_of(entry: Entry) -> str:
    return _KINDS[type(entry)]


_KINDS: dict[type, str] = {
    Stream: "stream",
    Table: "table",
    BoundQuery: "query",
    DeclaredSink: "sink",
    Template: "template",
    RequestStream: "requests",
    ConstraintSet: "constraints",
    DerivedPunctuation: "punctuation",
    OwnFunction: "function",
}


def sources_of(query: BoundQuery) -> set[str]:
    """The streams and tables that a query reads, those of its subqueries included."""
    parts = (query, *query.makers)
    return {r.source for part in parts for r in part.references} | {
        table.source for part in parts for table in part.unnested
    }


def suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.lower(), [k.lower() for k in known], 1)
    return f"did you mean {next(k for k in known if k.lower() == close[0])}?" if close else ""
