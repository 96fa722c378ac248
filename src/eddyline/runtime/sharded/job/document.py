"""Dataclasses as JSON and back: what lies in a shared folder is data, and opening it runs no code that it names.

Answer   `to_document` turns a dataclass, with all dataclasses, tuples, mappings and sets inside, into one JSON value;
         `from_document` makes an equal object again. It makes only the classes in `kinds_of(root)`: those that the
         annotations of `root` and of its fields name. A document that names another class, or does not fit, is a
         `ValueError`.
State    None.
Limits   A document is a flat list of nodes, each after those that it refers to, and equal nodes are one: a deep
         condition makes a long list, not a deep value. Scalars are those of JSON, and Decimal.

    {"root": [2], "nodes": [["DataType", "BIGINT", 0, 0], ["ColumnRef", "a", "k", [0]], ["tuple", [1], [1]]]}      [n]:
    node n
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import cache
from typing import Any, get_args, get_type_hints

_SCALARS = (str, int, float, bool, type(None))


@cache
def kinds_of(root: Any) -> dict[str, Any]:
    """The dataclasses that an object of this one can hold, by name."""
    found: dict[str, Any] = {}
    waiting: list[Any] = [root]
    while waiting:
        hint = waiting.pop()
        waiting += get_args(hint)
        if isinstance(hint, type) and is_dataclass(hint) and found.get(hint.__name__) is not hint:
            if hint.__name__ in found:
                raise TypeError(f"two classes have the name {hint.__name__}")
            found[hint.__name__] = hint
            waiting += get_type_hints(hint).values()
    return found


def to_document(value: Any) -> dict[str, Any]:
    root: Any = type(value)
    writer = _Writer(kinds_of(root))
    return {"root": writer.noted(value), "nodes": writer.nodes}


def from_document(root: type, document: Any) -> Any:
    """The object; its class is `root`."""
    kinds = kinds_of(root)
    made: list[Any] = []

    def part(found: Any) -> Any:
        return made[found[0]] if isinstance(found, list) else found

    try:
        for kind, *parts in document["nodes"]:
            values = [part(found) for found in parts]
            if kind in _CONTAINERS:
                made.append(_CONTAINERS[kind](values))
            else:
                made.append(kinds[kind](*values))
        found = part(document["root"])
    except (LookupError, TypeError, ArithmeticError) as problem:
        raise ValueError(f"it is not a {root.__name__}: {type(problem).__name__} {problem}") from problem
    if type(found) is not root:
        raise ValueError(f"it is not a {root.__name__}")
    return found


_CONTAINERS: dict[str, Any] = {
    "tuple": tuple,
    "list": list,
    "set": frozenset,
    "map": lambda values: dict(zip(values[::2], values[1::2], strict=True)),
    "decimal": lambda values: Decimal(values[0]),
}


class _Writer:
    def __init__(self, kinds: dict[str, Any]) -> None:
        self.kinds = kinds
        self.nodes: list[list[Any]] = []
        #: Nodes by their text, and the nodes of objects met before; the root keeps those alive.
        self._places: dict[str, int] = {}
        self._met: dict[int, int] = {}

    def noted(self, value: Any) -> Any:
        """What stands for a value inside a node: the value itself, or the place of its own node."""
        if type(value) in _SCALARS:
            return value
        if id(value) in self._met:
            return [self._met[id(value)]]
        node = [*self._parts(value)]
        place = self._places.setdefault(repr(node), len(self.nodes))
        if place == len(self.nodes):
            self.nodes.append(node)
        if is_dataclass(value):
            self._met[id(value)] = place
        return [place]

    def _parts(self, value: Any) -> list[Any]:
        name = type(value).__name__
        if self.kinds.get(name) is type(value):
            return [name, *[self.noted(getattr(value, field.name)) for field in fields(self.kinds[name])]]
        if isinstance(value, tuple | list):
            return ["tuple" if isinstance(value, tuple) else "list", *[self.noted(one) for one in value]]
        if isinstance(value, frozenset):
            return ["set", *[self.noted(one) for one in sorted(value)]]
        if isinstance(value, Mapping):
            return ["map", *[self.noted(one) for pair in value.items() for one in pair]]
        if isinstance(value, Decimal):
            return ["decimal", str(value)]
        raise TypeError(f"a document cannot hold a {name}")
