"""Equalities that follow from others, as terms of WHERE: a join can then use an index between any two references of
them, and a constant filters all of them.

Answer   Columns that WHERE makes equal form a class. Between any two references of a class there is an equality, and a
         constant that one column equals is a filter of every column of its class. Equality is transitive here for every
         type: NaN equals NaN, -0.0 equals 0.0, and where WHERE holds no column of a class is NULL.
Limits   Plain columns and literals of one and the same type. One equality between two references is enough: further
         columns of a reference are tied to its first by a filter. Written equalities are never removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations

from eddyline.model.datatypes import BOOLEAN
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal, Ref
from eddyline.model.query import BoundQuery
from eddyline.plan.rules.ranges import contradict
from eddyline.plan.rules.terms import with_nothing

Pair = tuple[ColumnRef, ColumnRef]


@dataclass
class EqualColumns:
    """One class: the columns in order, the equalities that are written, the constants that they equal."""

    columns: list[ColumnRef]
    pairs: list[Pair] = field(default_factory=list)
    constants: dict[ColumnRef, Literal] = field(default_factory=dict)


def spread_equalities(query: BoundQuery) -> BoundQuery:
    """The query with the equalities added that follow from those it has.

    >>> from eddyline.language import bind_script
    >>> job = bind_script('''
    ...     CREATE STREAM s (x BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    ...     CREATE QUERY q AS SELECT a.x FROM s a, s b, s c WHERE a.x = b.x AND b.x = c.x AND c.x = 5;
    ... ''')
    >>> [str(part) for part in spread_equalities(job.queries[0]).where[3:]]
    ['a.x = 5', 'b.x = 5', 'a.x = c.x']
    """
    added: list[Expression] = []
    possible = True
    for one in _classes(query):
        filters = _constants(one) if one.constants else _ties(one)
        added += [*filters, *_joins(one)]
        possible = possible and not contradict(_equals(one.columns[0], constant) for constant in one.constants.values())
    wider = replace(query, where=(*query.where, *added)) if added else query
    return wider if possible and not (added and contradict(wider.where)) else with_nothing(wider)


def _classes(query: BoundQuery) -> Iterable[EqualColumns]:
    """The classes of two columns and more. The references are in the order of `lower`: queries that list them in another
    order get the same equalities, and can share a join."""
    order = sorted(query.references, key=lambda reference: (reference.is_table, reference.source))
    places: dict[Ref, int] = {reference.alias: place for place, reference in enumerate(order)}
    classes: dict[ColumnRef, EqualColumns] = {}
    pairs = [pair for part in query.where if (pair := _as_pair(part)) is not None]
    for a, b in pairs:
        one, other = (classes.get(column) or EqualColumns([column]) for column in (a, b))
        if one is not other:
            one = EqualColumns(one.columns + other.columns, one.pairs + other.pairs)
        one.pairs.append((a, b))
        classes.update(dict.fromkeys(one.columns, one))
    for part in query.where:
        column, constant = _as_constant(part)
        if column in classes and constant is not None:
            classes[column].constants.setdefault(column, constant)
    for one in {id(c): c for c in classes.values()}.values():
        one.columns.sort(key=lambda c: (places[c.ref], c.column))
        yield one


def _equals(a: Expression, b: Expression) -> Expression:
    return Call("=", (a, b), BOOLEAN)


def _constants(one: EqualColumns) -> list[Expression]:
    """The equality with the constant, for each column that has none."""
    constant = next(one.constants[column] for column in one.columns if column in one.constants)
    return [_equals(column, constant) for column in one.columns if column not in one.constants]


def _ties(one: EqualColumns) -> list[Expression]:
    """Equalities between columns of one reference that are equal only because of columns of other references."""
    added: list[Expression] = []
    for ref in dict.fromkeys(column.ref for column in one.columns):
        mine = [column for column in one.columns if column.ref == ref]
        group = {column: number for number, column in enumerate(mine)}
        written = [pair for pair in one.pairs if pair[0].ref == pair[1].ref == ref]
        for a, b in [*written, *((mine[0], column) for column in mine[1:])]:
            if group[a] == group[b]:
                continue
            if (a, b) not in written:
                added.append(_equals(a, b))
            old, new = group[b], group[a]
            group = {column: new if number == old else number for column, number in group.items()}
    return added


def _joins(one: EqualColumns) -> list[Expression]:
    """An equality for each two references of the class that have none."""
    first = {column.ref: column for column in reversed(one.columns)}
    refs = list(dict.fromkeys(column.ref for column in one.columns))
    joined = {frozenset((a.ref, b.ref)) for a, b in one.pairs}
    return [_equals(first[a], first[b]) for a, b in combinations(refs, 2) if frozenset((a, b)) not in joined]


def _as_pair(part: Expression) -> Pair | None:
    """The two columns of a plain equality."""
    if isinstance(part, Call) and part.function == "=":
        a, b = part.args
        if isinstance(a, ColumnRef) and isinstance(b, ColumnRef) and a.type == b.type and a != b:
            return a, b
    return None


def _as_constant(part: Expression) -> tuple[ColumnRef | None, Literal | None]:
    """The column and the constant of `column = constant`, or of `constant = column`."""
    if isinstance(part, Call) and part.function == "=":
        a, b = part.args
        if isinstance(a, Literal):
            a, b = b, a
        if isinstance(a, ColumnRef) and isinstance(b, Literal) and a.type == b.type and b.value is not None:
            return a, b
    return None, None
