"""The columns that names in one SELECT stand for.

Answer   `Scope` holds the references of one FROM. It finds the column that a name stands for, or refuses a name that
         stands for none or for several.
Limits   Columns only; `expressions.py` binds expressions.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from eddyline.errors import BindingProblem, located
from eddyline.language.syntax import Name
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.expressions.expression import ColumnRef, Expression
from eddyline.model.expressions.monotone import trend_of
from eddyline.model.expressions.own_function import OwnFunction
from eddyline.model.query import Reference
from eddyline.model.schema import CHANGE, DERIVED_TIME, RESULT_TIME, Column, Stream, Table


@dataclass(frozen=True)
class ScopeEntry:
    """One reference with the stream or table that it refers to."""

    reference: Reference
    relation: Stream | Table

    @property
    def alias(self) -> str:
        return self.reference.alias

    def columns(self) -> tuple[ColumnRef, ...]:
        """The columns that `*` gives: the event time of results is not among them."""
        return tuple(
            ColumnRef(self.alias, c.name, c.type)
            for c in self.relation.schema.columns
            if c.name not in (DERIVED_TIME, RESULT_TIME, CHANGE)
        )

    def find(self, name: str) -> Column | None:
        """The column of that name; `_ts` is the event time of a derived stream."""
        derived = isinstance(self.relation, Stream) and self.relation.is_derived
        return self.relation.schema.find(DERIVED_TIME if derived and name.lower() == "_ts" else name)

    def is_event_time(self, column: ColumnRef) -> bool:
        return isinstance(self.relation, Stream) and column.ref == self.alias and column.column == self.relation.time


class Scope:
    def __init__(
        self, entries: tuple[ScopeEntry, ...], own: Callable[[str], OwnFunction | None] = lambda name: None
    ) -> None:
        self.entries = entries
        #: The function of one's own of a name.
        self.own = own

    @property
    def times(self) -> list[ColumnRef]:
        """The event times of the streams, in the order of FROM."""
        streams = [(e.alias, e.relation) for e in self.entries if isinstance(e.relation, Stream)]
        return [ColumnRef(alias, stream.time, TIMESTAMP) for alias, stream in streams]

    def entry(self, alias: str) -> ScopeEntry:
        found = next((e for e in self.entries if e.alias.lower() == alias.lower()), None)
        if found is None:
            aliases = [e.alias for e in self.entries]
            named = next((e for e in self.entries if e.relation.name.lower() == alias.lower()), None)
            hint = f"{named.relation.name} goes by its alias {named.alias} here" if named else ""
            raise BindingProblem(f"there is no {alias} in FROM", detail=f"FROM has {', '.join(aliases)}", hint=hint)
        return found

    def has(self, name: Name) -> bool:
        """Whether some reference has a column of that name."""
        return any(
            e.find(name.name) for e in self.entries if name.table is None or e.alias.lower() == name.table.lower()
        )

    def column(self, name: Name) -> ColumnRef:
        """The one column that a name stands for."""
        with located(name.position):
            entries = self.entries if name.table is None else (self.entry(name.table),)
            found = [(e, c) for e in entries if (c := e.find(name.name))]
            if not found:
                where = "there is" if name.table is None else f"{entries[0].alias} has"
                raise self._unknown(f"{where} no column {name.name}", name, entries)
            if len(found) > 1:
                candidates = [f"{e.alias}.{c.name}" for e, c in found]
                raise BindingProblem(
                    f"column {name.name} is ambiguous",
                    detail=f"it could be {' or '.join(candidates)}",
                    hint=f"say which: {candidates[0]}",
                )
            entry, column = found[0]
            return ColumnRef(entry.alias, column.name, column.type)

    def is_event_time(self, column: ColumnRef) -> bool:
        return any(e.is_event_time(column) for e in self.entries)

    def bucketed_time(self, e: Expression) -> ColumnRef | None:
        """The event time of which an expression is a bucket; None: it is none."""
        trend = trend_of(e)
        return trend.column if trend is not None and self.is_event_time(trend.column) else None

    def _unknown(self, message: str, name: Name, entries: tuple[ScopeEntry, ...]) -> BindingProblem:
        one = len(self.entries) == 1
        known = {(c.column if one else f"{e.alias}.{c.column}"): c.column.lower() for e in entries for c in e.columns()}
        close = difflib.get_close_matches(name.name.lower(), list(known.values()), 3, 0.6)
        meant = [shown for shown, plain in known.items() if plain in close][:3]
        hint = f"did you mean {' or '.join(meant)}?" if meant else ""
        derived = [e.alias for e in entries if isinstance(e.relation, Stream) and e.relation.is_derived]
        if not meant and derived:
            hint = f"the event time of {derived[0]} is {RESULT_TIME}"
        return BindingProblem(message, detail=f"columns are {', '.join(known)}", hint=hint)
