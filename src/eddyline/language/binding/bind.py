"""SELECT: names and types resolved.

Answer   `bind_query` turns a SELECT into a `BoundQuery` against a catalog. Output names are the AS name, else the
         column's name, else the function's name, else `column_<n>`; `*` gives column names, and over several references
         `<alias>_<column>`.
Limits   The runtime that opens a source tests whether it has the repeatable order that ROWS needs. A problem without a
         position of its own gets that of the SELECT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eddyline.errors import BindingProblem, Position, located
from eddyline.language.binding.declare import bind_sink, bind_stream, bind_table
from eddyline.language.binding.expressions import Clause, bind_condition, bind_expression, holds_aggregate
from eddyline.language.binding.group_windows import add_keys, bind_window, check_plain_window, take_window
from eddyline.language.binding.grouping import check_close, check_groups
from eddyline.language.binding.partitions import check_windows, partition_of
from eddyline.language.binding.ranking import Overs, check_ranking
from eddyline.language.binding.scope import Scope, ScopeEntry
from eddyline.language.catalog import Catalog
from eddyline.language.derived.changing import version_conditions
from eddyline.language.syntax import Apply, Constant, FromEntry, Item, Name, Node, Over, Select, Star, WithOption
from eddyline.language.text.reader import NESTED
from eddyline.model.datatypes import INTERVAL, NULL, DataType
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal, conjuncts
from eddyline.model.query import BoundQuery, Emit, OutputColumn, Reference
from eddyline.model.schema import Stream, Table
from eddyline.model.window import UNBOUNDED, PartitionedRows, Rows
from eddyline.settings import Settings

__all__ = ["bind_query", "bind_settings", "bind_sink", "bind_stream", "bind_table", "entries_of"]


def bind_query(name: str, select: Select, settings: Settings, catalog: Catalog) -> BoundQuery:
    """The query of a SELECT under these settings; it is not yet in the catalog."""
    with located(select.position):
        try:
            return _query(name, select, settings, catalog)
        except RecursionError as failure:
            raise BindingProblem(f"an expression of query {name} is nested too deeply", hint=NESTED) from failure


def _query(name: str, select: Select, settings: Settings, catalog: Catalog) -> BoundQuery:
    # Rows of a window in FROM without GROUP BY are ranked, not grouped.
    plain = not select.group_by
    select, written = take_window(select)
    scope = Scope(entries_of(select, catalog), catalog.function)
    keys = None if written is None else bind_window(written, scope)
    first = {} if keys is None else keys.names
    where = _where(select, scope) + version_conditions(scope)
    overs = Overs(scope)
    outputs, items = _outputs(select, scope, first, overs)
    names = {o.name.lower(): o.expression for o in outputs}
    group_places = _group_by(select, scope, outputs, names)
    having = None
    if select.having is not None:
        having = bind_condition(select.having, Clause("HAVING", scope, aggregates=True, outputs=names, first=first))
    group_by, window = tuple(group_places), None
    if keys is not None and plain:
        check_plain_window(keys)
    elif keys is not None:
        used = [o.expression for o in outputs] + ([] if having is None else [having])
        window, group_by = add_keys(keys, group_by, used)
        group_places |= {key: keys.position for key in group_by if key not in group_places}
    query = BoundQuery(
        name=name,
        references=tuple(e.reference for e in scope.entries),
        where=where,
        outputs=outputs,
        group_by=group_by,
        having=having,
        distinct=select.distinct,
        emit=select.emit or Emit("change" if keys is None else "close"),
        settings=settings,
        text=select.text,
        group_window=window,
    )
    query = overs.finished(query, select, items, first)
    if select.emit is not None and not query.is_aggregate and query.ranking is None:
        hint = "other results are delivered as they are found"
        raise BindingProblem("EMIT needs an aggregate, GROUP BY or DISTINCT", hint=hint, position=select.emit_position)
    if replace(query, distinct=False).is_aggregate:
        check_groups(query, select, items, group_places)
        # Groups differ in their grouping columns, all of which are selected: DISTINCT changes nothing.
        query = replace(query, distinct=False)
    if query.is_aggregate and (query.emit.kind == "close" or query.group_window is not None):
        with located(select.emit_position):
            query = replace(query, by_promises=check_close(query, scope))
    check_windows(query, select)
    check_ranking(query, scope, select)
    return query


def bind_settings(options: tuple[WithOption, ...], settings: Settings) -> Settings:
    """The settings with the options of a query's WITH."""
    for option in options:
        with located(option.position):
            settings = settings.with_option(option.name, option.value)
    return settings


