"""Outer joins, and [NOT] EXISTS, as queries over queries.

Answer   `bind_outer` binds a SELECT that has them. Each is a maker that joins two operands and keeps rows without a partner (or asks
         whether there is one); what it gives is a derived stream with the columns of both operands, and the SELECT reads that stream.

             SELECT … FROM a LEFT JOIN b ON c WHERE d   ─►   maker: a, b, c, and the rows of a without b   ─►   q: SELECT … WHERE d

Limits   A row without a partner is certain at the end of its own window: the kept reference has one that ends by time or by rows. What has
         been joined already meets static tables only: no window says when its rows leave. Three streams and more: `outer_trees.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from eddyline.errors import BindingProblem, Position, Unsupported
from eddyline.language.bind import bind_query, entries_of
from eddyline.language.catalog import Catalog
from eddyline.language.expressions import Clause, bind_condition
from eddyline.language.outer_kinds import Branch, Joins
from eddyline.language.outer_trees import Tree
from eddyline.language.scope import Entry, Scope
from eddyline.language.syntax import Exists, Name, Select, Source
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.expression import Aggregate, Call, ColumnKey, ColumnRef, Expression, columns_of, conjuncts, refs_of
from eddyline.model.query import BoundQuery, Keeping, Output, Reference
from eddyline.model.schema import DERIVED_TIME, Column, Schema, Stream
from eddyline.model.window import UNBOUNDED, PartitionedRows, Unbounded
from eddyline.settings import Settings

OUTER = ("LEFT", "RIGHT", "FULL")
_SUBQUERY = "put it into a subquery: FROM (SELECT … LEFT JOIN …) x GROUP BY TUMBLE(_ts, '10 seconds')"

_RANKED = "put it into a subquery: FROM (SELECT … LEFT JOIN …) x [RANGE 1 MINUTE] QUALIFY …"


class Derivation(Protocol):
    """What is derived on the way, for one statement."""

    settings: Settings
    catalog: Catalog
    makers: list[BoundQuery]

    def next_name(self) -> str:
        """A name that no user can give."""

    def plain_source(self, source: Source) -> Source:
        """The source with the name of its stream in the place of a subquery."""


def has_outer(select: Select) -> bool:
    return bool(select.exists) or any(source.join in OUTER for source in select.sources)


def bind_outer(derivation: Derivation, name: str, select: Select) -> BoundQuery:
    """The query that reads what its joins make."""
    flat = replace(select, sources=tuple(replace(s, join=",", on=None) for s in select.sources), exists=())
    bound = bind_query(name, flat, derivation.settings, derivation.catalog)
    if bound.is_aggregate:
        raise Unsupported(
            "an aggregate over an outer join or EXISTS is not supported",
            detail="what is live at a moment is not known of rows that still wait for a partner",
            hint=_SUBQUERY,
            position=select.position,
        )
    if bound.ranking is not None or bound.followed:
        raise Unsupported("QUALIFY, LIMIT and LAG over an outer join or EXISTS are not supported", hint=_RANKED, position=select.position)
    return _Stages(derivation, name, select, bound, Scope(entries_of(flat, derivation.catalog), derivation.catalog.function)).query()


@dataclass
class _Operand:
    """What has been joined so far: plain references, or one derived stream in which columns have other names."""

    references: tuple[Reference, ...]
    where: tuple[Expression, ...] = ()
    names: Mapping[ColumnKey, ColumnRef] = field(default_factory=dict)
    is_made: bool = False

    def over(self, e: Expression) -> Expression:
        """An expression of the query in the names of the operand."""
        if isinstance(e, ColumnRef):
            return self.names.get((e.ref, e.column), e)
        if isinstance(e, Call):
            return replace(e, args=tuple(self.over(a) for a in e.args))
        if isinstance(e, Aggregate) and e.arg is not None:
            return replace(e, arg=self.over(e.arg))
        return e


class _Stages:
    def __init__(self, derivation: Derivation, name: str, select: Select, bound: BoundQuery, scope: Scope) -> None:
        self.derivation = derivation
        self.name = name
        self.select = select
        self.bound = bound
        self.scope = scope
        self.where = list(bound.where)
        self.conditions = [self._on(place, source) for place, source in enumerate(select.sources)]
        self.tests = [(one, *self._inner(one)) for one in select.exists]
        read = [*(o.expression for o in bound.outputs), *bound.where, *(c for on in self.conditions for c in on)]
        read += [c for _, _, conditions in self.tests for c in conditions]
        #: The columns that the query reads of anything.
        self.read = frozenset[ColumnKey]().union(*(columns_of(e) for e in read))

    def query(self) -> BoundQuery:
        entries = self.scope.entries
        operand = _Operand((entries[0].reference,))
        moving = sum(not entry.reference.is_table for entry in entries)
        several = len([entry for _, entry, _ in self.tests if not entry.reference.is_table]) > 1
        outer = any(source.join in OUTER for source in self.select.sources)
        if self.tests and (entries[0].reference.is_table or (moving == 1 and not several and not outer)):
            operand = self._tested(operand)
        order = list(range(1, len(entries)))
        if not entries[0].reference.is_table and not operand.is_made:
            streams = [place for place in order if not entries[place].reference.is_table]
            tables = {entries[place].alias for place in order if entries[place].reference.is_table}
            if not any(refs_of(c) & tables for place in streams for c in self.conditions[place]):
                # Tables have no time: they are joined last.
                order = streams + [place for place in order if place not in streams]
            if len(streams) > 1 or (self.tests and not operand.is_made):
                operand, order = self._tree(streams), [place for place in order if place not in streams]
        for place in order:
            operand = self._joined(operand, place)
        return replace(
            self.bound,
            references=operand.references,
            where=(*operand.where, *(operand.over(c) for c in self.where)),
            outputs=tuple(Output(o.name, operand.over(o.expression)) for o in self.bound.outputs),
        )

    def _tree(self, places: list[int]) -> _Operand:
        """Three streams and more, or tests beside streams."""
        entries = self.scope.entries
        late = [p for p in places if any(refs_of(c) & {e.alias for e in entries if e.reference.is_table} for c in self.conditions[p])]
        if late:
            raise Unsupported(
                f"ON of stream {entries[late[0]].alias} reads a table",
                hint="join the table after the streams",
                position=self.select.sources[late[0]].position,
            )
        branches = [
            Branch(entries[p].reference, self.select.sources[p].join, self.conditions[p], self.select.sources[p].position) for p in places
        ]
        mine = [entry for entry in entries if not entry.reference.is_table]
        columns = [ColumnRef(e.alias, c.name, c.type) for e in mine for c in e.relation.schema.columns if (e.alias, c.name) in self.read]
        columns = columns or [mine[0].columns()[0]]
        tests = [
            Branch(entry.reference, "NOT EXISTS" if test.negated else "EXISTS", conditions, test.position)
            for test, entry, conditions in self.tests
        ]
        tree = Tree(self.derivation, self.select.text, Joins(entries[0].reference, branches, tests), columns)
        tree.always = tuple(c for c in self.where if refs_of(c) and refs_of(c) <= tree.joins.always)
        self.where = [c for c in self.where if c not in tree.always]
        stream = tree.made()
        alias = self._free_alias()
        names = {(c.ref, c.column): ColumnRef(alias, f"{c.ref}.{c.column}", c.type) for c in columns}
        return _Operand((Reference(alias, stream.name, UNBOUNDED, True),), (), names, is_made=True)

    def _free_alias(self) -> str:
        alias = "joined"
        while any(e.alias.lower() == alias for e in self.scope.entries):
            alias += "_"
        return alias

    # -- conditions

    def _on(self, place: int, source: Source) -> tuple[Expression, ...]:
        """ON sees what stands before it and what it joins."""
        if source.on is None:
            return ()
        return conjuncts(bind_condition(source.on, Clause("ON", Scope(self.scope.entries[: place + 1], self.derivation.catalog.function))))

    def _inner(self, test: Exists) -> tuple[Entry, tuple[Expression, ...]]:
        """The one source of EXISTS, and its conditions."""
        select = test.select
        more = (select.group_by, select.having, select.distinct, select.emit, select.exists, select.named)
        if len(select.sources) > 1 or any(more):
            raise Unsupported(
                "EXISTS takes one stream or table, and conditions",
                hint="WHERE EXISTS (SELECT 1 FROM b [RANGE 1 MINUTE] WHERE b.x = a.x); joins and groups go into FROM (SELECT …) b",
                position=select.position,
            )
        source = self.derivation.plain_source(select.sources[0])
        (entry,) = entries_of(replace(select, sources=(source,)), self.derivation.catalog, alone=False)
        if any(entry.alias.lower() == e.alias.lower() for e in self.scope.entries):
            raise BindingProblem(
                f"{entry.alias} stands in FROM and in EXISTS",
                hint=f"give it an alias of its own there: {source.name or entry.alias} AS {entry.alias}2",
                position=source.position,
            )
        if select.where is None:
            return entry, ()
        scope = _Nested((entry,), self.scope)
        return entry, conjuncts(bind_condition(select.where, Clause("WHERE", scope)))

    # -- stages

    def _tested(self, operand: _Operand) -> _Operand:
        """EXISTS is asked of the rows of the one stream of FROM, before tables are joined."""
        first = operand.references[0]
        if first.is_table:
            raise Unsupported(
                "EXISTS in a FROM that begins with a table is not supported",
                detail="it asks about the rows of a stream",
                hint="begin FROM with the stream",
                position=self.select.exists[0].position,
            )
        for test, entry, conditions in self.tests:
            if operand.is_made and not entry.reference.is_table:
                raise _made_meets_stream("a second EXISTS", test.position)
            strange = {str(ref) for c in conditions for ref in refs_of(c)} - {first.alias, entry.alias}
            if strange:
                raise Unsupported(
                    f"EXISTS reads {', '.join(sorted(strange))}", detail=f"it asks about rows of {first.alias}", position=test.position
                )
            if test.negated:
                self._check_certain(operand.references[0], entry.reference, first.alias, test.position)
            operand = self._kept(operand, entry.reference, conditions, "anti" if test.negated else "semi", ("left",))
        return operand

    def _joined(self, operand: _Operand, place: int) -> _Operand:
        source, reference, on = self.select.sources[place], self.scope.entries[place].reference, self.conditions[place]
        if operand.is_made and not reference.is_table:
            raise _made_meets_stream(f"a join with stream {reference.alias} after an outer join or EXISTS", source.position)
        if source.join not in OUTER:
            conditions = (*operand.where, *(operand.over(c) for c in on))
            return replace(operand, references=(*operand.references, reference), where=conditions)
        if len(operand.references) > 1:
            if not reference.is_table:
                raise Unsupported(
                    f"{source.join} JOIN of stream {reference.alias} with several streams or tables is not supported",
                    detail="a row without a partner is a row of one stream",
                    hint="write the outer join first, with one stream on each side",
                    position=source.position,
                )
            operand = self._made(operand)
        sides = {"LEFT": ("left",), "RIGHT": ("right",), "FULL": ("left", "right")}[source.join]
        left = operand.references[0]
        for side in sides:
            mine, partner = (left, reference) if side == "left" else (reference, left)
            self._check_certain(mine, partner, mine.alias, source.position)
        return self._kept(operand, reference, on, "outer", sides)

    def _check_certain(self, mine: Reference, partner: Reference, alias: str, position: Position | None) -> None:
        if mine.is_table:
            raise Unsupported(
                f"a row of table {alias} without a partner is never certain",
                detail=f"a row of {partner.alias} to come can still be its partner",
                hint="keep the rows of the stream: stream LEFT JOIN table",
                position=position,
            )
        if not partner.is_table and isinstance(mine.window, Unbounded | PartitionedRows):
            raise Unsupported(
                f"a row of {alias} without a partner is never certain",
                detail=f"{alias} is [{mine.window}]: a row of {partner.alias} to come can still be its partner",
                hint=f"give {alias} a window that ends: [RANGE 10 MINUTES], [ROWS 100] or [NOW]",
                position=position,
            )

    def _kept(self, operand: _Operand, reference: Reference, on: Iterable[Expression], kind: str, sides: tuple[str, ...]) -> _Operand:
        """A maker that joins an operand with a reference and keeps rows."""
        left = operand.references[0]
        kept = tuple(left.alias if side == "left" else reference.alias for side in sides)
        conditions: tuple[Expression, ...] = ()
        if len(kept) == 1 and not operand.is_made:
            # Conditions on the kept rows alone are asked before the join.
            conditions = tuple(c for c in self.where if refs_of(c) == {kept[0]})
            self.where = [c for c in self.where if c not in conditions]
        where = (*(operand.over(c) for c in on), *conditions)
        wanted = self._columns(operand, None if kind != "outer" else reference)
        return self._stage((left, reference), (*operand.where, *where), wanted, Keeping(kind, kept, conditions))

    def _made(self, operand: _Operand) -> _Operand:
        """A maker that joins the references of an operand."""
        return self._stage(operand.references, operand.where, self._columns(operand, None), None)

    def _columns(self, operand: _Operand, reference: Reference | None) -> dict[ColumnKey, Expression]:
        """The columns that are read of what has been joined, as the operand has them."""
        found: dict[ColumnKey, Expression] = {}
        here = {r.alias for r in operand.references} | ({reference.alias} if reference is not None else set())
        for entry in self.scope.entries:
            for column in entry.relation.schema.columns:
                key = (entry.alias, column.name)
                if key in self.read and (key in operand.names or (entry.alias in here)):
                    found[key] = operand.over(ColumnRef(entry.alias, column.name, column.type))
        if not found:
            # A stream has a column.
            column = self.scope.entries[0].relation.schema.columns[0]
            key = (self.scope.entries[0].alias, column.name)
            found[key] = operand.over(ColumnRef(*key, column.type))
        return found

    def _stage(
        self,
        references: tuple[Reference, ...],
        where: tuple[Expression, ...],
        columns: Mapping[ColumnKey, Expression],
        keeping: Keeping | None,
    ) -> _Operand:
        derivation = self.derivation
        name = derivation.next_name()
        outputs = tuple(Output(f"{alias}.{column}", e) for (alias, column), e in columns.items())
        stream = Stream(
            name=name,
            schema=Schema((*(Column(o.name, o.type) for o in outputs), Column(DERIVED_TIME, TIMESTAMP))),
            time=DERIVED_TIME,
            position=derivation.catalog.next_position,
            makers=(name,),
            ordered=False,
        )
        derivation.catalog.next_position += 1
        settings = derivation.settings
        maker = BoundQuery(name, references, where, outputs, settings=settings, text=self.select.text, feeds=stream, keeping=keeping)
        derivation.makers.append(maker)
        alias = self._free_alias()
        names = {key: ColumnRef(alias, o.name, o.type) for key, o in zip(columns, outputs, strict=True)}
        return _Operand((Reference(alias, name, UNBOUNDED, True),), (), names, is_made=True)


class _Nested(Scope):
    """The scope of EXISTS: a name means a column of its own source before one of the query around it."""

    def __init__(self, inner: tuple[Entry, ...], around: Scope) -> None:
        super().__init__((*inner, *around.entries), around.own)
        self.inner = Scope(inner)

    def column(self, name: Name) -> ColumnRef:
        return self.inner.column(name) if name.table is None and self.inner.has(name) else super().column(name)


def _made_meets_stream(what: str, position: Position | None) -> Unsupported:
    return Unsupported(
        f"{what} is not supported",
        detail="which windows its rows have is not known where rows without a partner are among them",
        hint="give what has been joined a window of its own: FROM (SELECT … LEFT JOIN …) x [RANGE 1 MINUTE], c [RANGE 1 MINUTE]",
        position=position,
    )


__all__ = ["bind_outer", "has_outer"]
