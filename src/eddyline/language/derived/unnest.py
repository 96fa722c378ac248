"""UNNEST in FROM: one row per element of an ARRAY column.

Answer   `read_unnest` reads `UNNEST(o.items) AS i`. `Unnesting` turns a query that has it into one over a derived
         stream. A maker passes on the rows of the stream with the array as one more column. The derived stream has one
         row per element, and names of the element become names of that column.

             FROM orders [RANGE 1 HOUR] o, UNNEST(o.items) i  ─►  FROM (SELECT *, items AS i FROM orders) [RANGE 1 HOUR] o
             i.sku                                            ─►  o.i.sku

         The arrays of a static table are taken apart once, when the query begins: it reads a table of its own with one
         row per element.
Limits   The array belongs to a stream or table that stands before it in FROM. Elements have no order among rows of
         equal time. A table that is read again is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from eddyline.errors import BindingProblem, EddylineError, Position, Unsupported
from eddyline.language.binding.expressions import Clause, bind_expression
from eddyline.language.binding.scope import Scope, ScopeEntry
from eddyline.language.catalog import Catalog
from eddyline.language.syntax import Apply, Constant, FromEntry, Item, Name, Node, Select, Star
from eddyline.language.text.reader import StatementReader
from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Expression
from eddyline.model.query import Reference
from eddyline.model.schema import DERIVED_TIME, Column, Schema, Stream, Table
from eddyline.model.window import UNBOUNDED

_FORM = "FROM orders o, UNNEST(o.items) AS i"


def read_unnest(reader: StatementReader, join: str, start: Position) -> FromEntry:
    if join not in (",", "CROSS", "INNER"):
        raise Unsupported(
            f"{join} JOIN UNNEST is not supported", hint="rows without elements have no result", position=start
        )
    reader.take("UNNEST")
    reader.expect("(", hint=_FORM)
    array = reader.expression()
    reader.expect(")")
    if reader.at("WITH"):
        raise Unsupported("WITH ORDINALITY is not supported", hint=_FORM, position=reader.position)
    reader.take("AS")
    alias = reader.name("a name for the elements")
    column = None
    if reader.take("("):
        column = reader.name("a name for the element")
        if reader.at(","):
            raise Unsupported("UNNEST gives one column", hint="its fields are i.a, i.b", position=reader.position)
        reader.expect(")")
    on = None
    if join == "INNER":
        reader.expect("ON", hint=f"{_FORM}; without a condition it is CROSS JOIN or a comma")
        on = reader.expression()
    return FromEntry(alias, column, None, join, on, unnest=array, position=start)


@dataclass
class Unnesting:
    """One SELECT whose FROM has UNNEST."""

    catalog: Catalog
    #: Makes the derived stream of a subquery, which FROM may name from then on.
    derive: Callable[[Select, Callable[[Stream], Stream]], Stream]
    #: Makes a table with one row per element, which FROM may name from then on.
    add_table: Callable[[Table, Expression, Column], Table]

    def without(self, select: Select) -> Select:
        """The same query over derived streams, without UNNEST."""
        while True:
            place = next((at for at, source in enumerate(select.sources) if source.unnest is not None), None)
            if place is None:
                return select
            select = self._next(select, place)

    def _next(self, select: Select, place: int) -> Select:
        source = select.sources[place]
        owner, array = self._owner(select.sources[:place], source)
        read = select.sources[owner]
        alias, element = read.alias or read.name, source.alias or source.name
        relation = self.catalog.relation(read.name)
        made: Stream | Table
        if isinstance(relation, Table):
            made = self.add_table(relation, array, Column(element, array.type.element))
        else:
            body = Select(
                (Item(Star()), Item(source.unnest or Name(""), element)),
                (replace(read, alias=alias, window=None, on=None, join=","),),
            )
            made = self.derive(body, lambda stream: _exploded(stream, relation, element, array.type.element))
        sources = [
            replace(read, name=made.name, alias=alias) if at == owner else s
            for at, s in enumerate(select.sources)
            if at != place
        ]
        where = select.where
        if source.on is not None:
            where = source.on if where is None else Apply("and", (source.on, where), position=source.on.position)
        renamed = _Renaming(source.name, source.alias, alias)
        found: Select = renamed.inside(replace(select, sources=tuple(sources), where=where))
        return found

    def _owner(self, before: tuple[FromEntry, ...], source: FromEntry) -> tuple[int, Expression]:
        """Which source has the array, and the array."""
        assert source.unnest is not None
        problem: EddylineError | None = None
        for at, read in enumerate(before):
            relation = self.catalog.relation(read.name, read.position)
            alias = read.alias or read.name
            scope = Scope((ScopeEntry(Reference(alias, relation.name, UNBOUNDED), relation),), self.catalog.function)
            try:
                found = bind_expression(source.unnest, Clause("UNNEST", scope))
            except EddylineError as caught:
                problem = problem or caught
                continue
            if found.type.name != "ARRAY":
                raise BindingProblem(
                    f"UNNEST takes an ARRAY, not {found.type}",
                    hint="an ARRAY column is declared as BIGINT[]",
                    position=source.position,
                )
            if isinstance(relation, Table) and relation.refresh is not None:
                raise Unsupported(
                    f"UNNEST over {relation.name}, which is read again, is not supported",
                    detail="its arrays are taken apart once, when the query begins",
                    hint="leave refresh out, or write one line per element into its file",
                    position=source.position,
                )
            if relation.schema.find(source.alias or source.name) is not None:
                raise BindingProblem(
                    f"{alias} has a column {source.alias or source.name}",
                    hint="give the elements another name",
                    position=source.position,
                )
            return at, found
        raise problem or BindingProblem(
            "UNNEST needs a stream or table before it", hint=_FORM, position=source.position
        )


def _exploded(made: Stream, read: Any, element: str, kind: DataType) -> Stream:
    """The derived stream of a maker, with one row per element and the event time of what the maker reads."""
    columns = [Column(c.name, kind if c.name == element else c.type) for c in made.schema.columns]
    if read.time != DERIVED_TIME:
        columns = [c for c in columns if c.name != DERIVED_TIME]
    return replace(made, schema=Schema(tuple(columns)), time=read.time, unnests=element, ordered=False)


@dataclass(frozen=True)
class _Renaming:
    """From names of the elements to names of a column of the stream."""

    alias: str
    column: str | None
    stream: str

    def inside(self, part: Any) -> Any:
        if isinstance(part, Name):
            return self._name(part)
        if isinstance(part, tuple):
            return tuple(self.inside(one) for one in part)
        if is_dataclass(part) and not isinstance(part, type):
            changed = {
                field.name: self.inside(getattr(part, field.name))
                for field in fields(part)
                # Subqueries have names of their own.
                if field.name not in ("query", "named", "position", "type", "emit")
            }
            return replace(part, **changed)
        return part

    def _name(self, name: Name) -> Node:
        element = Name(self.column or self.alias, self.stream, position=name.position)
        if name.table is None:
            return element if name.name.lower() == (self.column or self.alias).lower() else name
        if (
            name.table.lower() == self.alias.lower()
            and self.column is not None
            and name.name.lower() == self.column.lower()
        ):
            return element
        if name.table.lower() == (self.column or self.alias).lower() and name.table.lower() != self.stream.lower():
            return Apply(
                "struct_extract",
                (element, Constant("string", name.name, position=name.position)),
                position=name.position,
            )
        return name
