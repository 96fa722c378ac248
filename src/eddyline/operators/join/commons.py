"""Objects that all join groups of one pipeline share.

Answer   `one(kind)` gives the one object of a class, made when a policy first asks for it.
State    The objects so far.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Commons:
    def __init__(self) -> None:
        self._objects: dict[type, object] = {}

    def share(self, found: object) -> None:
        """Make an object that exists already the one of its class."""
        self._objects[type(found)] = found

    def one(self, kind: type[T]) -> T:
        found = self._objects.setdefault(kind, kind()) if kind not in self._objects else self._objects[kind]
        assert isinstance(found, kind)
        return found
