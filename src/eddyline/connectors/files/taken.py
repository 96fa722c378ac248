"""The names of files that were taken, in little space.

Answer   A set of names. Those that differ by a number, and whose numbers follow one another, are kept as ranges: a
         range comes from names that were all taken, so it names every one of them and no other. All other names are
         kept as they are.
Limits   The last number of a name before its ending is its counter; numbers of different lengths are different
         families. Names are never taken out.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

#: Everything before the counter, the counter, and the rest: endings, which may have digits of their own.
_COUNTER = re.compile(r"^(.*?)([0-9]+)((?:[^0-9/][^0-9/]*)?|\.[^/]*)$", re.DOTALL)

#: What surrounds the counter, and how many digits it has.
_Family = tuple[str, int, str]


class TakenNames:
    """A set of names. See the head of this file."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._others: set[str] = set()
        #: Per family the first and the last number of each range, ascending.
        self._ranges: dict[_Family, tuple[list[int], list[int]]] = {}
        for name in names:
            self.add(name)

    def __contains__(self, name: str) -> bool:
        if name in self._others:
            return True
        found = _split(name)
        return found is not None and found[0] in self._ranges and _holds(self._ranges[found[0]], found[1])

    def add(self, name: str) -> None:
        found = _split(name)
        if found is None:
            self._others.add(name)
            return
        family, number = found
        ranges = self._ranges.get(family)
        if ranges is not None and _holds(ranges, number):
            return
        for beside in (number - 1, number + 1):
            if 0 <= beside < 10 ** family[1] and (neighbour := _joined(family, beside)) in self._others:
                self._others.remove(neighbour)
                ranges = self._ranges.setdefault(family, ([], []))
                _insert(ranges, beside)
        if ranges is not None and (_holds(ranges, number - 1) or _holds(ranges, number + 1)):
            _insert(ranges, number)
        else:
            self._others.add(name)

    @property
    def pieces(self) -> int:
        """How many names and ranges are kept."""
        return len(self._others) + sum(len(starts) for starts, _ in self._ranges.values())

    def to_json(self) -> dict[str, Any]:
        ranges = [
            [*family, [list(pair) for pair in zip(*bounds, strict=True)]] for family, bounds in self._ranges.items()
        ]
        return {"ranges": ranges, "names": sorted(self._others)}

    @staticmethod
    def from_json(saved: dict[str, Any]) -> TakenNames:
        """The set that `to_json` has described; otherwise a `ValueError` or `TypeError` is raised."""
        names = TakenNames()
        names._others = set(saved["names"])
        for before, digits, after, pairs in saved["ranges"]:
            names._ranges[(before, digits, after)] = ([first for first, _ in pairs], [last for _, last in pairs])
        return names


def _split(name: str) -> tuple[_Family, int] | None:
    """The family of a name and its number.

    >>> _split("day=1/part-0042.csv.gz")
    (('day=1/part-', 4, '.csv.gz'), 42)
    """
    found = _COUNTER.match(name)
    return None if found is None else ((found[1], len(found[2]), found[3]), int(found[2]))


def _joined(family: _Family, number: int) -> str:
    before, digits, after = family
    return f"{before}{number:0{digits}d}{after}"


def _holds(ranges: tuple[list[int], list[int]], number: int) -> bool:
    place = bisect_right(ranges[0], number) - 1
    return place >= 0 and number <= ranges[1][place]


def _insert(ranges: tuple[list[int], list[int]], number: int) -> None:
    """Add a number that is in no range; ranges that touch it grow together."""
    starts, ends = ranges
    place = bisect_right(starts, number)
    before, after = place > 0 and ends[place - 1] == number - 1, place < len(starts) and starts[place] == number + 1
    if before and after:
        ends[place - 1] = ends.pop(place)
        del starts[place]
    elif before:
        ends[place - 1] = number
    elif after:
        starts[place] = number
    else:
        starts.insert(place, number)
        ends.insert(place, number)
