"""Objects that several join groups share: those of one timeline, or all of a pipeline.

Answer   `one(kind)` gives the one object of a class: one that is shared here, or else that of the commons around it,
         which makes it when a policy first calls for it.
State    The objects so far.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Commons:
    def __init__(self, around: Commons | None = None) -> None:
        self._around = around
        self._objects: dict[type, object] = {}

    def share(self, found: object) -> None:
        """Make an object that exists already the one of its class."""
        self._objects[type(found)] = found

    def one(self, kind: type[T]) -> T:
        if kind not in self._objects and self._around is not None:
            return self._around.one(kind)
        found = self._objects.setdefault(kind, kind()) if kind not in self._objects else self._objects[kind]
        assert isinstance(found, kind)
        return found
