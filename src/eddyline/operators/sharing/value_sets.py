"""Sets of values of one column: what a predicate on that column lets pass.

Answer   A `ValueSet` is a union of disjoint spans between *cuts*, with or without null. A cut lies
         between two neighbouring values: for keys (see `column_keys`) the int k lies just before key k; for texts `(b,
         0)` lies just before the bytes b and `(b, 1)` just after them.
Limits   Keys are the int64 range; texts are UTF-8, which never contains the byte 0xff.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

#: An int, or a pair (bytes, 0 | 1); cuts of one column are of one kind and compare with each other.
Cut = Any
Span = tuple[Cut, Cut]

#: The range of keys: that of int64.
LEAST_KEY = -(2**63)
GREATEST_KEY = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Domain:
    """The cuts before and after all values of a column."""

    bottom: Cut
    top: Cut


KEYS = Domain(LEAST_KEY, GREATEST_KEY + 1)
TEXTS = Domain((b"", 0), (b"\xff", 1))


@dataclass(frozen=True, slots=True)
class ValueSet:
    #: Ascending, disjoint, none empty, no two touching.
    spans: tuple[Span, ...]
    null: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.spans and not self.null

    def intersection(self, other: ValueSet) -> ValueSet:
        """
        >>> ValueSet(((1, 5),)).intersection(ValueSet(((3, 9),))).spans
        ((3, 5),)
        """
        found: list[Span] = []
        i = j = 0
        while i < len(self.spans) and j < len(other.spans):
            a, b = self.spans[i], other.spans[j]
            low, high = max(a[0], b[0]), min(a[1], b[1])
            if low < high:
                found.append((low, high))
            if a[1] < b[1]:
                i += 1
            else:
                j += 1
        return ValueSet(tuple(found), self.null and other.null)

    def complement(self, domain: Domain, null: bool) -> ValueSet:
        """All other values, and null where the caller wants it."""
        found: list[Span] = []
        at = domain.bottom
        for low, high in self.spans:
            if at < low:
                found.append((at, low))
            at = high
        if at < domain.top:
            found.append((at, domain.top))
        return ValueSet(tuple(found), null)


def union(sets: Iterable[ValueSet]) -> ValueSet:
    """
    >>> union([ValueSet(((1, 3),)), ValueSet(((3, 4),), True)])
    ValueSet(spans=((1, 4),), null=True)
    """
    given = list(sets)
    found: list[Span] = []
    for low, high in sorted(span for one in given for span in one.spans):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return ValueSet(tuple(found), any(one.null for one in given))
