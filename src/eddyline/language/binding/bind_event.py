"""EVENT queries and CREATE CONSTRAINTS, checked.

Answer   `bind_event` turns an EVENT into a `BoundQuery` with an `EventPattern`: leaves typed, the expression as
         disjuncts, WHERE split at AND, outputs named. `bind_constraints` gives the `ConstraintSet` of a statement.
Limits   `plan/patterns/satisfy.py` tests whether the pattern can ever match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from eddyline.errors import BindingProblem, Position, Unsupported, located
from eddyline.language.binding.bind import check_outputs, default_name
from eddyline.language.binding.columns import column_of, no_option
from eddyline.language.binding.disjuncts import disjuncts_of
from eddyline.language.binding.expressions import Clause, bind_condition, bind_expression
from eddyline.language.binding.scope import Scope, ScopeEntry
from eddyline.language.catalog import Catalog
from eddyline.language.syntax import BookClause, CreateConstraints, Event, EventLeaf, Item, Name, Star
from eddyline.language.text.reader import NESTED
from eddyline.model.datatypes import FIRST_ABOVE, DataType
from eddyline.model.expressions.expression import ColumnRef, Expression, conjuncts, refs_of
from eddyline.model.expressions.own_function import OwnFunction
from eddyline.model.patterns.constraint import ConstraintSet, EventBook, EventType, Rule
from eddyline.model.patterns.pattern import MOST_LEAVES, TRACE, EventPattern, Leaf
from eddyline.model.query import BoundQuery, OutputColumn, Reference
from eddyline.model.schema import Stream
from eddyline.model.window import UNBOUNDED
from eddyline.settings import Settings


def bind_event(name: str, event: Event, settings: Settings, catalog: Catalog) -> BoundQuery:
    """The query of an EVENT under these settings; it is not yet in the catalog."""
    try:
        return _event(name, event, settings, catalog)
    except RecursionError as failure:
        raise BindingProblem(f"query {name} is nested too deeply", hint=NESTED, position=event.position) from failure


def _event(name: str, event: Event, settings: Settings, catalog: Catalog) -> BoundQuery:
    book, stream = _book(event.book, catalog)
    kind = _type_of(stream, book)
    parts, written = disjuncts_of(event.expression, event.within)
    if len(written) > MOST_LEAVES:
        raise Unsupported(
            f"a pattern has at most {MOST_LEAVES} events",
            detail=f"this one has {len(written)}",
            position=event.expression.position,
        )
    leaves = tuple(_leaf(leaf, negated, kind, book, stream, catalog) for leaf, negated in written)
    scope = _TraceScope(tuple(_entries(leaves, written, stream)), book, stream, catalog.function)
    where: tuple[Expression, ...] = ()
    if event.where is not None:
        where = conjuncts(bind_condition(event.where, Clause("WHERE", scope)))
        _check_negated(where, leaves, event.where.position)
    pattern = EventPattern(
        book,
        leaves,
        parts,
        where,
        event.within,
        event.first,
        _keys(book, stream),
        " ".join(event.expression_text.split()),
    )
    return BoundQuery(
        name=name,
        references=(Reference(stream.name, stream.name, UNBOUNDED, stream.is_derived),),
        where=(),
        outputs=_outputs(event, pattern, scope, stream),
        settings=settings,
        text=event.text,
        pattern=pattern,
    )


def bind_constraints(
    statement: CreateConstraints,
    catalog: Catalog,
    settings: Settings,
    workflows: Callable[[str, Mapping[str, str]], Sequence[Rule]] | None,
) -> ConstraintSet:
    """The constraints that a statement declares; they are not yet in the catalog."""
    catalog.check_free("constraints", statement.name)
    book, stream = _book(statement.book, catalog)
    if stream.is_derived:
        hint = "constraints speak of a stream that rows come from"
        raise BindingProblem(f"{stream.name} is a derived stream", hint=hint)
    rules = statement.rules
    if statement.workflow is not None:
        for option in statement.options:
            if option.name not in ("process", "types"):
                raise no_option("constraints have", option, ("process", "types"))
        if workflows is None:
            raise Unsupported("FROM WORKFLOW needs a session", hint="it reads a file")
        rules = tuple(workflows(statement.workflow, {o.name: str(o.value) for o in statement.options}))
    kind = _type_of(stream, book)
    for rule in rules:
        for value in rule.types:
            _check_type(value, kind, book)
    return ConstraintSet(statement.name, book, rules, settings, _keys(book, stream), statement.text)


def _keys(book: EventBook, stream: Stream) -> tuple[ColumnRef, ...]:
    return tuple(ColumnRef(stream.name, name, _found(stream, name)) for name in book.partition)


def _book(clause: BookClause, catalog: Catalog) -> tuple[EventBook, Stream]:
    with located(clause.position):
        relation = catalog.relation(clause.stream)
        if not isinstance(relation, Stream):
            raise BindingProblem(f"{relation.name} is a table", hint="events are rows of a stream")
        if not relation.ordered:
            raise BindingProblem(
                f"rows of equal time of {clause.stream} have no order",
                detail="a pattern asks which event came first; a derived stream has an order only where it selects rows of one stream",
                hint="give it one: CREATE STREAM … WITH (sequence = 'column') AS SELECT …",
            )
        names = (clause.type, *clause.partition)
        spelled = [column_of(relation.name, relation.schema, name).name for name in names]
        if len(set(spelled[1:])) < len(spelled[1:]):
            raise BindingProblem("PARTITION BY names a column twice")
    return EventBook(relation.name, spelled[0], tuple(spelled[1:])), relation


def _type_of(stream: Stream, book: EventBook) -> DataType:
    column = stream.schema.find(book.type)
    assert column is not None
    if column.type.name not in ("STRING", "INT", "BIGINT"):
        raise BindingProblem(
            f"column {column.name} is {column.type}", hint="TYPE takes a column of type STRING, INT or BIGINT"
        )
    return column.type


def _check_type(value: EventType, kind: DataType, book: EventBook) -> None:
    if isinstance(value, str) != (kind.name == "STRING"):
        hint = "write the type as a number" if isinstance(value, str) else "write the type as a word or a 'text'"
        raise BindingProblem(f"column {book.type} is {kind}, and {value!r} is not", hint=hint)
    if isinstance(value, int) and not -FIRST_ABOVE[kind.name] <= value < FIRST_ABOVE[kind.name]:
        raise BindingProblem(f"{value} does not fit into column {book.type}, which is {kind}")


def _leaf(leaf: EventLeaf, negated: bool, kind: DataType, book: EventBook, stream: Stream, catalog: Catalog) -> Leaf:
    with located(leaf.position):
        _check_type(leaf.type, kind, book)
        if leaf.name.startswith("_"):
            hint = "names that begin with _ are the engine's own"
            raise BindingProblem(f"alias {leaf.name} is reserved", hint=hint)
        condition = None
        if leaf.condition is not None:
            alone = Scope((_entry(leaf.name, stream),), catalog.function)
            condition = bind_condition(leaf.condition, Clause("a condition in [ ]", alone))
        return Leaf(leaf.name, leaf.type, condition, negated)


def _entry(name: str, stream: Stream) -> ScopeEntry:
    return ScopeEntry(Reference(name, stream.name, UNBOUNDED), stream)


def _entries(leaves: tuple[Leaf, ...], written: Sequence[tuple[EventLeaf, bool]], stream: Stream) -> list[ScopeEntry]:
    """One entry per name; a name is spelled in one way, and is negated everywhere or nowhere."""
    found: dict[str, Leaf] = {}
    for leaf, (node, _) in zip(leaves, written, strict=True):
        other = found.setdefault(leaf.name.lower(), leaf)
        with located(node.position):
            if other.name != leaf.name:
                raise BindingProblem(f"{other.name} and {leaf.name} differ only in their letters' case")
            if other.negated != leaf.negated:
                hint = "give one another alias"
                raise BindingProblem(f"{leaf.name} is an event in one place and a NOT in another", hint=hint)
    return [_entry(leaf.name, stream) for leaf in found.values()]


class _TraceScope(Scope):
    """The scope of a pattern. A column without an alias before it is one of PARTITION BY: all events of a trace share
    its value."""

    def __init__(
        self, entries: tuple[ScopeEntry, ...], book: EventBook, stream: Stream, own: Callable[[str], OwnFunction | None]
    ) -> None:
        super().__init__(entries, own)
        self._book, self._stream = book, stream

    def has(self, name: Name) -> bool:
        if name.table is not None:
            return super().has(name)
        return name.name.lower() in {column.lower() for column in self._book.partition}

    def column(self, name: Name) -> ColumnRef:
        if name.table is not None:
            return super().column(name)
        column = self._stream.schema.find(name.name)
        if column is not None and column.name in self._book.partition:
            return ColumnRef(TRACE, column.name, column.type)
        if column is not None and len(self.entries) == 1:
            return ColumnRef(self.entries[0].alias, column.name, column.type)
        if column is None:
            return super().column(name)
        raise BindingProblem(
            f"column {name.name} is ambiguous",
            detail=f"it could be of {', '.join(e.alias for e in self.entries)}",
            hint=f"say which: {self.entries[0].alias}.{column.name}; only columns of PARTITION BY stand alone",
            position=name.position,
        )


def _check_negated(where: tuple[Expression, ...], leaves: tuple[Leaf, ...], position: Position | None) -> None:
    negated = {leaf.name for leaf in leaves if leaf.negated}
    for part in where:
        if len(found := sorted(map(str, refs_of(part) & negated))) > 1:
            raise Unsupported(f"a condition names two NOTs: {' and '.join(found)}", detail=str(part), position=position)


def _outputs(event: Event, pattern: EventPattern, scope: Scope, stream: Stream) -> tuple[OutputColumn, ...]:
    visible = _TraceScope(tuple(e for e in scope.entries if e.alias in pattern.names), pattern.book, stream, scope.own)
    if event.items is None:
        shared = [ColumnRef(TRACE, name, _found(stream, name)) for name in pattern.book.partition]
        outputs = [OutputColumn(c.column, c) for c in shared]
        outputs += [OutputColumn(f"{c.ref}_{c.column}", c) for entry in visible.entries for c in entry.columns()]
        items: list[Item] = [Item(Star(), position=event.position)] * len(outputs)
    else:
        outputs, items = [], []
        negated = {leaf.name.lower(): leaf.name for leaf in pattern.leaves if leaf.negated}
        for item in event.items:
            if isinstance(item.value, Star):
                raise Unsupported(
                    "* in RETURN is not supported", hint="without RETURN all columns come", position=item.position
                )
            if isinstance(item.value, Name) and (item.value.table or "").lower() in negated:
                raise BindingProblem(
                    f"RETURN names {item.value.table}, which is a NOT", hint="it binds no event", position=item.position
                )
            expression = bind_expression(item.value, Clause("RETURN", visible))
            outputs.append(OutputColumn(item.alias or default_name(item, expression, len(outputs) + 1), expression))
            items.append(item)
    check_outputs(outputs, items)
    return tuple(outputs)


def _found(stream: Stream, name: str) -> DataType:
    column = stream.schema.find(name)
    assert column is not None
    return column.type
