"""Queries by name, some of which are bound when they are first read.

Answer   `Queries` is a dictionary of queries in the order of their creation. `defer` adds a name and a function that
         binds the query of that name: a process that adds one query to ten thousand binds one.
State    Per name a query, or the function that binds it.
Limits   If a deferred query that is not certain cannot be bound, `holds` is false and the query is removed.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, MutableMapping, ValuesView

from eddyline.errors import EddylineError
from eddyline.model.query import BoundQuery


class Queries(MutableMapping[str, BoundQuery]):
    def __init__(self) -> None:
        self._found: dict[str, BoundQuery | Callable[[], BoundQuery]] = {}
        self._uncertain: set[str] = set()

    def defer(self, name: str, bind: Callable[[], BoundQuery], certain: bool) -> None:
        self._found[name] = bind
        if not certain:
            self._uncertain.add(name)

    def holds(self, name: str) -> bool:
        """Whether there is a query of that name; one that is not certain is bound."""
        if name in self._uncertain and name in self._found:
            try:
                self[name]
            except EddylineError:
                del self._found[name]
            self._uncertain.discard(name)
        return name in self._found

    def __getitem__(self, name: str) -> BoundQuery:
        found = self._found[name]
        if not isinstance(found, BoundQuery):
            found = self._found[name] = found()
        return found

    def __setitem__(self, name: str, query: BoundQuery) -> None:
        self._found[name] = query

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def values(self) -> ValuesView[BoundQuery]:
        self._bind_all()
        return super().values()

    def items(self) -> ItemsView[str, BoundQuery]:
        self._bind_all()
        return super().items()

    def _bind_all(self) -> None:
        for name in list(self._uncertain):
            self.holds(name)
