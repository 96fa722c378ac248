"""Tables in FROM that are read again: which version of a row a combination uses.

Answer   `version_conditions` are conditions that the binder adds to a query over such tables. By them the version of the
         table's row began before the time of the newest row of the combination, and had not ended by then.
Limits   The rows of such a table have both instants in columns that no query can name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from eddyline.errors import Unsupported
from eddyline.language.binding.scope import Scope
from eddyline.language.catalog import Catalog
from eddyline.language.syntax import FromEntry, Select
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.expressions.expression import ColumnRef, Expression
from eddyline.model.expressions.functions import resolve
from eddyline.model.schema import SINCE, UNTIL, Table


def refuse_changing(select: Select, catalog: Catalog) -> None:
    """Refuse outer joins and EXISTS with tables that are read again: whether a row has a partner would depend on the
    instant of the test."""
    for source in _sources((select.sources, select.exists)):
        found = catalog.tables.get(source.name)
        if found is not None and found.refresh is not None:
            raise Unsupported(
                f"an outer join or EXISTS with table {found.name}, which is read again, is not supported",
                hint="join it with JOIN, or declare it without refresh",
                position=source.position,
            )


def _sources(part: object) -> Iterator[FromEntry]:
    if isinstance(part, FromEntry):
        yield part
    elif isinstance(part, tuple):
        for one in part:
            yield from _sources(one)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _sources(getattr(part, field.name))


def version_conditions(scope: Scope) -> tuple[Expression, ...]:
    """The conditions that choose versions; none where no table changes."""
    changing = [e.alias for e in scope.entries if isinstance(e.relation, Table) and e.relation.refresh is not None]
    if not changing:
        return ()
    newest = resolve("greatest", tuple(scope.times))
    return tuple(
        condition
        for alias in changing
        for condition in (
            resolve("<", (ColumnRef(alias, SINCE, TIMESTAMP), newest)),
            resolve("<=", (newest, ColumnRef(alias, UNTIL, TIMESTAMP))),
        )
    )
