"""Tables that change in FROM: which version of them a combination uses.

Answer   `version_conditions` are the conditions that a query over such tables has beside its own: the newest row of a
         combination lies after the instant at which the version of the table's row began, and not after the one at
         which it ended.
Limits   The rows of such a table carry both instants in columns that no query can name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from eddyline.errors import Unsupported
from eddyline.language.binding.scope import ScopeEntry
from eddyline.language.catalog import Catalog
from eddyline.language.syntax import FromEntry, Select
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.expressions.expression import ColumnRef, Expression
from eddyline.model.expressions.functions import resolve
from eddyline.model.schema import SINCE, UNTIL, Stream, Table


def refuse_changing(select: Select, catalog: Catalog) -> None:
    """Refuses outer joins and EXISTS with tables that change: whether a row has a partner would depend on the instant of
    the test."""
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


def version_conditions(entries: tuple[ScopeEntry, ...]) -> tuple[Expression, ...]:
    """The conditions that choose versions; none where no table changes."""
    changing = [e.alias for e in entries if isinstance(e.relation, Table) and e.relation.refresh is not None]
    times = tuple(ColumnRef(e.alias, e.relation.time, TIMESTAMP) for e in entries if isinstance(e.relation, Stream))
    if not changing:
        return ()
    newest = resolve("greatest", times)
    return tuple(
        condition
        for alias in changing
        for condition in (
            resolve("<", (ColumnRef(alias, SINCE, TIMESTAMP), newest)),
            resolve("<=", (newest, ColumnRef(alias, UNTIL, TIMESTAMP))),
        )
    )
