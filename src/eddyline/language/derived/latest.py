"""`s JOIN LATEST q ON …`: each row of a stream with the table that an EMIT EVERY query has at its time.

Answer   `latest_sources` turns the sources of a SELECT into plain ones. The changes of q are a derived stream, older
         than every row of equal time; its last change per group is q's table, and s is met only as the newest row:

             FROM s JOIN LATEST q ON c

             ─►  FROM s [NOW] JOIN changes [PARTITION BY groups ROWS 1] q ON c AND the change is no removal

Limits   One stream, static tables, and any number of such queries. q reads the rows after the start of this query. A
         pipeline that registers q at the same start computes it once (`runtime/engine/units/copies.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from eddyline.errors import BindingProblem, Unsupported, located
from eddyline.language.parse import parse_body
from eddyline.language.syntax import Apply, Constant, FromEntry, Name, Node, Select
from eddyline.model.datatypes import STRING, TIMESTAMP
from eddyline.model.query import BoundQuery
from eddyline.model.schema import CHANGE, DERIVED_TIME, Column, Schema, Stream
from eddyline.model.window import NOW, Now, PartitionedRows, Rows, Window

if TYPE_CHECKING:
    from eddyline.language.derived.derive import Derivation

LATEST = {"LATEST": "INNER", "LEFT LATEST": "LEFT"}
_HINT = "SELECT … FROM s JOIN LATEST q ON s.x = q.x, where q ends with EMIT EVERY 10 SECONDS"


def latest_sources(derivation: Derivation, select: Select) -> tuple[FromEntry, ...]:
    """The sources of a SELECT, with streams of changes in the place of queries."""
    sources: list[FromEntry] = []
    for source in select.sources:
        if source.join in LATEST:
            with located(source.position):
                source = _changes(derivation, source)
        sources.append(source)
    if any(source.join in LATEST for source in select.sources):
        sources = _only_newest(derivation, sources, select.sources)
    return tuple(sources)


def _changes(derivation: Derivation, source: FromEntry) -> FromEntry:
    """The changes of a query as a source, in the window in which they are its table."""
    if source.window is not None:
        raise BindingProblem(f"the query of JOIN LATEST takes no window, found [{source.window}]", hint=_HINT)
    body = source.query
    if body is None:
        found = derivation.catalog.query_or_none(source.name)
        if found is None:
            names = [n for n, q in derivation.catalog.queries.items() if q.is_aggregate and q.emit.kind == "every"]
            detail = f"queries with EMIT EVERY are {', '.join(names)}" if names else "there is no query with EMIT EVERY"
            raise BindingProblem(f"there is no query {source.name}", detail=detail, hint=_HINT)
        body = parse_body(found.text)
    name, alias = derivation.next_name(), source.alias or source.name
    query = derivation.query(name, body)
    if not query.is_aggregate or query.emit.kind != "every" or query.ranking is not None:
        detail, hint = (
            "its results are rows of a stream",
            "write [PARTITION BY column ROWS 1] after a stream to have its last rows",
        )
        if query.is_aggregate:
            detail, hint = "only its table is known at every instant, whatever the epochs", _HINT
        message = f"JOIN LATEST takes an aggregate with EMIT EVERY, and {alias} is none"
        raise Unsupported(message, detail=detail, hint=hint)
    columns = [Column(o.name, o.type) for o in query.outputs]
    stream = Stream(
        name=name,
        schema=Schema((*columns, Column(CHANGE, STRING), Column(DERIVED_TIME, TIMESTAMP))),
        time=DERIVED_TIME,
        # Before all other streams: a change is older than the rows of its instant.
        position=-derivation.catalog.next_position - 1,
        makers=(name,),
    )
    derivation.catalog.next_position += 1
    derivation.makers.append(replace(query, feeds=stream))
    derivation.know(stream)
    join, on = LATEST[source.join], source.on
    if on is not None:
        is_current = _equals(Name(CHANGE, alias, position=source.position), "+")
        on = Apply("and", (on, is_current), position=source.position)
    return replace(source, name=name, alias=alias, query=None, join=join, window=_table_of(query), on=on)


def _equals(column: Name, value: str) -> Node:
    return Apply("=", (column, Constant("string", value, position=column.position)), position=column.position)


def _table_of(query: BoundQuery) -> Window:
    """The window in which the changes of a query are its table: the last change of each group."""
    keys = {o.name: o.expression for o in reversed(query.outputs) if query.distinct or o.expression in query.group_by}
    columns = tuple(o.name for o in query.outputs if keys.get(o.name) == o.expression)
    return PartitionedRows(columns, 1) if columns else Rows(1)


def _only_newest(derivation: Derivation, sources: Sequence[FromEntry], written: Sequence[FromEntry]) -> list[FromEntry]:
    """The sources with NOW on the one stream."""
    streams = [s for s, w in zip(sources, written, strict=True) if w.join not in LATEST and _is_stream(derivation, s)]
    if len(streams) != 1 or written[0].join in LATEST:
        raise Unsupported(
            f"JOIN LATEST beside {len(streams)} streams is not supported",
            detail="each row of one stream meets the table of its time",
            hint="join the streams in a subquery: FROM (SELECT …) s JOIN LATEST q ON …",
            position=written[-1].position,
        )
    (stream,) = streams
    if stream.window is not None and not isinstance(stream.window, Now):
        raise BindingProblem(
            f"{stream.alias or stream.name} [{stream.window}] stands beside JOIN LATEST",
            detail="each of its rows is met once, at its own time",
            hint="leave the window out, or write [NOW]",
            position=stream.position,
        )
    return [replace(s, window=NOW) if s is stream else s for s in sources]


def _is_stream(derivation: Derivation, source: FromEntry) -> bool:
    return source.query is not None or isinstance(derivation.catalog.relation(source.name, source.position), Stream)
