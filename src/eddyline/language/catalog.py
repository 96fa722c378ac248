"""What has been created: streams, tables, queries, sinks.

Answer   `Catalog` finds things by name, refuses a second one of the same name, and lets go of what is dropped. As in SQL the
         case of letters does not matter; the spelling of the CREATE is kept.
State    Four dictionaries from the name as spelled to the thing. Streams and tables share their names, since both stand in
         FROM; queries and sinks have names of their own.
Limits   It remembers and checks names; it binds nothing and runs nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from eddyline.errors import BindingProblem, Position
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table

#: In bytes. File systems take 255; names of files add a little to those of streams and queries.
LONGEST_NAME = 200


@dataclass(frozen=True)
class Sink:
    """Where results go; `query` is None for all queries."""

    name: str
    query: str | None
    #: format, path …, as text.
    options: Mapping[str, str] = field(default_factory=dict)


Entry = Stream | Table | BoundQuery | Sink


class Catalog:
    #: In the order of creation.
    streams: dict[str, Stream]
    tables: dict[str, Table]
    queries: dict[str, BoundQuery]
    sinks: dict[str, Sink]

    def __init__(self) -> None:
        self.streams, self.tables, self.queries, self.sinks = {}, {}, {}, {}
        #: Per kind, the name in small letters to the name as spelled.
        self._spelling: dict[str, dict[str, str]] = {"stream": {}, "table": {}, "query": {}, "sink": {}}
        #: The place in the catalog that the next stream gets; places are not given twice.
        self.next_position = 0

    def relation(self, name: str, position: Position | None = None) -> Stream | Table:
        """The stream or table of that name."""
        for kind, found in (("stream", self.streams), ("table", self.tables)):
            spelled = self._spelling[kind].get(name.lower())
            if spelled is not None:
                return found[spelled]
        known = [*self.streams, *self.tables]
        if name.lower() in self._spelling["query"]:
            hint = "a query's results cannot be read by another query; FROM takes streams and tables"
        else:
            hint = _suggestion(name, known) or "CREATE STREAM or CREATE TABLE comes first"
        detail = f"streams and tables are {', '.join(known)}" if known else "there are no streams and no tables yet"
        raise BindingProblem(f"there is no stream or table {name}", detail=detail, hint=hint, position=position)

    def query(self, name: str, position: Position | None = None) -> BoundQuery:
        return self.queries[self._spelled("query", name, position)]

    def sinks_of(self, query: str) -> tuple[Sink, ...]:
        """The sinks that a query's results go to."""
        return tuple(s for s in self.sinks.values() if s.query is None or s.query == query)

    def add(self, entry: Entry, position: Position | None = None) -> None:
        kind = kind_of(entry)
        self.check_free(kind, entry.name, position)
        self._spelling[kind][entry.name.lower()] = entry.name
        self._shelf(kind)[entry.name] = entry
        if isinstance(entry, Stream):
            self.next_position = max(self.next_position, entry.position) + 1

    def check_free(self, kind: str, name: str, position: Position | None = None) -> None:
        """Refuses a name that is taken, or that cannot name a folder of results."""
        if not re.fullmatch(r"[^\W_][\w-]*", name):
            raise BindingProblem(
                f"{name!r} cannot name a {kind}",
                hint="names begin with a letter or digit and hold letters, digits, _ and -",
                position=position,
            )
        if len(name.encode()) > LONGEST_NAME:
            raise BindingProblem(
                f"the name of a {kind} is too long",
                detail=f"{name[:40]}… has {len(name.encode())} bytes",
                hint=f"names have at most {LONGEST_NAME} bytes: they name folders and files",
                position=position,
            )
        for other in ("stream", "table") if kind in ("stream", "table") else (kind,):
            spelled = self._spelling[other].get(name.lower())
            if spelled is not None:
                raise BindingProblem(
                    f"there is already a {other} {spelled}",
                    hint=f"choose another name, or DROP {other.upper()} {spelled} first",
                    position=position,
                )

    def drop(self, kind: str, name: str, position: Position | None = None) -> Entry:
        """Lets go of an entry and returns it. A query's own sinks go with it; a stream or table that a query reads stays."""
        spelled = self._spelled(kind, name, position)
        if kind in ("stream", "table"):
            readers = [q.name for q in self.queries.values() if any(r.source == spelled for r in q.references)]
            if readers:
                raise BindingProblem(
                    f"{kind} {spelled} is read by {'query' if len(readers) == 1 else 'queries'} {', '.join(readers)}",
                    hint="drop what reads it first",
                    position=position,
                )
        if kind == "query":
            for sink in [s.name for s in self.sinks.values() if s.query == spelled]:
                self.drop("sink", sink)
        del self._spelling[kind][spelled.lower()]
        return self._shelf(kind).pop(spelled)

    def _spelled(self, kind: str, name: str, position: Position | None) -> str:
        spelled = self._spelling[kind].get(name.lower())
        if spelled is None:
            known = list(self._shelf(kind))
            hint = _suggestion(name, known) or (f"there are {', '.join(known)}" if known else f"there is no {kind} yet")
            raise BindingProblem(f"there is no {kind} {name}", hint=hint, position=position)
        return spelled

    def _shelf(self, kind: str) -> dict[str, Entry]:
        return {"stream": self.streams, "table": self.tables, "query": self.queries, "sink": self.sinks}[kind]  # type: ignore[return-value]


def kind_of(entry: Entry) -> str:
    return {Stream: "stream", Table: "table", BoundQuery: "query", Sink: "sink"}[type(entry)]


def _suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.lower(), [k.lower() for k in known], 1)
    return f"did you mean {next(k for k in known if k.lower() == close[0])}?" if close else ""
