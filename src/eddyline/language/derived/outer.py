"""Outer joins, and [NOT] EXISTS, as queries over queries.

Answer   `bind_outer` binds a SELECT that has them. Each is a maker that joins two operands and keeps the rows without a
         partner, or with one. Its results are a derived stream with the columns of both operands, and the SELECT reads
         that stream.

             SELECT … FROM a LEFT JOIN b ON c WHERE d

             ─►  maker: a, b, c, and the rows of a without b  ─►  q: SELECT … WHERE d

Limits   That a row has no partner is certain at the end of its window: the kept reference has one that ends by time or by
         rows. The results of an outer join have no window, so that only static tables can be joined with them.
         `outer_trees.py` joins three streams and more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eddyline.errors import BindingProblem, Position, Unsupported, located
from eddyline.language.binding.bind import bind_query, entries_of
from eddyline.language.binding.expressions import Clause, bind_condition
from eddyline.language.binding.scope import Scope, ScopeEntry
from eddyline.language.derived.outer_kinds import Joins, OuterBranch, closes
from eddyline.language.derived.outer_live import LiveJoins
from eddyline.language.derived.outer_trees import Tree
from eddyline.language.syntax import Exists, FromEntry, Name, Select
from eddyline.model.datatypes import BIGINT, BOOLEAN
from eddyline.model.expressions.arranged import IN_ORDER
from eddyline.model.expressions.expression import (
    Aggregate,
    Call,
    ColumnKey,
    ColumnRef,
    Expression,
    Literal,
    columns_of,
    conjuncts,
    refs_of,
    walk,
    with_columns,
)
from eddyline.model.expressions.monotone import trend_of
from eddyline.model.query import BoundQuery, Keeping, OutputColumn, Reference
from eddyline.model.schema import PART, Column, Stream
from eddyline.model.window import UNBOUNDED, Now, Range, Unbounded

if TYPE_CHECKING:
    from eddyline.language.derived.derive import Derivation

OUTER = ("LEFT", "RIGHT", "FULL")
_SUBQUERY = "put it into a subquery: FROM (SELECT … LEFT JOIN …) x GROUP BY TUMBLE(_ts, '10 seconds')"
_ORDERED = "count, or give the results an order: CREATE STREAM x WITH (sequence = 'column') AS SELECT … LEFT JOIN …"
_RANKED = "put it into a subquery: FROM (SELECT … LEFT JOIN …) x [RANGE 1 MINUTE] QUALIFY …"


def has_outer(select: Select) -> bool:
    return bool(select.exists) or any(source.join in OUTER for source in select.sources)


def bind_outer(derivation: Derivation, name: str, select: Select) -> BoundQuery:
    """The query over the streams that its outer joins and EXISTS make."""
    with located(select.position):
        return _bound(derivation, name, select)


def _bound(derivation: Derivation, name: str, select: Select) -> BoundQuery:
    flat = replace(select, sources=tuple(replace(s, join=",", on=None) for s in select.sources), exists=())
    bound = bind_query(name, flat, derivation.settings, derivation.catalog)
    scope = Scope(entries_of(flat, derivation.catalog), derivation.catalog.function)
    stages = _Stages(derivation, select, bound, scope)
    if bound.followed:
        message = "LAG, FIRST_VALUE and LAST_VALUE over an outer join or EXISTS are not supported"
        raise Unsupported(message, hint=_RANKED)
    if not bound.is_aggregate and bound.ranking is None:
        return stages.query()
    ordered = [a.function for e in stages.above for a in walk(e) if isinstance(a, Aggregate) and a.function in IN_ORDER]
    if ordered or (bound.ranking is not None and not bound.is_aggregate):
        message, hint = "QUALIFY and LIMIT over rows of an outer join or EXISTS are not supported", _RANKED
        if ordered:
            message, hint = f"{ordered[0].upper()} over an outer join or EXISTS is not supported", _ORDERED
        raise Unsupported(message, detail="rows of equal time have no order among them", hint=hint)
    return stages.closed() if bound.emit.kind == "close" or bound.group_window is not None else stages.live()


@dataclass
class _Operand:
    """What has been joined so far: references of FROM, or one derived stream in which columns have other names."""

    references: tuple[Reference, ...]
    where: tuple[Expression, ...] = ()
    names: Mapping[ColumnKey, ColumnRef] = field(default_factory=dict)
    is_made: bool = False

    def over(self, e: Expression) -> Expression:
        """An expression of the query in the names of the operand."""
        return with_columns(e, lambda column: self.names.get((column.ref, column.column), column))


class _Stages:
    """The joins and tests of one SELECT, worked off one after the other."""

    def __init__(self, derivation: Derivation, select: Select, bound: BoundQuery, scope: Scope) -> None:
        self.derivation = derivation
        self.select = select
        self.bound = bound
        self.scope = scope
        self.where = list(bound.where)
        #: Whether each result has to be certain by time, for groups that end with a bucket of time.
        self.by_time = False
        self.conditions = [self._on(place, source) for place, source in enumerate(select.sources)]
        self.tests = [(one, *self._inner(one)) for one in select.exists]
        read = [*self.above, *bound.where, *(c for on in self.conditions for c in on)]
        read += [c for _, _, conditions in self.tests for c in conditions]
        #: The columns that the query reads anywhere.
        self.read = frozenset[ColumnKey]().union(*(columns_of(e) for e in read))

    @property
    def above(self) -> list[Expression]:
        """The expressions above the joins."""
        bound = self.bound
        found = [*(o.expression for o in bound.outputs), *bound.group_by]
        if bound.ranking is not None:
            found += [*bound.ranking.partition, *(o.expression for o in bound.ranking.order)]
        return found if bound.having is None else [*found, bound.having]

    def live(self) -> BoundQuery:
        """An aggregate of the outer join of the rows that are live."""
        entries = self.scope.entries
        if entries[0].reference.is_table:
            message = "an aggregate of an outer join whose FROM begins with a table is not supported"
            raise Unsupported(message, hint="begin FROM with a stream")
        joins = self._joins(range(1, len(entries)))
        every = [*entries, *(entry for _, entry, _ in self.tests)]
        times = {e.alias: e.relation.time for e in every if isinstance(e.relation, Stream)}
        made = LiveJoins(self.derivation, self.select.text, joins, self._read_columns(entries), times)
        made.always = tuple(c for c in self.where if refs_of(c) and refs_of(c) <= joins.always)
        self.where = [c for c in self.where if c not in made.always]
        stream, living = made.made(bool(self.bound.group_by))
        operand = self._operand(stream, made.columns)
        counted = Call(">=", (ColumnRef(operand.references[0].alias, PART, BIGINT), Literal(0, BIGINT)), BOOLEAN)
        return replace(self._over(operand), where=(counted, *(operand.over(c) for c in self.where)), living=living)

    def closed(self) -> BoundQuery:
        """An aggregate that counts what the joins give, and closes by a bucket of a reference that every result has."""
        joins = [source.join for source in self.select.sources]
        every = [*self.scope.entries, *(entry for _, entry, _ in self.tests)]
        moving = [entry for entry in every if isinstance(entry.relation, Stream)]
        spans = [e.reference.window.micros for e in moving if isinstance(e.reference.window, Range)]
        # With three streams and more, a result may become certain only when the window of a further row has ended.
        more = max(spans, default=0) if len(moving) > 2 else 0
        delays = []
        for place, entry in enumerate(self.scope.entries):
            window = entry.reference.window
            later = joins[place + 1 :]
            is_kept = joins[place] not in ("LEFT", "FULL") and "RIGHT" not in later and "FULL" not in later
            if is_kept and isinstance(entry.relation, Stream) and (isinstance(window, Range | Now) or len(moving) == 1):
                span = window.micros if isinstance(window, Range) and len(moving) > 1 else 0
                delays.append((entry.alias, entry.relation.time, span + more))
        buckets = [t.column for key in self.bound.group_by if (t := trend_of(key)) is not None]
        if not any((c.ref, c.column) == (alias, time) for c in buckets for alias, time, _ in delays):
            raise Unsupported(
                "the groups of this outer join are never complete",
                detail="the time bucket is one of a stream that has a row in every result, and a window by time",
                hint=_SUBQUERY,
            )
        self.by_time = True
        return replace(self.query(), delays=tuple((f"{alias}.{time}", span) for alias, time, span in delays))

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
        return replace(self._over(operand), where=(*operand.where, *(operand.over(c) for c in self.where)))

    def _over(self, operand: _Operand) -> BoundQuery:
        """The query over what its joins give, without WHERE."""
        bound = self.bound
        return replace(
            bound,
            references=operand.references,
            outputs=tuple(OutputColumn(o.name, operand.over(o.expression)) for o in bound.outputs),
            group_by=tuple(operand.over(e) for e in bound.group_by),
            having=None if bound.having is None else operand.over(bound.having),
            ranking=None if bound.ranking is None else bound.ranking.mapped(operand.over),
        )

    def _joins(self, places: Iterable[int]) -> Joins:
        """The joins of the sources at some places, and the tests of WHERE."""
        entries, sources = self.scope.entries, self.select.sources
        branches = [
            OuterBranch(entries[p].reference, sources[p].join, self.conditions[p], sources[p].position) for p in places
        ]
        tests = [
            OuterBranch(entry.reference, "NOT EXISTS" if test.negated else "EXISTS", conditions, test.position)
            for test, entry, conditions in self.tests
        ]
        return Joins(entries[0].reference, branches, tests)

    def _read_columns(self, entries: Iterable[ScopeEntry]) -> list[ColumnRef]:
        """The columns that the query reads of these entries, in the order of FROM; at least one."""
        mine = list(entries)
        columns = [ColumnRef(e.alias, c.name, c.type) for e in mine for c in e.relation.schema.columns]
        return [c for c in columns if (c.ref, c.column) in self.read] or [mine[0].columns()[0]]

    def _tree(self, places: list[int]) -> _Operand:
        """Three streams and more, or tests beside streams."""
        entries = self.scope.entries
        tables = {e.alias for e in entries if e.reference.is_table}
        late = [p for p in places if any(refs_of(c) & tables for c in self.conditions[p])]
        if late:
            raise Unsupported(
                f"ON of stream {entries[late[0]].alias} reads a table",
                hint="join the table after the streams",
                position=self.select.sources[late[0]].position,
            )
        columns = self._read_columns(entry for entry in entries if not entry.reference.is_table)
        tree = Tree(self.derivation, self.select.text, self._joins(places), columns, self.by_time)
        tree.always = tuple(c for c in self.where if refs_of(c) and refs_of(c) <= tree.joins.always)
        self.where = [c for c in self.where if c not in tree.always]
        return self._operand(tree.made(), columns)

    def _operand(self, stream: Stream, columns: Iterable[ColumnRef]) -> _Operand:
        """A derived stream as the operand that has these columns of the query."""
        alias = self._free_alias()
        names = {(c.ref, c.column): ColumnRef(alias, f"{c.ref}.{c.column}", c.type) for c in columns}
        return _Operand((Reference(alias, stream.name, UNBOUNDED, True),), (), names, is_made=True)

    def _free_alias(self) -> str:
        alias = "joined"
        while any(e.alias.lower() == alias for e in self.scope.entries):
            alias += "_"
        return alias

    # -- conditions

    def _on(self, place: int, source: FromEntry) -> tuple[Expression, ...]:
        """The conditions of ON, which may name the sources before it and the one that it joins."""
        if source.on is None:
            return ()
        scope = Scope(self.scope.entries[: place + 1], self.derivation.catalog.function)
        return conjuncts(bind_condition(source.on, Clause("ON", scope)))

    def _inner(self, test: Exists) -> tuple[ScopeEntry, tuple[Expression, ...]]:
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
        """The rows of the one stream of FROM for which EXISTS holds; tables are joined with them later."""
        first = operand.references[0]
        if first.is_table:
            raise Unsupported(
                "EXISTS in a FROM that begins with a table is not supported",
                detail="it tests the rows of a stream",
                hint="begin FROM with the stream",
                position=self.select.exists[0].position,
            )
        for test, entry, conditions in self.tests:
            if operand.is_made and not entry.reference.is_table:
                raise _made_meets_stream("a second EXISTS", test.position)
            strange = {str(ref) for c in conditions for ref in refs_of(c)} - {first.alias, entry.alias}
            if strange:
                raise Unsupported(
                    f"EXISTS reads {', '.join(sorted(strange))}",
                    detail=f"it tests the rows of {first.alias}",
                    position=test.position,
                )
            if test.negated:
                self._check_certain(operand.references[0], entry, conditions, test.position)
            operand = self._kept(operand, entry, conditions, "anti" if test.negated else "semi", ("left",))
        return operand

    def _joined(self, operand: _Operand, place: int) -> _Operand:
        """The operand after it has been joined with the source at a place."""
        source, reference, on = self.select.sources[place], self.scope.entries[place].reference, self.conditions[place]
        if operand.is_made and not reference.is_table:
            raise _made_meets_stream(
                f"a join with stream {reference.alias} after an outer join or EXISTS", source.position
            )
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
            mine, partner = (left, self.scope.entries[place]) if side == "left" else (reference, self.scope.entries[0])
            self._check_certain(mine, partner, on, source.position)
        return self._kept(operand, self.scope.entries[place], on, "outer", sides)

    def _check_certain(
        self, mine: Reference, entry: ScopeEntry, on: Iterable[Expression], position: Position | None
    ) -> None:
        alias, partner = mine.alias, entry.reference
        if mine.is_table:
            raise Unsupported(
                f"a row of table {alias} without a partner is never certain",
                detail=f"a row of {partner.alias} to come can still be its partner",
                hint="keep the rows of the stream: stream LEFT JOIN table",
                position=position,
            )
        if (
            not partner.is_table
            and isinstance(mine.window, Unbounded)
            and not closes(alias, partner, entry.relation, on)
        ):
            raise Unsupported(
                f"a row of {alias} without a partner is never certain",
                detail=f"{alias} is [{mine.window}], and no punctuation of {partner.alias} closes what ON holds equal: "
                f"a row of {partner.alias} to come can still be its partner",
                hint=f"give {alias} a window that ends: [RANGE 10 MINUTES], [ROWS 100] or [NOW]; or declare punctuations of "
                f"{entry.relation.name}",
                position=position,
            )

    def _kept(
        self, operand: _Operand, entry: ScopeEntry, on: tuple[Expression, ...], kind: str, sides: tuple[str, ...]
    ) -> _Operand:
        """A maker that joins an operand with a reference and keeps rows."""
        left, reference = operand.references[0], entry.reference
        kept = tuple(left.alias if side == "left" else reference.alias for side in sides)
        conditions: tuple[Expression, ...] = ()
        if len(kept) == 1 and not operand.is_made:
            # Conditions that read only the kept rows are tested before the join.
            conditions = tuple(c for c in self.where if refs_of(c) == {kept[0]})
            self.where = [c for c in self.where if c not in conditions]
        where = (*(operand.over(c) for c in on), *conditions)
        wanted = self._columns(operand, None if kind != "outer" else reference)
        mine = next((e for e in self.scope.entries if e.reference is left), None)
        closed = [left.alias] if closes(left.alias, reference, entry.relation, on) else []
        closed += [reference.alias] if mine is not None and closes(reference.alias, left, mine.relation, on) else []
        keeping = Keeping(kind, kept, conditions, tuple(alias for alias in kept if alias in closed))
        return self._stage((left, reference), (*operand.where, *where), wanted, keeping)

    def _made(self, operand: _Operand) -> _Operand:
        """A maker that joins the references of an operand."""
        return self._stage(operand.references, operand.where, self._columns(operand, None), None)

    def _columns(self, operand: _Operand, reference: Reference | None) -> dict[ColumnKey, Expression]:
        """The columns that the query reads of what has been joined, as the operand has them; at least one."""
        here = {r.alias for r in operand.references} | ({reference.alias} if reference is not None else set())
        columns = [ColumnRef(e.alias, c.name, c.type) for e in self.scope.entries for c in e.relation.schema.columns]
        read = [c for c in columns if (c.ref, c.column) in self.read]
        mine = [c for c in read if (c.ref, c.column) in operand.names or c.ref in here]
        return {(c.ref, c.column): operand.over(c) for c in mine or columns[:1]}

    def _stage(
        self,
        references: tuple[Reference, ...],
        where: tuple[Expression, ...],
        columns: Mapping[ColumnKey, Expression],
        keeping: Keeping | None,
    ) -> _Operand:
        outputs = [OutputColumn(f"{alias}.{column}", e) for (alias, column), e in columns.items()]
        stream = self.derivation.unordered_stream([Column(o.name, o.type) for o in outputs])
        self.derivation.add_maker(stream.name, references, where, outputs, stream, self.select.text, keeping)
        return self._operand(stream, [ColumnRef(*key, e.type) for key, e in columns.items()])


class _Nested(Scope):
    """The scope of EXISTS: a name stands for a column of its own source before one of the query around it."""

    def __init__(self, inner: tuple[ScopeEntry, ...], around: Scope) -> None:
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
