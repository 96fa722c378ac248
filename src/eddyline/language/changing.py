"""Tables that change in FROM: which version of them a combination uses.

Answer   `version_conditions` are the conditions that a query over such tables has beside its own: the newest row of a combination lies
         after the instant at which the version of the table's row began, and not after the one at which it ended.
Limits   The rows of such a table carry both instants in columns that no query can name.
"""

from __future__ import annotations

from eddyline.language.scope import Entry
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.expression import ColumnRef, Expression
from eddyline.model.functions import resolve
from eddyline.model.schema import SINCE, UNTIL, Stream, Table


def version_conditions(entries: tuple[Entry, ...]) -> tuple[Expression, ...]:
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