def entries_of(select: Select, catalog: Catalog, alone: bool = True) -> tuple[ScopeEntry, ...]:
    """The entries of FROM; at least one is a stream, except in EXISTS (`alone` is false)."""
    entries: list[ScopeEntry] = []
    for source in select.sources:
        with located(source.position):
            entry = _entry(source, catalog.relation(source.name))
            if any(e.alias.lower() == entry.alias.lower() for e in entries):
                hint = f"give each its own alias: {source.name} AS {entry.alias}2"
                raise BindingProblem(f"{entry.alias} stands twice in FROM", hint=hint)
        entries.append(entry)
    if alone and all(e.reference.is_table for e in entries):
        raise BindingProblem(
            "a query needs at least one stream",
            detail="FROM has only static tables, which bring no rows in time",
            position=select.sources[0].position,
        )
    return tuple(entries)


def _entry(source: FromEntry, relation: Stream | Table) -> ScopeEntry:
    derived = isinstance(relation, Stream) and relation.is_derived
    alias = source.alias or (source.name if derived else relation.name)
    if alias.startswith("_"):
        raise BindingProblem(f"alias {alias} is reserved", hint="names that begin with _ are the engine's own")
    if isinstance(relation, Table):
        if source.window is not None:
            raise BindingProblem(
                f"{relation.name} is a table and takes no window",
                detail=f"[{source.window}] stands after it",
                hint="windows belong to streams; remove it",
            )
        return ScopeEntry(Reference(alias, relation.name, None), relation)
    window = source.window
    if isinstance(window, PartitionedRows):
        window = partition_of(window, relation)
    if isinstance(window, Rows | PartitionedRows) and not relation.ordered:
        raise BindingProblem(
            f"[{window}] over {alias} has no order to count in",
            detail="rows of equal time of a derived stream have an order only where it selects rows of one stream",
            hint="write [RANGE …]; or give it an order: CREATE STREAM … WITH (sequence = 'column') AS SELECT …",
        )
    return ScopeEntry(Reference(alias, relation.name, window or UNBOUNDED, derived), relation)


def _where(select: Select, scope: Scope) -> tuple[Expression, ...]:
    parts: list[Expression] = []
    for place, source in enumerate(select.sources):
        if source.on is not None:
            # An ON condition may name the sources before it and the one that it joins.
            so_far = Scope(scope.entries[: place + 1], scope.own)
            parts += conjuncts(bind_condition(source.on, Clause("ON", so_far)))
    if select.where is not None:
        parts += conjuncts(bind_condition(select.where, Clause("WHERE", scope)))
    return tuple(parts)


def _outputs(
    select: Select, scope: Scope, names: dict[str, Expression], overs: Overs
) -> tuple[tuple[OutputColumn, ...], tuple[Item, ...]]:
    """The outputs, and for each the item of SELECT that it comes from."""
    outputs: list[OutputColumn] = []
    items: list[Item] = []
    for item in select.items:
        if isinstance(item.value, Star):
            with located(item.position):
                found = _star(item.value, scope)
        else:
            clause = Clause("SELECT", scope, aggregates=True, first=names, over=overs.bound)
            expression = bind_expression(item.value, clause)
            found = [OutputColumn(item.alias or default_name(item, expression, len(outputs) + 1), expression)]
        outputs += found
        items += [item] * len(found)
    check_outputs(outputs, items)
    if select.distinct:
        for output, item in zip(outputs, items, strict=True):
            with located(item.position):
                refuse_nested("DISTINCT", output.type)
    return tuple(outputs), tuple(items)


def check_outputs(outputs: Sequence[OutputColumn], items: Sequence[Item]) -> None:
    """Refuse outputs that cannot be columns; each comes from the item at its place."""
    seen: set[str] = set()
    for output, item in zip(outputs, items, strict=True):
        with located(item.position):
            _check_output(output, seen)
        seen.add(output.name.lower())


def _star(star: Star, scope: Scope) -> list[OutputColumn]:
    entries = scope.entries if star.table is None else (scope.entry(star.table),)
    alone = len(scope.entries) == 1
    return [OutputColumn(c.column if alone else f"{c.ref}_{c.column}", c) for e in entries for c in e.columns()]


def default_name(item: Item, expression: Expression, number: int) -> str:
    if isinstance(expression, ColumnRef):
        return expression.column
    if isinstance(item.value, Over):
        return item.value.function
    match expression:
        case Call("struct_extract", (_, Literal(field))):
            return str(field)
    if isinstance(item.value, Name):
        return item.value.name.lower()
    if isinstance(item.value, Apply) and item.value.function.isidentifier() and item.value.function not in _NOT_NAMES:
        return item.value.function
    return f"column_{number}"


#: Operators whose canonical names are words; they are no names of outputs.
_NOT_NAMES = frozenset(
    ("and", "or", "not", "neg", "in", "like", "ilike", "is_null", "is_not_null", "is_not_distinct", "case")
)


def _check_output(output: OutputColumn, seen: set[str]) -> None:
    name = output.name
    if name.startswith("_"):
        hint = "names that begin with _ are the engine's own (_ts, _op, _reason)"
        raise BindingProblem(f"output name {name} is reserved", hint=hint)
    if name.lower() in seen:
        raise BindingProblem(f"two outputs are named {name}", hint=f"give one another name: … AS {name}_2")
    if output.type == INTERVAL:
        hint = "epoch(…) gives its seconds as DOUBLE"
        raise BindingProblem(f"output {name} is an INTERVAL, which no column can hold", hint=hint)
    if output.type == NULL:
        raise BindingProblem(f"output {name} is NULL without a type", hint="say which: CAST(NULL AS INT)")


def _group_by(
    select: Select, scope: Scope, outputs: tuple[OutputColumn, ...], names: dict[str, Expression]
) -> dict[Expression, Position | None]:
    """The grouping expressions in order, each with its place in the text."""
    found: dict[Expression, Position | None] = {}
    for node in select.group_by:
        with located(node.position):
            expression = _grouping(node, scope, outputs, names)
            refuse_nested("GROUP BY", expression.type)
        found.setdefault(expression, node.position)
    return found


def _grouping(node: Node, scope: Scope, outputs: tuple[OutputColumn, ...], names: dict[str, Expression]) -> Expression:
    if holds_aggregate(node):
        raise BindingProblem("aggregates are not allowed in GROUP BY", hint="group by columns and expressions")
    if not isinstance(node, Constant) or node.kind != "integer":
        return bind_expression(node, Clause("GROUP BY", scope, outputs=names))
    number = node.value
    assert isinstance(number, int)
    if not 1 <= number <= len(outputs):
        detail = f"outputs are {', '.join(o.name for o in outputs)}"
        raise BindingProblem(f"GROUP BY {number} names no output", detail=detail, hint="outputs count from 1")
    return outputs[number - 1].expression


def refuse_nested(what: str, kind: DataType) -> None:
    """Refuse STRUCT and ARRAY where values are compared."""
    if kind.is_nested:
        hint = "take a field or an element of it: a.b, a[1]"
        raise BindingProblem(f"{what} does not take {kind}", detail="nested values are not compared", hint=hint)
